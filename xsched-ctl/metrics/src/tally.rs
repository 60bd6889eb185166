//! Counters by labels. The number of label sets is bounded: whatever processes do, a scrape has at most a fixed number of lines.
//!
//! A claim holds the [`Group`] that it counts for. A group that no claim holds stays for a while, so that its last values are
//! scraped, and then goes. Where there is no room, claims count for the group whose labels are all [`OTHER`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use xsched_sched::{Nanos, What};

use crate::histogram::Histogram;

/// Most groups, without the one for all others.
pub const GROUPS_MAX: usize = 128;

/// Most of these that one unprivileged user, or container, may hold: a quarter.
const GROUPS_PER_PARTY_MAX: usize = GROUPS_MAX / 4;

/// Most libraries of a group, without the one for all others.
pub const ORIGINS_MAX: usize = 8;

/// How long a group stays that no claim holds: several scrapes, even if they are a minute apart.
const RETENTION: Nanos = Nanos::from_secs(600);

/// Label of all that there was no room for.
pub(crate) const OTHER: &str = "other";

/// The labels of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Labels {
    /// The class of the process's priority.
    pub class: String,
    /// The device, as `list` shows it.
    pub device: String,
    /// The process's cgroup, possibly empty.
    pub cgroup: String,
    /// Namespace, pod and container, where they are known.
    pub pod: Option<[String; 3]>,
}

impl Labels {
    fn other() -> Self {
        let other = || OTHER.to_owned();
        Self { class: other(), device: other(), cgroup: other(), pod: None }
    }
}

/// What claims with the same labels have done.
#[derive(Debug)]
pub struct Group {
    held_until: Cell<Nanos>,
    counts: RefCell<Counts>,
}

/// The counters of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) launched: u64,
    pub(crate) deferred: u64,
    pub(crate) device: Nanos,
    pub(crate) suspended: Nanos,
    pub(crate) preemptions: u64,
    pub(crate) starvation_slices: u64,
    pub(crate) delays: Histogram,
    /// Device time by library.
    pub(crate) origins: HashMap<String, Nanos>,
}

impl Group {
    fn new(now: Nanos) -> Rc<Self> {
        Rc::new(Self { held_until: Cell::new(now), counts: RefCell::default() })
    }

    /// A claim of it has used more.
    pub fn used(&self, launched: u64, deferred: u64, device: Nanos, suspended: Nanos) {
        let mut counts = self.counts.borrow_mut();
        // Processes may report any number.
        counts.launched = counts.launched.saturating_add(launched);
        counts.deferred = counts.deferred.saturating_add(deferred);
        counts.device += device;
        counts.suspended += suspended;
    }

    /// More device time of a library.
    pub fn used_by(&self, library: &str, device: Nanos) {
        let origins = &mut self.counts.borrow_mut().origins;
        if let Some(time) = origins.get_mut(library) {
            *time += device;
            return;
        }
        let library = if origins.len() < ORIGINS_MAX { library } else { OTHER };
        *origins.entry(library.to_owned()).or_default() += device;
    }

    /// Something has happened to a claim of it.
    pub fn happened(&self, what: What) {
        let mut counts = self.counts.borrow_mut();
        match what {
            What::TurnBegan { waited } => counts.delays.add(waited),
            What::Preempted => counts.preemptions += 1,
            What::StarvationSlice => counts.starvation_slices += 1,
        }
    }
}

/// All groups. Unprivileged parties (`P`) may hold a part of them each.
#[derive(Debug)]
pub struct Tally<P> {
    /// With the party that each counts for.
    groups: HashMap<Labels, (Rc<Group>, Option<P>)>,
    other: Rc<Group>,
    /// Some claim counts or has counted for `other`.
    has_others: bool,
}

impl<P> Default for Tally<P> {
    fn default() -> Self {
        Self { groups: HashMap::new(), other: Group::new(Nanos::ZERO), has_others: false }
    }
}

impl<P: Copy + PartialEq> Tally<P> {
    /// The group with these labels. `party` is the unprivileged party that a new one counts for.
    pub fn group(&mut self, now: Nanos, labels: Labels, party: Option<P>) -> Rc<Group> {
        if let Some((group, _)) = self.groups.get(&labels) {
            return Rc::clone(group);
        }
        if self.is_full_for(party) {
            self.let_go(now);
        }
        if self.is_full_for(party) {
            self.has_others = true;
            return Rc::clone(&self.other);
        }
        let group = Group::new(now);
        self.groups.insert(labels, (Rc::clone(&group), party));
        group
    }

    /// Whether there is no room for another group of a party.
    fn is_full_for(&self, party: Option<P>) -> bool {
        let is_its = |other: &&Option<P>| party.is_some() && **other == party;
        let own = self.groups.values().map(|(_, party)| party).filter(is_its).count();
        self.groups.len() >= GROUPS_MAX || own >= GROUPS_PER_PARTY_MAX
    }

