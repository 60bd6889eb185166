//! What every benchmark shares: the row that it prints, and how it measures.
//!
//! A benchmark is a binary `bench-<name>` of this package, under `bench/`. It prints one JSON object a line on stdout,
//! one per finding, and asserts nothing: whoever reads the rows judges. `cargo xtask bench <name>` builds, runs and
//! renders it.
//!
//! Two builds of anything are compared within one run, in alternation ([`paired`]): a machine that slows down in the
//! middle slows both sides.

mod row;
mod samples;

pub use row::{Goal, Row};
pub use samples::{Paired, Samples, alternate, paired, repeated};

/// Has the kernel wake this thread when it asks to be woken, as the shim's threads do. By default it takes up to 50 us more, to
/// bundle timers, which says nothing of the machine.
///
/// # Panics
///
/// If the kernel refuses, which it does to no thread.
pub fn wake_in_time() {
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
        .expect("a number of the thread's own");
}
