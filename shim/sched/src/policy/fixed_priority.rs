//! Fixed priority: the most urgent process that has work goes first. Processes of equal priority run side by side, or one at a time.
//!
//! When a claim becomes ready, it finds kernels of less urgent processes on the device, one or two of each. So while urgent work
//! is there, or may soon be back, the processes of each lower priority go one at a time, a slice each. The most urgent processes
//! with work always run side by side. Urgent work may come back in another process, since some services start a process for each
//! request. So the end of an urgent process does not matter. A process has the priority of its most urgent stream. It competes
//! for slices while its work is as urgent as that of any of its equals.
//!
//! A program's own stream priorities raise its streams up to the process's ceiling, or lower them. At the ceiling they count only
//! while no other process is there: a request for a stream priority must not change a program's order among its equals.

use std::collections::BTreeMap;

use super::virtual_time::{Share, Terms, VirtualTime};
use super::{Policy, View, downwards};
use crate::claim::Claim;
use crate::commands::SliceFor;
use crate::ranks::{Rank, Ranks};
use crate::{Attributes, Nanos, ProcessId};

#[derive(Debug, Default)]
pub(crate) struct FixedPriority {
    time: VirtualTime,
    /// By process.
    shares: Vec<Share>,
    /// By claim.
    keys: Vec<SortKey>,
    equals: Equals,
    /// How many priorities come before the last one that several processes have.
    before_equals: usize,
}

/// Which processes are equals, and which of them have work.
#[derive(Debug, Default)]
struct Equals {
    /// The most urgent first.
    peers: Vec<Peers>,
    of_processes: Vec<Peer>,
    /// The priority below which equals go one at a time, downwards.
    sliced_below: Option<u16>,
}

/// A process among its equals.
#[derive(Debug)]
struct Peer {
    /// Its index in [`Equals::peers`].
    peers: usize,
    /// The priority of its most urgent work, downwards.
    work: Option<u16>,
    /// The index of the element in whose [`Peers::ready`] it is counted.
    counted_at: Option<usize>,
}

/// By what a claim is ordered.
#[derive(Debug)]
struct SortKey {
    /// Its priority, downwards.
    priority: u16,
    /// Its position among those of its process.
    stream: u64,
    /// No other process has a claim of this priority.
    is_alone: bool,
}

/// The processes of one priority, including some that have ended: the priority of a process is that of its most urgent claim.
#[derive(Debug)]
struct Peers {
    group: u16,
    processes: usize,
    /// How many processes have work of this priority, or of a lower one if no other priority lies between.
    ready: usize,
    /// When this number last decreased.
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
            self.keys = sort_keys(view);
            self.regroup(view);
        }
        if !self.follows_work() {
            if view.altered {
                self.forget();
                self.rank_claims(view, ranks, |_| true);
            }
            return None;
        }
        let before = self.equals.sliced_below;
        self.equals.find_work(view, &self.keys);
        let until = self.equals.slice(view, self.before_equals);
        let again = self.time.elect(view, &self.shares, &self.equals);
        if view.altered || self.equals.sliced_below != before {
            self.rank_claims(view, ranks, |_| true);
        } else if !self.time.moved().is_empty() {
            self.rank_claims(view, ranks, |process| self.time.moved().contains(&process));
        }
        if self.equals.sliced_below.is_none() && !self.equals.has_urgent_processes(self.before_equals) {
            // The urgent process has ended, and no other came in time.
            self.before_equals = 0;
            self.forget();
        }
        again.into_iter().chain(until).min()
    }
}

impl FixedPriority {
    /// Finds out which processes are equals.
    fn regroup(&mut self, view: &View<'_>) {
        self.shares.clear();
        self.shares.resize(view.processes.len(), Share { group: u16::MAX, weight: 1 });
        for (claim, key) in view.claims.iter().zip(&self.keys) {
            let share = &mut self.shares[claim.process];
            share.group = share.group.min(key.priority);
        }
        self.equals.regroup(&self.shares, view.now, view.settings.serialize_equals);
        let equals = self.equals.peers.iter().rposition(|peers| peers.processes > 1);
        let serialize_equals = !view.settings.serialize_equals.is_zero();
        self.before_equals = equals.filter(|_| serialize_equals).unwrap_or(0);
    }

    /// No process goes one at a time; what happened so far will not matter.
    fn forget(&mut self) {
        self.time.forget();
        self.equals.forget();
    }

    /// Ranks the claims of these processes.
    fn rank_claims(&self, view: &View<'_>, ranks: &mut Ranks, concerns: impl Fn(usize) -> bool) {
        // Processes that go one at a time have more urgent ones before them, or had until these ended.
        let sliced = self.equals.are_first_sliced();
        let claims = view.claims.iter().zip(&self.keys).enumerate();
        for (index, (claim, key)) in claims.filter(|(_, (claim, _))| concerns(claim.process)) {
            let process = claim.process;
            let among_equals = match () {
                () if self.equals.is_sliced(process) && !self.time.is_in_front(process) => 1 << 32,
                () if key.is_alone => key.stream,
                () => 0,
            };
            ranks.set(index, Rank { order: u64::from(key.priority) << 33 | among_equals, sliced });
        }
    }
}

