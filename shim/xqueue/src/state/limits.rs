//! How much may be launched ahead beside more urgent neighbours, and by which means.

use xsched_sched::{Limit, Nanos};

/// Limits, as set by controller, environment and back end.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(super) limit: Limit,
    /// Whether gates may be used.
    pub(super) uses_gates: bool,
    /// A claim whose commands are shorter than this is polled while it is alert.
    pub(crate) poll_below: Nanos,
    /// The watcher is stuck in a call of the runtime: gates are open, since it may wait for what is behind one.
    pub(crate) is_watcher_stuck: bool,
    /// Completions are not known at present, so nothing can be limited by them.
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
