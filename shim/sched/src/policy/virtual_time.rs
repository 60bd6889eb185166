//! Sharing a device by time: each process in front for a slice, whoever has had the least for its weight next.
//!
//! ```text
//!   level   n     the process in front, its queues in the order of its streams
//!           n+1   all others: they run when the one in front has nothing to do, side by side, until another is in front
//! ```
//!
//! A process's *virtual time* is the device time that it is charged for, divided by its weight. The one with the
//! least goes next. Who becomes ready, or is new, begins at the least virtual time of those that are ready: being idle
//! earns nothing, and being new neither.
//!
//! Processes of different groups do not share: a group goes before all later ones.

use super::View;
use crate::Nanos;
use crate::queue::{Process, Queue};
use crate::ranks::{Rank, Ranks};

/// What a process may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// Smaller first.
    pub(super) group: u16,
    /// At least 1.
    pub(super) weight: u32,
}

/// Among whom time is shared at present.
pub(super) trait Terms {
    /// How urgent the work of those is that compete in a group, smaller first. `members` are the group's processes.
    fn urgency(&self, group: u16, members: &[usize]) -> u16;

    /// Whether a process competes with the others of its group, whose urgency this is.
    fn competes(&self, process: usize, urgency: u16) -> bool;

    /// Whether a group shares by time. If not, nobody is in front there, and nothing is kept in mind.
    fn shares(&self, group: u16) -> bool;
}

/// Each group shares, among all that have work.
struct Always<'a>(&'a [Process]);

impl Terms for Always<'_> {
    fn urgency(&self, group: u16, _: &[usize]) -> u16 {
        group
    }

    fn competes(&self, process: usize, _: u16) -> bool {
        self.0[process].ready > 0
    }

    fn shares(&self, _: u16) -> bool {
        true
    }
}

/// Who is in front, by index of process.
#[derive(Debug, Default)]
pub(super) struct VirtualTime {
    members: Vec<Member>,
    groups: Vec<Group>,
    /// Who came to the front, or left it, at the last election.
    moved: Vec<usize>,
}

#[derive(Debug, Default)]
struct Member {
    /// `None`: it is new.
    group: Option<u16>,
    /// The index of that, until processes come or go.
    place: usize,
    /// In nanoseconds / [`SCALE`], for a weight of 1.
    time: i128,
    /// What of [`Process::charged`] is in `time`.
    counted: Nanos,
    /// It competes.
    ready: bool,
    front: bool,
    /// [`Process::allowed`] when its slice began.
    slice_began: Nanos,
}

#[derive(Debug)]
struct Group {
    number: u16,
    /// The least virtual time that anybody begins at.
    floor: i128,
    /// Their indices, in order.
    members: Vec<usize>,
    shares: bool,
    /// What follows holds: no member has changed since it was found.
    is_known: bool,
    /// Of the work of those that compete, and how many these are.
    urgency: u16,
    ready: usize,
    front: Option<usize>,
    /// Of those that are ready, who has had the least: its virtual time and index.
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

    /// Everybody is new again.
    pub(super) fn forget(&mut self) {
        self.members.fill_with(Member::default);
        self.groups.clear();
    }

    /// Ranks all queues. `claims` are those of the processes. Returns when to be asked again.
    pub(super) fn rank(&mut self, view: &View<'_>, claims: &[Claim], ranks: &mut Ranks) -> Option<Nanos> {
        let again = self.elect(view, claims, &Always(view.processes));
        if view.altered || !self.moved.is_empty() {
            let concerns = |queue: &Queue| view.altered || self.moved.contains(&queue.process);
            for (index, queue) in view.queues.iter().enumerate().filter(|(_, queue)| concerns(queue)) {
                ranks.set(index, self.rank_of(queue));
            }
        }
        again
    }

