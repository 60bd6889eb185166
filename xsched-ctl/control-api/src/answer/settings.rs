//! The settings in effect, for readers that decide as the controller does.

use serde::{Deserialize, Serialize};
use xsched_sched::Nanos;

/// The settings in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How long a process may be kept waiting; 0: without a bound.
    pub starvation_ns: u64,
    /// The time slice that ends such a wait.
    pub quantum_ns: u64,
    /// The time slice of policies that share a device by time.
    pub slice_ns: u64,
    /// How long after urgent work less urgent equals go one at a time.
    pub one_at_a_time_ns: u64,
    /// How many processes with the earliest deadlines launch side by side.
    pub side_by_side: u32,
    /// How long a process stays ready after its last command.
    pub linger_ns: u64,
    /// The preemption mode.
    pub preemption: u32,
}

impl Settings {
    /// Those of a scheduler, and the preemption mode.
    pub fn of(settings: xsched_sched::Settings, preemption: u32) -> Self {
        Self {
            starvation_ns: settings.starvation_bound.0,
            quantum_ns: settings.quantum.0,
            slice_ns: settings.slice.0,
            one_at_a_time_ns: settings.serialize_equals.0,
            side_by_side: settings.side_by_side,
            linger_ns: settings.linger.0,
            preemption,
        }
    }

    /// As one line, for timelines.
    ///
    /// # Panics
    ///
    /// Never: there are no maps in it.
    pub fn to_text(self) -> String {
        serde_json::to_string(&self).expect("numbers can be written")
    }

    /// What [`Self::to_text`] has written.
    pub fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Those of the scheduler.
    pub fn of_scheduler(self) -> xsched_sched::Settings {
        xsched_sched::Settings {
            starvation_bound: Nanos(self.starvation_ns),
            quantum: Nanos(self.quantum_ns),
            slice: Nanos(self.slice_ns),
            serialize_equals: Nanos(self.one_at_a_time_ns),
            side_by_side: self.side_by_side,
            linger: Nanos(self.linger_ns),
            ..xsched_sched::Settings::default()
        }
    }
}

impl Default for Settings {
    /// The scheduler's, with gates.
    fn default() -> Self {
        Self::of(xsched_sched::Settings::default(), 2)
    }
}
