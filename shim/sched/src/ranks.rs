//! The ranks of a device's claims, and the levels that follow from them.
//!
//! Which levels exist depends on which distinct ranks exist. That seldom changes: when one process replaces another in front, both
//! ranks exist before and after, and only two claims move. So the distinct ranks are counted, and a claim's level is computed again
//! only if its own rank or the list of distinct ranks has changed.
//!
//! If there are more ranks than levels, neighbouring ranks share a level, the nearest ones first. So a process with many ranks, say
//! by its streams' priorities, does not bring other processes together whose ranks are far apart.

use crate::Level;

/// The rank of a claim in its policy: smaller is more urgent, equal ranks run side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// The order of claims in this policy.
    pub(crate) order: u64,
    /// Other claims will replace it after a slice, however urgent it is now.
    pub(crate) sliced: bool,
}

/// The ranks of all claims of a device, by their index.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    of_claims: Vec<Rank>,
    /// The distinct ranks, the most urgent first, and how many claims have each. A count of zero is removed with the next look at
    /// levels.
    distinct: Vec<(Rank, usize)>,
    /// Claims whose rank has changed since the last look at levels; all of them if the list has changed.
    moved: Vec<usize>,
    all_moved: bool,
    /// The levels of the distinct ranks, if there are too many for one level each.
    shared: Vec<Level>,
}

impl Ranks {
    /// Starts over with this many claims, which all have to be ranked.
    pub(crate) fn reset(&mut self, claims: usize) {
        self.of_claims.clear();
        self.of_claims.resize(claims, Rank::default());
        self.distinct.clear();
        self.distinct.push((Rank::default(), claims));
        self.all_moved = true;
    }

    /// Sets a claim's rank.
    pub(crate) fn set(&mut self, index: usize, rank: Rank) {
        let before = std::mem::replace(&mut self.of_claims[index], rank);
        if before == rank {
            return;
        }
        if let Ok(found) = self.find(before) {
            self.distinct[found].1 -= 1;
        }
        match self.find(rank) {
            Ok(found) => self.distinct[found].1 += 1,
            Err(position) => {
                self.distinct.insert(position, (rank, 1));
                self.all_moved = true;
            }
        }
        self.moved.push(index);
    }

    /// The claims whose level may have changed since the last call, with their levels; with `all`, every claim.
    pub(crate) fn moved(&mut self, all: bool) -> impl Iterator<Item = (usize, Level)> {
        let before = self.distinct.len();
        self.distinct.retain(|(_, claims)| *claims > 0);
        let all = all || self.all_moved || self.distinct.len() != before;
        self.all_moved = false;
        if all {
            self.moved.clear();
            self.moved.extend(0..self.of_claims.len());
            self.shared = shared_levels(&self.distinct);
        }
        let Self { of_claims, distinct, moved, shared, .. } = self;
        moved.drain(..).map(|index| (index, level(distinct, shared, of_claims[index])))
    }

    fn find(&self, rank: Rank) -> Result<usize, usize> {
        self.distinct.binary_search_by(|(other, _)| other.cmp(&rank))
    }
}

/// The level of a rank.
fn level(distinct: &[(Rank, usize)], shared: &[Level], rank: Rank) -> Level {
    let position = distinct.partition_point(|(other, _)| *other < rank);
    shared.get(position).copied().unwrap_or_else(|| Level::new(first_level(distinct) + position as u64))
}

fn first_level(distinct: &[(Rank, usize)]) -> u64 {
    if distinct.first().is_some_and(|(rank, _)| rank.sliced) { 2 } else { Level::UNLIMITED.number() }
}

