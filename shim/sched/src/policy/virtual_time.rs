//! Sharing a device by time: one process at a time is in front for a slice; the next is the one with the least time for its weight.
//!
//! ```text
//!   level   n     the process in front, its claims in the order of its streams
//!           n+1   all others: they run side by side when the one in front has no work, until another is in front
//! ```
//!
//! Slices are as long as the settings say, or longer for long commands (`commands.rs`). One that is half used ends when more urgent
//! work comes.
//!
//! A process's *virtual time* is its charged device time divided by its weight. The process with the least goes next. A process that
//! becomes ready, or is new, begins at the least virtual time of those that are ready: neither idling nor being new earns time.
//!
//! Processes of different groups do not share: a group goes before all later ones. A process may change its group at any time, and
//! is new there.

use super::View;
use crate::Nanos;
use crate::claim::{Claim, Process};
use crate::commands::SliceFor;
use crate::ranks::{Rank, Ranks};

/// A process's share of the device: the group that shares with it, and its weight there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Smaller first.
    pub(super) group: u16,
    /// At least 1.
    pub(super) weight: u32,
}

/// Which processes share time at present.
pub(super) trait Terms {
    /// The urgency of the work that competes in a group, smaller first. `members` are the group's processes.
    fn urgency(&self, group: u16, members: &[usize]) -> u16;

    /// Whether a process competes with the others of its group, given the group's urgency.
    fn competes(&self, process: usize, urgency: u16) -> bool;

    /// What slices are for.
    fn slice_for(&self) -> SliceFor;

    /// Whether a group shares time. If not, no member is in front, and virtual times are not kept.
    fn is_shared(&self, group: u16) -> bool;
}

/// Terms under which each group shares, among all members that have work.
struct Always<'a>(&'a [Process]);

impl Terms for Always<'_> {
    fn urgency(&self, group: u16, _: &[usize]) -> u16 {
        group
    }

    fn competes(&self, process: usize, _: u16) -> bool {
        self.0[process].ready > 0
    }

    fn slice_for(&self) -> SliceFor {
        SliceFor::Shares
    }

    fn is_shared(&self, _: u16) -> bool {
        true
    }
}

/// Which process of each group is in front, by index of process.
#[derive(Debug, Default)]
pub(super) struct VirtualTime {
    members: Vec<Member>,
    groups: Vec<Group>,
    /// Processes that came to the front, or left it, at the last election.
    moved: Vec<usize>,
    /// Groups have other members since the last election, and will have with the next one.
    is_regrouped: bool,
    are_groups_old: bool,
}

#[derive(Debug, Default)]
struct Member {
    /// `None`: it is new.
    group: Option<u16>,
    /// The index of that group, until processes come or go.
    group_index: usize,
    /// In nanoseconds / [`SCALE`], for a weight of 1.
    time: i128,
    /// The part of [`Process::charged`] that is in `time`.
    counted: Nanos,
    /// It competes.
    ready: bool,
    front: bool,
    /// [`Process::allowed`] and [`Process::charged`] when its slice began.
    slice_began: Nanos,
    slice_charged: Nanos,
}

#[derive(Debug)]
struct Group {
    number: u16,
    /// The least virtual time at which a member begins.
    floor: i128,
    /// Their indices, in order.
    members: Vec<usize>,
    is_shared: bool,
    /// The fields below are current: no member has changed since they were computed.
    is_known: bool,
    /// Urgency of the work that competes, and the number of members that compete.
    urgency: u16,
    ready: usize,
    front: Option<usize>,
    /// The competing member with the least virtual time: its index and that time.
    least: Option<usize>,
    least_time: i128,
}

/// Parts of a nanosecond that virtual time distinguishes: weights are up to thousands.
const SCALE: i64 = 1 << 10;

impl VirtualTime {
    pub(super) fn joined(&mut self) {
        self.members.push(Member::default());
    }

    pub(super) fn left(&mut self, index: usize) {
        self.members.swap_remove(index);
    }

    /// Makes all processes new again.
    pub(super) fn forget(&mut self) {
        self.members.fill_with(Member::default);
        self.groups.clear();
        self.regroup_next();
    }

