//! How much may be launched ahead beside more urgent neighbours, and by which means.

use xsched_sched::{Limit, Nanos};

/// Limits, as set by controller, environment and back end.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(super) limit: Limit,
    /// Whether gates may be used.
    pub(super) uses_gates: bool,
    /// While a claim is alert, it is polled if its commands are shorter than this.
    pub(crate) poll_below: Nanos,
    /// The watcher is stuck in a call of the runtime. Gates are open meanwhile: the call may wait for what is behind one.
    pub(crate) is_watcher_stuck: bool,
    /// Completions cannot be looked at for now, so no limit that depends on them applies.
    pub(crate) is_paused: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            limit: Limit::default(),
            uses_gates: true,
            poll_below: Nanos::ZERO,
            is_watcher_stuck: false,
            is_paused: false,
        }
    }
}
