//! What queues know of a command: what it means for its device, and how it is treated.
//!
//! A command that is *forced* is launched as soon as what it comes after was launched, whatever is suspended. So that this
//! happens soon, what it comes after is forced as well, and what that comes after. A forced command never overtakes, and never
//! waits for a process that may be deferred for long. Everything that a command comes after is older, so this ends.
//!
//! A command that is *pinned* is not stopped once it was launched. While it is on the device, the process's gates stay open,
//! since it may wait behind one, or for work that does. Commands that pass through are not followed to their end. So that such
//! a command need not wait, everything that is on the device already is pinned when it is launched.

use xsched_protocol::verdict::{Action, Judgement};
use xsched_sched::Nanos;

use crate::device::Device;
use crate::ids::{ClaimId, Source};
use crate::origins::{Judged, Origin};

/// Names commands that take about as long as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DurationClass(pub u64);

/// What a command means for its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It occupies it, about as long as others of its class.
    Work(DurationClass),
    /// It does not: an event, or a wait for one. Never limited, since other work may wait for it.
    Signal,
    /// The same, and what comes behind it begins only when something outside the device allows it: a function of the host has
    /// returned, or a word of memory was written.
    Wait,
}

/// How a command is treated while its process must wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Treatment {
    /// It waits as its queue does.
    #[default]
    Schedule,
    /// The same, but once launched it is not stopped.
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

/// What the runtime's order knows of a command while it is deferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallState {
    /// The program has made the call, and goes by the runtime's order: others may come after it.
    #[default]
    Made,
    /// The program has made no call yet: it has given the queue a function that will. While the program itself suspends the
    /// queue, what other threads do does not wait for it.
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
    /// The library to which it belongs: for the accounts.
    pub origin: Origin,
    /// How the program may see its end.
    pub end: KnownEnd,
    /// Whether its call was made.
    pub call: CallState,
}

/// How a program may see a command's end without anything that comes behind it in its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KnownEnd {
    /// In no way that is certain.
    #[default]
    Unknown,
    /// The call may return only then.
    ByReturn,
    /// An event of the program's is the command's own: this one.
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
    /// Its caller waited, since then.
    InPlace(Nanos),
    /// It was deferred: its number in its queue, and since when.
    Deferred(u64, Nanos),
}

/// A launch that was admitted and is to be finished, see [`crate::XQueues::finish`].
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
    /// The class of its load: only work is followed.
    pub(crate) class: DurationClass,
    pub(crate) is_limited: bool,
    /// The gate to put before it.
    pub(crate) gate: Option<D::Gate>,
    /// Whether the watcher must be notified once it was launched.
    pub(crate) is_first: bool,
}

impl<D: Device> PendingLaunch<D> {
    /// The same for a launch that the runtime may refuse. It keeps its gate only if the runtime is certain to take it: the gate
    /// would stay in the stream with nothing behind it.
    pub fn gated_if(mut self, is_certain: impl FnOnce() -> bool) -> Self {
        self.gate = self.gate.filter(|_| is_certain());
        self
    }
}
