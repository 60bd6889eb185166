//! The scheduler: takes events to their device, and collects what is decided there.

use std::collections::HashMap;

use crate::device::Device;
use crate::level::{self, Level, Move};
use crate::policies::PolicyKind;
#[cfg(test)]
use crate::policy::Policy;
use crate::{Attributes, DeviceId, Event, Nanos, QueueId, Settings};

/// Decides how urgent each queue is.
///
/// ```
/// use xsched_sched::{Attributes, DeviceId, Event, Nanos, PolicyKind, ProcessId, QueueId, Scheduler, Settings};
///
/// let mut scheduler = Scheduler::new(PolicyKind::Priority, Settings::default());
/// for (process, priority) in [(1, 0), (2, 100)] {
///     let mut attributes = Attributes::new(DeviceId(0), ProcessId(process));
///     attributes.priority = priority;
///     scheduler.handle(Nanos(0), Event::Opened { queue: QueueId(process), attributes });
/// }
/// let decisions = scheduler.decide(Nanos(0));
/// let level = |queue| decisions.levels.iter().find(|(id, _)| *id == queue).map(|(_, level)| *level);
/// assert!(level(QueueId(2)) < level(QueueId(1)));
/// ```
#[derive(Debug)]
pub struct Scheduler {
    policy: PolicyKind,
    settings: Settings,
    devices: Vec<Device>,
    places: HashMap<QueueId, Place>,
    moves: Vec<Move>,
    ignored: u64,
}

/// Where a queue is.
#[derive(Clone, Copy, Debug)]
struct Place {
    device: usize,
    index: usize,
}

/// What has been decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Decisions {
    /// Queues that have another level from now on, and queues that have none yet, in the order in which the changes
    /// should take effect.
    pub levels: Vec<(QueueId, Level)>,
    /// When to ask again if nothing happens before; `None`: not before something happens.
    pub again: Option<Nanos>,
}

/// What there is to know of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// Its name.
    pub queue: QueueId,
    /// What was last said of it.
    pub attributes: Attributes,
    /// Its level; `None` before the first decision.
    pub level: Option<Level>,
    /// Whether it has work.
    pub ready: bool,
    /// Whether nobody ready is more urgent.
    pub allowed: bool,
    /// Device time that it is charged for.
    pub charged: Nanos,
    /// How long it has been ready without being allowed to launch, less what being allowed has taken back.
    pub waited: Nanos,
}

impl Scheduler {
    /// A scheduler that knows no queues yet.
    pub fn new(policy: PolicyKind, settings: Settings) -> Self {
        Self {
            policy,
            settings: settings.in_range(),
            devices: Vec::new(),
            places: HashMap::new(),
            moves: Vec::new(),
            ignored: 0,
        }
    }

    /// The policy at work.
    pub fn policy(&self) -> PolicyKind {
        self.policy
    }

    /// The settings that hold.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Events so far that were about queues that nobody has opened.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Something happened. It has an effect with the next [`Self::decide`]. Times must not go backwards; one that does is
    /// taken for the one before.
    pub fn handle(&mut self, now: Nanos, event: Event) {
        let queue = event.queue();
        let place = self.places.get(&queue).copied();
        match (event, place) {
            (Event::Opened { attributes, .. }, None) => self.open(now, queue, attributes),
            (Event::Opened { attributes, .. }, Some(place)) => {
                self.close(now, queue, place);
                self.open(now, queue, attributes);
            }
            (Event::Closed { .. }, Some(place)) => self.close(now, queue, place),
            (Event::Ready { .. }, Some(place)) => {
                self.devices[place.device].set_ready(now, place.index, true, &self.settings);
            }
            (Event::Idle { .. }, Some(place)) => {
                self.devices[place.device].set_ready(now, place.index, false, &self.settings);
            }
            (Event::Used { device, .. }, Some(place)) => {
                self.devices[place.device].reported(now, place.index, device, &self.settings);
            }
            (Event::Changed { attributes, .. }, Some(place)) => {
                self.change(now, queue, place, attributes);
            }
            (_, None) => self.ignored += 1,
        }
    }

