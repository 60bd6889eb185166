//! How much may be launched ahead beside more urgent neighbours, and by which means.

use xsched_sched::{Limit, Nanos};

/// Limits, as set by controller, environment and back end.
#[derive(Debug)]
pub(crate) struct Limits {
    limit: Limit,
    uses_gates: bool,
    /// A claim whose commands are shorter than this is polled while it is alert.
    poll_below: Nanos,
    /// Completions are not known at present, so nothing can be limited by them.
    is_paused: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { limit: Limit::default(), uses_gates: true, poll_below: Nanos::ZERO, is_paused: false }
    }
}

impl Limits {
    pub(super) fn limit(&self) -> Limit {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Whether gates may be used.
    pub(super) fn uses_gates(&self) -> bool {
        self.uses_gates
    }

    pub(super) fn use_gates(&mut self, uses: bool) {
        self.uses_gates = uses;
    }

    pub(super) fn poll_below(&self) -> Nanos {
        self.poll_below
    }

    pub(crate) fn set_poll_below(&mut self, time: Nanos) {
        self.poll_below = time;
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(crate) fn pause(&mut self, paused: bool) {
        self.is_paused = paused;
    }
}
