//! Why a launch waited: what its queue did between the call and the execution, which process preempted it, and what the
//! device ran meanwhile.
//!
//! The time from the call to the execution is divided completely into
//!
//! | part | when | annotation of the execution |
//! | --- | --- | --- |
//! | in the call | the call had not returned, and its queue was in neither of the next two states | `host_ns` |
//! | buffered | an XQueue of the process was in this state (category `xqueue`) | `buffered_ns` minus `suspended_ns` |
//! | suspended | an XQueue of the process was in this state (category `xqueue`) | `suspended_ns` |
//! | at a gate | only the annotation says so | `gated_ns` |
//! | in flight | the remaining time: handed to the device, behind other work | |
//!
//! The annotations describe this one command, so they are preferred. If the call or the execution is not recorded, the
//! annotation `queue_delay_ns` of the other is the whole time.

use std::{collections::HashMap, ops::Range};

use serde::Serialize;

use crate::store::{Mark, SliceId, Store, Track, TrackKind};

/// Slices of other processes that are read. If more ran during a wait, the explanation covers these only.
const NEIGHBOURS_MAX: usize = 100_000;

/// The explanation of a wait.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Explanation {
    /// From the call to the execution.
    pub(crate) waited_ns: u64,
    /// The parts of that time, none of them empty.
    pub(crate) parts: Vec<Part>,
    /// The preemptions of the process during the wait, and those before it that still lasted.
    pub(crate) preemptions: Vec<Preemption>,
    /// The processes whose work ran on the device meanwhile, longest first.
    pub(crate) neighbours: Vec<Neighbour>,
}

/// A part of a wait.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) ns: u64,
}

/// A moment at which a process was preempted.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Preemption {
    /// From the begin of the recording.
    pub(crate) at_ns: u64,
    pub(crate) by: String,
    pub(crate) by_pid: Option<u64>,
    pub(crate) level: Option<u64>,
    pub(crate) reason: String,
}

/// A process whose work ran while another waited.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Neighbour {
    pub(crate) name: String,
    pub(crate) pid: Option<u32>,
    pub(crate) ns: u64,
}

/// Why a call, or the command that it started, waited; `None` if the recording does not say when the command ran.
pub(crate) fn explain(store: &Store, id: SliceId) -> Option<Explanation> {
    let (track, index) = store.slices_with(id)?;
    let (launch, execution) = match track.kind {
        TrackKind::Thread => (Some(id), store.ends_of(id).next()),
        TrackKind::Execution => (store.begins_of(id).next(), Some(id)),
        _ => return None,
    };
    let delay_ns = || store.argument_number(track.slices.facts[index].arguments, "queue_delay_ns");
    let launched = launch.and_then(|launch| store.slices_with(launch));
    let executed = execution.and_then(|execution| store.slices_with(execution));
    let called_ns = launched.map(|(track, index)| track.slices.begins_ns[index]);
    let began_ns = executed.map(|(track, index)| track.slices.begins_ns[index]);
    let wait = match (called_ns, began_ns) {
        (Some(called_ns), Some(began_ns)) => called_ns..began_ns.max(called_ns),
        (Some(called_ns), None) => called_ns..called_ns.saturating_add(delay_ns()?),
        (None, Some(began_ns)) => began_ns.saturating_sub(delay_ns()?)..began_ns,
        (None, None) => return None,
    };
    let group = launched.map_or_else(|| owner(store, id), |(track, _)| track.group);
    let states = states(store, group, &wait);
    let recorded =
        executed.and_then(|(track, index)| recorded_parts(store, track.slices.facts[index].arguments, &wait));
    let parts = recorded.unwrap_or_else(|| {
        let returned_ns = launched.map_or(wait.start, |(track, index)| track.slices.ends_ns[index]);
        observed_parts(&states, &wait, returned_ns)
    });
    // A preemption before the call still counts if it lasted until the call.
    let since_ns = states.iter().map(|(_, time)| time.start).fold(wait.start, u64::min);
    Some(Explanation {
        waited_ns: wait.end - wait.start,
        parts,
        preemptions: preemptions(store, group, since_ns..wait.end),
        neighbours: neighbours(store, group, execution, &wait),
    })
}

/// The times in which a queue of the process was suspended or buffered, each from its begin on. If the process has several
/// queues, these are the times of the queue that waited longest.
fn states(store: &Store, group: usize, wait: &Range<u64>) -> Vec<(&'static str, Range<u64>)> {
    let is_own = |track: &&Track| {
        let named = || named_process(store, track.slices.facts[0].arguments);
        track.kind == TrackKind::Queue && (track.group == group || named() == Some(group))
    };
    let of_track = |track: &Track| {
        let mut states = Vec::new();
        for row in &track.slices.rows {
            for index in track.slices.within(row, wait.start, wait.end) {
                let time = track.slices.begins_ns[index]..track.slices.ends_ns[index];
                match store.texts.get(track.slices.facts[index].name) {
                    "suspended" => states.push(("suspended", time)),
                    "buffered" => states.push(("buffered", time)),
                    _ => {}
                }
            }
        }
        states
    };
    let kept = |states: &Vec<(_, Range<u64>)>| total(states.iter().map(|(_, time)| overlap(time, wait)));
    store.tracks.iter().filter(is_own).map(of_track).max_by_key(kept).unwrap_or_default()
}

