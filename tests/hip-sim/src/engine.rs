//! The simulated device's machinery: in-order queues drained by threads, one compute unit, one clock.
//!
//! Nothing here knows HIP: a command is a closure with a duration, what it waits for, and a completion.

pub(crate) mod clock;
mod completion;
mod compute;
mod queue;

pub(crate) use completion::{Completion, Span};
pub(crate) use compute::Compute;
pub(crate) use queue::{Command, Queue};
