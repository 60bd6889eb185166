//! How long one queue has waited, and what is known of it meanwhile.

use crate::{Nanos, Settings};

/// How long a queue has waited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    waited: Nanos,
    pub(super) turn_until: Option<Nanos>,
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
    pub(super) fn doubt(&mut self, settings: &Settings) {
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
    pub(super) fn end_turn(&mut self, settings: &Settings) {
        self.turn_until = None;
        self.take_back(self.waited);
        let has_used_turn = std::mem::take(&mut self.has_used_turn);
        let most = (settings.starvation_bound / 4).times(3);
        self.trust(if has_used_turn { Nanos::ZERO } else { self.on_trust.min(most) });
    }

    /// How long it has waited if what is on trust was of no use.
    pub(super) fn waited_at_worst(&self) -> Nanos {
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
