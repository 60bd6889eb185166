//! What the scheduler is told.

use crate::Nanos;

/// Names a queue while it is open: its slot in the arbiter's page, or any number that its user gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// Names a process: its thread group id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// Names a device: its index in the arbiter's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

/// What is known of a queue. Each policy takes from it what concerns it and leaves the rest alone, so that settings
/// survive a change of policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The device that it uses.
    pub device: DeviceId,
    /// Whose it is.
    pub process: ProcessId,
    /// -255 to 255, larger is more urgent.
    pub priority: i16,
    /// The priority above which the process's own stream priorities do not lift its queues. Below `priority` it means
    /// `priority`.
    pub ceiling: i16,
    /// Weight beside others of the same priority: twice the weight, twice the device time. 0 means 1.
    pub weight: u32,
    /// The part of the device that the process is promised, in percent.
    pub share: Option<u8>,
    /// How much more urgent than the rest of its process the program wants it; HIP's stream priorities, negated.
    pub stream_priority: i32,
}

impl Attributes {
    /// The least urgent priority.
    pub const PRIORITY_MIN: i16 = -255;

    /// The most urgent priority.
    pub const PRIORITY_MAX: i16 = 255;

    /// The weight of who has been given none.
    pub const DEFAULT_WEIGHT: u32 = 100;

    /// A process's claim on a device while nobody has said anything about it.
    pub const fn new(device: DeviceId, process: ProcessId) -> Self {
        Self {
            device,
            process,
            priority: 0,
            ceiling: 0,
            weight: Self::DEFAULT_WEIGHT,
            share: None,
            stream_priority: 0,
        }
    }
}

/// Something that happened. A queue that nobody has opened is ignored, and counted: events of a dead process may be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is a new queue; it is not ready. One of the same name that was not closed is closed first.
    Opened {
        /// Its name.
        queue: QueueId,
        /// What is known of it.
        attributes: Attributes,
    },
    /// A queue is gone.
    Closed {
        /// Which.
        queue: QueueId,
    },
    /// A queue has work, waiting or running.
    Ready {
        /// Which.
        queue: QueueId,
    },
    /// A queue has no work any more.
    Idle {
        /// Which.
        queue: QueueId,
    },
    /// A queue's own report of the device time that its work took since the last such report. It is believed within
    /// limits only.
    Used {
        /// Which.
        queue: QueueId,
        /// How much.
        device: Nanos,
    },
    /// Something else is known of a queue.
    Changed {
        /// Which.
        queue: QueueId,
        /// All that is known of it now.
        attributes: Attributes,
    },
}

impl Event {
    /// The queue that it is about.
    pub const fn queue(&self) -> QueueId {
        match *self {
            Self::Opened { queue, .. }
            | Self::Closed { queue }
            | Self::Ready { queue }
            | Self::Idle { queue }
            | Self::Used { queue, .. }
            | Self::Changed { queue, .. } => queue,
        }
    }
}
