//! The slices of one track, in columns.
//!
//! The slices of a row do not overlap: a slice inside another one is in a row further down. The slices of a row are
//! adjacent in every column, in time order, so both their begins and their ends are sorted.

use std::{cmp::Reverse, ops::Range};

use super::{ROWS_MAX, stacks::StackId, texts::TextId};

/// Children of a node in [`Longest`].
const FANOUT: usize = 16;

/// A slice as read from the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsorted {
    pub(super) begin_ns: u64,
    /// `None` if the slice had not ended when the recording ended.
    pub(super) end_ns: Option<u64>,
    pub(super) facts: Facts,
}

/// The data of a slice beside its times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) name: TextId,
    pub(crate) category: TextId,
    /// The kernel that the slice launches or runs; the empty text if it is not known.
    pub(crate) kernel: TextId,
    /// The library that the call belongs to; the empty text if that is not known.
    pub(crate) origin: TextId,
    /// The call stack.
    pub(crate) stack: StackId,
    pub(crate) arguments: u64,
    /// The flow that begins here; 0 if none does.
    pub(crate) flow: u64,
    /// The flow that ends here; 0 if none does.
    pub(crate) ended_flow: u64,
    /// Whether the slice had not ended when the recording ended.
    pub(crate) is_open: bool,
}

/// The columns.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    pub(crate) rows: Vec<Row>,
    pub(crate) begins_ns: Vec<u64>,
    pub(crate) ends_ns: Vec<u64>,
    /// The sum of the durations of all slices before each one, and at the end that of all slices.
    busy_before_ns: Vec<u64>,
    pub(crate) facts: Vec<Facts>,
}

/// One line of a track.
#[derive(Debug)]
pub(crate) struct Row {
    /// The row's slices in the columns.
    pub(crate) range: Range<usize>,
    /// Finds the longest slice of a part of the row.
    pub(crate) longest: Longest,
}

impl Slices {
    /// Sorts slices into rows. Leaves out slices beyond the last row, and returns how many. Slices without an end get the end
    /// `last_ns`.
    pub(super) fn new(mut unsorted: Vec<Unsorted>, last_ns: u64) -> (Self, u64) {
        for slice in &mut unsorted {
            slice.facts.is_open = slice.end_ns.is_none();
            slice.end_ns = Some(slice.end_ns.unwrap_or(last_ns).max(slice.begin_ns));
        }
        let end_ns = |slice: &Unsorted| slice.end_ns.expect("the loop above gives every slice an end");
        // Of slices that begin together the longest encloses the others. This sort is fast for nearly sorted input, as in
        // files.
        unsorted.sort_by_key(|slice| (slice.begin_ns, Reverse(end_ns(slice))));
        let mut by_row: Vec<Vec<u32>> = Vec::new();
        let mut open: Vec<(u64, usize)> = Vec::new();
        let mut too_deep = 0;
        for (index, slice) in unsorted.iter().enumerate() {
            open.retain(|(end_ns, _)| *end_ns > slice.begin_ns);
            let row = free_row(&open, end_ns(slice));
            if row >= ROWS_MAX {
                too_deep += 1;
                continue;
            }
            open.push((end_ns(slice), row));
            if row == by_row.len() {
                by_row.push(Vec::new());
            }
            by_row[row].push(index as u32);
        }

        let count = unsorted.len() - too_deep as usize;
        let mut slices = Self {
            rows: Vec::with_capacity(by_row.len()),
            begins_ns: Vec::with_capacity(count),
            ends_ns: Vec::with_capacity(count),
            busy_before_ns: Vec::with_capacity(count + 1),
            facts: Vec::with_capacity(count),
        };
        let mut busy_ns = 0_u64;
        for row in by_row {
            let first = slices.begins_ns.len();
            for index in row {
                let slice = &unsorted[index as usize];
                slices.begins_ns.push(slice.begin_ns);
                slices.ends_ns.push(end_ns(slice));
                slices.busy_before_ns.push(busy_ns);
                slices.facts.push(slice.facts);
                busy_ns = busy_ns.saturating_add(end_ns(slice) - slice.begin_ns);
            }
            let range = first..slices.begins_ns.len();
            let longest = Longest::new(range.clone(), |index| slices.duration_ns(index));
            slices.rows.push(Row { range, longest });
        }
        slices.busy_before_ns.push(busy_ns);
        (slices, too_deep)
    }

