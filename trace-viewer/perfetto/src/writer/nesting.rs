//! Keeps slices apart that begin at the same nanosecond.
//!
//! A caller is reported after what it called. When Perfetto loads the trace it sorts by time and keeps the
//! written order among equal times; a caller that begins at the very time of its first callee then counts
//! as the *inner* one, and is cut off where the callee ends. So the caller's begin is moved back to one
//! nanosecond before the callee's.
//!
//! For that the last few slices of each thread that nothing encloses yet are remembered. It takes two
//! probes within a nanosecond to need any of this; where a coarse clock makes it common, a third event at
//! the same time (the end of the call before) leaves no room, and the begin stays where it is. Perfetto
//! counts what it then cuts off as `misplaced_end_event`.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// How many slices side by side are remembered per thread.
const SIBLINGS_MAX: usize = 8;

/// The slices, by track uuid, that a slice to come may enclose.
#[derive(Debug)]
pub(super) struct Nesting {
    threads: HashMap<u64, Vec<Placed>, RandomState>,
    thread_count_max: usize,
}

#[expect(clippy::struct_field_names, reason = "units last")]
#[derive(Clone, Copy, Debug)]
struct Placed {
    reported_begin_ns: u64,
    begin_ns: u64,
    end_ns: u64,
}

impl Nesting {
    /// Remembers up to `thread_count_max` threads, and forgets all of them when there are more.
    pub(super) fn new(thread_count_max: usize) -> Self {
        Self { threads: HashMap::default(), thread_count_max }
    }

    /// Where the slice on `track_uuid` should begin.
    pub(super) fn place(&mut self, track_uuid: u64, reported_begin_ns: u64, end_ns: u64) -> u64 {
        if self.threads.len() >= self.thread_count_max && !self.threads.contains_key(&track_uuid) {
            self.threads.clear();
        }
        let siblings = self.threads.entry(track_uuid).or_insert_with(|| Vec::with_capacity(SIBLINGS_MAX));
        let inside = siblings.partition_point(|placed| placed.reported_begin_ns < reported_begin_ns);
        let first_inside = siblings.get(inside).map(|placed| placed.begin_ns);
        siblings.truncate(inside);
        let before_end_ns = siblings.last().map_or(0, |placed| placed.end_ns);
        let begin_ns = match first_inside {
            Some(inner_ns) if inner_ns <= reported_begin_ns && before_end_ns < inner_ns => inner_ns - 1,
            _ => reported_begin_ns,
        };
        if siblings.len() == SIBLINGS_MAX {
            siblings.remove(0);
        }
        siblings.push(Placed { reported_begin_ns, begin_ns, end_ns });
        begin_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places slices of one thread, given in the order of their ends.
    fn place(slices: &[(u64, u64)]) -> Vec<u64> {
        let mut nesting = Nesting::new(10);
        slices.iter().map(|(begin_ns, end_ns)| nesting.place(1, *begin_ns, *end_ns)).collect()
    }

    #[test]
    fn distinct_times_stay() {
        assert_eq!(place(&[(20, 30), (10, 40), (40, 50), (60, 60)]), [20, 10, 40, 60]);
    }

    #[test]
    fn each_caller_begins_before_its_callee() {
        assert_eq!(place(&[(5, 6), (5, 7), (5, 9)]), [5, 4, 3]);
        assert_eq!(place(&[(5, 6), (7, 8), (8, 8), (5, 9)]), [5, 7, 8, 4], "the first callee counts");
        assert_eq!(place(&[(5, 5), (5, 5)]), [5, 4]);
    }

    #[test]
    fn a_call_that_ended_just_then_is_not_overlapped() {
        assert_eq!(place(&[(1, 5), (5, 7), (5, 9)]), [1, 5, 5]);
        assert_eq!(place(&[(1, 4), (5, 7), (5, 9)]), [1, 5, 4]);
        assert_eq!(place(&[(0, 1), (0, 2)]), [0, 0], "there is nothing before 0");
    }

    #[test]
    fn threads_do_not_meet() {
        let mut nesting = Nesting::new(10);
        assert_eq!(nesting.place(1, 5, 6), 5);
        assert_eq!(nesting.place(2, 5, 7), 5);
        assert_eq!(nesting.place(1, 5, 8), 4);
    }

    #[test]
    fn memory_is_bounded() {
        let mut nesting = Nesting::new(3);
        for track in 0..100 {
            for at in 0..100 {
                nesting.place(track, at, at + 1);
            }
        }
        assert!(nesting.threads.len() <= 3);
        assert!(nesting.threads.values().all(|siblings| siblings.capacity() == SIBLINGS_MAX));
    }
}
