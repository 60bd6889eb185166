//! Fixed priority: the most urgent process that has work goes first, those of equal priority side by side, or one at a
//! time.
//!
//! Who becomes ready finds on the device what less urgent processes have there, a kernel or two of each. So while somebody
//! urgent is at work, or may be back soon, those of each lower priority go one at a time, a slice each. The most urgent
//! that are at work go side by side always. Who was urgent may be back as another process, which a service starts for each
//! request: so it is all the same whether it has ended. A process has the priority of its most urgent stream, and competes
//! for slices while its work is as urgent as any of its equals'.
//!
//! A program's own stream priorities lift its streams as far as the process's ceiling, or lower them. At the ceiling they
//! count only while no other process is there: a program must not come before its equals by asking for it, nor fall
//! behind them for having asked.

use std::collections::BTreeMap;

use super::virtual_time::{Claim, Terms, VirtualTime};
use super::{Policy, View, downwards};
use crate::queue::Queue;
use crate::ranks::{Rank, Ranks};
use crate::{Attributes, Nanos, ProcessId};

#[derive(Debug, Default)]
pub(crate) struct FixedPriority {
    time: VirtualTime,
    /// By process.
    claims: Vec<Claim>,
    /// By queue.
    places: Vec<Place>,
    equals: Equals,
    /// How many priorities come before the last one of several processes.
    before_equals: usize,
}

/// Who is equal to whom, and has work.
#[derive(Debug, Default)]
struct Equals {
    /// The most urgent first.
    peers: Vec<Peers>,
    of_processes: Vec<Peer>,
    /// The priority below which equals go one at a time, downwards.
    sliced_below: Option<u16>,
}

/// A process.
#[derive(Debug)]
struct Peer {
    /// Its place among [`Equals::peers`].
    place: usize,
    /// The priority of its most urgent work, downwards.
    work: Option<u16>,
    /// The place of those in whose [`Peers::ready`] it is counted.
    counted_at: Option<usize>,
}

/// Where a queue is among all.
#[derive(Debug)]
struct Place {
    /// Its priority, downwards.
    priority: u16,
    /// Its place among those of its process.
    stream: u64,
    /// No other process has a queue of this priority.
    is_alone: bool,
}

/// The processes of one priority, which may have ended: that of a process is the one of its most urgent queue.
#[derive(Debug)]
struct Peers {
    group: u16,
    processes: usize,
    /// How many processes have work that is as urgent as theirs, or not so much less that others come between.
    ready: usize,
    /// When there was last one less of these.
    worked: Option<Nanos>,
}

impl Policy for FixedPriority {
    fn joined(&mut self) {
        self.time.joined();
    }

    fn left(&mut self, index: usize) {
        self.time.left(index);
    }

    fn follows_work(&self) -> bool {
        self.before_equals > 0
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        if view.altered {
            self.places = places(view);
            self.regroup(view);
        }
        if !self.follows_work() {
            if view.altered {
                self.forget();
                self.rank_queues(view, ranks, |_| true);
            }
            return None;
        }
        let before = self.equals.sliced_below;
        self.equals.find_work(view, &self.places);
        let until = self.equals.slice(view, self.before_equals);
        let again = self.time.elect(view, &self.claims, &self.equals);
        if view.altered || self.equals.sliced_below != before {
            self.rank_queues(view, ranks, |_| true);
        } else if !self.time.moved().is_empty() {
            self.rank_queues(view, ranks, |process| self.time.moved().contains(&process));
        }
        if self.equals.sliced_below.is_none() && !self.equals.is_anybody_before(self.before_equals) {
            // Who was urgent has ended, and is not back in time.
            self.before_equals = 0;
            self.forget();
        }
        again.into_iter().chain(until).min()
    }
}

impl FixedPriority {
    /// Finds out who is equal to whom.
    fn regroup(&mut self, view: &View<'_>) {
        self.claims.clear();
        self.claims.resize(view.processes.len(), Claim { group: u16::MAX, weight: 1 });
        for (queue, place) in view.queues.iter().zip(&self.places) {
            let claim = &mut self.claims[queue.process];
            claim.group = claim.group.min(place.priority);
        }
        self.equals.regroup(&self.claims, view.now, view.settings.one_at_a_time);
        let equals = self.equals.peers.iter().rposition(|peers| peers.processes > 1);
        let one_at_a_time = !view.settings.one_at_a_time.is_zero();
        self.before_equals = equals.filter(|_| one_at_a_time).unwrap_or(0);
    }

    /// Nobody goes one at a time, and what was so far will not matter.
    fn forget(&mut self) {
        self.time.forget();
        self.equals.forget();
    }

    /// Ranks the queues of those processes.
    fn rank_queues(&self, view: &View<'_>, ranks: &mut Ranks, concerns: impl Fn(usize) -> bool) {
        // Who goes one at a time has somebody more urgent before him, or would have if that had not ended.
        let sliced = self.equals.are_first_sliced();
        let queues = view.queues.iter().zip(&self.places).enumerate();
        for (index, (queue, place)) in queues.filter(|(_, (queue, _))| concerns(queue.process)) {
            let process = queue.process;
            let among_equals = match () {
                () if self.equals.is_sliced(process) && !self.time.is_in_front(process) => 1 << 32,
                () if place.is_alone => place.stream,
                () => 0,
            };
            ranks.set(index, Rank { order: u64::from(place.priority) << 33 | among_equals, sliced });
        }
    }
}