    /// Ranks all claims, given the shares of processes. Returns when to call it again.
    pub(super) fn rank(&mut self, view: &View<'_>, shares: &[Share], ranks: &mut Ranks) -> Option<Nanos> {
        let again = self.elect(view, shares, &Always(view.processes));
        if self.is_regrouped || !self.moved.is_empty() {
            let concerns = |claim: &Claim| self.is_regrouped || self.moved.contains(&claim.process);
            for (index, claim) in view.claims.iter().enumerate().filter(|(_, claim)| concerns(claim)) {
                ranks.set(index, self.rank_of(claim));
            }
        }
        again
    }

    /// Elects the process in front of each group. Returns when that may change, if no change comes before.
    pub(super) fn elect(&mut self, view: &View<'_>, shares: &[Share], terms: &impl Terms) -> Option<Nanos> {
        self.catch_up(view, shares, terms);
        self.moved.clear();
        let mut again = None;
        let slice_of =
            |index: usize| view.processes[index].commands.slice(terms.slice_for(), view.settings.slice);
        // Slices pass only in the group with the most urgent work: there the process in front may be running.
        let with_work = self.groups.iter().filter(|group| group.ready > 0);
        let most_urgent = with_work.map(|group| group.urgency).min();
        for group in &mut self.groups {
            if group.ready > 0 {
                group.floor = group.floor.max(group.least_time);
            }
            if !group.is_shared {
                group.set_front(None, &mut self.members, &mut self.moved);
                continue;
            }
            let Some(least) = group.least else { continue };
            let process = |index: usize| &view.processes[index];
            let is_kept_out = most_urgent.is_some_and(|urgency| urgency < group.urgency);
            let left = group.front.and_then(|front| {
                let slice = slice_of(front);
                let left = self.members[front].slice_left(process(front), view.settings.slice, slice)?;
                // The next process would begin beside its last command, but for now none begins.
                (!is_kept_out || left > slice / 2).then_some(left)
            });
            if left.is_none() {
                if group.front != Some(least) {
                    group.set_front(Some(least), &mut self.members, &mut self.moved);
                }
                self.members[least].slice_begins(process(least));
            }
            if group.ready > 1 && most_urgent == Some(group.urgency) && !view.has_starvation_slice {
                again = again.into_iter().chain([view.now + left.unwrap_or_else(|| slice_of(least))]).min();
            }
        }
        again
    }

    /// Whether this process is in front of its group since the last election.
    pub(super) fn is_in_front(&self, process: usize) -> bool {
        self.members[process].front
    }

    /// Processes that came to the front, or left it, at the last election.
    pub(super) fn moved(&self) -> &[usize] {
        &self.moved
    }

    /// The shares of the next election have other groups.
    pub(super) fn regroup_next(&mut self) {
        self.are_groups_old = true;
    }

    /// Whether a process competes has changed, without a change of its work or charge.
    pub(super) fn recount(&mut self, process: usize) {
        if let Some(group) = self.groups.get_mut(self.members[process].group_index) {
            group.is_known = false;
        }
    }

    /// The rank of a claim after the last election.
    pub(super) fn rank_of(&self, claim: &Claim) -> Rank {
        let member = &self.members[claim.process];
        let group = &self.groups[member.group_index];
        let order = if member.front { claim.stream_order() } else { 1 << 32 };
        Rank { order: u64::from(group.number) << 33 | order, sliced: group.members.len() > 1 }
    }

    /// Brings virtual times and groups up to date.
    fn catch_up(&mut self, view: &View<'_>, shares: &[Share], terms: &impl Terms) {
        self.is_regrouped = view.altered || std::mem::take(&mut self.are_groups_old);
        if self.is_regrouped {
            self.regroup(shares);
            (0..shares.len()).for_each(|process| self.catch_up_with(process, view, shares));
        } else {
            view.changed.iter().for_each(|&process| self.catch_up_with(process, view, shares));
        }
        let is_counted = |(member, process): (&Member, &Process)| member.counted == process.charged;
        debug_assert!(self.members.iter().zip(view.processes).all(is_counted), "a change is missed");
        for group in &mut self.groups {
            let is_shared = terms.is_shared(group.number);
            if !group.is_known || group.is_shared != is_shared {
                group.is_shared = is_shared;
                group.find_least(&mut self.members, terms);
            }
        }
    }

