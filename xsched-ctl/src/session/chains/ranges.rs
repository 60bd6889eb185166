//! Hands out ranges of an array's elements.

use std::collections::BTreeMap;
use std::ops::Range;

/// The free ranges of an array.
#[derive(Debug)]
pub(super) struct Ranges {
    /// By first element: the first element after it. Never two that touch.
    free: BTreeMap<u32, u32>,
}

impl Ranges {
    /// An array of `count` elements, all free.
    pub(super) fn new(count: u32) -> Self {
        Self { free: BTreeMap::from([(0, count)]) }
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

    /// Gives back a range that was taken.
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
    fn what_is_given_back_grows_together_again() {
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
    fn nothing_takes_no_room() {
        let mut ranges = Ranges::new(0);
        assert_eq!(ranges.take(0), Some(0..0));
        ranges.give_back(0..0);
        assert_eq!(ranges.take(1), None);
    }
}
