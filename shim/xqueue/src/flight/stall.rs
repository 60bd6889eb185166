//! Stalls: nothing completes. The commands in flight may wait for commands that are not launched yet, so more are launched.

use xsched_sched::Nanos;

/// A stall begins when a command takes longer than any before it by this. Then one more command may be launched, in case the
/// first waits for it.
pub(super) const PATIENCE: Nanos = Nanos::from_millis(10);

/// After a stall of this length nothing is limited while a caller waits in place: the device may wait for what that caller would
/// do next.
const UNLIMITED_AFTER: Nanos = Nanos::from_millis(100);

/// Whether the first command exceeds what is expected of it by enough for a stall.
pub(super) fn is_possible(overdue: Nanos) -> bool {
    overdue > PATIENCE
}

/// How long nothing has completed, without the time in which the process was preempted.
#[derive(Debug)]
pub(super) struct Stall {
    /// When the process was last allowed to launch, or something completed; None while it is preempted.
    since: Option<Nanos>,
    /// The stall's length before the last preemption. Time slices may each be too short to show a stall.
    before: Nanos,
    /// How many commands the stall has released.
    released: usize,
}

impl Stall {
    /// For a process that may launch.
    pub(super) fn new() -> Self {
        Self { since: Some(Nanos::ZERO), before: Nanos::ZERO, released: 0 }
    }

    /// A command has completed, or is launched onto an empty device: the stall, if any, is over.
    pub(super) fn reset(&mut self, now: Nanos) {
        *self = Self { since: self.since.map(|_| now), before: Nanos::ZERO, released: 0 };
    }

    /// The process is preempted from now on; false ends that.
    pub(super) fn preempted(&mut self, now: Nanos, is_preempted: bool) {
        if is_preempted {
            self.before = self.lasts(now);
            self.since = None;
        } else {
            // A preemption may have passed unnoticed, so time counts from here.
            self.since = Some(now);
        }
    }

    /// The stall has released one more command.
    pub(super) fn releases_one(&mut self) {
        self.released += 1;
    }

    /// Whether one more command may be launched. `overdue` is how much longer than expected the first command takes. With
    /// `is_awaited`, callers wait in place.
    pub(super) fn releases(&self, now: Nanos, overdue: Nanos, is_awaited: bool) -> bool {
        let lasts = self.lasts(now);
        let is_next_due = lasts > PATIENCE.times(self.released as u64 + 1);
        is_possible(overdue) && (is_next_due || is_awaited && lasts > UNLIMITED_AFTER)
    }

    fn lasts(&self, now: Nanos) -> Nanos {
        self.before + self.since.map_or(Nanos::ZERO, |since| now - since)
    }
}
