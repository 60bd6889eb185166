//! What the environment asks for: hints, which the controller limits.

use std::path::PathBuf;

use xsched_protocol::arbiter_page::PAGE_VERSION;
use xsched_protocol::probe::Runtime;
use xsched_protocol::wire::{Hello, Hints, PacketKind, WIRE_VERSION};
use xsched_sched::{Limit, PolicyKind};

use crate::tuning::Tuning;

/// The scheduler of this process, in XSched's terms: `GLB` (the default), the controller; `LCL`, the process itself, for its
/// streams among each other; `APP`, none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerChoice {
    /// The controller, if there is one.
    #[default]
    Controller,
    /// The process itself, by this policy.
    Itself(PolicyKind),
    /// None.
    None,
}

/// What the environment asks for. The back end reads it and starts the client with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What schedules the process.
    pub scheduler: SchedulerChoice,
    /// How the process schedules itself, if it does.
    pub tuning: Tuning,
    /// -255 to 255, larger is more urgent.
    pub priority: Option<i32>,
    /// Percent of the device.
    pub utilization: Option<u32>,
    /// Within this many microseconds each request is to be done.
    pub deadline_us: Option<u32>,
    /// By which the controller recognises processes that it has started; zeroes: it has not started this one.
    pub token: [u8; 16],
    /// How much the program wants to launch ahead, where the controller says nothing.
    pub limit: Option<Limit>,
    /// The highest preemption mode that the program wants: 1 to 3.
    pub preemption_mode: Option<u32>,
    /// The only folder in which the controller's socket may be.
    pub socket_folder: Option<PathBuf>,
    /// The folder for this user's sockets, where the controller's may be otherwise.
    pub user_folder: Option<PathBuf>,
}

impl Settings {
    /// What the process asks the controller for.
    pub fn hints(&self) -> Hints {
        let given = |is_given, bit| if is_given { bit } else { 0 };
        Hints {
            kind: PacketKind::Hints as u32,
            hints: given(self.priority.is_some(), Hello::PRIORITY)
                | given(self.utilization.is_some(), Hello::UTILIZATION)
                | given(self.deadline_us.is_some(), Hello::DEADLINE),
            priority: self.priority.unwrap_or(0),
            utilization: self.utilization.unwrap_or(0),
            weight: 0,
            reserved: 0,
            deadline_ns: u64::from(self.deadline_us.unwrap_or(0)) * 1_000,
        }
    }

    /// The first packet to a controller, from the shim for this runtime.
    pub(super) fn hello(&self, runtime: Runtime) -> Hello {
        let Hints { hints, priority, utilization, weight, deadline_ns, .. } = self.hints();
        Hello {
            kind: PacketKind::Hello as u32,
            version: WIRE_VERSION,
            page_version: PAGE_VERSION,
            hints,
            priority,
            utilization,
            weight,
            token: self.token,
            deadline_ns,
            runtime: runtime.number(),
            reserved: 0,
        }
    }
}
