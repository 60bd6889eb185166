//! Allocates ranges of an array's elements.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

#[derive(Debug)]
pub(super) struct Ranges {
    /// By first element: the end of the range. Adjacent ranges are merged.
    free: BTreeMap<u32, u32>,
    /// Ranges that may still be read, with the time at which they were given up.
    held: VecDeque<(u64, Range<u32>)>,
}

impl Ranges {
    /// An array of `count` elements, all free.
    pub(super) fn new(count: u32) -> Self {
        Self { free: BTreeMap::from([(0, count)]), held: VecDeque::new() }
    }

    /// The first free range of `count` elements.
    pub(super) fn take(&mut self, count: u32) -> Option<Range<u32>> {
        if count == 0 {
            return Some(0..0);
        }
        let (&start, &end) = self.free.iter().find(|(start, end)| *end - *start >= count)?;
        self.free.remove(&start);
        if end - start > count {
            self.free.insert(start + count, end);
        }
        Some(start..start + count)
    }

    /// Keeps an allocated range from reuse until [`release`](Self::release). Times must not decrease.
    pub(super) fn hold(&mut self, range: Range<u32>, since_ns: u64) {
        self.held.push_back((since_ns, range));
    }

    /// Frees what was held before a time.
    pub(super) fn release(&mut self, before_ns: u64) {
        while let Some((_, range)) = self.held.pop_front_if(|(since_ns, _)| *since_ns < before_ns) {
            self.give_back(range);
        }
    }

    pub(super) fn give_back(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        if let Some((&before, &before_end)) = self.free.range(..start).next_back()
            && before_end == start
        {
            start = before;
        }
        if let Some(after_end) = self.free.remove(&end) {
            end = after_end;
        }
        self.free.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_neighbours_are_merged() {
        let mut ranges = Ranges::new(10);
        let [a, b, c] = [3, 3, 4].map(|count| ranges.take(count).unwrap());
        assert_eq!((a.clone(), b.clone(), c.clone()), (0..3, 3..6, 6..10));
        assert_eq!(ranges.take(1), None);
        ranges.give_back(a);
        ranges.give_back(c);
        assert_eq!(ranges.take(5), None, "there is a range between them");
        ranges.give_back(b);
        assert_eq!(ranges.take(10), Some(0..10));
    }

    #[test]
    fn held_ranges_are_not_reused_early() {
        let mut ranges = Ranges::new(4);
        let [a, b] = [2, 2].map(|count| ranges.take(count).unwrap());
        ranges.hold(a.clone(), 100);
        ranges.hold(b, 200);
        ranges.release(100);
        assert_eq!(ranges.take(1), None);
        ranges.release(200);
        assert_eq!(ranges.take(4), None, "the other half is held");
        assert_eq!(ranges.take(2), Some(a.clone()));
        ranges.give_back(a);
        ranges.release(201);
        assert_eq!(ranges.take(4), Some(0..4));
    }

    #[test]
    fn an_empty_range_takes_no_space() {
        let mut ranges = Ranges::new(0);
        assert_eq!(ranges.take(0), Some(0..0));
        ranges.give_back(0..0);
        assert_eq!(ranges.take(1), None);
    }
}
