//! Verdicts by the controller's programs: they walk the stack of a call, and leave their answers on a page.
//!
//! ```text
//!   ask     the function that they are attached to, and how long a call waits for an answer
//!   page    where answers are, and the generation under which they may be kept
//!   slot    which answers are a thread's
//! ```

mod ask;
mod page;
mod slot;

pub use ask::{ANSWER_LIMIT, NoAnswer, Registers, ask, ask_through};
pub use page::{Answer, generation, is_in_force, set, unset};
pub use slot::own as thread_slot;

/// In a forked child, which has no controller yet.
pub fn renew_after_fork() {
    unset();
    slot::renew_after_fork();
}
