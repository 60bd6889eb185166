//! The order of processes in policies that put some of them before those that share the device.
//!
//! ```text
//!   rank   0    the most urgent process, or several side by side; its claims in the order of its streams
//!          1    the next one, so that it goes on at once when those before it have no more work
//!          2    other urgent ones
//!          3..  processes that are not urgent: they share, see `virtual_time`
//!          last processes that have to stand behind these for now: they share as well
//! ```

use std::cmp::Ordering;

use super::virtual_time::{Share, Terms, VirtualTime};
use super::{View, downwards};
use crate::claim::Claim;
use crate::commands::SliceFor;
use crate::ranks::{Rank, Ranks};
use crate::{Attributes, Nanos};

/// Where a process is to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Before those that share, the smallest key first.
    Urgent(u64),
    /// Among those that share; also without work.
    Sharing,
    /// Behind those that share.
    Behind,
}

/// Where an urgent process stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    Front,
    Next,
    Waiting,
    /// Not among the urgent ones.
    #[default]
    Below,
}

/// The order of the processes of a device.
#[derive(Debug, Default)]
pub(super) struct Order {
    time: VirtualTime,
    shares: Vec<Share>,
    standings: Vec<Standing>,
    places: Vec<Place>,
    /// Processes that stand elsewhere than at the last call.
    moved: Vec<bool>,
    /// Keys and indices of urgent processes. The first of them, as many as may be in front, are the most urgent.
    urgent: Vec<(u64, usize)>,
    side_by_side: usize,
}

/// Groups of processes that share: those of the highest priority, and those that stand behind all others.
const FIRST_GROUP: u16 = Place::Below as u16;
const LAST_GROUP: u16 = FIRST_GROUP + 2 * Attributes::PRIORITY_MAX as u16 + 1;

/// Which processes share at present.
struct Sharing<'a> {
    standings: &'a [Standing],
    view: &'a View<'a>,
}

impl Terms for Sharing<'_> {
    fn urgency(&self, group: u16, _: &[usize]) -> u16 {
        group
    }

    fn competes(&self, process: usize, _: u16) -> bool {
        self.view.processes[process].ready > 0 && !matches!(self.standings[process], Standing::Urgent(_))
    }

    fn slice_for(&self) -> SliceFor {
        SliceFor::Equals
    }

    fn is_shared(&self, _: u16) -> bool {
        true
    }
}

impl Order {
    pub(super) fn joined(&mut self) {
        self.time.joined();
        self.standings.push(Standing::Sharing);
        self.places.push(Place::Below);
    }

    pub(super) fn left(&mut self, index: usize) {
        self.time.left(index);
        self.standings.swap_remove(index);
        self.places.swap_remove(index);
    }

    /// Says where a process is to stand.
    pub(super) fn set_standing(&mut self, process: usize, standing: Standing) {
        let before = std::mem::replace(&mut self.standings[process], standing);
        if matches!(before, Standing::Urgent(_)) != matches!(standing, Standing::Urgent(_)) {
            self.time.recount(process);
        }
    }

    /// Whether a process is one of the most urgent since the last call of [`Self::rank`].
    pub(super) fn is_in_front(&self, process: usize) -> bool {
        self.places[process] == Place::Front
    }

    /// The most urgent processes since the last call of [`Self::rank`].
    pub(super) fn in_front(&self) -> impl Iterator<Item = usize> {
        self.urgent.iter().take(self.side_by_side).map(|(_, process)| *process)
    }

    /// The difference between the keys of the most urgent process and of the next one, if one process at a time is in front.
    pub(super) fn lead(&self) -> Option<u64> {
        let [(first, _), (next, _), ..] = self.urgent[..] else { return None };
        Some(next - first)
    }

    /// Ranks all claims by the standings. Up to `side_by_side` urgent processes are in front. `may_be_urgent` says which
    /// processes ever are urgent: they share only with each other. Returns when to call it again for those that share.
    pub(super) fn rank(
        &mut self,
        view: &View<'_>,
        side_by_side: usize,
        may_be_urgent: impl Fn(&Attributes) -> bool,
        ranks: &mut Ranks,
    ) -> Option<Nanos> {
        if view.altered {
            self.find_shares(view, may_be_urgent);
        }
        self.find_places(view, side_by_side);
        let again = self.time.elect(view, &self.shares, &Sharing { standings: &self.standings, view });
        self.time.moved().iter().for_each(|process| self.moved[*process] = true);
        for (index, claim) in view.claims.iter().enumerate() {
            if view.altered || self.moved[claim.process] {
                ranks.set(index, self.rank_of(claim, side_by_side));
            }
        }
        let is_one_urgent = self.places.contains(&Place::Front);
        again.filter(|_| !is_one_urgent)
    }

    /// Priorities and weights are those of the policy `fair`.
    fn find_shares(&mut self, view: &View<'_>, may_be_urgent: impl Fn(&Attributes) -> bool) {
        self.shares.clear();
        self.shares.resize(view.processes.len(), Share { group: LAST_GROUP, weight: 1 });
        for claim in view.claims {
            let share = &mut self.shares[claim.process];
            share.weight = share.weight.max(claim.attributes.weight);
            if !may_be_urgent(&claim.attributes) {
                share.group = share.group.min(FIRST_GROUP + downwards(claim.attributes.priority));
            }
        }
        // One such claim is enough.
        for claim in view.claims.iter().filter(|claim| may_be_urgent(&claim.attributes)) {
            self.shares[claim.process].group = LAST_GROUP;
        }
    }

    /// Finds where processes stand, and which of them stand elsewhere than before.
    fn find_places(&mut self, view: &View<'_>, side_by_side: usize) {
        self.side_by_side = side_by_side;
        self.urgent.clear();
        self.moved.clear();
        self.moved.resize(self.places.len(), false);
        for (index, (standing, process)) in self.standings.iter().zip(view.processes).enumerate() {
            if let (Standing::Urgent(key), true) = (standing, process.ready > 0) {
                self.urgent.push((*key, index));
            }
        }
        let Self { urgent, places, moved, .. } = self;
        // Those in front and the next one come to lie first. They are few: to sort all takes longer.
        for position in 0..urgent.len().min(side_by_side + 1) {
            let rest = (position..urgent.len()).min_by_key(|other| urgent[*other]).unwrap_or(position);
            urgent.swap(position, rest);
        }
        let mut left = places.iter().filter(|place| **place != Place::Below).count();
        for (position, (_, index)) in urgent.iter().enumerate() {
            let place = match position.cmp(&side_by_side) {
                Ordering::Less => Place::Front,
                Ordering::Equal => Place::Next,
                Ordering::Greater => Place::Waiting,
            };
            let before = std::mem::replace(&mut places[*index], place);
            left -= usize::from(before != Place::Below);
            moved[*index] = before != place;
        }
        if left == 0 {
            return;
        }
        for (index, place) in places.iter_mut().enumerate() {
            let is_urgent =
                matches!(self.standings[index], Standing::Urgent(_)) && view.processes[index].ready > 0;
            if *place != Place::Below && !is_urgent {
                (*place, moved[index]) = (Place::Below, true);
            }
        }
    }

    fn rank_of(&self, claim: &Claim, side_by_side: usize) -> Rank {
        let place = self.places[claim.process];
        let among = match place {
            Place::Below => return Rank { sliced: true, ..self.time.rank_of(claim) },
            Place::Front if side_by_side == 1 => claim.stream_order(),
            Place::Front | Place::Next | Place::Waiting => 0,
        };
        Rank { order: (place as u64) << 33 | among, sliced: true }
    }
}
