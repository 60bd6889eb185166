//! What comes of scheduling events: what the timeline shows.

use std::sync::Arc;

use super::judged::Judged;

/// One thing to be shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    /// Something was executed.
    Execution(Execution),
    /// An XQueue was in a state for a while.
    Phase(Phase),
    /// Queues of a level were the most urgent with work on a device for a while; the first of them.
    Ready {
        /// [`xsched_protocol::arbiter_page::device_key`]
        device: u64,
        /// 0 is the most urgent.
        level: u64,
        /// Processes with work at that level.
        pids: Vec<u32>,
        /// From when.
        begin_ns: u64,
        /// Until when.
        end_ns: u64,
    },
    /// A queue with work had to give way.
    Preempted(Preemption),
    /// Commands of an XQueue that are held back.
    Depth(XQueueId, u64, u64),
    /// Device time that is expected of what an XQueue has on the device.
    InFlight(XQueueId, u64, u64),
}

impl Entry {
    /// A time at which its processes were there.
    pub(crate) fn time_ns(&self) -> u64 {
        match self {
            Self::Execution(execution) => execution.begin_ns,
            Self::Phase(phase) => phase.begin_ns,
            Self::Ready { begin_ns, .. } => *begin_ns,
            Self::Preempted(preemption) => preemption.time_ns,
            Self::Depth(_, time_ns, _) | Self::InFlight(_, time_ns, _) => *time_ns,
        }
    }

    /// The processes that it names.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        let (own, holder, others): (_, _, &[u32]) = match self {
            Self::Execution(execution) => (Some(execution.xqueue.pid), execution.holder, &[]),
            Self::Phase(phase) => (Some(phase.xqueue.pid), phase.holder, &[]),
            Self::Ready { pids, .. } => (None, None, pids),
            Self::Preempted(preemption) => (Some(preemption.xqueue.pid), Some(preemption.by), &[]),
            Self::Depth(xqueue, ..) | Self::InFlight(xqueue, ..) => (Some(xqueue.pid), None, &[]),
        };
        own.into_iter().chain(holder.map(|holder| holder.pid)).chain(others.iter().copied())
    }
}

/// All streams of a process on a device that have one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct XQueueId {
    /// The process.
    pub(crate) pid: u32,
    /// [`xsched_protocol::arbiter_page::device_key`]
    pub(crate) device: u64,
    /// How much more urgent than the process.
    pub(crate) stream_priority: i32,
}

/// How a slice's times are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// Its end is that of a marker right behind it, or of a wait for it alone.
    Measured,
    /// It shares the interval with others.
    Estimated,
}

impl Timing {
    /// As it is shown.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
        }
    }
}

/// Whose work goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The process.
    pub(crate) pid: u32,
    /// Its level.
    pub(crate) level: u64,
}

/// Something was executed. The times between the call and the end, one after the other, add up to all of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Execution {
    /// Whose.
    pub(crate) xqueue: XQueueId,
    /// As HIP names it.
    pub(crate) stream: u64,
    /// The kernel, or the function if it starts none; none if the call was not seen.
    pub(crate) name: Option<Arc<str>>,
    /// The function.
    pub(crate) api: Option<&'static str>,
    /// The library to which the call belongs, if the call was seen.
    pub(crate) origin: Option<Arc<str>>,
    /// How it was treated, if its process has said so.
    pub(crate) judged: Option<Judged>,
    /// Links it to its call, if that is in the timeline.
    pub(crate) flow: Option<u64>,
    /// When the call was entered, or the earliest that is known of it.
    pub(crate) called_ns: u64,
    /// From when.
    pub(crate) begin_ns: u64,
    /// Until when.
    pub(crate) end_ns: u64,
    /// How that is known.
    pub(crate) timing: Timing,
    /// On the host, in the call and on the way to the runtime.
    pub(crate) host_ns: u64,
    /// Held back in the XQueue.
    pub(crate) buffered_ns: u64,
    /// Of that, while others were more urgent.
    pub(crate) suspended_ns: u64,
    /// To whom it gave way for the longest time.
    pub(crate) holder: Option<Holder>,
    /// On the device, behind earlier commands of its stream.
    pub(crate) behind_ns: u64,
    /// On the device, at its gate, which was shut while others were more urgent.
    pub(crate) gated_ns: u64,
}

/// What an XQueue is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It has commands on the device.
    Running,
    /// It has commands that it holds back, and none on the device.
    Buffered,
    /// It has commands and must give way.
    Suspended,
}

impl Doing {
    /// As it is shown.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Buffered => "buffered",
            Self::Suspended => "suspended",
        }
    }
}

/// An XQueue was in a state for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// Which one.
    pub(crate) xqueue: XQueueId,
    /// What it did.
    pub(crate) doing: Doing,
    /// From when.
    pub(crate) begin_ns: u64,
    /// Until when.
    pub(crate) end_ns: u64,
    /// Its level when it was suspended.
    pub(crate) level: Option<u8>,
    /// To whom it gave way.
    pub(crate) holder: Option<Holder>,
}

/// A queue with work had to give way from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    /// Whose work.
    pub(crate) xqueue: XQueueId,
    /// When.
    pub(crate) time_ns: u64,
    /// Its level.
    pub(crate) level: u64,
    /// To whom.
    pub(crate) by: Holder,
    /// Why.
    pub(crate) reason: &'static str,
}
