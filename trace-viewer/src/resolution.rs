//! Reduces a timeline to the resolution of a window: each slice that is wide enough to be seen, and the others merged. So a
//! window never has more to draw than it has pixels, however many slices are in it.
//!
//! A window is divided into bins. Slices that begin in the same bin become one thing to draw, with their number, the sum of
//! their durations and the longest of them. Two kinds of slices are drawn separately: the last of a bin if it ends beyond the
//! bin, and one that begins before the window. So there are at most two things for each bin, and each slice of the window is
//! in exactly one of them.

use crate::store::{Mark, Row, Sample, Slices};

/// A part of the timeline, divided evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// The number of parts; not 0.
    pub(crate) bins: u64,
}

/// One thing to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    /// Begin of the first slice.
    pub(crate) begin_ns: u64,
    /// End of the last slice.
    pub(crate) end_ns: u64,
    /// How many slices this is.
    pub(crate) count: usize,
    /// The sum of their durations.
    pub(crate) busy_ns: u64,
    /// The longest of them.
    pub(crate) longest: usize,
}

/// The extremes of a counter in a bin, and its last value there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterBin {
    pub(crate) ts_ns: u64,
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) last: i64,
}

impl Window {
    fn bin_ns(self) -> u64 {
        (self.to_ns.saturating_sub(self.from_ns) / self.bins.max(1)).max(1)
    }

    /// The end of the bin that a moment is in. A moment before the window counts as the window's begin.
    fn bin_end_ns(self, ts_ns: u64) -> u64 {
        let bin = (ts_ns.max(self.from_ns) - self.from_ns) / self.bin_ns();
        self.from_ns.saturating_add((bin + 1).saturating_mul(self.bin_ns()))
    }
}

/// What to draw of a row, in time order.
pub(crate) fn drawn(slices: &Slices, row: &Row, window: Window) -> Vec<Drawn> {
    let within = slices.within(row, window.from_ns, window.to_ns);
    let (begins, ends) = (&slices.begins_ns, &slices.ends_ns);
    let thing = |range: std::ops::Range<usize>| Drawn {
        begin_ns: begins[range.start],
        end_ns: ends[range.end - 1],
        count: range.len(),
        busy_ns: slices.busy_ns(range.clone()),
        longest: row.longest.of(slices, range.clone()).unwrap_or(range.start),
    };
    let mut drawn = Vec::new();
    let mut next = within.start;
    while next < within.end {
        let bin_end_ns = window.bin_end_ns(begins[next]);
        let first = next;
        next = if begins[first] < window.from_ns {
            first + 1 // it begins before the window, and is not part of the first bin
        } else {
            first + before(&begins[first..within.end], bin_end_ns)
        };
        let last = next - 1;
        if last > first && ends[last] > bin_end_ns {
            drawn.push(thing(first..last));
            drawn.push(thing(last..next));
        } else {
            drawn.push(thing(first..next));
        }
    }
    drawn
}

/// What to draw of a counter: its value at the window's begin, and one entry for each bin in which it changes.
pub(crate) fn counter(samples: &[Sample], window: Window) -> Vec<CounterBin> {
    let first = samples.partition_point(|sample| sample.ts_ns <= window.from_ns).saturating_sub(1);
    let last = samples.partition_point(|sample| sample.ts_ns < window.to_ns);
    let mut bins: Vec<CounterBin> = Vec::new();
    let mut bin_end_ns = 0;
    for sample in &samples[first..last.max(first)] {
        let value = sample.value;
        match bins.last_mut() {
            Some(bin) if sample.ts_ns < bin_end_ns => {
                (bin.min, bin.max, bin.last) = (bin.min.min(value), bin.max.max(value), value);
            }
            _ => bins.push(CounterBin { ts_ns: sample.ts_ns, min: value, max: value, last: value }),
        }
        bin_end_ns = window.bin_end_ns(sample.ts_ns);
    }
    bins
}

