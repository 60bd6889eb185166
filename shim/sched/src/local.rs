//! Scheduling without a controller: a [`Scheduler`], with the masks that follow from its decisions.
//!
//! It serves one process and its streams. Each stream is a queue. If streams are to have shares or weights of their own, each also
//! gets a [`ProcessId`](crate::ProcessId) of its own.

use std::collections::{BTreeMap, HashMap};

use crate::mask::Mask;
use crate::{Attributes, DeviceId, Level, Nanos, PolicyKind, QueueChange, QueueId, Scheduler, Settings};

/// Decides for each queue whether it may launch.
#[derive(Debug)]
pub struct Local {
    scheduler: Scheduler,
    masks: BTreeMap<DeviceId, Mask>,
    queues: HashMap<QueueId, Queue>,
}

#[derive(Debug)]
struct Queue {
    device: DeviceId,
    level: Option<Level>,
    ready: bool,
    allowed: bool,
}

/// The results of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Changes {
    /// Queues that may not launch from now on. To be suspended first.
    pub suspended: Vec<QueueId>,
    /// Queues that may launch again.
    pub resumed: Vec<QueueId>,
    /// When to call [`Local::look`] if nothing happens before.
    pub again: Option<Nanos>,
}

impl Local {
    /// Without queues.
    pub fn new(policy: PolicyKind, settings: Settings) -> Self {
        Self { scheduler: Scheduler::new(policy, settings), masks: BTreeMap::new(), queues: HashMap::new() }
    }

    /// Takes a change of a queue.
    pub fn handle(&mut self, now: Nanos, change: QueueChange) -> Changes {
        self.scheduler.handle(now, change);
        match change {
            QueueChange::Opened { queue, attributes } => self.open(queue, attributes),
            QueueChange::Closed { queue } => self.close(queue),
            QueueChange::Ready { queue } => self.set_ready(queue, true),
            QueueChange::Idle { queue } => self.set_ready(queue, false),
            QueueChange::Changed { queue, attributes } => self.change(queue, attributes),
            QueueChange::Used { .. } => {}
        }
        self.look(now)
    }

    /// Time has passed.
    pub fn look(&mut self, now: Nanos) -> Changes {
        let decisions = self.scheduler.decide(now);
        for (queue, level) in decisions.levels {
            self.set_level(queue, level);
        }
        let mut changes = Changes { again: decisions.again, ..Changes::default() };
        for (id, queue) in &mut self.queues {
            let allowed = may_launch(&self.masks, queue);
            if allowed != queue.allowed {
                queue.allowed = allowed;
                if allowed { &mut changes.resumed } else { &mut changes.suspended }.push(*id);
            }
        }
        changes.resumed.sort_unstable();
        changes.suspended.sort_unstable();
        changes
    }

    /// Whether a queue may launch. An unknown queue may.
    pub fn may_launch(&self, queue: QueueId) -> bool {
        self.queues.get(&queue).is_none_or(|queue| may_launch(&self.masks, queue))
    }

    /// Whether a queue should limit what it has in flight: there are other queues, and one of them may come before it.
    pub fn is_limited(&self, queue: QueueId) -> bool {
        let Some(queue) = self.queues.get(&queue) else { return false };
        let others = self.queues.values().filter(|other| other.device == queue.device).nth(1).is_some();
        others && queue.level.is_none_or(Level::is_limited)
    }

    /// The scheduler inside, for queries.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Changes the policy; [`Self::look`] returns the results.
    pub fn set_policy(&mut self, now: Nanos, policy: PolicyKind) {
        self.scheduler.set_policy(now, policy);
    }

    /// Changes the settings; [`Self::look`] returns the results.
    pub fn set_settings(&mut self, now: Nanos, settings: Settings) {
        self.scheduler.set_settings(now, settings);
    }

    fn open(&mut self, id: QueueId, attributes: Attributes) {
        self.close(id);
        self.masks.entry(attributes.device).or_insert_with(Mask::new);
        let device = attributes.device;
        self.queues.insert(id, Queue { device, level: None, ready: false, allowed: true });
    }

    fn close(&mut self, id: QueueId) {
        self.set_ready(id, false);
        self.queues.remove(&id);
    }

    fn change(&mut self, id: QueueId, attributes: Attributes) {
        let Some(queue) = self.queues.get(&id) else { return };
        let ready = queue.ready;
        if queue.device != attributes.device {
            // Its level there is among the next decisions.
            self.open(id, attributes);
            self.set_ready(id, ready);
        }
    }

