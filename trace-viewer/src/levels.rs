//! What is drawn of a row in a window: each slice that is wide enough to be seen, and the others merged, so that a window
//! never has more to draw than it has pixels, however many slices are in it.
//!
//! A window is divided into bins. Slices that begin in the same bin become one thing that says how many they are, how
//! long all of them together ran, and which is the longest. The last one of a bin stands by itself where it reaches
//! beyond, and so does one that reaches in from outside. So there are at most two things a bin, and each slice of the
//! window is in exactly one of them.

use crate::store::{Mark, Row, Sample, Slices};

/// A part of the timeline, divided evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// How many things can be told apart in it; not 0.
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

/// The extremes of a counter in a bin, and what it was left at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) ts_ns: u64,
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) last: i64,
}

impl Window {
    fn bin_ns(self) -> u64 {
        (self.to_ns.saturating_sub(self.from_ns) / self.bins.max(1)).max(1)
    }

    /// Where the bin ends in which a moment is; what is before the window counts as at its begin.
    fn bin_end_ns(self, ts_ns: u64) -> u64 {
        let bin = (ts_ns.max(self.from_ns) - self.from_ns) / self.bin_ns();
        self.from_ns.saturating_add((bin + 1).saturating_mul(self.bin_ns()))
    }
}

/// What to draw of a row, in order of time.
pub(crate) fn drawn(slices: &Slices, row: &Row, window: Window) -> Vec<Drawn> {
    let within = slices.within(row, window.from_ns, window.to_ns);
    let (begins, ends) = (slices.begins_ns(), slices.ends_ns());
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
            first + 1 // it reaches in from outside, and is no part of the first bin
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

/// What to draw of a counter: the value at the window's begin, and one level a bin in which it changes.
pub(crate) fn levels(samples: &[Sample], window: Window) -> Vec<Level> {
    let first = samples.partition_point(|sample| sample.ts_ns <= window.from_ns).saturating_sub(1);
    let last = samples.partition_point(|sample| sample.ts_ns < window.to_ns);
    let mut levels: Vec<Level> = Vec::new();
    let mut bin_end_ns = 0;
    for sample in &samples[first..last.max(first)] {
        let value = sample.value;
        match levels.last_mut() {
            Some(level) if sample.ts_ns < bin_end_ns => {
                (level.min, level.max, level.last) = (level.min.min(value), level.max.max(value), value);
            }
            _ => levels.push(Level { ts_ns: sample.ts_ns, min: value, max: value, last: value }),
        }
        bin_end_ns = window.bin_end_ns(sample.ts_ns);
    }
    levels
}

/// What to draw of marks: for each bin that has some, the first one and how many there are.
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

/// How many of some sorted times are before a moment. Few are, mostly, so it looks near the front first.
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

    /// Nothing is lost, nothing counted twice, and nothing is more than can be seen.
    #[test]
    fn every_slice_of_a_window_is_in_exactly_one_thing() {
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
                for row in slices.rows() {
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
    fn what_is_wide_enough_stands_by_itself() {
        let slices = slices_of(&[(0, 100), (100, 101), (102, 103), (104, 200), (300, 400)]);
        let window = Window { from_ns: 0, to_ns: 400, bins: 8 };
        let seen: Vec<_> = drawn(&slices, &slices.rows()[0], window)
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
        let seen = levels(&samples, window);
        assert_eq!(seen, [Level { ts_ns: 0, min: -3, max: 9, last: 4 }]);
        assert_eq!(levels(&samples, Window { from_ns: 100, to_ns: 200, bins: 10 })[0].last, 4);
        assert_eq!(levels(&[], window), []);
    }

    #[test]
    fn a_search_from_the_front_finds_what_a_plain_one_finds() {
        let times: Vec<u64> = (0..100).map(|time| time / 3).collect();
        for (first, moment) in (0..100).flat_map(|first| (0..40).map(move |moment| (first, moment))) {
            let times = &times[first..];
            assert_eq!(before(times, moment), times.partition_point(|time| *time < moment));
        }
    }
}
