//! The bound on waiting, around every policy.
//!
//! A queue that was ready for longer than the bound without being allowed to launch gets a time slice: the most urgent level for
//! a quantum. All queues of the device that have waited for half the bound get it, too. So the next slice is at least half a
//! bound away. However many queues starve, used slices take at most two quanta per bound from urgent queues.
//!
//! While a queue is allowed, its waiting time decreases at such a rate that a quantum cancels the whole bound. A moment without
//! more urgent work is not enough. Waiting time is reset after a slice, and when the queue has finished its work while allowed.
//! So a queue that always has work never waits for longer than the bound at a stretch. In the long run it is allowed for a
//! quantum per bound of waiting.
//!
//! A queue that is allowed may still not be served: on a busy machine its process may not get a processor in time to launch. So
//! waiting time is taken back on trust. All of it returns if the queue then waits for `patience` without a report of use, even if
//! it is allowed for moments meanwhile. With it returns the time for which the queue was allowed. After a slice at most three
//! quarters of a bound return: queues that do not use their slices must not get slices all the time. The same holds for queues
//! that would get a slice but have no work at that time. So slices begin at least a quarter of a bound apart, however many queues
//! do not use theirs.

mod patience;

pub(crate) use patience::Patience;

use crate::queue::Queue;
use crate::turns::{Happening, What};
use crate::{Level, Nanos, Settings};

/// Ends the slices that are over, and begins one if a queue starves. Returns whether any queue has a slice.
pub(crate) fn grant_slices(
    now: Nanos,
    settings: &Settings,
    queues: &mut [Queue],
    happenings: &mut Option<Vec<Happening>>,
) -> bool {
    let bound = settings.starvation_bound;
    let mut starves = false;
    for Queue { patience, ready, .. } in &mut *queues {
        if bound.is_zero() {
            *patience = Patience::default();
        } else if patience.slice_until.is_some_and(|until| until <= now) {
            patience.end_slice(settings);
        } else {
            // The settings may have changed.
            patience.doubt(settings);
        }
        starves |= *ready && patience.starves(settings);
    }
    let concerns = |patience: &Patience| !patience.has_slice() && patience.waited_at_worst() >= bound / 2;
    for Queue { id, patience, ready, .. } in queues.iter_mut().filter(|queue| concerns(&queue.patience)) {
        match (starves, *ready) {
            (true, true) => {
                patience.slice_until = Some(now + settings.quantum);
                if let Some(happenings) = happenings {
                    happenings.push(Happening { queue: *id, what: What::StarvationSlice });
                }
            }
            (true, false) => patience.end_slice(settings),
            (false, _) => {}
        }
    }
    queues.iter().any(|queue| queue.patience.has_slice())
}

/// When the next slice ends or begins, if no change comes before.
pub(crate) fn next(now: Nanos, settings: &Settings, queues: &[Queue], front: Option<Level>) -> Option<Nanos> {
    let waits = |queue: &Queue| queue.ready && queue.level != front;
    let concerned = queues.iter().filter(|queue| queue.patience.has_slice() || waits(queue));
    concerned.filter_map(|queue| queue.patience.due(now, settings)).min()
}