    /// Removes the groups that no claim has held for a while.
    fn let_go(&mut self, now: Nanos) {
        self.groups.retain(|_, (group, _)| {
            if claims(group) > 0 {
                group.held_until.set(now);
            }
            now - group.held_until.get() < RETENTION
        });
    }

    /// All groups with the number of claims that hold them, in the order of their labels. The group for all others is last, and
    /// only if it was used.
    pub(crate) fn counts(&mut self, now: Nanos) -> Vec<(Labels, usize, Counts)> {
        self.let_go(now);
        let entry = |labels: &Labels, group: &Rc<Group>| {
            (labels.clone(), claims(group), group.counts.borrow().clone())
        };
        let mut counts: Vec<_> =
            self.groups.iter().map(|(labels, (group, _))| entry(labels, group)).collect();
        counts.sort_by(|(a, ..), (b, ..)| {
            (&a.class, &a.device, &a.cgroup, &a.pod).cmp(&(&b.class, &b.device, &b.cgroup, &b.pod))
        });
        if self.has_others {
            counts.push(entry(&Labels::other(), &self.other));
        }
        counts
    }
}

/// How many claims hold a group; one reference is the tally's own.
fn claims(group: &Rc<Group>) -> usize {
    Rc::strong_count(group) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(cgroup: &str) -> Labels {
        Labels { class: "normal".to_owned(), device: "d".to_owned(), cgroup: cgroup.to_owned(), pod: None }
    }

    fn cgroups(tally: &mut Tally<u32>, now: Nanos) -> Vec<String> {
        tally.counts(now).into_iter().map(|(labels, ..)| labels.cgroup).collect()
    }

    #[test]
    fn a_storm_of_groups_leaves_a_fixed_number() {
        let mut tally = Tally::<u32>::default();
        for number in 0..5_000 {
            let group = tally.group(Nanos(1), labels(&number.to_string()), None);
            group.used(1, 0, Nanos(5), Nanos::ZERO);
            for library in 0..100 {
                group.used_by(&library.to_string(), Nanos(1));
            }
        }
        let counts = tally.counts(Nanos(2));
        assert_eq!(counts.len(), GROUPS_MAX + 1);
        assert_eq!(counts.iter().map(|(.., counts)| counts.launched).sum::<u64>(), 5_000, "none is lost");
        assert_eq!(counts.last().map(|(labels, ..)| labels), Some(&Labels::other()));
        for (.., counts) in &counts {
            assert_eq!(counts.origins.len(), ORIGINS_MAX + 1);
        }
        let divided: u64 =
            counts.iter().flat_map(|(.., counts)| counts.origins.values()).map(|time| time.0).sum();
        assert_eq!(divided, 500_000);
    }

    #[test]
    fn one_party_leaves_room_for_others() {
        let mut tally = Tally::<u32>::default();
        for number in 0..5_000 {
            tally.group(Nanos(1), labels(&number.to_string()), Some(1000));
        }
        let group = tally.group(Nanos(1), labels("mine"), Some(1001));
        group.used(7, 0, Nanos::ZERO, Nanos::ZERO);
        let counts = tally.counts(Nanos(2));
        assert_eq!(counts.len(), GROUPS_PER_PARTY_MAX + 2, "with `mine`, and the one for all others");
        assert!(counts.iter().any(|(labels, claims, counts)| {
            (labels.cgroup.as_str(), *claims, counts.launched) == ("mine", 1, 7)
        }));
    }

    #[test]
    fn a_group_goes_a_while_after_its_last_claim() {
        let mut tally = Tally::<u32>::default();
        let held = tally.group(Nanos(1), labels("held"), None);
        drop(tally.group(Nanos(1), labels("ended"), None));
        assert_eq!(cgroups(&mut tally, RETENTION), ["ended", "held"]);
        assert_eq!(cgroups(&mut tally, RETENTION + Nanos(1)), ["held"]);
        drop(held);
        assert_eq!(cgroups(&mut tally, RETENTION.times(2)), ["held"], "it was held until the last scrape");
        assert_eq!(cgroups(&mut tally, RETENTION.times(2) + Nanos(2)), [""; 0]);
    }

    #[test]
    fn a_full_tally_or_part_of_it_makes_room_without_scrapes() {
        for (count, party) in [(GROUPS_MAX, None), (GROUPS_PER_PARTY_MAX, Some(1000))] {
            let mut tally = Tally::<u32>::default();
            for number in 0..count {
                tally.group(Nanos(1), labels(&number.to_string()), party);
            }
            let _late = tally.group(RETENTION + Nanos(2), labels("late"), party);
            assert_eq!(cgroups(&mut tally, RETENTION + Nanos(2)), ["late"]);
        }
    }
}