    pub(crate) fn len(&self) -> usize {
        self.begins_ns.len()
    }

    pub(crate) fn duration_ns(&self, index: usize) -> u64 {
        self.ends_ns[index] - self.begins_ns[index]
    }

    /// The sum of the durations of some slices.
    pub(crate) fn busy_ns(&self, range: Range<usize>) -> u64 {
        self.busy_before_ns[range.end] - self.busy_before_ns[range.start]
    }

    /// The slices of a row that overlap `from_ns..to_ns`.
    pub(crate) fn within(&self, row: &Row, from_ns: u64, to_ns: u64) -> Range<usize> {
        let (begins, ends) = (&self.begins_ns[row.range.clone()], &self.ends_ns[row.range.clone()]);
        // A slice without duration is in the window in which it begins.
        let first = ends.partition_point(|end| *end < from_ns);
        let more = ends[first..]
            .iter()
            .zip(&begins[first..])
            .take_while(|(end, begin)| **end == from_ns && **begin < from_ns)
            .count();
        let last = begins.partition_point(|begin| *begin < to_ns);
        let first = first + more;
        row.range.start + first..row.range.start + last.max(first)
    }
}

/// The first row that is free and below all slices that enclose one with this end. `open` has the end and the row of each
/// slice that has not ended.
fn free_row(open: &[(u64, usize)], end_ns: u64) -> usize {
    let encloses = |(end, _): &&(u64, usize)| *end >= end_ns;
    let first = open.iter().filter(encloses).map(|(_, row)| row + 1).max().unwrap_or(0);
    (first..ROWS_MAX).find(|row| open.iter().all(|(_, taken)| taken != row)).unwrap_or(ROWS_MAX)
}

/// A tree that finds the longest slice of a range in few steps. Its first tier has the longest of each sixteen slices, the
/// next the longest of each sixteen of these, and so on.
#[derive(Debug)]
pub(crate) struct Longest {
    start: usize,
    tiers: Vec<Vec<u32>>,
}

impl Longest {
    fn new(range: Range<usize>, duration_ns: impl Fn(usize) -> u64) -> Self {
        let best = |indices: &mut dyn Iterator<Item = u32>| {
            indices.max_by_key(|index| (duration_ns(*index as usize), Reverse(*index)))
        };
        let mut tiers: Vec<Vec<u32>> = Vec::new();
        let mut len = range.len();
        while len > FANOUT {
            let tier = (0..len.div_ceil(FANOUT))
                .filter_map(|node| {
                    let children = node * FANOUT..((node + 1) * FANOUT).min(len);
                    match tiers.last() {
                        Some(below) => best(&mut below[children].iter().copied()),
                        None => best(&mut children.map(|child| (range.start + child) as u32)),
                    }
                })
                .collect::<Vec<_>>();
            len = tier.len();
            tiers.push(tier);
        }
        Self { start: range.start, tiers }
    }

