//! What a program asks of the policy by which its process schedules itself.

use xsched_sched::{Nanos, Settings};

/// What the program asks for. Each None asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// The length of a time slice.
    pub slice: Option<Nanos>,
    /// How many queues with the earliest deadlines go side by side.
    pub side_by_side: Option<u32>,
}

impl Tuning {
    /// These settings, changed where the program asks for something.
    pub(crate) fn applied_to(self, settings: Settings) -> Settings {
        Settings {
            slice: self.slice.unwrap_or(settings.slice),
            side_by_side: self.side_by_side.unwrap_or(settings.side_by_side),
            ..settings
        }
    }
}
