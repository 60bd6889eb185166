//! The scheduler: passes changes to their devices, and collects the decisions.

use std::collections::HashMap;

use crate::claim::Claim;
use crate::device::Device;
use crate::level::{self, Level, Move};
use crate::policies::PolicyKind;
#[cfg(test)]
use crate::policy::Policy;
use crate::turns::Happening;
use crate::{Attributes, ClaimChange, ClaimId, DeviceId, Nanos, Settings};

/// Decides how urgent each claim is.
///
/// ```
/// use xsched_sched::{Attributes, DeviceId, ClaimChange, Nanos, PolicyKind, ProcessId, ClaimId, Scheduler, Settings};
///
/// let mut scheduler = Scheduler::new(PolicyKind::Priority, Settings::default());
/// for (process, priority) in [(1, 0), (2, 100)] {
///     let mut attributes = Attributes::new(DeviceId(0), ProcessId(process));
///     attributes.priority = priority;
///     scheduler.handle(Nanos(0), ClaimChange::Opened { claim: ClaimId(process), attributes });
/// }
/// let decisions = scheduler.decide(Nanos(0));
/// let level = |claim| decisions.levels.iter().find(|(id, _)| *id == claim).map(|(_, level)| *level);
/// assert!(level(ClaimId(2)) < level(ClaimId(1)));
/// ```
#[derive(Debug)]
pub struct Scheduler {
    policy: PolicyKind,
    settings: Settings,
    devices: Vec<Device>,
    locations: HashMap<ClaimId, Location>,
    moves: Vec<Move>,
    ignored: u64,
    /// The caller takes happenings.
    is_observed: bool,
}

/// The device of a claim and its index there.
#[derive(Clone, Copy, Debug)]
struct Location {
    device: usize,
    index: usize,
}

/// The decisions of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Decisions {
    /// Claims whose level changes, and claims that get their first one, in the order in which the changes should take effect.
    pub levels: Vec<(ClaimId, Level)>,
    /// When to decide again if no change comes before; `None`: only after a change.
    pub again: Option<Nanos>,
}

/// The state of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimState {
    /// Its name.
    pub id: ClaimId,
    /// Its parameters.
    pub attributes: Attributes,
    /// Its level; `None` before the first decision.
    pub level: Option<Level>,
    /// Whether it has work.
    pub ready: bool,
    /// Whether no more urgent claim is ready.
    pub allowed: bool,
    /// Device time that it is charged for.
    pub charged: Nanos,
    /// How long it has been ready without being allowed to launch, less what being allowed has taken back.
    pub waited: Nanos,
    /// If its process has an SLO: that percentile of the latencies of its latest requests.
    pub latency: Option<Nanos>,
}

impl Scheduler {
    /// A scheduler without claims.
    pub fn new(policy: PolicyKind, settings: Settings) -> Self {
        Self {
            policy,
            settings: settings.in_range(),
            devices: Vec::new(),
            locations: HashMap::new(),
            moves: Vec::new(),
            ignored: 0,
            is_observed: false,
        }
    }

    /// The policy.
    pub fn policy(&self) -> PolicyKind {
        self.policy
    }

    /// The settings in effect.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Number of changes of unknown claims.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// From now on notes what happens to claims, for [`Self::take_happenings`]. Their number has no bound.
    pub fn observe(&mut self) {
        self.is_observed = true;
        for device in &mut self.devices {
            device.observe();
        }
    }

    /// Moves what has happened since the last call to `to`; nothing without [`Self::observe`]. What happens at the time of the
    /// last change or decision is noted with the next one.
    pub fn take_happenings(&mut self, to: &mut Vec<Happening>) {
        for device in &mut self.devices {
            device.take_happenings(to);
        }
    }

    /// Takes a change of a claim. It has an effect with the next [`Self::decide`]. Times must not go backwards; a time before the previous one
    /// counts as the previous one.
    pub fn handle(&mut self, now: Nanos, change: ClaimChange) {
        let claim = change.claim();
        let location = self.locations.get(&claim).copied();
        match (change, location) {
            (ClaimChange::Opened { attributes, .. }, None) => self.open(now, claim, attributes),
            (ClaimChange::Opened { attributes, .. }, Some(location)) => {
                self.close(now, claim, location);
                self.open(now, claim, attributes);
            }
            (ClaimChange::Closed { .. }, Some(location)) => self.close(now, claim, location),
            (ClaimChange::Ready { .. }, Some(location)) => {
                self.devices[location.device].set_ready(now, location.index, true, &self.settings);
            }
            (ClaimChange::Idle { .. }, Some(location)) => {
                self.devices[location.device].set_ready(now, location.index, false, &self.settings);
            }
            (ClaimChange::Used { device, commands, .. }, Some(location)) => {
                self.devices[location.device].reported(now, location.index, device, commands, &self.settings);
            }
            (ClaimChange::Changed { attributes, .. }, Some(location)) => {
                self.change(now, claim, location, attributes);
            }
            (_, None) => self.ignored += 1,
        }
    }

