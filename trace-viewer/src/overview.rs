//! The overview of a timeline: totals, tables by library, process and kernel, launches over time, and their durations.

mod groups;

use std::collections::HashMap;

pub(crate) use self::groups::{Group, Groups};
use crate::{
    explain,
    store::{SliceId, Store, TextId, TrackKind},
};

/// Parts of the timeline in which launches are counted.
pub(crate) const PARTS: usize = 120;
/// Libraries that have a series of their own there.
const SERIES_MAX: usize = 5;
/// Buckets of the distribution for each doubling of the time.
pub(crate) const BUCKETS_PER_DOUBLING: u32 = 4;
/// From 1 ns to more than an hour.
const BUCKETS: usize = 42 * BUCKETS_PER_DOUBLING as usize;

/// The sums.
#[derive(Debug, Default)]
pub(crate) struct Overview {
    /// Calls to GPU runtimes; all slices of threads in a recording of something else.
    pub(crate) calls: u64,
    /// Of these, launches.
    pub(crate) launches: u64,
    /// Slices in all.
    pub(crate) slices: u64,
    /// Executions on devices, and the sum of their durations.
    pub(crate) executions: u64,
    pub(crate) device_ns: u64,
    /// Calls by the library to which they belong.
    pub(crate) by_origin: Vec<Group>,
    /// Calls by process.
    pub(crate) by_process: Vec<Group>,
    /// Launches by kernel.
    pub(crate) by_kernel: Vec<Group>,
    /// Calls by function.
    pub(crate) by_function: Vec<Group>,
    /// Executions by kernel.
    pub(crate) by_executed: Vec<Group>,
    /// Time from launch to execution, by process.
    pub(crate) waits: Vec<Group>,
    /// Which process was preempted by which, and how often.
    pub(crate) preemptions: Vec<PreemptionCount>,
    /// Launches over time: for each library the number in each part, most first; the others as one.
    pub(crate) over_time: Vec<(String, Vec<u32>)>,
    /// How long launches took in the call: the number of launches in each bucket.
    pub(crate) latencies: Vec<u32>,
}

/// How often one process preempted another for one reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PreemptionCount {
    pub(crate) process: String,
    pub(crate) by: String,
    pub(crate) reason: String,
    pub(crate) count: u64,
}

/// The kind of a slice, according to its category.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SliceClass {
    Launch,
    Call,
    Driver,
    Other,
}

impl Overview {
    /// Computes the overview of a whole timeline.
    pub(crate) fn new(store: &Store) -> Self {
        let classes: Vec<SliceClass> = store.texts.iter().map(class).collect();
        let is_recording = store.tracks.iter().any(|track| {
            (0..track.slices.len()).any(|index| {
                matches!(
                    classes[track.slices.facts[index].category.0 as usize],
                    SliceClass::Launch | SliceClass::Call
                )
            })
        });
        let mut overview = Self { latencies: vec![0; BUCKETS], ..Self::default() };
        let mut groups = Collected::default();
        for (number, track) in store.tracks.iter().enumerate() {
            let slices = &track.slices;
            overview.slices += slices.len() as u64;
            for index in 0..slices.len() {
                let duration_ns = slices.duration_ns(index);
                if track.kind == TrackKind::Execution {
                    overview.executions += 1;
                    overview.device_ns = overview.device_ns.saturating_add(duration_ns);
                    groups.by_executed.add(slices.facts[index].name.0, duration_ns, false);
                    continue;
                }
                let class = classes[slices.facts[index].category.0 as usize];
                let is_call = match class {
                    SliceClass::Launch | SliceClass::Call => true,
                    SliceClass::Driver => false,
                    SliceClass::Other => !is_recording && track.kind == TrackKind::Thread,
                };
                if !is_call {
                    continue;
                }
                let is_launch = class == SliceClass::Launch;
                overview.calls += 1;
                groups.by_origin.add(slices.facts[index].origin.0, duration_ns, is_launch);
                groups.by_process.add(track.group as u32, duration_ns, is_launch);
                groups.by_function.add(slices.facts[index].name.0, duration_ns, is_launch);
                if !is_launch {
                    continue;
                }
                overview.launches += 1;
                groups.by_kernel.add(slices.facts[index].kernel.0, duration_ns, true);
                overview.latencies[bucket(duration_ns)] += 1;
                *groups
                    .over_time
                    .entry((slices.facts[index].origin, store.part(slices.begins_ns[index], PARTS)))
                    .or_default() += 1;
                let id = SliceId { track: number as u32, index: index as u32 };
                if let Some(wait_ns) = wait_ns(store, id) {
                    groups.waits.add(track.group as u32, wait_ns, true);
                }
            }
        }
        groups.named(store, &mut overview);
        overview.preemptions = preemptions(store);
        overview
    }
}