    /// Another policy from now on. What is set for queues stays.
    pub fn set_policy(&mut self, now: Nanos, policy: PolicyKind) {
        self.policy = policy;
        for device in &mut self.devices {
            device.set_policy(now, policy.start(), &self.settings);
        }
    }

    /// A policy that is not on the list, for the devices that are known.
    #[cfg(test)]
    pub(crate) fn plant(&mut self, now: Nanos, start: fn() -> Box<dyn Policy>) {
        for device in &mut self.devices {
            device.set_policy(now, start(), &self.settings);
        }
    }

    /// Other settings from now on.
    pub fn set_settings(&mut self, now: Nanos, settings: Settings) {
        for device in &mut self.devices {
            device.settings_change(now, &self.settings);
        }
        self.settings = settings.in_range();
    }

    /// How late it may be heard that a queue has work, or none, with no decision later or another for it, as long as
    /// [`Self::handle`] gets what has happened in order and before [`Self::decide`]: a policy that follows work has to know at
    /// once, and otherwise it only matters to who has waited for too long.
    pub fn may_hear_late(&self) -> Nanos {
        if self.devices.iter().any(Device::follows_work) {
            return Nanos::ZERO;
        }
        match self.settings.starvation_bound {
            Nanos::ZERO => Nanos(u64::MAX),
            bound => bound.min(self.settings.patience),
        }
    }

    /// What follows from all that happened. To be called after events, and when it was asked for.
    pub fn decide(&mut self, now: Nanos) -> Decisions {
        self.moves.clear();
        for device in &mut self.devices {
            if device.due().is_some_and(|due| due <= now) {
                device.decide(now, &self.settings, &mut self.moves);
            }
        }
        level::order(&mut self.moves);
        Decisions {
            levels: self.moves.iter().map(|change| (change.queue, change.to)).collect(),
            again: self.devices.iter().filter_map(Device::due).min(),
        }
    }

    /// All queues, as of the last event and decision of their device.
    pub fn queues(&self) -> impl Iterator<Item = QueueState> {
        self.devices.iter().flat_map(|device| {
            device.queues().iter().map(|queue| QueueState {
                queue: queue.id,
                attributes: queue.attributes,
                level: queue.level,
                ready: queue.ready,
                allowed: device.is_allowed(queue),
                charged: queue.account.charged(),
                waited: queue.patience.waited(),
            })
        })
    }

    fn open(&mut self, now: Nanos, queue: QueueId, attributes: Attributes) {
        let device = self.device(now, attributes.device);
        let index = self.devices[device].open(now, queue, attributes, &self.settings);
        self.places.insert(queue, Place { device, index });
    }

    fn close(&mut self, now: Nanos, queue: QueueId, place: Place) {
        if let Some(moved) = self.devices[place.device].close(now, place.index, &self.settings) {
            self.places.insert(moved, place);
        }
        self.places.remove(&queue);
    }

    fn change(&mut self, now: Nanos, queue: QueueId, place: Place, attributes: Attributes) {
        let device = &mut self.devices[place.device];
        let before = &device.queues()[place.index];
        let ready = before.ready;
        if (before.attributes.device, before.attributes.process) == (attributes.device, attributes.process) {
            return device.set_attributes(now, place.index, attributes, &self.settings);
        }
        // Somebody else's now: a new queue in all but the name.
        self.handle(now, Event::Opened { queue, attributes });
        if ready {
            self.handle(now, Event::Ready { queue });
        }
    }

    /// Its index. Devices are few and never go.
    fn device(&mut self, now: Nanos, id: DeviceId) -> usize {
        self.devices.iter().position(|device| device.id == id).unwrap_or_else(|| {
            self.devices.push(Device::new(id, self.policy, now));
            self.devices.len() - 1
        })
    }
}

#[cfg(test)]
mod tests;
