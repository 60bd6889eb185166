//! Policies that are wrong, each in one way.

use crate::Nanos;
use crate::policy::{Policy, View};
use crate::ranks::{Rank, Ranks};

/// Ranks by priority, the wrong way round.
#[derive(Debug)]
pub(super) struct Reversed;

impl Reversed {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for Reversed {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        for (index, queue) in view.queues.iter().enumerate() {
            ranks.set(
                index,
                Rank { order: queue.attributes.priority.abs_diff(i16::MIN).into(), sliced: false },
            );
        }
        None
    }
}

/// Ranks by name: the last one to come starves.
#[derive(Debug)]
pub(super) struct Nobody;

impl Nobody {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for Nobody {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        for (index, queue) in view.queues.iter().enumerate() {
            ranks.set(index, Rank { order: queue.id.0.into(), sliced: false });
        }
        None
    }
}

/// Whoever has used the least so far goes first, since when it came does not matter: a newcomer has the device for as
/// long as the others have been there.
#[derive(Debug)]
pub(super) struct LeastUsedFirst;

impl LeastUsedFirst {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for LeastUsedFirst {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        for (index, queue) in view.queues.iter().enumerate() {
            ranks.set(index, Rank { order: view.processes[queue.process].charged.0, sliced: true });
        }
        Some(view.now + view.settings.slice)
    }
}