impl Equals {
    /// Who has work is to be found anew; that somebody has had work until now stays, for so long also if he has ended.
    fn regroup(&mut self, claims: &[Claim], now: Nanos, kept: Nanos) {
        for peers in &mut self.peers {
            if peers.ready > 0 {
                peers.worked = Some(now);
            }
            (peers.processes, peers.ready) = (0, 0);
        }
        for claim in claims {
            match self.peers.binary_search_by_key(&claim.group, |peers| peers.group) {
                Ok(known) => self.peers[known].processes += 1,
                Err(place) => self.peers.insert(place, Peers::new(claim.group)),
            }
        }
        let is_kept = |peers: &Peers| peers.worked.is_some_and(|worked| worked + kept > now);
        self.peers.retain(|peers| peers.processes > 0 || is_kept(peers));
        let place = |claim: &Claim| self.peers.partition_point(|peers| peers.group < claim.group);
        let peer = |claim: &Claim| Peer { place: place(claim), work: None, counted_at: None };
        self.of_processes = claims.iter().map(peer).collect();
    }

    /// Finds what work those have that have changed.
    fn find_work(&mut self, view: &View<'_>, places: &[Place]) {
        let mut is_any_in_part = false;
        for &index in view.changed {
            let (process, peer) = (&view.processes[index], &mut self.of_processes[index]);
            let has_all = process.ready == process.queues;
            peer.work = has_all.then(|| self.peers[peer.place].group);
            is_any_in_part |= process.ready > 0 && !has_all;
        }
        if is_any_in_part {
            for (queue, place) in view.queues.iter().zip(places).filter(|(queue, _)| queue.ready) {
                let work = &mut self.of_processes[queue.process].work;
                *work = Some(work.map_or(place.priority, |work| work.min(place.priority)));
            }
        }
        for &index in view.changed {
            self.count(index, view.now);
        }
    }

    /// Counts a process where its work is.
    fn count(&mut self, process: usize, now: Nanos) {
        let peer = &mut self.of_processes[process];
        let place = |work: u16| self.peers.partition_point(|peers| peers.group <= work) - 1;
        let before = std::mem::replace(&mut peer.counted_at, peer.work.map(place));
        if before == peer.counted_at {
            return;
        }
        if let Some(place) = peer.counted_at {
            self.peers[place].ready += 1;
        }
        if let Some(before) = before {
            let peers = &mut self.peers[before];
            (peers.ready, peers.worked) = (peers.ready - 1, Some(now));
        }
    }

    /// Finds who goes one at a time: below the most urgent, of so many, that work or have so lately. Returns when that may be
    /// others, if nothing happens before.
    fn slice(&mut self, view: &View<'_>, before_equals: usize) -> Option<Nanos> {
        let expected = |peers: &Peers| {
            let worked = if peers.ready > 0 { view.now } else { peers.worked? };
            Some(worked + view.settings.one_at_a_time).filter(|until| *until > view.now)
        };
        let mut before = self.peers.iter().take(before_equals);
        let first = before.find_map(|peers| Some((peers, expected(peers)?)));
        self.sliced_below = first.map(|(peers, _)| peers.group);
        first.and_then(|(peers, until)| (peers.ready == 0).then_some(until))
    }

    /// Whether there are processes among the most urgent of so many priorities.
    fn is_anybody_before(&self, before_equals: usize) -> bool {
        self.peers.iter().take(before_equals).any(|peers| peers.processes > 0)
    }

    /// Whether the most urgent that there are go one at a time.
    fn are_first_sliced(&self) -> bool {
        let first = self.peers.iter().find(|peers| peers.processes > 0);
        first.is_some_and(|peers| peers.processes > 1 && self.shares(peers.group))
    }

    /// Whether a process and its equals go one at a time.
    fn is_sliced(&self, process: usize) -> bool {
        let peers = &self.peers[self.of_processes[process].place];
        peers.processes > 1 && self.shares(peers.group)
    }

    /// Nobody goes one at a time, and who has worked until now will not matter.
    fn forget(&mut self) {
        self.sliced_below = None;
        for peers in &mut self.peers {
            peers.worked = None;
        }
    }
}

impl Terms for Equals {
    fn urgency(&self, group: u16, members: &[usize]) -> u16 {
        members.iter().filter_map(|member| self.of_processes[*member].work).min().unwrap_or(group)
    }

    fn competes(&self, process: usize, urgency: u16) -> bool {
        self.of_processes[process].work == Some(urgency)
    }

    fn shares(&self, group: u16) -> bool {
        self.sliced_below.is_some_and(|above| group > above)
    }
}

impl Peers {
    /// With its first process.
    fn new(group: u16) -> Self {
        Self { group, processes: 1, ready: 0, worked: None }
    }
}

fn places(view: &View<'_>) -> Vec<Place> {
    // Who is at a priority; `None`: several.
    let mut only: BTreeMap<u16, Option<ProcessId>> = BTreeMap::new();
    for queue in view.queues {
        let process = queue.attributes.process;
        let at = only.entry(downwards(effective(&queue.attributes))).or_insert(Some(process));
        if *at != Some(process) {
            *at = None;
        }
    }
    let place = |queue: &Queue| {
        let priority = downwards(effective(&queue.attributes));
        let is_alone = only.get(&priority).is_some_and(Option::is_some);
        Place { priority, stream: queue.stream_order(), is_alone }
    };
    view.queues.iter().map(place).collect()
}

/// The priority that a queue has with the one that the program asked for, but not above the ceiling.
fn effective(attributes: &Attributes) -> i16 {
    let process = i32::from(attributes.priority);
    let ceiling = i32::from(attributes.ceiling).max(process);
    let wanted = process.saturating_add(attributes.stream_priority).min(ceiling);
    wanted.clamp(Attributes::PRIORITY_MIN.into(), Attributes::PRIORITY_MAX.into()) as i16
}