/// The parts according to the command's annotations.
fn recorded_parts(store: &Store, arguments: u64, wait: &Range<u64>) -> Option<Vec<Part>> {
    let number = |name| store.argument_number(arguments, name);
    let (in_call, held) = (number("host_ns")?, number("buffered_ns")?);
    let suspended = number("suspended_ns").unwrap_or(0).min(held);
    let gated = number("gated_ns").unwrap_or(0);
    Some(divided(wait, in_call, held - suspended, suspended, gated))
}

/// The parts according to the states of the queue.
fn observed_parts(states: &[(&'static str, Range<u64>)], wait: &Range<u64>, returned_ns: u64) -> Vec<Part> {
    let call = wait.start..returned_ns.clamp(wait.start, wait.end);
    let sum = |name: &str, window: &Range<u64>| -> u64 {
        let named = states.iter().filter(|(state, _)| *state == name);
        total(named.map(|(_, time)| overlap(time, window)))
    };
    let held_ns = total([sum("suspended", &call), sum("buffered", &call)].into_iter());
    let in_call = (call.end - call.start).saturating_sub(held_ns);
    divided(wait, in_call, sum("buffered", wait), sum("suspended", wait), 0)
}

/// Divides a wait into parts; the last is the remaining time.
fn divided(wait: &Range<u64>, in_call: u64, buffered: u64, suspended: u64, gated: u64) -> Vec<Part> {
    let mut remaining_ns = wait.end - wait.start;
    let mut take = |ns: u64| {
        let taken = ns.min(remaining_ns);
        remaining_ns -= taken;
        taken
    };
    let (suspended, gated) = (take(suspended), take(gated));
    let (buffered, in_call) = (take(buffered), take(in_call));
    let parts = [
        ("in the call", in_call),
        ("buffered", buffered),
        ("suspended", suspended),
        ("at a gate", gated),
        ("in flight", remaining_ns),
    ];
    parts.into_iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| Part { name, ns }).collect()
}

fn preemptions(store: &Store, group: usize, time: Range<u64>) -> Vec<Preemption> {
    let mut preemptions: Vec<_> = store
        .tracks
        .iter()
        .flat_map(|track| {
            let first = track.marks.partition_point(|mark| mark.ts_ns < time.start);
            let last = track.marks.partition_point(|mark| mark.ts_ns <= time.end);
            track.marks[first..last.max(first)].iter().map(move |mark| (track, mark))
        })
        .filter(|(_, mark)| is_preemption(store, mark))
        .filter(|(track, mark)| track.group == group || named_process(store, mark.arguments) == Some(group))
        .map(|(_, mark)| preemption(store, mark))
        .collect();
    preemptions.sort_by_key(|preemption| preemption.at_ns);
    preemptions
}

/// Whether a mark is that of a preemption.
pub(crate) fn is_preemption(store: &Store, mark: &Mark) -> bool {
    store.texts.get(mark.name) == "preempted"
}

/// The preemption that a mark describes.
pub(crate) fn preemption(store: &Store, mark: &Mark) -> Preemption {
    let text = |name| store.argument_text(mark.arguments, name).unwrap_or_default();
    let number = |name| store.argument_number(mark.arguments, name);
    let by_pid = number("by_pid");
    // Recordings call processes "NAME PID" there.
    let name_only = by_pid.and_then(|pid| text("by").strip_suffix(&format!(" {pid}")));
    Preemption {
        at_ns: mark.ts_ns - store.span_ns.start,
        by: name_only.unwrap_or(text("by")).to_owned(),
        by_pid,
        level: number("by_level").or_else(|| number("level")),
        reason: text("reason").to_owned(),
    }
}

/// The other processes whose work ran on the device, or on any device if it is not known which.
fn neighbours(store: &Store, group: usize, execution: Option<SliceId>, wait: &Range<u64>) -> Vec<Neighbour> {
    let device = execution.map(|id| store.tracks[id.track as usize].group);
    let is_device = |track: &Track| {
        device.is_none_or(|device| device == track.group || store.groups[device].pid.is_some())
    };
    let mut by_group: HashMap<usize, u64> = HashMap::new();
    let mut seen = 0;
    let tracks = store.tracks.iter().enumerate();
    for (number, track) in tracks.filter(|(_, track)| track.kind == TrackKind::Execution && is_device(track))
    {
        for row in &track.slices.rows {
            for index in track.slices.within(row, wait.start, wait.end) {
                seen += 1;
                if seen > NEIGHBOURS_MAX {
                    break;
                }
                let id = SliceId { track: number as u32, index: index as u32 };
                let owner = owner(store, id);
                if owner != group {
                    let time = track.slices.begins_ns[index]..track.slices.ends_ns[index];
                    let ns = by_group.entry(owner).or_default();
                    *ns = total([*ns, overlap(&time, wait)].into_iter());
                }
            }
        }
    }
    let mut neighbours: Vec<_> = by_group
        .into_iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|(group, ns)| {
            let group = &store.groups[group];
            Neighbour { name: group.name.clone(), pid: group.pid, ns }
        })
        .collect();
    neighbours.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
    neighbours
}

