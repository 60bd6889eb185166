//! What can be set, for all policies.

use crate::Nanos;

/// What can be set, for all policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a queue may be ready without being allowed to launch before it gets a turn; zero: for ever.
    pub starvation_bound: Nanos,
    /// How long a turn is. No longer than a quarter of the bound.
    pub quantum: Nanos,
    /// How long one process is ahead of the others, in policies that share a device by time.
    pub slice: Nanos,
    /// For how much running time a queue may be silent about its use before it has used all of it.
    pub patience: Nanos,
}

impl Settings {
    /// The quantum that the bound leaves room for.
    pub(crate) fn quantum(&self) -> Nanos {
        self.quantum.min(self.starvation_bound / 4)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            starvation_bound: Nanos::from_secs(1),
            quantum: Nanos::from_millis(10),
            slice: Nanos::from_millis(4),
            patience: Nanos::from_millis(100),
        }
    }
}
