//! What the environment says of this process: a wish, which the controller limits.

use std::path::PathBuf;

use xsched_protocol::arbiter_page::PAGE_VERSION;
use xsched_protocol::wire::{Hello, PacketKind, WIRE_VERSION};
use xsched_sched::{Limit, PolicyKind};

/// Who schedules this process, in XSched's terms: `GLB` (also when nothing is said), the controller; `LCL`, itself, its
/// streams among each other; `APP`, nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerChoice {
    /// The controller, if there is one.
    #[default]
    Controller,
    /// The process itself, by this policy.
    Itself(PolicyKind),
    /// Nobody.
    Nobody,
}

/// What was said of the process before it began. Whoever starts the client has read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Who schedules it.
    pub scheduler: SchedulerChoice,
    /// -255 to 255, larger is more urgent.
    pub priority: Option<i32>,
    /// Percent of the device.
    pub utilization: Option<u32>,
    /// By which the controller knows its processes; zeroes: it has not started this one.
    pub token: [u8; 16],
    /// How much the program wants to have launched ahead, where the controller says nothing.
    pub limit: Option<Limit>,
    /// The level of preemption that the program wants at most: 1 to 3.
    pub preemption_level: Option<u32>,
    /// The only folder in which the controller's socket may be.
    pub socket_folder: Option<PathBuf>,
    /// The folder for this user's sockets, where the controller's may be otherwise.
    pub user_folder: Option<PathBuf>,
}

impl Settings {
    /// The first packet to a controller.
    pub(super) fn hello(&self) -> Hello {
        let given = |is_given, bit| if is_given { bit } else { 0 };
        let hints = given(self.priority.is_some(), Hello::PRIORITY)
            | given(self.utilization.is_some(), Hello::UTILIZATION);
        Hello {
            kind: PacketKind::Hello as u32,
            version: WIRE_VERSION,
            page_version: PAGE_VERSION,
            hints,
            priority: self.priority.unwrap_or(0),
            utilization: self.utilization.unwrap_or(0),
            weight: 0,
            token: self.token,
        }
    }
}
