//! Names of queues, claims and commands.

/// Names a queue. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub(crate) u64);

/// Names a deferred command: its number in its queue, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its queue.
    pub queue: QueueId,
    pub(crate) number: u64,
}

/// Names a claim. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId(pub(crate) usize);

/// What a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimKey {
    /// See [`xsched_protocol::arbiter_page::device_key`].
    pub device: u64,
    /// Larger is more urgent; 0 for streams without a priority of their own.
    pub stream_priority: i32,
    /// What the program asks for these streams alone.
    pub hints: QueueHints,
}

impl ClaimKey {
    /// For streams of which the program asks nothing of their own.
    pub fn new(device: u64, stream_priority: i32) -> Self {
        Self { device, stream_priority, hints: QueueHints::NONE }
    }
}

/// What a program asks for some of its streams, in place of what applies to the process. The controller limits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueueHints {
    /// -255 to 255, larger is more urgent.
    pub priority: Option<i16>,
    /// Percent of the device.
    pub utilization: Option<u8>,
    /// Each request is to be done within this many microseconds.
    pub deadline_us: Option<u32>,
}

impl QueueHints {
    /// Nothing is asked for.
    pub const NONE: Self = Self { priority: None, utilization: None, deadline_us: None };
}

/// Names a runtime copy of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuntimeId(pub usize);

/// Where commands in flight come from: each source is followed on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A queue's stream.
    Queue(QueueId),
    /// All streams of a claim that have no queue.
    Unqueued(ClaimId),
}

/// Set in the number of a source without a queue.
const UNQUEUED: u64 = 1 << 63;

impl Source {
    /// Its number in events.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Queue(QueueId(number)) => number,
            Self::Unqueued(ClaimId(index)) => UNQUEUED | index as u64,
        }
    }
}