    /// The longest slice of `range`, or the first of several longest ones; `None` if the range is empty.
    pub(crate) fn of(&self, slices: &Slices, range: Range<usize>) -> Option<usize> {
        let (mut first, mut last) = (range.start - self.start, range.end.max(range.start) - self.start);
        let key = |index: usize| (slices.duration_ns(index), Reverse(index));
        let mut best = None;
        let mut offer = |index: usize| {
            if best.is_none_or(|best| key(index) > key(best)) {
                best = Some(index);
            }
        };
        // Step 0 looks at slices, and each later step at a tier.
        for step in 0..=self.tiers.len() {
            let at = |index: usize| match step.checked_sub(1) {
                Some(tier) => self.tiers[tier][index] as usize,
                None => self.start + index,
            };
            let is_top = step == self.tiers.len();
            while first < last && (is_top || first % FANOUT != 0) {
                offer(at(first));
                first += 1;
            }
            while first < last && last % FANOUT != 0 {
                last -= 1;
                offer(at(last));
            }
            (first, last) = (first / FANOUT, last / FANOUT);
            if first >= last {
                break;
            }
        }
        best
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fastrand::Rng;

    use super::*;

    /// Slices with these begins and ends.
    pub(crate) fn slices(times: &[(u64, u64)]) -> Slices {
        let unsorted = times.iter().map(|&(begin_ns, end_ns)| Unsorted {
            begin_ns,
            end_ns: Some(end_ns),
            facts: Facts::default(),
        });
        Slices::new(unsorted.collect(), u64::MAX).0
    }

    fn rows(slices: &Slices) -> Vec<Vec<(u64, u64)>> {
        let times = |index| (slices.begins_ns[index], slices.ends_ns[index]);
        slices.rows.iter().map(|row| row.range.clone().map(times).collect()).collect()
    }

    #[test]
    fn nested_slices_are_in_lower_rows() {
        let slices = slices(&[(5, 6), (0, 10), (2, 4), (10, 12), (2, 3), (20, 20)]);
        assert_eq!(rows(&slices), [vec![(0, 10), (10, 12), (20, 20)], vec![(2, 4), (5, 6)], vec![(2, 3)]]);
        assert_eq!(slices.busy_ns(0..2), 12);
    }

    #[test]
    fn slices_of_a_row_never_overlap() {
        for seed in 0..200 {
            let mut rng = Rng::with_seed(seed);
            let times: Vec<_> = (0..rng.usize(..80))
                .map(|_| {
                    let begin = rng.u64(..200);
                    (begin, begin + rng.u64(..30))
                })
                .collect();
            let slices = slices(&times);
            assert_eq!(slices.len(), times.len());
            for row in rows(&slices) {
                assert!(row.windows(2).all(|pair| pair[0].1 <= pair[1].0), "seed {seed}: {row:?}");
            }
        }
    }

    #[test]
    fn slices_that_are_nested_too_deep_are_left_out_and_counted() {
        let unsorted = (0..ROWS_MAX as u64 + 7).map(|number| Unsorted {
            begin_ns: number,
            end_ns: None,
            facts: Facts::default(),
        });
        let (slices, too_deep) = Slices::new(unsorted.collect(), 1_000);
        assert_eq!((slices.len(), too_deep), (ROWS_MAX, 7));
        assert!(slices.facts[0].is_open && slices.ends_ns[0] == 1_000);
    }

    #[test]
    fn a_window_contains_the_slices_that_overlap_it() {
        let slices = slices(&[(0, 5), (5, 5), (5, 10), (10, 20), (30, 40)]);
        let within = |from, to| {
            let mut times = Vec::new();
            for row in &slices.rows {
                times.extend(slices.within(row, from, to).map(|index| slices.begins_ns[index]));
            }
            times
        };
        assert_eq!(within(5, 10), [5, 5]);
        assert_eq!(within(4, 11), [0, 5, 10, 5]);
        assert!(within(20, 30).is_empty());
        assert_eq!(within(0, 100), [0, 5, 10, 30, 5]);
    }

    #[test]
    fn the_longest_of_any_range_is_found() {
        let mut rng = Rng::with_seed(7);
        let times: Vec<_> =
            (0..3_000_u64).map(|number| (number * 100, number * 100 + rng.u64(..50))).collect();
        let slices = slices(&times);
        let row = &slices.rows[0];
        for _ in 0..2_000 {
            let first = rng.usize(..3_000);
            let range = first..rng.usize(first..=3_000);
            let expected = range.clone().max_by_key(|index| (slices.duration_ns(*index), Reverse(*index)));
            assert_eq!(row.longest.of(&slices, range.clone()), expected, "{range:?}");
        }
    }
}
