//! Separates slices that begin at the same nanosecond.
//!
//! A caller is reported after its callees. When Perfetto loads the trace, it sorts by time and keeps the
//! written order among equal times. So a caller that begins at the same time as its first callee counts as
//! the *inner* slice, and is cut off where the callee ends. Therefore the caller's begin is moved back to one
//! nanosecond before the callee's.
//!
//! For that, the last few slices of each thread that no other slice encloses yet are remembered. It takes two
//! probes within a nanosecond for slices to begin together. A coarse clock makes that common, and may also
//! report the end of the previous call at the same time. Then there is no free nanosecond, and the begin stays
//! where it is. Perfetto counts slices that it cuts off then as `misplaced_end_event`.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// How many adjacent slices are remembered for each thread.
const SIBLINGS_MAX: usize = 8;

/// The slices that a later slice may enclose, by track uuid.
#[derive(Debug)]
pub(super) struct Nesting {
    threads: HashMap<u64, Vec<Sibling>, RandomState>,
    thread_count_max: usize,
}

#[expect(clippy::struct_field_names, reason = "units last")]
#[derive(Clone, Copy, Debug)]
struct Sibling {
    reported_begin_ns: u64,
    begin_ns: u64,
    end_ns: u64,
}

impl Nesting {
    /// Remembers up to `thread_count_max` threads; forgets all of them when there are more.
    pub(super) fn new(thread_count_max: usize) -> Self {
        Self { threads: HashMap::default(), thread_count_max }
    }

    /// The time at which a slice on `track_uuid` is to begin in the trace.
    pub(super) fn adjusted_begin_ns(&mut self, track_uuid: u64, reported_begin_ns: u64, end_ns: u64) -> u64 {
        if self.threads.len() >= self.thread_count_max && !self.threads.contains_key(&track_uuid) {
            self.threads.clear();
        }
        let siblings = self.threads.entry(track_uuid).or_insert_with(|| Vec::with_capacity(SIBLINGS_MAX));
        let inside = siblings.partition_point(|sibling| sibling.reported_begin_ns < reported_begin_ns);
        let first_inside = siblings.get(inside).map(|sibling| sibling.begin_ns);
        siblings.truncate(inside);
        let before_end_ns = siblings.last().map_or(0, |sibling| sibling.end_ns);
        let begin_ns = match first_inside {
            Some(inner_ns) if inner_ns <= reported_begin_ns && before_end_ns < inner_ns => inner_ns - 1,
            _ => reported_begin_ns,
        };
        if siblings.len() == SIBLINGS_MAX {
            siblings.remove(0);
        }
        siblings.push(Sibling { reported_begin_ns, begin_ns, end_ns });
        begin_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The adjusted begins of slices of one thread, given in the order of their ends.
    fn adjusted(slices: &[(u64, u64)]) -> Vec<u64> {
        let mut nesting = Nesting::new(10);
        slices.iter().map(|(begin_ns, end_ns)| nesting.adjusted_begin_ns(1, *begin_ns, *end_ns)).collect()
    }

    #[test]
    fn distinct_times_are_kept() {
        assert_eq!(adjusted(&[(20, 30), (10, 40), (40, 50), (60, 60)]), [20, 10, 40, 60]);
    }

    #[test]
    fn each_caller_begins_before_its_callee() {
        assert_eq!(adjusted(&[(5, 6), (5, 7), (5, 9)]), [5, 4, 3]);
        assert_eq!(adjusted(&[(5, 6), (7, 8), (8, 8), (5, 9)]), [5, 7, 8, 4], "the first callee counts");
        assert_eq!(adjusted(&[(5, 5), (5, 5)]), [5, 4]);
    }

    #[test]
    fn the_previous_call_is_not_overlapped() {
        assert_eq!(adjusted(&[(1, 5), (5, 7), (5, 9)]), [1, 5, 5]);
        assert_eq!(adjusted(&[(1, 4), (5, 7), (5, 9)]), [1, 5, 4]);
        assert_eq!(adjusted(&[(0, 1), (0, 2)]), [0, 0], "there is no time before 0");
    }

    #[test]
    fn threads_are_independent() {
        let mut nesting = Nesting::new(10);
        assert_eq!(nesting.adjusted_begin_ns(1, 5, 6), 5);
        assert_eq!(nesting.adjusted_begin_ns(2, 5, 7), 5);
        assert_eq!(nesting.adjusted_begin_ns(1, 5, 8), 4);
    }

    #[test]
    fn memory_is_bounded() {
        let mut nesting = Nesting::new(3);
        for track in 0..100 {
            for at in 0..100 {
                nesting.adjusted_begin_ns(track, at, at + 1);
            }
        }
        assert!(nesting.threads.len() <= 3);
        assert!(nesting.threads.values().all(|siblings| siblings.capacity() == SIBLINGS_MAX));
    }
}
