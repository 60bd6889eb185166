//! Commands that do not complete: they may wait for what would be launched next.

use xsched_sched::Nanos;

/// How much longer than ever a command takes before one more is let go: it may itself wait for that one.
pub(super) const PATIENCE: Nanos = Nanos::from_millis(10);

/// After how long without a completion all may be let go while a caller waits in place: the device may wait for what that caller
/// would do next.
const LIFTED_AFTER: Nanos = Nanos::from_millis(100);

/// That nothing completes, while the process need not give way.
#[derive(Debug)]
pub(super) struct Stall {
    /// Since when it may launch; None: it must give way.
    since: Option<Nanos>,
    /// For how long that was so before. Turns may each be too short to see that nothing completes.
    before: Nanos,
    /// How many commands were let go because of it.
    let_go: usize,
}

impl Stall {
    /// Of a process that may launch.
    pub(super) fn new() -> Self {
        Self { since: Some(Nanos::ZERO), before: Nanos::ZERO, let_go: 0 }
    }

    /// Something has completed, or is the first to be launched.
    pub(super) fn is_over(&mut self, now: Nanos) {
        *self = Self { since: self.since.map(|_| now), before: Nanos::ZERO, let_go: 0 };
    }

    /// The process has to give way from now on, or need not any more.
    pub(super) fn held(&mut self, now: Nanos, is_held: bool) {
        if is_held {
            self.before = self.lasts(now);
            self.since = None;
        } else {
            // That it was held may not have been noticed before.
            self.since = Some(now);
        }
    }

    /// One more was launched because of it.
    pub(super) fn lets_go(&mut self) {
        self.let_go += 1;
    }

    /// Whether one more is let go, now that the first command is overdue by so much. With `is_awaited`, callers wait in place.
    pub(super) fn is_too_long(&self, now: Nanos, overdue: Nanos, is_awaited: bool) -> bool {
        let lasts = self.lasts(now);
        let lets_go = lasts > PATIENCE.times(self.let_go as u64 + 1);
        overdue > PATIENCE && (lets_go || is_awaited && lasts > LIFTED_AFTER)
    }

    fn lasts(&self, now: Nanos) -> Nanos {
        self.before + self.since.map_or(Nanos::ZERO, |since| now - since)
    }
}
