//! What queues know of a command: what it means for its device, and how it is treated.
//!
//! A *forced* command is launched as soon as what it comes after was launched, whatever is suspended. For that, everything that
//! it comes after is forced, too, directly or not. A forced command never overtakes, and never waits for a process that may be
//! deferred for long. What a command comes after is always older, so this ends.
//!
//! A *pinned* command is not stopped once it was launched. While it is on the device, the process's gates stay open: it may wait
//! behind one, or for work that does. Commands that pass through are not followed to their end. When one is launched, everything
//! on the device is pinned, so that it need not wait.

use xsched_protocol::verdict::{Action, Judgement};
use xsched_sched::Nanos;

use crate::device::Device;
use crate::ids::{ClaimId, Source};
use crate::origins::{Judged, Origin};

/// Names a class of commands that take about equally long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DurationClass(pub u64);

/// What a command means for its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It occupies the device about as long as other commands of its class.
    Work(DurationClass),
    /// It occupies nothing: an event, or a wait for one. It is never limited, since other work may wait for it.
    Signal,
    /// It occupies nothing. What comes after it begins only when something outside the device allows that: a host function
    /// returns, or a word of memory is written.
    Wait,
}

/// How a command is treated while its process must wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Treatment {
    /// It waits as its queue does.
    #[default]
    Schedule,
    /// It waits as its queue does, but is not stopped once launched.
    Pinned,
    /// It is launched at once and not stopped: other work, maybe on other devices, waits for it. It counts as the process's work.
    NeverSuspend,
    /// It is launched at once and does not count as the process's work.
    PassThrough,
}

impl Treatment {
    /// Whether it is launched whatever is suspended.
    #[inline]
    pub fn is_forced(self) -> bool {
        matches!(self, Self::NeverSuspend | Self::PassThrough)
    }

    /// Whether gates stay open while it is on the device.
    #[inline]
    pub(crate) fn is_pinned(self) -> bool {
        matches!(self, Self::NeverSuspend | Self::Pinned)
    }

    /// Whether it counts as work of the process.
    #[inline]
    pub(crate) fn is_counted(self) -> bool {
        self != Self::PassThrough
    }
}

impl From<Judgement> for Treatment {
    fn from(judgement: Judgement) -> Self {
        match judgement.action() {
            Some(Action::Passthrough) => Self::PassThrough,
            Some(Action::NeverSuspend) => Self::NeverSuspend,
            Some(Action::Schedule) if judgement.mode() == 1 => Self::Pinned,
            Some(Action::Schedule) | None => Self::Schedule,
        }
    }
}

impl From<Judged> for Treatment {
    fn from(judged: Judged) -> Self {
        judged.judgement.into()
    }
}

/// Whether the program has made the call of a deferred command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallState {
    /// The program has made the call, and relies on the runtime's order. Other commands may come after it.
    #[default]
    Made,
    /// The program has not made the call: it gave the queue a function that will. While the program holds the queue, other
    /// threads do not wait for the command.
    ToBeMade,
}

/// What a command asks for.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// What it means for its device.
    pub load: Load,
    /// How it is treated while its process must wait.
    pub treatment: Treatment,
    /// The reason for the treatment: for events.
    pub judgement: Judgement,
    /// The library that the command belongs to, for the accounts.
    pub origin: Origin,
    /// How the program may learn that it is done.
    pub end: KnownEnd,
    /// Whether the program has made the call.
    pub call: CallState,
}

/// How a program may learn that a command is done, other than by what comes after it in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KnownEnd {
    /// In no certain way.
    #[default]
    Unknown,
    /// The call may return only when the command is done.
    ByReturn,
    /// By this event of the program's, which completes with the command.
    ByEvent(u64),
}

impl Demand {
    /// What a command with this load asks for under this verdict.
    pub fn judged(load: Load, judged: impl Into<Judged>) -> Self {
        let Judged { judgement, origin } = judged.into();
        Self {
            load,
            treatment: judgement.into(),
            judgement,
            origin,
            end: KnownEnd::Unknown,
            call: CallState::Made,
        }
    }
}

impl From<Load> for Demand {
    fn from(load: Load) -> Self {
        Self::judged(load, Judgement::NONE)
    }
}

/// How a command waited before it was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    /// It did not.
    None,
    /// Its caller waited in place, since then.
    InPlace(Nanos),
    /// It was deferred: its number in its queue, and since when.
    Deferred(u64, Nanos),
}

/// A launch between two markers.
#[derive(Debug)]
pub(crate) struct SampledLaunch<M> {
    /// Whether its stream has nothing else to do when it is launched.
    pub(crate) is_idle: bool,
    /// The marker before it, and the time before that was recorded.
    pub(crate) before: Option<(M, Nanos)>,
}

/// An admitted launch that [`crate::XQueues::finish`] finishes.
#[derive(Debug)]
#[must_use]
pub struct PendingLaunch<D: Device> {
    pub(crate) source: Source,
    pub(crate) claim: ClaimId,
    /// When it was admitted, and how it waited before.
    pub(crate) admitted: Nanos,
    pub(crate) delay: Delay,
    pub(crate) stream: D::Stream,
    pub(crate) demand: Demand,
    /// The class of its load. Only work is followed.
    pub(crate) class: DurationClass,
    pub(crate) is_limited: bool,
    /// The gate to put before it.
    pub(crate) gate: Option<D::Gate>,
    /// Whether the watcher must be told after the launch.
    pub(crate) is_first: bool,
    /// How the command is measured by itself, if it is.
    pub(crate) sample: Option<Box<SampledLaunch<D::Marker>>>,
}

impl<D: Device> PendingLaunch<D> {
    /// The same for a launch that the runtime may refuse. It keeps its gate, and is measured, only if the runtime is certain to take it.
    /// Otherwise the gate or a marker could stay in the stream with nothing behind it, and the stream would not be done.
    pub fn gated_if(mut self, is_certain: impl FnOnce() -> bool) -> Self {
        let puts_any = self.gate.is_some() || self.sample.is_some();
        if puts_any && !is_certain() {
            (self.gate, self.sample) = (None, None);
        }
        self
    }
}
