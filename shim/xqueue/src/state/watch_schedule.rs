//! When the watcher looks again of its own accord.

use xsched_sched::Nanos;

/// When the watcher looks again, and whether changes of ready masks wake it earlier.
#[derive(Debug, Default)]
pub(crate) struct WatchSchedule {
    next: Option<Nanos>,
    ignores_masks: bool,
}

impl WatchSchedule {
    /// The watcher sleeps until `next` at the latest. With `ignores_masks`, changes of ready masks do not wake it: at its last
    /// look they concerned nothing.
    pub(crate) fn set(&mut self, next: Nanos, ignores_masks: bool) {
        self.next = Some(next);
        self.ignores_masks = ignores_masks;
    }

    /// Whether changes of ready masks do not wake it.
    pub(crate) fn ignores_masks(&self) -> bool {
        self.ignores_masks
    }

    /// Whether the watcher must be woken to look at this time.
    pub(crate) fn sleeps_beyond(&self, at: Nanos) -> bool {
        self.ignores_masks || self.next.is_some_and(|next| next > at)
    }
}