    /// Changes the policy. The attributes of claims stay.
    pub fn set_policy(&mut self, now: Nanos, policy: PolicyKind) {
        self.policy = policy;
        for device in &mut self.devices {
            device.set_policy(now, policy.start(), &self.settings);
        }
    }

    /// Sets a policy that is not on the list, for the devices that are known.
    #[cfg(test)]
    pub(crate) fn plant(&mut self, now: Nanos, start: fn() -> Box<dyn Policy>) {
        for device in &mut self.devices {
            device.set_policy(now, start(), &self.settings);
        }
    }

    /// Changes the settings.
    pub fn set_settings(&mut self, now: Nanos, settings: Settings) {
        for device in &mut self.devices {
            device.settings_change(now, &self.settings);
        }
        self.settings = settings.in_range();
    }

    /// How late the scheduler may learn that claims became ready or idle, without a later or different decision. [`Self::handle`]
    /// must get all changes in order, before [`Self::decide`]. A policy that follows work has to know at once. Otherwise only
    /// claims that have waited for too long are affected.
    pub fn change_delay_max(&self) -> Nanos {
        if self.devices.iter().any(Device::follows_work) {
            return Nanos::ZERO;
        }
        match self.settings.starvation_bound {
            Nanos::ZERO => Nanos(u64::MAX),
            bound => bound.min(self.settings.patience),
        }
    }

    /// Decides. To be called after changes, and at the time that the last call returned.
    pub fn decide(&mut self, now: Nanos) -> Decisions {
        self.moves.clear();
        for device in &mut self.devices {
            if device.due().is_some_and(|due| due <= now) {
                device.decide(now, &self.settings, &mut self.moves);
            }
        }
        level::order(&mut self.moves);
        Decisions {
            levels: self.moves.iter().map(|change| (change.claim, change.to)).collect(),
            again: self.devices.iter().filter_map(Device::due).min(),
        }
    }

    /// All claims, as of the last change and decision of their device.
    pub fn claims(&self) -> impl Iterator<Item = ClaimState> {
        self.devices.iter().flat_map(|device| device.claims().iter().map(|claim| state(device, claim)))
    }

    /// One claim.
    pub fn claim(&self, claim: ClaimId) -> Option<ClaimState> {
        let Location { device, index } = *self.locations.get(&claim)?;
        let device = &self.devices[device];
        Some(state(device, &device.claims()[index]))
    }

    fn open(&mut self, now: Nanos, claim: ClaimId, attributes: Attributes) {
        let device = self.device(now, attributes.device);
        let index = self.devices[device].open(now, claim, attributes, &self.settings);
        self.locations.insert(claim, Location { device, index });
    }

    fn close(&mut self, now: Nanos, claim: ClaimId, location: Location) {
        if let Some(moved) = self.devices[location.device].close(now, location.index, &self.settings) {
            self.locations.insert(moved, location);
        }
        self.locations.remove(&claim);
    }

    fn change(&mut self, now: Nanos, claim: ClaimId, location: Location, attributes: Attributes) {
        let device = &mut self.devices[location.device];
        let before = &device.claims()[location.index];
        let ready = before.ready;
        if (before.attributes.device, before.attributes.process) == (attributes.device, attributes.process) {
            return device.set_attributes(now, location.index, attributes, &self.settings);
        }
        // It belongs to another process or device now: a new claim except for its name.
        self.handle(now, ClaimChange::Opened { claim, attributes });
        if ready {
            self.handle(now, ClaimChange::Ready { claim });
        }
    }

    /// Returns the device's index. Devices are few and are never removed.
    fn device(&mut self, now: Nanos, id: DeviceId) -> usize {
        self.devices.iter().position(|device| device.id == id).unwrap_or_else(|| {
            self.devices.push(Device::new(id, self.policy, now, self.is_observed));
            self.devices.len() - 1
        })
    }
}

fn state(device: &Device, claim: &Claim) -> ClaimState {
    ClaimState {
        id: claim.id,
        attributes: claim.attributes,
        level: claim.level,
        ready: claim.ready,
        allowed: device.is_allowed(claim),
        charged: claim.account.charged(),
        waited: claim.patience.waited(),
        latency: device.latency(claim),
    }
}

#[cfg(test)]
mod tests;
