//! Inputs of the scheduler.

use crate::{Nanos, Quota, Slo};

/// Names a claim while it is open: its slot in the arbiter page, or any number that the caller assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub u32);

/// Names a process: its thread group id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// Names a device: its index in the arbiter page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

/// The scheduling parameters of a claim. Each policy uses those that concern it and ignores the rest, so settings survive a change
/// of policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The device that it uses.
    pub device: DeviceId,
    /// The process that it belongs to.
    pub process: ProcessId,
    /// -255 to 255, larger is more urgent.
    pub priority: i16,
    /// The highest priority to which the process's own stream priorities raise its claims. A value below `priority` means
    /// `priority`.
    pub ceiling: i16,
    /// Weight against others of the same priority: twice the weight, twice the device time. 0 means 1.
    pub weight: u32,
    /// The part of the device that the process is promised, in percent.
    pub share: Option<u8>,
    /// The process's CPU nice value, -20 to 19.
    pub nice: i8,
    /// Device time that the process may use in each window.
    pub quota: Option<Quota>,
    /// Within this time each request of the process is to be done.
    pub deadline: Option<Nanos>,
    /// The most device time that a request takes. `None`: as much as earlier ones.
    pub work: Option<Nanos>,
    /// What the latency of the process's requests is to be.
    pub slo: Option<Slo>,
    /// How much more urgent it is than the rest of its process, as the program asked for: HIP's stream priorities, negated.
    pub stream_priority: i32,
}

impl Attributes {
    /// The least urgent priority.
    pub const PRIORITY_MIN: i16 = -255;

    /// The most urgent priority.
    pub const PRIORITY_MAX: i16 = 255;

    /// The weight where none is set.
    pub const DEFAULT_WEIGHT: u32 = 100;

    /// A process's claim on a device while nothing is set for it.
    pub const fn new(device: DeviceId, process: ProcessId) -> Self {
        Self {
            device,
            process,
            priority: 0,
            ceiling: 0,
            weight: Self::DEFAULT_WEIGHT,
            share: None,
            nice: 0,
            quota: None,
            deadline: None,
            work: None,
            slo: None,
            stream_priority: 0,
        }
    }
}

/// A change of a claim: an input of the scheduler, not an event of a recording. A change of an unknown claim is ignored
/// and counted, since changes of a dead process may come late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimChange {
    /// A claim was opened; it is not ready. An open one of the same name is closed first.
    Opened {
        /// Its name.
        claim: ClaimId,
        /// Its parameters.
        attributes: Attributes,
    },
    /// A claim was closed.
    Closed {
        /// Its name.
        claim: ClaimId,
    },
    /// A claim has work, deferred or running.
    Ready {
        /// Its name.
        claim: ClaimId,
    },
    /// A claim has no work any more.
    Idle {
        /// Its name.
        claim: ClaimId,
    },
    /// A claim's own report of the device time that its work took since its last such report. It is limited, see the accounts
    /// of claims.
    Used {
        /// Its name.
        claim: ClaimId,
        /// The device time.
        device: Nanos,
        /// How many commands it has launched since then.
        commands: u64,
    },
    /// A claim's parameters have changed.
    Changed {
        /// Its name.
        claim: ClaimId,
        /// All its parameters.
        attributes: Attributes,
    },
}

impl ClaimChange {
    /// The claim that it is about.
    pub const fn claim(&self) -> ClaimId {
        match *self {
            Self::Opened { claim, .. }
            | Self::Closed { claim }
            | Self::Ready { claim }
            | Self::Idle { claim }
            | Self::Used { claim, .. }
            | Self::Changed { claim, .. } => claim,
        }
    }
}