    fn set_ready(&mut self, id: QueueId, ready: bool) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.ready == ready {
            return;
        }
        queue.ready = ready;
        if let (Some(mask), Some(level)) = (self.masks.get_mut(&queue.device), queue.level) {
            if ready { mask.add(level) } else { mask.remove(level) }
        }
    }

    fn set_level(&mut self, id: QueueId, level: Level) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let before = queue.level.replace(level);
        if let (Some(mask), true) = (self.masks.get_mut(&queue.device), queue.ready) {
            mask.add(level);
            if let Some(before) = before {
                mask.remove(before);
            }
        }
    }
}

fn may_launch(masks: &BTreeMap<DeviceId, Mask>, queue: &Queue) -> bool {
    let mask = masks.get(&queue.device);
    mask.zip(queue.level).is_none_or(|(mask, level)| mask.allows(level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProcessId;

    const NORMAL: QueueId = QueueId(1);
    const URGENT: QueueId = QueueId(2);

    /// Two streams of a process, the second more urgent.
    fn two_streams() -> Local {
        let mut local = Local::new(PolicyKind::Priority, Settings::default());
        for (queue, stream_priority) in [(NORMAL, 0), (URGENT, 1)] {
            let attributes = Attributes { stream_priority, ..Attributes::new(DeviceId(0), ProcessId(1)) };
            let _ = local.handle(Nanos(0), QueueChange::Opened { queue, attributes });
        }
        local
    }

    #[test]
    fn an_urgent_stream_suspends_the_other_while_it_has_work() {
        let mut local = two_streams();
        let changes = local.handle(Nanos(1), QueueChange::Ready { queue: NORMAL });
        assert_eq!((changes.suspended, changes.resumed), (vec![], vec![]));
        let changes = local.handle(Nanos(2), QueueChange::Ready { queue: URGENT });
        assert_eq!(changes.suspended, [NORMAL]);
        assert!(!local.may_launch(NORMAL) && local.may_launch(URGENT));
        let changes = local.handle(Nanos(3), QueueChange::Idle { queue: URGENT });
        assert_eq!(changes.resumed, [NORMAL]);
    }

    #[test]
    fn a_stream_that_is_destroyed_blocks_no_other() {
        let mut local = two_streams();
        let _ = local.handle(Nanos(1), QueueChange::Ready { queue: URGENT });
        assert!(!local.may_launch(NORMAL));
        let changes = local.handle(Nanos(2), QueueChange::Closed { queue: URGENT });
        assert_eq!(changes.resumed, [NORMAL]);
        assert!(local.may_launch(URGENT), "it is unknown");
    }

    #[test]
    fn a_level_that_changes_takes_the_ready_bit_along() {
        let mut local = two_streams();
        let _ = local.handle(Nanos(1), QueueChange::Ready { queue: NORMAL });
        let lifted = Attributes { stream_priority: 2, ..Attributes::new(DeviceId(0), ProcessId(1)) };
        let changes = local.handle(Nanos(2), QueueChange::Changed { queue: NORMAL, attributes: lifted });
        assert_eq!(changes.suspended, [URGENT]);
        let moved = Attributes { device: DeviceId(1), ..lifted };
        let changes = local.handle(Nanos(3), QueueChange::Changed { queue: NORMAL, attributes: moved });
        assert_eq!(changes.resumed, [URGENT]);
    }

    #[test]
    fn a_starving_stream_is_resumed_for_a_quantum() {
        let mut local = two_streams();
        let _ = local.handle(Nanos(0), QueueChange::Ready { queue: URGENT });
        let changes = local.handle(Nanos(0), QueueChange::Ready { queue: NORMAL });
        let changes = local.look(changes.again.unwrap());
        assert_eq!((changes.suspended, changes.resumed), (vec![URGENT], vec![NORMAL]));
        let changes = local.look(changes.again.unwrap());
        assert_eq!((changes.suspended, changes.resumed), (vec![NORMAL], vec![URGENT]));
    }

    #[test]
    fn only_a_stream_that_may_be_preempted_needs_a_limit() {
        let mut local = two_streams();
        assert!(local.is_limited(NORMAL) && !local.is_limited(URGENT));
        let _ = local.handle(Nanos(1), QueueChange::Closed { queue: URGENT });
        assert!(!local.is_limited(NORMAL), "it is alone");
    }
}
