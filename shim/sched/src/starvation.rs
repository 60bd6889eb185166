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

use crate::device::Queue;
use crate::{Level, Nanos, Settings};

/// How long a queue has waited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    waited: Nanos,
    turn_until: Option<Nanos>,
    /// What was taken back and is not known to have been of use, and for how long it had to wait since this began.
    on_trust: Nanos,
    silent: Nanos,
    /// It is known to have used its turn.
    has_used_turn: bool,
}

impl Patience {
    /// How long it has waited by now.
    pub(crate) fn waited(&self) -> Nanos {
        self.waited
    }

    /// Whether it has its turn.
    pub(crate) fn has_turn(&self) -> bool {
        self.turn_until.is_some()
    }

    /// It was ready and allowed to launch.
    pub(crate) fn was_allowed(&mut self, time: Nanos, settings: &Settings) {
        if !self.waited.is_zero() {
            let rate = settings.starvation_bound.0 / settings.quantum.0.max(1);
            self.take_back(time.times(rate));
        }
        if !self.on_trust.is_zero() {
            self.on_trust += time;
        }
    }

    /// It was ready and not allowed to launch.
    pub(crate) fn had_to_wait(&mut self, time: Nanos, settings: &Settings) {
        self.waited += time;
        if !self.on_trust.is_zero() {
            self.silent += time;
            self.doubt(settings);
        }
    }

    /// After so much silence what is on trust comes back.
    fn doubt(&mut self, settings: &Settings) {
        if !self.on_trust.is_zero() && self.silent >= settings.patience {
            self.waited += self.on_trust;
            self.trust(Nanos::ZERO);
        }
    }

    /// It says that it has used the device. Whether anything was on trust until now.
    pub(crate) fn used(&mut self) -> bool {
        let trusted = !self.on_trust.is_zero();
        self.trust(Nanos::ZERO);
        self.has_used_turn = self.has_turn();
        trusted
    }

    /// It has no work any more.
    pub(crate) fn became_idle(&mut self, while_allowed: bool) {
        if while_allowed {
            self.take_back(self.waited);
        }
    }

    fn take_back(&mut self, time: Nanos) {
        self.on_trust += time.min(self.waited);
        self.waited = self.waited - time;
    }

    /// So much is on trust from now on.
    fn trust(&mut self, time: Nanos) {
        self.on_trust = time;
        self.silent = Nanos::ZERO;
    }

    /// Its turn is over, or one begins in which it has no work.
    fn end_turn(&mut self, settings: &Settings) {
        self.turn_until = None;
        self.take_back(self.waited);
        let has_used_turn = std::mem::take(&mut self.has_used_turn);
        let most = (settings.starvation_bound / 4).times(3);
        self.trust(if has_used_turn { Nanos::ZERO } else { self.on_trust.min(most) });
    }

    /// How long it has waited if what is on trust was of no use.
    fn waited_at_worst(&self) -> Nanos {
        self.waited + self.on_trust
    }

    /// When its turn will end, or may begin if it waits from now on; `None`: never.
    pub(crate) fn due(&self, now: Nanos, settings: &Settings) -> Option<Nanos> {
        if settings.starvation_bound.is_zero() {
            return None;
        }
        let waits_for = settings.starvation_bound - self.waited;
        let trusted_for = settings.patience - self.silent;
        let left = if self.on_trust.is_zero() { waits_for } else { waits_for.min(trusted_for) };
        Some(self.turn_until.unwrap_or(now + left))
    }

    /// Whether it has to get a turn as soon as it is ready.
    pub(crate) fn starves(&self, settings: &Settings) -> bool {
        let bound = settings.starvation_bound;
        !bound.is_zero() && self.waited >= bound && !self.has_turn()
    }
}

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
