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
use crate::device::{Process, Queue};
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
    /// Whether a process competes with the others of its group.
    fn competes(&self, index: usize, process: &Process) -> bool;

    /// Whether a group shares by time. If not, nobody is in front there, and nothing is kept in mind.
    fn shares(&self, group: u16) -> bool;

    /// How urgent the work of those is that compete in a group, smaller first.
    fn urgency(&self, group: u16) -> u16;
}

/// Each group shares, among all that have work.
struct Always;

impl Terms for Always {
    fn competes(&self, _: usize, process: &Process) -> bool {
        process.ready > 0
    }

    fn shares(&self, _: u16) -> bool {
        true
    }

    fn urgency(&self, group: u16) -> u16 {
        group
    }
}

/// Who is in front, by index of process.
#[derive(Debug, Default)]
pub(super) struct VirtualTime {
    members: Vec<Member>,
    groups: Vec<Group>,
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
    /// It came to the front, or left it, just now.
    moved: bool,
    /// [`Process::allowed`] when its slice began.
    slice_began: Nanos,
}

#[derive(Debug)]
struct Group {
    number: u16,
    /// The least virtual time that anybody begins at.
    floor: i128,
    members: usize,
    // What follows is found anew each time.
    shares: bool,
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
        let (changed, again) = self.elect(view, claims, &Always);
        if changed || view.altered {
            let concerns = |queue: &Queue| view.altered || self.members[queue.process].moved;
            for (index, queue) in view.queues.iter().enumerate().filter(|(_, queue)| concerns(queue)) {
                ranks.set(index, self.rank_of(queue));
            }
        }
        again
    }

    /// Decides who is in front of each group. Returns whether anybody else is now, and when that may be so again.
    pub(super) fn elect(
        &mut self,
        view: &View<'_>,
        claims: &[Claim],
        terms: &impl Terms,
    ) -> (bool, Option<Nanos>) {
        self.catch_up(view, claims, terms);
        let (mut changed, mut again) = (false, None);
        let slice = view.settings.slice;
        // Only where the most urgent work of all is the one in front can be running.
        let with_work = self.groups.iter().filter(|group| group.ready > 0);
        let most_urgent = with_work.map(|group| terms.urgency(group.number)).min();
        for group in &mut self.groups {
            if group.ready > 0 {
                group.floor = group.floor.max(group.least_time);
            }
            if !group.shares {
                changed |= group.front.is_some();
                group.front.inspect(|front| self.members[*front].moves(false));
                continue;
            }
            let Some(least) = group.least else { continue };
            let allowed = |index: usize| view.processes[index].allowed;
            let left = group.front.and_then(|front| self.members[front].slice_left(allowed(front), slice));
            if left.is_none() {
                if group.front != Some(least) {
                    changed = true;
                    group.front.inspect(|front| self.members[*front].moves(false));
                    self.members[least].moves(true);
                }
                self.members[least].slice_began = allowed(least);
            }
            if group.ready > 1 && most_urgent == Some(terms.urgency(group.number)) && !view.turn {
                again = again.into_iter().chain([view.now + left.unwrap_or(slice)]).min();
            }
        }
        (changed, again)
    }

    /// Whether this process is in front of its group, as was decided.
    pub(super) fn is_in_front(&self, process: usize) -> bool {
        self.members[process].front
    }

    /// Whether it came to the front, or left it, when that was decided.
    pub(super) fn has_moved(&self, process: usize) -> bool {
        self.members[process].moved
    }

    /// The rank of a queue, as was decided.
    fn rank_of(&self, queue: &Queue) -> Rank {
        let member = &self.members[queue.process];
        let group = &self.groups[member.place];
        let place = if member.front { queue.stream_order() } else { 1 << 32 };
        Rank { order: u64::from(group.number) << 33 | place, sliced: group.members > 1 }
    }

    /// Brings virtual times and groups up to date.
    fn catch_up(&mut self, view: &View<'_>, claims: &[Claim], terms: &impl Terms) {
        if view.altered {
            self.regroup(claims);
        }
        for group in &mut self.groups {
            (group.ready, group.front, group.least, group.least_time) = (0, None, None, i128::MAX);
            group.shares = terms.shares(group.number);
        }
        for (index, (member, (process, claim))) in
            self.members.iter_mut().zip(view.processes.iter().zip(claims)).enumerate()
        {
            let group = &mut self.groups[member.place];
            member.catch_up(process, *claim, terms.competes(index, process), group.floor);
            if !group.shares {
                member.time = group.floor;
            }
            group.add(index, member);
        }
    }

    /// Finds the members of each group.
    fn regroup(&mut self, claims: &[Claim]) {
        for group in &mut self.groups {
            group.members = 0;
        }
        for claim in claims {
            match self.groups.iter_mut().find(|group| group.number == claim.group) {
                Some(group) => group.members += 1,
                None => self.groups.push(Group::new(claim.group)),
            }
        }
        self.groups.retain(|group| group.members > 0);
        for (member, claim) in self.members.iter_mut().zip(claims) {
            let place = self.groups.iter().position(|group| group.number == claim.group);
            member.place = place.expect("each claim's group has just been put there");
        }
    }
}

impl Member {
    fn catch_up(&mut self, process: &Process, claim: Claim, ready: bool, floor: i128) {
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
        self.moved = false;
        if ready && !self.ready {
            self.time = self.time.max(floor);
        }
        self.ready = ready;
    }

    fn moves(&mut self, front: bool) {
        self.front = front;
        self.moved = true;
    }

    /// What it has left of its slice in front, if it can use it. `allowed` is what its process was allowed by now.
    fn slice_left(&self, allowed: Nanos, slice: Nanos) -> Option<Nanos> {
        let left = slice - (allowed - self.slice_began);
        (self.ready && !left.is_zero()).then_some(left)
    }
}

impl Group {
    /// With its first member.
    fn new(number: u16) -> Self {
        Self {
            number,
            floor: 0,
            members: 1,
            shares: true,
            ready: 0,
            front: None,
            least: None,
            least_time: i128::MAX,
        }
    }

    fn add(&mut self, index: usize, member: &Member) {
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
