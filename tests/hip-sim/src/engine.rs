//! The simulated device's machinery: streams' queues drained by threads, hardware queues, one schedule for the device.
//!
//! Nothing here knows HIP: a command is a closure with what it occupies, what it waits for, and a completion.
//!
//! 1. `queue`: one for each stream, with a thread. A command that occupies a part of the device becomes a packet.
//! 2. `hw_queue`: a few for each process, onto which its streams' packets go, in the order of `turns`.
//! 3. `device`: memory that all processes on a device share, with the packets in it and the present schedule.
//! 4. `schedule`: decides which packet runs when. A packet may be a `gate`, whose word `device::words` reads.

pub(crate) mod clock;
mod completion;
mod device;
mod eager;
mod gate;
mod hw_queue;
mod patience;
mod queue;
mod schedule;
mod turns;
mod worker;

pub(crate) use completion::{Completion, Span};
use device::HwQueues;
pub(crate) use device::{Device, Signal};
pub(crate) use gate::{Condition, Gate};
use hw_queue::HwQueue;
pub(crate) use patience::Patience;
pub(crate) use queue::{Command, Queue, Took, Work};
