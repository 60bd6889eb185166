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

use super::{Answer, View};
use crate::Nanos;
use crate::device::{Process, Queue};
use crate::level::Rank;

/// What a process may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// Smaller first.
    pub(super) group: u16,
    /// At least 1.
    pub(super) weight: u32,
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
    /// In nanoseconds / [`SCALE`], for a weight of 1.
    time: i128,
    /// What of [`Process::charged`] is in `time`.
    counted: Nanos,
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
    // What follows is found anew each time.
    members: usize,
    ready: usize,
    front: Option<usize>,
    /// Of those that are ready, who has had the least, and how much.
    least: Option<(i128, usize)>,
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

    /// Decides who is in front of each group. `claims` are those of the processes.
    pub(super) fn elect(&mut self, view: &View<'_>, claims: &[Claim]) -> Answer {
        self.catch_up(view.processes, claims);
        let mut answer = Answer { changed: view.altered, again: None };
        for group in &mut self.groups {
            let Some((time, least)) = group.least else { continue };
            group.floor = group.floor.max(time);
            if let Some(front) = group.front {
                let had = view.processes[front].allowed - self.members[front].slice_began;
                if self.members[front].ready && had < view.settings.slice {
                    let counts = group.ready > 1 && view.processes[front].running > 0;
                    answer.wants(counts.then(|| view.now + (view.settings.slice - had)));
                    continue;
                }
                self.members[front].front = false;
            }
            let next = &mut self.members[least];
            next.front = true;
            next.slice_began = view.processes[least].allowed;
            answer.changed |= group.front != Some(least);
            answer.wants((group.ready > 1).then(|| view.now + view.settings.slice));
        }
        answer
    }

    /// The rank of a queue, as was decided.
    pub(super) fn rank(&self, queue: &Queue, claim: Claim) -> Rank {
        let front = self.members[queue.process].front;
        let place = if front { queue.stream_order() } else { 1 << 32 };
        let shared = self.groups.iter().any(|group| group.number == claim.group && group.members > 1);
        Rank { order: u64::from(claim.group) << 33 | place, sliced: shared }
    }

    /// Brings virtual times and groups up to date.
    fn catch_up(&mut self, processes: &[Process], claims: &[Claim]) {
        for group in &mut self.groups {
            *group = Group { floor: group.floor, ..Group::new(group.number) };
        }
        for (index, (member, (process, claim))) in
            self.members.iter_mut().zip(processes.iter().zip(claims)).enumerate()
        {
            let known = self.groups.iter().position(|group| group.number == claim.group);
            let group = known.unwrap_or_else(|| {
                self.groups.push(Group::new(claim.group));
                self.groups.len() - 1
            });
            let group = &mut self.groups[group];
            member.catch_up(process, *claim, group.floor);
            group.add(index, member);
        }
        self.groups.retain(|group| group.members > 0);
    }
}

impl Member {
    fn catch_up(&mut self, process: &Process, claim: Claim, floor: i128) {
        if self.group != Some(claim.group) {
            *self =
                Self { group: Some(claim.group), time: floor, counted: process.charged, ..Self::default() };
        }
        if self.counted != process.charged {
            // A report may have taken back what was assumed.
            let used = process.charged.0.wrapping_sub(self.counted.0) as i64;
            self.time += i128::from(used.saturating_mul(SCALE) / i64::from(claim.weight));
            self.counted = process.charged;
        }
        let ready = process.ready > 0;
        if ready && !self.ready {
            self.time = self.time.max(floor);
        }
        self.ready = ready;
    }
}

impl Group {
    fn new(number: u16) -> Self {
        Self { number, floor: 0, members: 0, ready: 0, front: None, least: None }
    }

    fn add(&mut self, index: usize, member: &Member) {
        self.members += 1;
        if member.front {
            self.front = Some(index);
        }
        if member.ready {
            self.ready += 1;
            let candidate = (member.time, index);
            self.least = Some(self.least.map_or(candidate, |least| least.min(candidate)));
        }
    }
}