    fn catch_up_with(&mut self, process: usize, view: &View<'_>, shares: &[Share]) {
        let member = &mut self.members[process];
        let group = &mut self.groups[member.group_index];
        member.catch_up(&view.processes[process], shares[process], group.floor);
        group.is_known = false;
    }

    /// Finds the members of each group.
    fn regroup(&mut self, shares: &[Share]) {
        for group in &mut self.groups {
            group.members.clear();
        }
        for (index, share) in shares.iter().enumerate() {
            match self.groups.iter_mut().find(|group| group.number == share.group) {
                Some(group) => group.members.push(index),
                None => self.groups.push(Group::new(share.group, index)),
            }
        }
        self.groups.retain(|group| !group.members.is_empty());
        for (index, group) in self.groups.iter().enumerate() {
            for &member in &group.members {
                self.members[member].group_index = index;
            }
        }
    }
}

impl Member {
    fn catch_up(&mut self, process: &Process, share: Share, floor: i128) {
        if self.group != Some(share.group) {
            *self = Self {
                group: Some(share.group),
                group_index: self.group_index,
                time: floor,
                counted: process.charged,
                ..Self::default()
            };
        }
        if self.counted != process.charged {
            // A report may have reduced the charge.
            let used = process.charged.0.wrapping_sub(self.counted.0) as i64;
            self.time += i128::from(used.saturating_mul(SCALE) / i64::from(share.weight));
            self.counted = process.charged;
        }
    }

    fn slice_begins(&mut self, process: &Process) {
        (self.slice_began, self.slice_charged) = (process.allowed, process.charged);
    }

    /// The rest of its slice in front, if it has work for it. In moments that more urgent work leaves, long commands use much more than
    /// the time in which they may be launched: then what the process has used ends a slice that is longer than usual.
    fn slice_left(&self, process: &Process, usual: Nanos, slice: Nanos) -> Option<Nanos> {
        let allowed = process.allowed - self.slice_began;
        let used = allowed.max(process.charged - self.slice_charged);
        // Claims that run side by side are charged parts of the time: without an end, ever smaller rests would follow.
        let longer = Some(slice - used).filter(|rest| *rest > usual / 8).unwrap_or_default();
        let left = (usual - allowed).max(longer);
        (self.ready && !left.is_zero()).then_some(left)
    }
}

impl Group {
    /// With its first member.
    fn new(number: u16, member: usize) -> Self {
        Self {
            number,
            floor: 0,
            members: vec![member],
            is_shared: true,
            is_known: false,
            urgency: number,
            ready: 0,
            front: None,
            least: None,
            least_time: i128::MAX,
        }
    }

    /// Puts a member in front, or none.
    fn set_front(&mut self, front: Option<usize>, members: &mut [Member], moved: &mut Vec<usize>) {
        for (index, is_in_front) in [(self.front, false), (front, true)] {
            let Some(index) = index else { continue };
            members[index].front = is_in_front;
            moved.push(index);
        }
        self.front = front;
    }

    /// Finds the members that compete, and which of them has the least virtual time.
    fn find_least(&mut self, members: &mut [Member], terms: &impl Terms) {
        self.is_known = true;
        self.urgency = terms.urgency(self.number, &self.members);
        (self.ready, self.front, self.least, self.least_time) = (0, None, None, i128::MAX);
        for &index in &self.members {
            let member = &mut members[index];
            let ready = terms.competes(index, self.urgency);
            if ready && !member.ready {
                member.time = member.time.max(self.floor);
            }
            member.ready = ready;
            if !self.is_shared {
                member.time = self.floor;
            }
            if member.front {
                self.front = Some(index);
            }
            if member.ready {
                self.ready += 1;
                if member.time < self.least_time {
                    (self.least, self.least_time) = (Some(index), member.time);
                }
            }
        }
    }
}