impl Equals {
    /// Rebuilds the groups of equals. When a group last had work is kept for a while, even if its process has ended.
    fn regroup(&mut self, shares: &[Share], now: Nanos, kept: Nanos) {
        for peers in &mut self.peers {
            if peers.ready > 0 {
                peers.worked = Some(now);
            }
            (peers.processes, peers.ready) = (0, 0);
        }
        for share in shares {
            match self.peers.binary_search_by_key(&share.group, |peers| peers.group) {
                Ok(known) => self.peers[known].processes += 1,
                Err(position) => self.peers.insert(position, Peers::new(share.group)),
            }
        }
        let is_kept = |peers: &Peers| peers.worked.is_some_and(|worked| worked + kept > now);
        self.peers.retain(|peers| peers.processes > 0 || is_kept(peers));
        let find = |share: &Share| self.peers.partition_point(|peers| peers.group < share.group);
        let peer = |share: &Share| Peer { peers: find(share), work: None, counted_at: None };
        self.of_processes = shares.iter().map(peer).collect();
    }

    /// Finds the work of processes that have changed.
    fn find_work(&mut self, view: &View<'_>, keys: &[SortKey]) {
        let mut is_any_in_part = false;
        for &index in view.changed {
            let (process, peer) = (&view.processes[index], &mut self.of_processes[index]);
            let has_all = process.ready == process.claims;
            peer.work = has_all.then(|| self.peers[peer.peers].group);
            is_any_in_part |= process.ready > 0 && !has_all;
        }
        if is_any_in_part {
            for (claim, key) in view.claims.iter().zip(keys).filter(|(claim, _)| claim.ready) {
                let work = &mut self.of_processes[claim.process].work;
                *work = Some(work.map_or(key.priority, |work| work.min(key.priority)));
            }
        }
        for &index in view.changed {
            self.count(index, view.now);
        }
    }

    /// Counts a process where its work is.
    fn count(&mut self, process: usize, now: Nanos) {
        let peer = &mut self.of_processes[process];
        let find = |work: u16| self.peers.partition_point(|peers| peers.group <= work) - 1;
        let before = std::mem::replace(&mut peer.counted_at, peer.work.map(find));
        if before == peer.counted_at {
            return;
        }
        if let Some(index) = peer.counted_at {
            self.peers[index].ready += 1;
        }
        if let Some(before) = before {
            let peers = &mut self.peers[before];
            (peers.ready, peers.worked) = (peers.ready - 1, Some(now));
        }
    }

    /// Finds the priority below which processes go one at a time: the most urgent of the first `before_equals` with recent work.
    /// Returns when that may change, if no change comes before.
    fn slice(&mut self, view: &View<'_>, before_equals: usize) -> Option<Nanos> {
        let expected = |peers: &Peers| {
            let worked = if peers.ready > 0 { view.now } else { peers.worked? };
            Some(worked + view.settings.serialize_equals).filter(|until| *until > view.now)
        };
        let mut before = self.peers.iter().take(before_equals);
        let first = before.find_map(|peers| Some((peers, expected(peers)?)));
        self.sliced_below = first.map(|(peers, _)| peers.group);
        first.and_then(|(peers, until)| (peers.ready == 0).then_some(until))
    }

    /// Whether any of the first `before_equals` priorities has processes.
    fn has_urgent_processes(&self, before_equals: usize) -> bool {
        self.peers.iter().take(before_equals).any(|peers| peers.processes > 0)
    }

    /// Whether the most urgent processes that exist go one at a time.
    fn are_first_sliced(&self) -> bool {
        let first = self.peers.iter().find(|peers| peers.processes > 0);
        first.is_some_and(|peers| peers.processes > 1 && self.is_shared(peers.group))
    }

    /// Whether a process and its equals go one at a time.
    fn is_sliced(&self, process: usize) -> bool {
        let peers = &self.peers[self.of_processes[process].peers];
        peers.processes > 1 && self.is_shared(peers.group)
    }

    /// No process goes one at a time, and past work will not matter.
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

    fn slice_for(&self) -> SliceFor {
        SliceFor::Equals
    }

    fn is_shared(&self, group: u16) -> bool {
        self.sliced_below.is_some_and(|above| group > above)
    }
}

impl Peers {
    /// With its first process.
    fn new(group: u16) -> Self {
        Self { group, processes: 1, ready: 0, worked: None }
    }
}

fn sort_keys(view: &View<'_>) -> Vec<SortKey> {
    // The only process at a priority; `None`: there are several.
    let mut only: BTreeMap<u16, Option<ProcessId>> = BTreeMap::new();
    for claim in view.claims {
        let process = claim.attributes.process;
        let at = only.entry(downwards(effective(&claim.attributes))).or_insert(Some(process));
        if *at != Some(process) {
            *at = None;
        }
    }
    let key = |claim: &Claim| {
        let priority = downwards(effective(&claim.attributes));
        let is_alone = only.get(&priority).is_some_and(Option::is_some);
        SortKey { priority, stream: claim.stream_order(), is_alone }
    };
    view.claims.iter().map(key).collect()
}

/// The priority of a claim: its process's, changed by the stream priority, but not above the ceiling.
fn effective(attributes: &Attributes) -> i16 {
    let process = i32::from(attributes.priority);
    let ceiling = i32::from(attributes.ceiling).max(process);
    let wanted = process.saturating_add(attributes.stream_priority).min(ceiling);
    wanted.clamp(Attributes::PRIORITY_MIN.into(), Attributes::PRIORITY_MAX.into()) as i16
}
