//! Fixed priority: the most urgent process that has work goes first, those of equal priority side by side, or one at a
//! time.
//!
//! Who becomes ready finds on the device what less urgent processes have there, a kernel or two of each. So while somebody
//! urgent is at work, or may be back soon, those of each lower priority go one at a time, a slice each. The most urgent
//! that are at work go side by side always. A process has the priority of its most urgent stream, and competes for slices while
//! its work is as urgent as any of its equals'.
//!
//! A program's own stream priorities lift its streams as far as the process's ceiling, or lower them. At the ceiling they
//! count only while no other process is there: a program must not come before its equals by asking for it, nor fall
//! behind them for having asked.

use std::collections::BTreeMap;

use super::virtual_time::{Claim, VirtualTime};
use super::{Policy, View, downwards};
use crate::device::Queue;
use crate::ranks::{Rank, Ranks};
use crate::{Attributes, Nanos, ProcessId};

#[derive(Debug, Default)]
pub(super) struct FixedPriority {
    time: VirtualTime,
    /// By process.
    claims: Vec<Claim>,
    /// By process: the priority of its most urgent work, downwards.
    work: Vec<Option<u16>>,
    /// By queue.
    places: Vec<Place>,
    /// The most urgent first.
    peers: Vec<Peers>,
    /// How many of these come before the last ones that are several.
    before_equals: usize,
    /// The priority below which equals go one at a time, downwards.
    sliced_below: Option<u16>,
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

/// The processes of one priority: that of a process is the one of its most urgent queue.
#[derive(Debug)]
struct Peers {
    group: u16,
    processes: usize,
    ready: bool,
    /// When one of them last had work.
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
        let before = self.sliced_below;
        let until = self.look_who_works(view);
        let sliced_below = self.sliced_below;
        let in_slices = |group| sliced_below.is_some_and(|above| group > above);
        let (changed, again) = self.time.elect(view, &self.claims, |index| self.work[index], in_slices);
        if view.altered || sliced_below != before {
            self.rank_queues(view, ranks, |_| true);
        } else if changed {
            self.rank_queues(view, ranks, |process| self.time.has_moved(process));
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
        for peers in &mut self.peers {
            peers.processes = 0;
        }
        for claim in &self.claims {
            match self.peers.binary_search_by_key(&claim.group, |peers| peers.group) {
                Ok(known) => self.peers[known].processes += 1,
                Err(place) => self
                    .peers
                    .insert(place, Peers { group: claim.group, processes: 1, ready: false, worked: None }),
            }
        }
        self.peers.retain(|peers| peers.processes > 0);
        let equals = self.peers.iter().rposition(|peers| peers.processes > 1);
        let one_at_a_time = !view.settings.one_at_a_time.is_zero();
        self.before_equals = equals.filter(|_| one_at_a_time).unwrap_or(0);
    }

    /// Nobody goes one at a time, and what was used and who worked until now will not matter.
    fn forget(&mut self) {
        self.time.forget();
        self.peers.clear();
        self.sliced_below = None;
    }

    /// Finds the most urgent that work, or have so lately. Returns when that may be others, if nothing happens before.
    fn look_who_works(&mut self, view: &View<'_>) -> Option<Nanos> {
        for peers in self.peers.iter_mut().filter(|peers| peers.ready) {
            // They have had work until now.
            (peers.ready, peers.worked) = (false, Some(view.now));
        }
        self.work.clear();
        self.work.resize(view.processes.len(), None);
        for (queue, place) in view.queues.iter().zip(&self.places).filter(|(queue, _)| queue.ready) {
            let work = &mut self.work[queue.process];
            *work = (*work).into_iter().chain([place.priority]).min();
        }
        for work in self.work.iter().flatten() {
            // Of a lower stream: it is as urgent as those that come just before it.
            let place = self.peers.partition_point(|peers| peers.group <= *work) - 1;
            (self.peers[place].ready, self.peers[place].worked) = (true, Some(view.now));
        }
        let expected = |peers: &Peers| {
            Some(peers.worked? + view.settings.one_at_a_time).filter(|until| *until > view.now)
        };
        let mut before = self.peers.iter().take(self.before_equals);
        let first = before.find_map(|peers| Some((peers, expected(peers)?)));
        self.sliced_below = first.map(|(peers, _)| peers.group);
        first.and_then(|(peers, until)| (!peers.ready).then_some(until))
    }

    /// Ranks the queues of those processes.
    fn rank_queues(&self, view: &View<'_>, ranks: &mut Ranks, concerns: impl Fn(usize) -> bool) {
        let queues = view.queues.iter().zip(&self.places).enumerate();
        for (index, (queue, place)) in queues.filter(|(_, (queue, _))| concerns(queue.process)) {
            let among_equals = match () {
                () if self.is_sliced(queue.process) && !self.time.is_in_front(queue.process) => 1 << 32,
                () if place.is_alone => place.stream,
                () => 0,
            };
            // Somebody more urgent is there where equals go one at a time: they never have the first level.
            ranks.set(index, Rank { order: u64::from(place.priority) << 33 | among_equals, sliced: false });
        }
    }

    /// Whether a process and its equals go one at a time.
    fn is_sliced(&self, process: usize) -> bool {
        let group = self.claims[process].group;
        let is_one_of_several = || {
            let peers = self.peers.binary_search_by_key(&group, |peers| peers.group);
            peers.is_ok_and(|place| self.peers[place].processes > 1)
        };
        self.sliced_below.is_some_and(|above| group > above) && is_one_of_several()
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