/// Groups by number, before names are added.
#[derive(Default)]
struct Collected {
    by_origin: Groups,
    by_process: Groups,
    by_kernel: Groups,
    by_function: Groups,
    by_executed: Groups,
    waits: Groups,
    over_time: HashMap<(TextId, usize), u32>,
}

impl Collected {
    fn named(self, store: &Store, overview: &mut Overview) {
        let text = |fallback: &'static str| {
            move |id: u32| match store.texts.get(TextId(id)) {
                "" => fallback.to_owned(),
                text => text.to_owned(),
            }
        };
        let process = |group: u32| process_name(store, group as usize);
        overview.by_origin = self.by_origin.finish(text("(not known)"));
        overview.by_process = self.by_process.finish(process);
        overview.by_kernel = self.by_kernel.finish(text("(no kernel named)"));
        overview.by_function = self.by_function.finish(text("(no name)"));
        overview.by_executed = self.by_executed.finish(text("(no name)"));
        overview.waits = self.waits.finish(process);
        overview.over_time = over_time(store, &self.over_time);
    }
}

/// A process with its pid.
pub(crate) fn process_name(store: &Store, group: usize) -> String {
    let group = &store.groups[group];
    match group.pid {
        Some(pid) => format!("{} ({pid})", group.name),
        None => group.name.clone(),
    }
}

fn class(category: &str) -> SliceClass {
    match category {
        "hip.launch" | "cuda.launch" => SliceClass::Launch,
        _ if category == "hip" || ["hip.", "cuda."].iter().any(|runtime| category.starts_with(runtime)) => {
            SliceClass::Call
        }
        _ if category.starts_with("driver.") => SliceClass::Driver,
        _ => SliceClass::Other,
    }
}

/// The time from a launch to its execution, if the recording has it.
fn wait_ns(store: &Store, launch: SliceId) -> Option<u64> {
    let slices = &store.tracks[launch.track as usize].slices;
    let index = launch.index as usize;
    match store.ends_of(launch).next() {
        Some(end) => {
            let begin_ns = store.tracks[end.track as usize].slices.begins_ns[end.index as usize];
            Some(begin_ns.saturating_sub(slices.begins_ns[index]))
        }
        None => store.argument_number(slices.facts[index].arguments, "queue_delay_ns"),
    }
}

/// One series for each of the libraries with most launches, and one for all others.
fn over_time(store: &Store, counts: &HashMap<(TextId, usize), u32>) -> Vec<(String, Vec<u32>)> {
    let mut totals: HashMap<TextId, u64> = HashMap::new();
    for ((origin, _), count) in counts {
        *totals.entry(*origin).or_default() += u64::from(*count);
    }
    let mut order: Vec<_> = totals.into_iter().collect();
    order.sort_by_key(|(origin, total)| (std::cmp::Reverse(*total), store.texts.get(*origin)));
    let mut series: Vec<(String, Vec<u32>)> = Vec::new();
    for (index, (origin, _)) in order.iter().enumerate() {
        let name = match store.texts.get(*origin) {
            "" => "(not known)",
            _ if index >= SERIES_MAX => "others",
            name => name,
        };
        if index <= SERIES_MAX {
            series.push((name.to_owned(), vec![0; PARTS]));
        }
        let Some((_, parts)) = series.last_mut() else { continue };
        for (part, sum) in parts.iter_mut().enumerate() {
            *sum += counts.get(&(*origin, part)).copied().unwrap_or(0);
        }
    }
    series
}

/// The bucket of a duration: four for each doubling.
pub(crate) fn bucket(ns: u64) -> usize {
    let ns = ns.max(1);
    let doubling = ns.ilog2();
    // The part beyond the leading bit, in quarters of that bit's value.
    let quarter = if doubling >= 2 { (ns >> (doubling - 2)) & 3 } else { (ns << (2 - doubling)) & 3 };
    ((doubling * BUCKETS_PER_DOUBLING) as usize + quarter as usize).min(BUCKETS - 1)
}