/// The levels of ranks if there are more ranks than levels; empty if there are enough levels. Levels are divided at the widest gaps
/// between ranks; among equal gaps, at the more urgent ones.
fn shared_levels(distinct: &[(Rank, usize)]) -> Vec<Level> {
    let first = first_level(distinct);
    let count = Level::COUNT - first as usize;
    if distinct.len() <= count {
        return Vec::new();
    }
    let mut gaps: Vec<_> = distinct
        .array_windows()
        .enumerate()
        .map(|(index, [(one, _), (next, _)])| (next.order - one.order, index))
        .collect();
    gaps.sort_by_key(|&(gap, index)| (std::cmp::Reverse(gap), index));
    let mut ends: Vec<_> = gaps.iter().take(count - 1).map(|&(_, index)| index).collect();
    ends.sort_unstable();
    (0..distinct.len())
        .map(|index| Level::new(first + ends.partition_point(|&end| end < index) as u64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(order: u64, sliced: bool) -> Rank {
        Rank { order, sliced }
    }

    /// The levels of claims that may have moved.
    fn levels(ranks: &mut Ranks) -> Vec<(usize, u64)> {
        ranks.moved(false).map(|(index, level)| (index, level.number())).collect()
    }

    fn of(all: &[Rank]) -> Ranks {
        let mut ranks = Ranks::default();
        ranks.reset(all.len());
        for (index, rank) in all.iter().enumerate() {
            ranks.set(index, *rank);
        }
        ranks
    }

    #[test]
    fn ranks_become_levels_without_gaps() {
        let mut ranks = of(&[rank(700, false), rank(3, false), rank(700, false), rank(90, false)]);
        assert_eq!(levels(&mut ranks), [(0, 3), (1, 1), (2, 3), (3, 2)]);
    }

    #[test]
    fn a_claim_in_front_for_a_slice_has_a_limited_level() {
        let mut ranks = of(&[rank(3, true), rank(4, false)]);
        assert_eq!(levels(&mut ranks), [(0, 2), (1, 3)]);
        assert!(Level::new(2).is_limited());
        assert!(!Level::UNLIMITED.is_limited() && Level::STARVED.is_limited());
    }

    #[test]
    fn the_least_urgent_share_the_last_level() {
        let all: Vec<_> = (0..100).map(|order| rank(order, false)).collect();
        let levels = levels(&mut of(&all));
        assert_eq!(levels[61].1, 62);
        assert_eq!(levels[62].1, Level::LAST.number());
        assert_eq!(levels[99].1, Level::LAST.number());
    }

    #[test]
    fn ranks_that_are_far_apart_do_not_share_a_level() {
        let many = (0..200).map(|number| rank(5_000 + number, false));
        let few = [10, 4_000, 9_000, 9_100].map(|order| rank(order, false));
        let levels = levels(&mut of(&few.into_iter().chain(many).collect::<Vec<_>>()));
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|index| levels[index].1);
        assert_eq!((first, second, third, fourth), (1, 2, 62, 63));
        assert!(levels[4..].iter().all(|(_, level)| (3..=61).contains(level)), "{levels:?}");
        assert!(levels[4..].is_sorted_by_key(|(_, level)| *level), "{levels:?}");
    }

    #[test]
    fn only_claims_that_swap_ranks_are_looked_at() {
        let mut ranks = of(&[rank(0, true), rank(1, true), rank(1, true), rank(1, true)]);
        assert_eq!(levels(&mut ranks).len(), 4);
        ranks.set(0, rank(1, true));
        ranks.set(2, rank(0, true));
        assert_eq!(levels(&mut ranks), [(0, 3), (2, 2)]);
        assert_eq!(levels(&mut ranks), []);
    }

    #[test]
    fn all_claims_are_looked_at_when_a_rank_comes_or_goes() {
        let mut ranks = of(&[rank(1, false), rank(1, false), rank(5, false)]);
        levels(&mut ranks);
        ranks.set(0, rank(0, false));
        assert_eq!(levels(&mut ranks), [(0, 1), (1, 2), (2, 3)]);
        ranks.set(0, rank(1, false));
        assert_eq!(levels(&mut ranks), [(0, 1), (1, 1), (2, 2)]);
    }

    /// After any changes, levels are those of the present ranks.
    #[test]
    fn remembered_levels_equal_computed_ones() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut ranks = Ranks::default();
        ranks.reset(9);
        let mut found = vec![0; 9];
        for _ in 0..2_000 {
            for _ in 0..random.usize(..4) {
                ranks.set(random.usize(..9), rank(random.u64(..6), random.bool()));
            }
            for (index, level) in levels(&mut ranks) {
                found[index] = level;
            }
            assert_eq!(
                of(&ranks.of_claims).moved(true).map(|(_, level)| level.number()).collect::<Vec<_>>(),
                found,
                "seed {seed}"
            );
        }
    }
}
