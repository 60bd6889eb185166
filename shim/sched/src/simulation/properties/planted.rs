//! Wrong policies, each with one fault.

use crate::Nanos;
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
        for (index, queue) in view.queues.iter().enumerate() {
            ranks.set(
                index,
                Rank { order: queue.attributes.priority.abs_diff(i16::MIN).into(), sliced: false },
            );
        }
        None
    }
}

/// Ranks by name: the newest queue starves.
#[derive(Debug)]
pub(super) struct NewestStarves;

impl NewestStarves {
    pub(super) fn start() -> Box<dyn Policy> {
        Box::new(Self)
    }
}

impl Policy for NewestStarves {
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        for (index, queue) in view.queues.iter().enumerate() {
            ranks.set(index, Rank { order: queue.id.0.into(), sliced: false });
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
        for (index, queue) in view.queues.iter().enumerate() {
            ranks.set(index, Rank { order: view.processes[queue.process].charged.0, sliced: true });
        }
        Some(view.now + view.settings.slice)
    }
}
