//! Scheduling without a controller: a [`Scheduler`], with the masks that follow from its decisions.
//!
//! It serves one process and its streams. The streams of one priority are one claim. If claims are to have shares or weights of
//! their own, each also gets a [`ProcessId`](crate::ProcessId) of its own.

use std::collections::{BTreeMap, HashMap};

use crate::mask::Mask;
use crate::{Attributes, ClaimChange, ClaimId, DeviceId, Level, Nanos, PolicyKind, Scheduler, Settings};

/// Decides for each claim whether it may launch.
#[derive(Debug)]
pub struct Local {
    scheduler: Scheduler,
    masks: BTreeMap<DeviceId, Mask>,
    claims: HashMap<ClaimId, Claim>,
}

#[derive(Debug)]
struct Claim {
    device: DeviceId,
    level: Option<Level>,
    ready: bool,
    allowed: bool,
}

/// The results of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Changes {
    /// Claims that may not launch from now on. To be suspended first.
    pub suspended: Vec<ClaimId>,
    /// Claims that may launch again.
    pub resumed: Vec<ClaimId>,
    /// When to call [`Local::look`] if nothing happens before.
    pub again: Option<Nanos>,
}

impl Local {
    /// Without claims.
    pub fn new(policy: PolicyKind, settings: Settings) -> Self {
        Self { scheduler: Scheduler::new(policy, settings), masks: BTreeMap::new(), claims: HashMap::new() }
    }

    /// Takes a change of a claim.
    pub fn handle(&mut self, now: Nanos, change: ClaimChange) -> Changes {
        self.scheduler.handle(now, change);
        match change {
            ClaimChange::Opened { claim, attributes } => self.open(claim, attributes),
            ClaimChange::Closed { claim } => self.close(claim),
            ClaimChange::Ready { claim } => self.set_ready(claim, true),
            ClaimChange::Idle { claim } => self.set_ready(claim, false),
            ClaimChange::Changed { claim, attributes } => self.change(claim, attributes),
            ClaimChange::Used { .. } => {}
        }
        self.look(now)
    }

    /// Time has passed.
    pub fn look(&mut self, now: Nanos) -> Changes {
        let decisions = self.scheduler.decide(now);
        for (claim, level) in decisions.levels {
            self.set_level(claim, level);
        }
        let mut changes = Changes { again: decisions.again, ..Changes::default() };
        for (id, claim) in &mut self.claims {
            let allowed = may_launch(&self.masks, claim);
            if allowed != claim.allowed {
                claim.allowed = allowed;
                if allowed { &mut changes.resumed } else { &mut changes.suspended }.push(*id);
            }
        }
        changes.resumed.sort_unstable();
        changes.suspended.sort_unstable();
        changes
    }

    /// Whether a claim may launch. An unknown claim may.
    pub fn may_launch(&self, claim: ClaimId) -> bool {
        self.claims.get(&claim).is_none_or(|claim| may_launch(&self.masks, claim))
    }

    /// Whether a claim should limit what it has in flight: there are other claims, and one of them may come before it.
    pub fn is_limited(&self, claim: ClaimId) -> bool {
        let Some(claim) = self.claims.get(&claim) else { return false };
        let others = self.claims.values().filter(|other| other.device == claim.device).nth(1).is_some();
        others && claim.level.is_none_or(Level::is_limited)
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

    fn open(&mut self, id: ClaimId, attributes: Attributes) {
        self.close(id);
        self.masks.entry(attributes.device).or_insert_with(Mask::new);
        let device = attributes.device;
        self.claims.insert(id, Claim { device, level: None, ready: false, allowed: true });
    }

    fn close(&mut self, id: ClaimId) {
        self.set_ready(id, false);
        self.claims.remove(&id);
    }

    fn change(&mut self, id: ClaimId, attributes: Attributes) {
        let Some(claim) = self.claims.get(&id) else { return };
        let ready = claim.ready;
        if claim.device != attributes.device {
            // Its level there is among the next decisions.
            self.open(id, attributes);
            self.set_ready(id, ready);
        }
    }

    fn set_ready(&mut self, id: ClaimId, ready: bool) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        if claim.ready == ready {
            return;
        }
        claim.ready = ready;
        if let (Some(mask), Some(level)) = (self.masks.get_mut(&claim.device), claim.level) {
            if ready { mask.add(level) } else { mask.remove(level) }
        }
    }

