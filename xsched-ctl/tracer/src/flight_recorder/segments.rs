//! The segments that are kept.

use std::collections::VecDeque;
use std::sync::Arc;

/// Target number of segments: with smaller ones the kept part comes closer to the limit, but each repeats the names
/// that it needs.
const SEGMENTS: usize = 16;

/// A smaller segment would consist mostly of names.
const SEGMENT_SIZE_MIN: usize = 1 << 15;

/// Closed segments, oldest first, and the number of calls in the one that is being written.
pub(super) struct Segments {
    size_max: usize,
    segment_size: usize,
    closed: VecDeque<Segment>,
    /// Bytes in the closed segments.
    size: usize,
    /// Calls in the current segment.
    calls: u64,
    /// Calls in dropped segments.
    let_go: u64,
}

struct Segment {
    /// Shared with a dump in progress.
    bytes: Arc<[u8]>,
    calls: u64,
}

impl Segments {
    /// Keeps up to `size_max` bytes, the current segment included.
    pub(super) fn new(size_max: usize) -> Self {
        let segment_size = (size_max / SEGMENTS).max(SEGMENT_SIZE_MIN);
        Self { size_max, segment_size, closed: VecDeque::new(), size: 0, calls: 0, let_go: 0 }
    }

    pub(super) fn count_call(&mut self) {
        self.calls += 1;
    }

    pub(super) fn is_large_enough(&self, len: usize) -> bool {
        len >= self.segment_size
    }

    /// Closes the current segment, and drops the oldest ones to make space for it and the next.
    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.size += bytes.len();
        self.closed.push_back(Segment { bytes: bytes.into(), calls: std::mem::take(&mut self.calls) });
        while self.size + self.segment_size > self.size_max
            && let Some(oldest) = self.closed.pop_front()
        {
            self.size -= oldest.bytes.len();
            self.let_go += oldest.calls;
        }
    }

    pub(super) fn let_go(&self) -> u64 {
        self.let_go
    }

    /// All that is kept, oldest first, and the current segment.
    pub(super) fn with(&self, current: &[u8]) -> Vec<Arc<[u8]>> {
        self.closed.iter().map(|segment| segment.bytes.clone()).chain([current.into()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_dropped_and_their_calls_counted() {
        const SIZE_MAX: usize = 1 << 20;
        let mut segments = Segments::new(SIZE_MAX);
        for number in 0..100_u8 {
            let mut bytes = Vec::new();
            while !segments.is_large_enough(bytes.len()) {
                bytes.extend([number; 100]);
                segments.count_call();
            }
            segments.push(bytes);
            let kept: usize = segments.with(&[]).iter().map(|bytes| bytes.len()).sum();
            assert!(kept + SIZE_MAX / SEGMENTS <= SIZE_MAX, "{kept}");
        }
        let kept = segments.with(b"now");
        let numbers: Vec<_> = kept.iter().map(|bytes| bytes[0]).collect();
        assert_eq!(numbers.last(), Some(&b'n'));
        assert_eq!(numbers[..numbers.len() - 1], *(86..100).collect::<Vec<u8>>());
        assert_eq!(segments.let_go() + 14 * 656, 100 * 656);
    }

    #[test]
    fn a_segment_larger_than_the_limit_is_dropped_at_once() {
        let mut segments = Segments::new(1 << 20);
        segments.count_call();
        segments.push(vec![0; 2 << 20]);
        assert_eq!((segments.with(&[]).len(), segments.let_go()), (1, 1));
    }
}
