//! The simulated device: streams' queues with a thread each, hardware queues, and one schedule for the
//! device.
//!
//! Nothing here knows HIP. A command is a closure, the part of the device that it occupies, the commands that
//! it waits for, and a completion.
//!
//! 1. `queue`: one for each stream, with a thread. A command that occupies a part of the device becomes a
//!    packet.
//! 2. `hw_queue`: a few for each process. Its streams' packets go there, in the order of `submission_order`.
//! 3. `device`: memory shared by all processes on a device: the packets and the current schedule.
//! 4. `schedule`: decides when each packet runs. A packet may be a `gate`; `device::words` reads its word.

pub(crate) mod clock;
mod completion;
mod device;
mod gate;
mod hw_queue;
mod poll_interval;
mod queue;
mod schedule;
mod spin_then_sleep;
mod submission_order;
mod worker;

pub(crate) use completion::{Completion, Span};
use device::HwQueues;
pub(crate) use device::{Device, Signal};
pub(crate) use gate::{Condition, Gate};
use hw_queue::HwQueue;
pub(crate) use poll_interval::PollInterval;
pub(crate) use queue::{Command, Queue, TimeTaken, Work};
