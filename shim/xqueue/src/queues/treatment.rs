//! How commands are treated: most give way, some never do.
//!
//! A command that is *forced* goes as soon as what it comes after was launched, whatever is suspended. So that this is soon,
//! what it comes after is forced as well, and what that comes after: it never overtakes, and never waits for somebody who
//! may be held back for long. Everything that a command comes after is older, so there is an end to it.
//!
//! A command that is *pinned* is not stopped once it was launched: while it is on the device, the process's gates stay open,
//! since it may wait behind one, or for work that does. What passes through is not followed to its end; so that it need not
//! wait, what is on the device already is pinned when it goes.

use xsched_protocol::verdict::{Action, Judgement};

use crate::queues::contention::Load;
use crate::queues::flight::Flight;
use crate::queues::origins::{Judged, Origin};
use crate::queues::state::State;
use crate::queues::{Device, Position, QueueId};

/// How a command is treated while others must wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Treatment {
    /// It waits as its queue does.
    #[default]
    Schedule,
    /// The same, but once launched it is not stopped.
    Pinned,
    /// It goes at once, and is not stopped: others, maybe on other devices, wait for it. It counts as the process's work.
    NeverSuspend,
    /// It goes at once, and nobody hears of it.
    PassThrough,
}

impl Treatment {
    /// Whether it goes whatever is suspended.
    pub fn is_forced(self) -> bool {
        matches!(self, Self::NeverSuspend | Self::PassThrough)
    }

    /// Whether gates stay open while it is on the device.
    pub(super) fn is_pinned(self) -> bool {
        matches!(self, Self::NeverSuspend | Self::Pinned)
    }

    /// Whether it counts as work of the process.
    pub(super) fn is_counted(self) -> bool {
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

/// What a command asks for.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// What it means for its device.
    pub load: Load,
    /// How it is treated while others must wait.
    pub treatment: Treatment,
    /// Where the treatment comes from: for whoever records.
    pub judgement: Judgement,
    /// To whom it belongs: for the accounts.
    pub origin: Origin,
    /// What a program may know of its end.
    pub end: End,
}

/// What a program may know of a command's end, without anything that comes behind it in its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Nothing that is certain.
    #[default]
    Untold,
    /// The call may return only then.
    ByReturn,
    /// An event of the program's is the command's own: this one.
    ByEvent(u64),
}

impl Demand {
    /// What a command with this load asks for by what was said of it.
    pub fn judged(load: Load, judged: impl Into<Judged>) -> Self {
        let Judged { judgement, origin } = judged.into();
        Self { load, treatment: judgement.into(), judgement, origin, end: End::Untold }
    }
}

impl From<Load> for Demand {
    fn from(load: Load) -> Self {
        Self::judged(load, Judgement::NONE)
    }
}

impl<D: Device> State<D> {
    /// Nothing keeps these commands from now on, nor what they come after.
    pub(super) fn force(&mut self, positions: &[Position]) {
        let mut left = positions.to_vec();
        while let Some(position) = left.pop() {
            let Some(queue) = self.queues.get_mut(&position.queue) else { continue };
            let taken = queue.taken();
            let known = queue.forced.max(taken);
            if position.number > known {
                queue.forced = position.number;
                let newly = (known - taken) as usize..(position.number - taken) as usize;
                left.extend(queue.buffer.range(newly).flat_map(|buffered| &buffered.after));
            }
        }
    }

    /// Whether nothing but order keeps the queue's next command.
    pub(super) fn is_next_forced(&self, queue: QueueId) -> bool {
        self.queues.get(&queue).is_some_and(|queue| queue.taken() < queue.forced)
    }

    /// Nothing that was launched is stopped from now on: somebody comes after it, there or on another stream, who must not
    /// wait for it.
    pub(super) fn pin_all(&mut self) {
        let flights = self.queues.values_mut().map(|queue| &mut queue.flight);
        let loose = self.claims.iter_mut().map(|claim| &mut claim.loose);
        flights.chain(loose).filter(|flight| !flight.is_empty()).for_each(Flight::pin);
    }

    /// Whether anything is on the device, or on its way there, that must not be stopped.
    pub(super) fn is_any_pinned(&self) -> bool {
        self.pinned_launches > 0
            || self.queues.values().any(|queue| queue.flight.is_any_pinned())
            || self.claims.iter().any(|claim| claim.loose.is_any_pinned())
    }
}
