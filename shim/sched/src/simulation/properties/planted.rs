//! Policies that are wrong, each in one way.

use crate::level::Rank;
use crate::policy::{Answer, Policy, View};

/// Ranks by priority, the wrong way round.
#[derive(Debug)]
pub(super) struct Reversed;

impl Reversed {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for Reversed {
    fn rank(&mut self, view: &View<'_>, ranks: &mut [Rank]) -> Answer {
        for (queue, rank) in view.queues.iter().zip(ranks) {
            *rank = Rank { order: queue.attributes.priority.abs_diff(i16::MIN).into(), sliced: false };
        }
        Answer { changed: true, again: None }
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
    fn rank(&mut self, view: &View<'_>, ranks: &mut [Rank]) -> Answer {
        for (queue, rank) in view.queues.iter().zip(ranks) {
            *rank = Rank { order: queue.id.0.into(), sliced: false };
        }
        Answer { changed: true, again: None }
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
    fn rank(&mut self, view: &View<'_>, ranks: &mut [Rank]) -> Answer {
        for (queue, rank) in view.queues.iter().zip(ranks) {
            *rank = Rank { order: view.processes[queue.process].charged.0, sliced: true };
        }
        Answer { changed: true, again: Some(view.now + view.settings.slice) }
    }
}