/// The group of the process that an execution belongs to: that of its launch, else of the process that it names, else of its
/// track.
pub(crate) fn owner(store: &Store, execution: SliceId) -> usize {
    let track = &store.tracks[execution.track as usize];
    match store.begins_of(execution).next() {
        Some(launch) => store.tracks[launch.track as usize].group,
        None => named_process(store, track.slices.facts[execution.index as usize].arguments)
            .unwrap_or(track.group),
    }
}

/// The group of the process that an argument `pid` names.
pub(crate) fn named_process(store: &Store, arguments: u64) -> Option<usize> {
    let pid = store.argument_number(arguments, "pid")?;
    store.groups.iter().position(|group| group.pid.map(u64::from) == Some(pid))
}

/// A sum that saturates: a file may contain any times.
fn total(times: impl Iterator<Item = u64>) -> u64 {
    times.fold(0, u64::saturating_add)
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests as sample;

    fn first(store: &Store, kind: TrackKind, group: &str) -> SliceId {
        let is_it = |track: &Track| track.kind == kind && store.groups[track.group].name == group;
        SliceId { track: store.tracks.iter().position(is_it).unwrap() as u32, index: 0 }
    }

    #[test]
    fn a_wait_is_divided_completely_and_names_the_preempting_process() {
        let store = sample::store();
        let launch = first(&store, TrackKind::Thread, "train.py");
        let explanation = explain(&store, launch).unwrap();
        let parts =
            [("in the call", 1_000), ("buffered", 49_000), ("suspended", 435_000), ("in flight", 15_000)];
        let expected = Explanation {
            waited_ns: 500_000,
            parts: parts.map(|(name, ns)| Part { name, ns }).into(),
            preemptions: vec![Preemption {
                at_ns: 150_000,
                by: sample::HOSTILE.into(),
                by_pid: Some(200),
                level: Some(1),
                reason: "a more urgent level became ready".into(),
            }],
            neighbours: vec![Neighbour { name: sample::HOSTILE.into(), pid: Some(200), ns: 430_000 }],
        };
        assert_eq!(explanation, expected);
        assert_eq!(explanation.parts.iter().map(|part| part.ns).sum::<u64>(), explanation.waited_ns);
        // The execution has the same explanation.
        assert_eq!(explain(&store, store.ends_of(launch).next().unwrap()).unwrap(), explanation);
    }

    #[test]
    fn the_urgent_process_was_not_preempted() {
        let store = sample::store();
        let explanation = explain(&store, first(&store, TrackKind::Thread, sample::HOSTILE)).unwrap();
        assert_eq!(explanation.waited_ns, 10_000);
        assert!(explanation.preemptions.is_empty() && explanation.neighbours.is_empty());
    }

    #[test]
    fn only_launches_and_executions_are_explained() {
        let store = sample::store();
        assert_eq!(explain(&store, first(&store, TrackKind::Queue, "GPU 0000:c1:00.0")), None);
    }

    #[test]
    fn endless_states_of_a_file_are_divided() {
        let always = 0..u64::MAX;
        let states = ["suspended", "suspended", "buffered", "buffered"].map(|name| (name, always.clone()));
        let parts = observed_parts(&states, &always, u64::MAX);
        assert_eq!(parts, [Part { name: "suspended", ns: u64::MAX }]);
    }

    #[test]
    fn annotated_times_are_divided_completely() {
        let parts = |in_call, buffered, suspended, gated| {
            let parts = divided(&(1_000..1_100), in_call, buffered, suspended, gated);
            assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), 100);
            parts.iter().map(|part| (part.name, part.ns)).collect::<Vec<_>>()
        };
        assert_eq!(
            parts(10, 20, 30, 35),
            [("in the call", 10), ("buffered", 20), ("suspended", 30), ("at a gate", 35), ("in flight", 5)]
        );
        assert_eq!(parts(0, 0, 0, 0), [("in flight", 100)]);
        // The clocks are read one after the other, so a part may appear longer than the whole.
        assert_eq!(parts(50, 0, 90, 0), [("in the call", 10), ("suspended", 90)]);
    }
}
