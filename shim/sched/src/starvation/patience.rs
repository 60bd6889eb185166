//! How long a claim has waited, and which of the time that was taken back is on trust.

use crate::{Nanos, Settings};

/// The waiting time of a claim.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    waited: Nanos,
    pub(super) slice_until: Option<Nanos>,
    /// Time that was taken back without a report of use since, and how long the claim has waited since the first of it.
    on_trust: Nanos,
    silent: Nanos,
    /// It has reported use in its slice.
    has_used_slice: bool,
}

impl Patience {
    /// How long it has waited.
    pub(crate) fn waited(&self) -> Nanos {
        self.waited
    }

    /// Whether it has a slice.
    pub(crate) fn has_slice(&self) -> bool {
        self.slice_until.is_some()
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

    /// Returns the time on trust to the waiting time after `patience` without a report.
    pub(super) fn doubt(&mut self, settings: &Settings) {
        if !self.on_trust.is_zero() && self.silent >= settings.patience {
            self.waited += self.on_trust;
            self.trust(Nanos::ZERO);
        }
    }

    /// It reports use. Returns whether any time was on trust.
    pub(crate) fn used(&mut self) -> bool {
        let trusted = !self.on_trust.is_zero();
        self.trust(Nanos::ZERO);
        self.has_used_slice = self.has_slice();
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

    /// Sets the time on trust.
    fn trust(&mut self, time: Nanos) {
        self.on_trust = time;
        self.silent = Nanos::ZERO;
    }

    /// Its slice is over, or one begins while it has no work.
    pub(super) fn end_slice(&mut self, settings: &Settings) {
        self.slice_until = None;
        self.take_back(self.waited);
        let has_used_slice = std::mem::take(&mut self.has_used_slice);
        let most = (settings.starvation_bound / 4).times(3);
        self.trust(if has_used_slice { Nanos::ZERO } else { self.on_trust.min(most) });
    }

    /// How long it has waited if the time on trust was of no use.
    pub(super) fn waited_at_worst(&self) -> Nanos {
        self.waited + self.on_trust
    }

    /// When its slice ends, or begins if it waits from now on; `None`: never.
    pub(crate) fn due(&self, now: Nanos, settings: &Settings) -> Option<Nanos> {
        if settings.starvation_bound.is_zero() {
            return None;
        }
        let waits_for = settings.starvation_bound - self.waited;
        let trusted_for = settings.patience - self.silent;
        let left = if self.on_trust.is_zero() { waits_for } else { waits_for.min(trusted_for) };
        Some(self.slice_until.unwrap_or(now + left))
    }

    /// Whether it gets a slice as soon as it is ready.
    pub(crate) fn starves(&self, settings: &Settings) -> bool {
        let bound = settings.starvation_bound;
        !bound.is_zero() && self.waited >= bound && !self.has_slice()
    }
}
