//! What a program asks for of the policy by which its process schedules itself.

use xsched_sched::{Nanos, Settings};

/// What it asks for; None: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// The length of a time slice.
    pub slice: Option<Nanos>,
    /// How many queues with the earliest deadlines go side by side.
    pub side_by_side: Option<u32>,
}

impl Tuning {
    /// These settings, but for what it says.
    pub(crate) fn applied_to(self, settings: Settings) -> Settings {
        Settings {
            slice: self.slice.unwrap_or(settings.slice),
            side_by_side: self.side_by_side.unwrap_or(settings.side_by_side),
            ..settings
        }
    }
}
