//! Wrong policies, each with one fault.

use crate::Nanos;
use crate::claim::Process;
use crate::policy::partition::Partition;
use crate::policy::{Policy, View};
use crate::ranks::{Rank, Ranks};

/// Ranks by priority, in reverse.
#[derive(Debug)]
pub(super) struct Reversed;

impl Reversed {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for Reversed {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        for (index, claim) in view.claims.iter().enumerate() {
            ranks.set(
                index,
                Rank { order: claim.attributes.priority.abs_diff(i16::MIN).into(), sliced: false },
            );
        }
        None
    }
}

/// Ranks by name: the newest claim starves.
#[derive(Debug)]
pub(super) struct NewestStarves;

impl NewestStarves {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for NewestStarves {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        for (index, claim) in view.claims.iter().enumerate() {
            ranks.set(index, Rank { order: claim.id.0.into(), sliced: false });
        }
        None
    }
}

/// The process with the least use so far goes first, without regard to when it came: a newcomer has the device for as long as the
/// others have been there.
#[derive(Debug)]
pub(super) struct LeastUsedFirst;

impl LeastUsedFirst {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for LeastUsedFirst {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        for (index, claim) in view.claims.iter().enumerate() {
            ranks.set(index, Rank { order: view.processes[claim.process].charged.0, sliced: true });
        }
        Some(view.now + view.settings.slice)
    }
}

/// Processes alternate by what they have used. One that has just come is not made to wait for its turn: it runs beside the one in front.
#[derive(Debug)]
pub(super) struct NewcomersBeside;

impl NewcomersBeside {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for NewcomersBeside {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        let is_new = |process: &&Process| process.charged < view.settings.slice.times(4);
        let others = view.processes.iter().filter(|process| process.ready > 0 && !is_new(process));
        let least = others.map(|process| process.charged).min();
        for (index, claim) in view.claims.iter().enumerate() {
            let process = &view.processes[claim.process];
            let is_in_front = is_new(&process) || Some(process.charged) == least;
            ranks.set(index, Rank { order: u64::from(!is_in_front), sliced: true });
        }
        Some(view.now + view.settings.slice)
    }
}

/// A partition that knows only processes with a share: all others come last, for ever.
#[derive(Debug, Default)]
pub(super) struct PromisedOnly {
    right: Partition,
}

impl PromisedOnly {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self::default())
    }
}

impl Policy for PromisedOnly {
    fn joined(&mut self) {
        self.right.joined();
    }

    fn left(&mut self, index: usize) {
        self.right.left(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        let again = self.right.rank(view, ranks);
        let others = view.claims.iter().enumerate().filter(|(_, claim)| claim.attributes.share.is_none());
        for (index, _) in others {
            ranks.set(index, Rank { order: u64::MAX, sliced: true });
        }
        again
    }
}

/// Earliest deadlines first, two at a time, counted among all processes: one without work takes the place of one that has some.
#[derive(Debug)]
pub(super) struct IdleCount;

impl IdleCount {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for IdleCount {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        let deadline = |index: &usize| view.claims[*index].attributes.deadline;
        let mut by_deadline: Vec<_> = (0..view.claims.len()).collect();
        by_deadline.sort_by_key(deadline);
        for (place, index) in by_deadline.into_iter().enumerate() {
            ranks.set(index, Rank { order: u64::from(place >= 2) * (1 + place as u64), sliced: true });
        }
        None
    }
}