/// Where a bucket begins, in nanoseconds.
pub(crate) fn bucket_begin_ns(bucket: usize) -> f64 {
    let (doubling, quarter) =
        (bucket / BUCKETS_PER_DOUBLING as usize, bucket % BUCKETS_PER_DOUBLING as usize);
    2_f64.powi(doubling as i32) * (1.0 + quarter as f64 / f64::from(BUCKETS_PER_DOUBLING))
}

fn preemptions(store: &Store) -> Vec<PreemptionCount> {
    let mut counts: HashMap<(String, String, String), u64> = HashMap::new();
    for track in &store.tracks {
        for mark in track.marks.iter().filter(|mark| explain::is_preemption(store, mark)) {
            let preemption = explain::preemption(store, mark);
            let by = match preemption.by_pid {
                Some(pid) => format!("{} ({pid})", preemption.by),
                None => preemption.by,
            };
            let group = explain::named_process(store, mark.arguments).unwrap_or(track.group);
            let process = process_name(store, group);
            *counts.entry((process, by, preemption.reason)).or_default() += 1;
        }
    }
    let mut pairs: Vec<_> = counts
        .into_iter()
        .map(|((process, by, reason), count)| PreemptionCount { process, by, reason, count })
        .collect();
    pairs.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.process, &a.by).cmp(&(&b.process, &b.by))));
    pairs
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use xsched_perfetto::{Clocks, Scope, TraceWriter, Track, TrackSlice};

    use super::*;
    use crate::{store, tests as sample};

    #[test]
    fn everything_is_counted_once() {
        let overview = Overview::new(&sample::store());
        let launches = sample::LAUNCHES as u64;
        assert_eq!((overview.calls, overview.launches, overview.executions), (launches, launches, launches));
        for table in [
            &overview.by_origin,
            &overview.by_process,
            &overview.by_kernel,
            &overview.by_function,
            &overview.waits,
        ] {
            assert_eq!(table.iter().map(|group| group.count).sum::<u64>(), launches);
        }
        let over_time: u32 = overview.over_time.iter().flat_map(|(_, parts)| parts).sum();
        assert_eq!(
            (u64::from(over_time), overview.latencies.iter().sum::<u32>().into()),
            (launches, launches)
        );
        assert_eq!(overview.waits[0].name, "train.py (100)");
        assert_eq!((overview.waits[0].p50_ns, overview.waits[0].max_ns), (500_000, 500_000));
        let expected = PreemptionCount {
            process: "train.py (100)".into(),
            by: format!("{} (200)", sample::HOSTILE),
            reason: "a more urgent level became ready".into(),
            count: launches / 2,
        };
        assert_eq!(overview.preemptions, [expected]);
    }

    #[test]
    fn endless_durations_of_a_file_do_not_overflow() {
        let clocks = Clocks { boottime_ns: 1, monotonic_ns: 1, realtime_ns: 1 };
        let mut writer = TraceWriter::new(Vec::new(), clocks).unwrap();
        for name in ["stream 1", "stream 2", "stream 3"] {
            let track = writer.track(&Track { parent: Scope::Global, name }).unwrap();
            let execution = TrackSlice {
                track,
                begin_ns: 1,
                end_ns: Some(u64::MAX),
                category: "gpu",
                name: "gemm",
                annotations: &[],
                ended_flow: None,
            };
            writer.track_slice(&execution).unwrap();
        }
        let trace = writer.finish().unwrap();
        let overview = Overview::new(&store::load_at_once(Path::new("f"), &*trace).unwrap());
        assert_eq!((overview.executions, overview.device_ns), (3, u64::MAX));
    }

    #[test]
    fn every_duration_falls_into_the_bucket_with_its_bounds() {
        for ns in (1..5_000).chain((13..62).map(|bits| (1 << bits) + 12_345)) {
            let bucket = bucket(ns);
            if bucket < BUCKETS - 1 {
                assert!(
                    bucket_begin_ns(bucket) <= ns as f64 && (ns as f64) < bucket_begin_ns(bucket + 1),
                    "{ns}"
                );
            }
        }
    }
}
