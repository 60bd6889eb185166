//! Shared parts of the benchmarks: the row that they print, and how they measure.
//!
//! A benchmark is a binary `bench-<name>` of this package, under `bench/`. It prints one JSON object a line on stdout,
//! one per finding, and asserts nothing: its reader judges the rows. `cargo xtask bench <name>` builds it, runs it and
//! renders the rows.
//!
//! A benchmark compares two builds within one run, in alternation ([`paired`]): a machine that slows down in the middle
//! slows both sides.

mod row;
mod samples;

pub use row::{Goal, Row};
pub use samples::{Paired, Samples, alternate, paired, repeated};

/// Sets the timer slack of this thread to 1 ns, as the shim's threads do. By default the kernel wakes a thread up to 50 us late
/// to bundle timers, which says nothing about the machine.
///
/// # Panics
///
/// If the kernel refuses, which it does for no thread.
pub fn wake_in_time() {
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
        .expect("a number of the thread's own");
}
