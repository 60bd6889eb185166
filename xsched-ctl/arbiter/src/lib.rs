//! The arbiter's page, kept for the machine: by BPF programs where they can be loaded, else in this process's memory.
//!
//! The controller opens queues for processes and sets their levels; processes report when they have work. Who may launch
//! follows from the page alone, which processes map. [`xsched_protocol::arbiter_page`] has the page and the code that changes it.
//!
//! Nothing here blocks, and nothing here decides: a policy does.

mod clock;
mod gates;
mod keeper;
mod memory;
mod page;
mod programs;
mod times;
mod wake;

pub use clock::now_ns;
pub use keeper::{Arbiter, ArbiterError, Opened, Owner, Queue};
pub use page::{Page, QueueState};
pub use programs::{FoundShim, PINS, ProbedShim, ProgramsError, SHIMS_MAX, ShimSearch};
pub use times::Times;
