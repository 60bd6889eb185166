//! What the tracer writes into a recording and the report reads out of it: names of counters and kernels, sums of durations.

mod calls;
mod durations;
mod kernel_names;
mod left_out;

pub use calls::{Calls, call_of};
pub use durations::Durations;
pub use kernel_names::{FoldedNames, KernelNames};
pub use left_out::{LeftOut, Reason};
