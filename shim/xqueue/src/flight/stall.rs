//! Commands that do not complete: they may wait for what would be launched next.

use xsched_sched::Nanos;

/// How much longer than ever a command takes before one more is launched: it may itself wait for that one.
pub(super) const PATIENCE: Nanos = Nanos::from_millis(10);

/// After how long without a completion nothing is limited while a caller waits in place: the device may wait for what that caller
/// would do next.
const UNLIMITED_AFTER: Nanos = Nanos::from_millis(100);

/// For how long nothing has completed while the process was not preempted.
#[derive(Debug)]
pub(super) struct Stall {
    /// Since when it may launch; None: it is preempted.
    since: Option<Nanos>,
    /// For how long that was so before. Each time slice may be too short to see that nothing completes.
    before: Nanos,
    /// How many commands were launched because of it.
    released: usize,
}

impl Stall {
    /// Of a process that may launch.
    pub(super) fn new() -> Self {
        Self { since: Some(Nanos::ZERO), before: Nanos::ZERO, released: 0 }
    }

    /// Something has completed, or is the first to be launched.
    pub(super) fn reset(&mut self, now: Nanos) {
        *self = Self { since: self.since.map(|_| now), before: Nanos::ZERO, released: 0 };
    }

    /// The process is preempted from now on, or not any more.
    pub(super) fn preempted(&mut self, now: Nanos, is_preempted: bool) {
        if is_preempted {
            self.before = self.lasts(now);
            self.since = None;
        } else {
            // Its preemption may not have been noticed before.
            self.since = Some(now);
        }
    }

    /// One more was launched because of it.
    pub(super) fn releases_one(&mut self) {
        self.released += 1;
    }

    /// Whether one more may be launched, now that the first command is overdue by so much. With `is_awaited`, callers wait in place.
    pub(super) fn releases(&self, now: Nanos, overdue: Nanos, is_awaited: bool) -> bool {
        let lasts = self.lasts(now);
        let is_next_due = lasts > PATIENCE.times(self.released as u64 + 1);
        overdue > PATIENCE && (is_next_due || is_awaited && lasts > UNLIMITED_AFTER)
    }

    fn lasts(&self, now: Nanos) -> Nanos {
        self.before + self.since.map_or(Nanos::ZERO, |since| now - since)
    }
}