/// What to draw of marks: for each bin that has marks, the first of them and their number.
pub(crate) fn marks(marks: &[Mark], window: Window) -> Vec<(usize, usize)> {
    let first = marks.partition_point(|mark| mark.ts_ns < window.from_ns);
    let last = marks.partition_point(|mark| mark.ts_ns < window.to_ns);
    let mut drawn: Vec<(usize, usize)> = Vec::new();
    let mut bin_end_ns = 0;
    for (index, mark) in marks.iter().enumerate().take(last).skip(first) {
        match drawn.last_mut() {
            Some((_, count)) if mark.ts_ns < bin_end_ns => *count += 1,
            _ => {
                drawn.push((index, 1));
                bin_end_ns = window.bin_end_ns(mark.ts_ns);
            }
        }
    }
    drawn
}

/// How many of the sorted times are before a moment. Mostly few are, so the search starts near the front.
fn before(times: &[u64], moment: u64) -> usize {
    let mut reach = 1;
    while reach < times.len() && times[reach] < moment {
        reach *= 2;
    }
    let from = reach / 2;
    from + times[from..times.len().min(reach + 1)].partition_point(|time| *time < moment)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::store::slices_of;

    /// No slice is lost or counted twice, and there are no more things than the resolution allows.
    #[test]
    fn every_slice_of_a_window_is_drawn_exactly_once() {
        for seed in 0..300 {
            let mut rng = Rng::with_seed(seed);
            let (mut times, mut now) = (Vec::new(), 0);
            for _ in 0..rng.usize(1..2_000) {
                now += if rng.u8(..20) == 0 { rng.u64(..100_000) } else { rng.u64(..30) };
                let end = now + if rng.u8(..30) == 0 { rng.u64(..50_000) } else { rng.u64(..20) };
                times.push((now, end));
                now = end;
            }
            let slices = slices_of(&times);
            for _ in 0..20 {
                let from_ns = rng.u64(..=now);
                let to_ns = from_ns + 1 + rng.u64(..=now);
                let window = Window { from_ns, to_ns, bins: rng.u64(1..300) };
                for row in &slices.rows {
                    let things = drawn(&slices, row, window);
                    let within = slices.within(row, from_ns, to_ns);
                    let count: usize = things.iter().map(|thing| thing.count).sum();
                    let busy: u64 = things.iter().map(|thing| thing.busy_ns).sum();
                    assert_eq!(
                        (count, busy),
                        (within.len(), slices.busy_ns(within)),
                        "seed {seed}, {window:?}"
                    );
                    assert!(things.len() as u64 <= 2 * (window.bins + 2), "seed {seed}: {}", things.len());
                    for pair in things.windows(2) {
                        assert!(pair[0].end_ns <= pair[1].begin_ns, "seed {seed}: {pair:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn wide_slices_are_drawn_separately() {
        let slices = slices_of(&[(0, 100), (100, 101), (102, 103), (104, 200), (300, 400)]);
        let window = Window { from_ns: 0, to_ns: 400, bins: 8 };
        let seen: Vec<_> = drawn(&slices, &slices.rows[0], window)
            .iter()
            .map(|thing| (thing.begin_ns, thing.end_ns, thing.count, thing.busy_ns, thing.longest))
            .collect();
        assert_eq!(
            seen,
            [(0, 100, 1, 100, 0), (100, 103, 2, 2, 1), (104, 200, 1, 96, 3), (300, 400, 1, 100, 4)]
        );
    }

    #[test]
    fn a_counter_keeps_its_extremes() {
        let samples =
            [(0, 5), (10, 9), (11, -3), (12, 4), (500, 6)].map(|(ts_ns, value)| Sample { ts_ns, value });
        let window = Window { from_ns: 5, to_ns: 405, bins: 4 };
        let seen = counter(&samples, window);
        assert_eq!(seen, [CounterBin { ts_ns: 0, min: -3, max: 9, last: 4 }]);
        assert_eq!(counter(&samples, Window { from_ns: 100, to_ns: 200, bins: 10 })[0].last, 4);
        assert_eq!(counter(&[], window), []);
    }

    #[test]
    fn a_search_from_the_front_agrees_with_a_binary_search() {
        let times: Vec<u64> = (0..100).map(|time| time / 3).collect();
        for (first, moment) in (0..100).flat_map(|first| (0..40).map(move |moment| (first, moment))) {
            let times = &times[first..];
            assert_eq!(before(times, moment), times.partition_point(|time| *time < moment));
        }
    }
}