    /// Decides who is in front of each group. Returns when that may be somebody else, if nothing happens before.
    pub(super) fn elect(&mut self, view: &View<'_>, claims: &[Claim], terms: &impl Terms) -> Option<Nanos> {
        self.catch_up(view, claims, terms);
        self.moved.clear();
        let mut again = None;
        let slice = view.settings.slice;
        // Only where the most urgent work of all is the one in front can be running.
        let with_work = self.groups.iter().filter(|group| group.ready > 0);
        let most_urgent = with_work.map(|group| group.urgency).min();
        for group in &mut self.groups {
            if group.ready > 0 {
                group.floor = group.floor.max(group.least_time);
            }
            if !group.shares {
                group.set_front(None, &mut self.members, &mut self.moved);
                continue;
            }
            let Some(least) = group.least else { continue };
            let allowed = |index: usize| view.processes[index].allowed;
            let left = group.front.and_then(|front| self.members[front].slice_left(allowed(front), slice));
            if left.is_none() {
                if group.front != Some(least) {
                    group.set_front(Some(least), &mut self.members, &mut self.moved);
                }
                self.members[least].slice_began = allowed(least);
            }
            if group.ready > 1 && most_urgent == Some(group.urgency) && !view.turn {
                again = again.into_iter().chain([view.now + left.unwrap_or(slice)]).min();
            }
        }
        again
    }

    /// Whether this process is in front of its group, as was decided.
    pub(super) fn is_in_front(&self, process: usize) -> bool {
        self.members[process].front
    }

    /// Who came to the front, or left it, when that was decided.
    pub(super) fn moved(&self) -> &[usize] {
        &self.moved
    }

    /// The rank of a queue, as was decided.
    fn rank_of(&self, queue: &Queue) -> Rank {
        let member = &self.members[queue.process];
        let group = &self.groups[member.place];
        let place = if member.front { queue.stream_order() } else { 1 << 32 };
        Rank { order: u64::from(group.number) << 33 | place, sliced: group.members.len() > 1 }
    }

    /// Brings virtual times and groups up to date.
    fn catch_up(&mut self, view: &View<'_>, claims: &[Claim], terms: &impl Terms) {
        if view.altered {
            self.regroup(claims);
        }
        for &process in view.changed {
            let member = &mut self.members[process];
            let group = &mut self.groups[member.place];
            member.catch_up(&view.processes[process], claims[process], group.floor);
            group.is_known = false;
        }
        let is_counted = |(member, process): (&Member, &Process)| member.counted == process.charged;
        debug_assert!(self.members.iter().zip(view.processes).all(is_counted), "a change is missed");
        for group in &mut self.groups {
            let shares = terms.shares(group.number);
            if !group.is_known || group.shares != shares {
                group.shares = shares;
                group.find_least(&mut self.members, terms);
            }
        }
    }

    /// Finds the members of each group.
    fn regroup(&mut self, claims: &[Claim]) {
        for group in &mut self.groups {
            group.members.clear();
        }
        for (index, claim) in claims.iter().enumerate() {
            match self.groups.iter_mut().find(|group| group.number == claim.group) {
                Some(group) => group.members.push(index),
                None => self.groups.push(Group::new(claim.group, index)),
            }
        }
        self.groups.retain(|group| !group.members.is_empty());
        for (place, group) in self.groups.iter().enumerate() {
            for &member in &group.members {
                self.members[member].place = place;
            }
        }
    }
}

impl Member {
    fn catch_up(&mut self, process: &Process, claim: Claim, floor: i128) {
        if self.group != Some(claim.group) {
            *self = Self {
                group: Some(claim.group),
                place: self.place,
                time: floor,
                counted: process.charged,
                ..Self::default()
            };
        }
        if self.counted != process.charged {
            // A report may have taken back what was assumed.
            let used = process.charged.0.wrapping_sub(self.counted.0) as i64;
            self.time += i128::from(used.saturating_mul(SCALE) / i64::from(claim.weight));
            self.counted = process.charged;
        }
    }

    /// What it has left of its slice in front, if it can use it. `allowed` is what its process was allowed by now.
    fn slice_left(&self, allowed: Nanos, slice: Nanos) -> Option<Nanos> {
        let left = slice - (allowed - self.slice_began);
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
            shares: true,
            is_known: false,
            urgency: number,
            ready: 0,
            front: None,
            least: None,
            least_time: i128::MAX,
        }
    }

    /// From now on this one is in front, or nobody.
    fn set_front(&mut self, front: Option<usize>, members: &mut [Member], moved: &mut Vec<usize>) {
        for (index, is_in_front) in [(self.front, false), (front, true)] {
            let Some(index) = index else { continue };
            members[index].front = is_in_front;
            moved.push(index);
        }
        self.front = front;
    }

    /// Finds who competes, and who of them has had the least.
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
            if !self.shares {
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