    fn set_level(&mut self, id: ClaimId, level: Level) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        let before = claim.level.replace(level);
        if let (Some(mask), true) = (self.masks.get_mut(&claim.device), claim.ready) {
            mask.add(level);
            if let Some(before) = before {
                mask.remove(before);
            }
        }
    }
}

fn may_launch(masks: &BTreeMap<DeviceId, Mask>, claim: &Claim) -> bool {
    let mask = masks.get(&claim.device);
    mask.zip(claim.level).is_none_or(|(mask, level)| mask.allows(level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProcessId;

    const NORMAL: ClaimId = ClaimId(1);
    const URGENT: ClaimId = ClaimId(2);

    /// Two streams of a process, the second more urgent.
    fn two_streams() -> Local {
        let mut local = Local::new(PolicyKind::Priority, Settings::default());
        for (claim, stream_priority) in [(NORMAL, 0), (URGENT, 1)] {
            let attributes = Attributes { stream_priority, ..Attributes::new(DeviceId(0), ProcessId(1)) };
            let _ = local.handle(Nanos(0), ClaimChange::Opened { claim, attributes });
        }
        local
    }

    #[test]
    fn an_urgent_stream_suspends_the_other_while_it_has_work() {
        let mut local = two_streams();
        let changes = local.handle(Nanos(1), ClaimChange::Ready { claim: NORMAL });
        assert_eq!((changes.suspended, changes.resumed), (vec![], vec![]));
        let changes = local.handle(Nanos(2), ClaimChange::Ready { claim: URGENT });
        assert_eq!(changes.suspended, [NORMAL]);
        assert!(!local.may_launch(NORMAL) && local.may_launch(URGENT));
        let changes = local.handle(Nanos(3), ClaimChange::Idle { claim: URGENT });
        assert_eq!(changes.resumed, [NORMAL]);
    }

    #[test]
    fn a_stream_that_is_destroyed_blocks_no_other() {
        let mut local = two_streams();
        let _ = local.handle(Nanos(1), ClaimChange::Ready { claim: URGENT });
        assert!(!local.may_launch(NORMAL));
        let changes = local.handle(Nanos(2), ClaimChange::Closed { claim: URGENT });
        assert_eq!(changes.resumed, [NORMAL]);
        assert!(local.may_launch(URGENT), "it is unknown");
    }

    #[test]
    fn a_level_that_changes_takes_the_ready_bit_along() {
        let mut local = two_streams();
        let _ = local.handle(Nanos(1), ClaimChange::Ready { claim: NORMAL });
        let lifted = Attributes { stream_priority: 2, ..Attributes::new(DeviceId(0), ProcessId(1)) };
        let changes = local.handle(Nanos(2), ClaimChange::Changed { claim: NORMAL, attributes: lifted });
        assert_eq!(changes.suspended, [URGENT]);
        let moved = Attributes { device: DeviceId(1), ..lifted };
        let changes = local.handle(Nanos(3), ClaimChange::Changed { claim: NORMAL, attributes: moved });
        assert_eq!(changes.resumed, [URGENT]);
    }

    #[test]
    fn a_starving_stream_is_resumed_for_a_quantum() {
        let mut local = two_streams();
        let _ = local.handle(Nanos(0), ClaimChange::Ready { claim: URGENT });
        let changes = local.handle(Nanos(0), ClaimChange::Ready { claim: NORMAL });
        let changes = local.look(changes.again.unwrap());
        assert_eq!((changes.suspended, changes.resumed), (vec![URGENT], vec![NORMAL]));
        let changes = local.look(changes.again.unwrap());
        assert_eq!((changes.suspended, changes.resumed), (vec![NORMAL], vec![URGENT]));
    }

    #[test]
    fn only_a_stream_that_may_be_preempted_needs_a_limit() {
        let mut local = two_streams();
        assert!(local.is_limited(NORMAL) && !local.is_limited(URGENT));
        let _ = local.handle(Nanos(1), ClaimChange::Closed { claim: URGENT });
        assert!(!local.is_limited(NORMAL), "it is alone");
    }
}
