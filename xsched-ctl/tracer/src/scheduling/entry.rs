//! Results of scheduling events: what the timeline shows.

use std::sync::Arc;

use xsched_control_api::{answer::Settings, parameters::Parameters};

use crate::call::Judged;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    /// Something was executed.
    Execution(Execution),
    /// An XQueue was in a state for an interval.
    Phase(Phase),
    /// A level was the most urgent with work on a device for an interval.
    Ready {
        /// [`xsched_protocol::arbiter_page::device_key`]
        device: u64,
        /// 0 is the most urgent.
        level: u64,
        /// Processes with work at that level.
        pids: Vec<u32>,
        begin_ns: u64,
        end_ns: u64,
    },
    /// A claim with work was preempted.
    Preempted(Preemption),
    /// Number of deferred commands of an XQueue, at a time.
    Depth(XQueueId, u64, u64),
    /// Expected device time of what an XQueue has in flight, at a time.
    InFlight(XQueueId, u64, u64),
    /// What decides from a time on.
    Regime(u64, Regime),
    /// A process has these parameters, from a time on.
    Parameters(u32, u64, Parameters),
}

/// What the controller decides by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Regime {
    pub(crate) policy: String,
    /// Whether anything is deferred.
    pub(crate) state: String,
    pub(crate) settings: Settings,
}

impl Entry {
    /// A time at which its processes existed.
    pub(crate) fn time_ns(&self) -> u64 {
        match self {
            Self::Execution(execution) => execution.begin_ns,
            Self::Phase(phase) => phase.begin_ns,
            Self::Ready { begin_ns, .. } => *begin_ns,
            Self::Preempted(preemption) => preemption.time_ns,
            Self::Depth(_, time_ns, _)
            | Self::InFlight(_, time_ns, _)
            | Self::Regime(time_ns, _)
            | Self::Parameters(_, time_ns, _) => *time_ns,
        }
    }

    /// The processes that it refers to.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        let (own, holder, others): (_, _, &[u32]) = match self {
            Self::Execution(execution) => (Some(execution.xqueue.pid), execution.holder, &[]),
            Self::Phase(phase) => (Some(phase.xqueue.pid), phase.holder, &[]),
            Self::Ready { pids, .. } => (None, None, pids),
            Self::Preempted(preemption) => (Some(preemption.xqueue.pid), Some(preemption.by), &[]),
            Self::Depth(xqueue, ..) | Self::InFlight(xqueue, ..) => (Some(xqueue.pid), None, &[]),
            Self::Regime(..) => (None, None, &[]),
            Self::Parameters(pid, ..) => (Some(*pid), None, &[]),
        };
        own.into_iter().chain(holder.map(|holder| holder.pid)).chain(others.iter().copied())
    }
}

/// All streams of a process with one priority on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct XQueueId {
    pub(crate) pid: u32,
    /// [`xsched_protocol::arbiter_page::device_key`]
    pub(crate) device: u64,
    /// How much more urgent than the process.
    pub(crate) stream_priority: i32,
}

/// How an execution's times were determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// Its end is that of a marker directly behind it, or of a wait for it alone.
    Measured,
    /// It shares an interval with others.
    Estimated,
}

impl Timing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
        }
    }
}

/// The process with more urgent work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) level: u64,
}

/// Something was executed. The intervals from the call to the end add up to the whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Execution {
    pub(crate) xqueue: XQueueId,
    /// The stream's HIP handle.
    pub(crate) stream: u64,
    /// The kernel, or the function for other commands; none if the call was not seen.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) api: Option<&'static str>,
    /// The library to which the call belongs, if the call was seen.
    pub(crate) origin: Option<Arc<str>>,
    /// Its verdict, if the process has reported it.
    pub(crate) judged: Option<Judged>,
    /// Links it to its call, if that is in the timeline.
    pub(crate) flow: Option<u64>,
    /// When the call was entered, or the earliest known time of it.
    pub(crate) called_ns: u64,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) timing: Timing,
    /// Time on the host: in the call and on the way to the runtime.
    pub(crate) host_ns: u64,
    /// Time in the XQueue's buffer.
    pub(crate) buffered_ns: u64,
    /// The part of that in which others were more urgent.
    pub(crate) suspended_ns: u64,
    /// The process that preempted it for the longest time.
    pub(crate) holder: Option<Holder>,
    /// Time on the device, behind earlier commands of its stream.
    pub(crate) behind_ns: u64,
    /// Time on the device at its gate, which was closed while others were more urgent.
    pub(crate) gated_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It has commands on the device.
    Running,
    /// It has deferred commands, and none on the device.
    Buffered,
    /// It has commands and is suspended.
    Suspended,
}

impl Doing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Buffered => "buffered",
            Self::Suspended => "suspended",
        }
    }
}

/// An XQueue was in a state for an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) xqueue: XQueueId,
    pub(crate) doing: Doing,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// Its level when it was suspended.
    pub(crate) level: Option<u8>,
    /// The process that preempted it.
    pub(crate) holder: Option<Holder>,
}

/// A claim with work is suspended from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    pub(crate) xqueue: XQueueId,
    pub(crate) time_ns: u64,
    pub(crate) level: u64,
    /// The process that preempted it.
    pub(crate) by: Holder,
    pub(crate) reason: &'static str,
}
