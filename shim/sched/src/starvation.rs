//! The bound on waiting, around every policy.
//!
//! A queue that was ready for longer than the bound without being allowed to launch gets a *turn*: the most urgent level
//! for a quantum. With it go all queues of the device that have waited for half the bound, so that the next turn is
//! half a bound away, at least: however many starve, turns that are used take no more than two quanta in a bound from the urgent
//! ones.
//!
//! Being allowed takes back waiting, at a rate at which a quantum takes back the whole bound: a moment in which nobody
//! more urgent was ready is not enough. Waiting is forgotten after a turn, and when the queue has finished its work while
//! allowed. So a queue that always has work is never kept waiting for longer than the bound at a stretch, and is allowed
//! for a quantum in each bound of waiting in the long run.
//!
//! To be allowed is not to be served: on a busy machine a process may not get a processor in time to launch anything. So waiting
//! is taken back on trust, and all of it comes back, with the time for which it was allowed, if the queue is not heard to have
//! used the device while it waits for as long as the patience, however often it is allowed for a moment meanwhile. After a turn
//! no more than three quarters of a bound come back, since whoever has no use for turns must not have them all the time. The same
//! goes for queues that would have a turn and have no work just then. So turns begin a quarter of a bound apart at least, however
//! many have no use for theirs.

mod patience;

pub(crate) use patience::Patience;

use crate::queue::Queue;
use crate::{Level, Nanos, Settings};

/// Ends the turns that are over and begins one if somebody's time has come. Whether anybody has one.
pub(crate) fn take_turns(now: Nanos, settings: &Settings, queues: &mut [Queue]) -> bool {
    let bound = settings.starvation_bound;
    let mut somebody_starves = false;
    for Queue { patience, ready, .. } in &mut *queues {
        if bound.is_zero() {
            *patience = Patience::default();
        } else if patience.turn_until.is_some_and(|until| until <= now) {
            patience.end_turn(settings);
        } else {
            // The settings may be others now.
            patience.doubt(settings);
        }
        somebody_starves |= *ready && patience.starves(settings);
    }
    let concerns = |patience: &Patience| !patience.has_turn() && patience.waited_at_worst() >= bound / 2;
    for Queue { patience, ready, .. } in queues.iter_mut().filter(|queue| concerns(&queue.patience)) {
        match (somebody_starves, *ready) {
            (true, true) => patience.turn_until = Some(now + settings.quantum),
            (true, false) => patience.end_turn(settings),
            (false, _) => {}
        }
    }
    queues.iter().any(|queue| queue.patience.has_turn())
}

/// When a turn will end or somebody's time will have come, if nothing happens before.
pub(crate) fn next(now: Nanos, settings: &Settings, queues: &[Queue], front: Option<Level>) -> Option<Nanos> {
    let waits = |queue: &Queue| queue.ready && queue.level != front;
    let concerned = queues.iter().filter(|queue| queue.patience.has_turn() || waits(queue));
    concerned.filter_map(|queue| queue.patience.due(now, settings)).min()
}
