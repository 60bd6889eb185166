//! Why a launch waited: what its queue did between the call and the execution, who displaced it, and what the device ran
//! meanwhile.
//!
//! The time from the call to the execution is divided, without rest, into
//!
//! | part | when |
//! | --- | --- |
//! | suspended, buffered | an XQueue of the process was in this state (category `xqueue`) |
//! | in the call | the call had not returned, and its queue was in neither state |
//! | in flight | the rest: handed to the device, behind other work |
//!
//! Without a recorded execution the annotation `queue_delay_ns` of the call is the whole time.

use std::{collections::HashMap, ops::Range};

use serde::Serialize;

use crate::store::{Mark, SliceId, Store, Track, TrackKind};

/// Slices of others that are looked at; a wait during which more ran is explained by what these show.
const NEIGHBOURS_MAX: usize = 100_000;

/// An explanation.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Explanation {
    /// From the call to the execution.
    pub(crate) waited_ns: u64,
    /// Its parts, none of them empty.
    pub(crate) parts: Vec<Part>,
    /// Who displaced the process meanwhile, or before and still did.
    pub(crate) preemptions: Vec<Preemption>,
    /// What ran on the device meanwhile, longest first.
    pub(crate) neighbours: Vec<Neighbour>,
}

/// A part of a wait.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) ns: u64,
}

/// A moment at which a process had to stop.
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

/// Why a call, or what it started, had to wait; `None` if the recording does not say when it ran.
pub(crate) fn explain(store: &Store, id: SliceId) -> Option<Explanation> {
    let (track, index) = store.slices_with(id)?;
    let (launch, execution) = match track.kind {
        TrackKind::Thread => (id, store.ends_of(id).first().copied()),
        TrackKind::Execution => (store.begins_of(id).first().copied()?, Some(id)),
        _ => return None,
    };
    let (launch_track, launch_index) = store.slices_with(launch)?;
    let begin_ns = launch_track.slices.begins_ns()[launch_index];
    let returned_ns = launch_track.slices.ends_ns()[launch_index];
    let end_ns = match execution {
        Some(execution) => {
            let (track, index) = store.slices_with(execution)?;
            track.slices.begins_ns()[index]
        }
        None => begin_ns + store.argument_number(track.slices.arguments(index), "queue_delay_ns")?,
    };
    let wait = begin_ns..end_ns.max(begin_ns);
    let group = launch_track.group;
    let states = states(store, group, &wait);
    let displaced_since =
        states.iter().map(|(_, time)| time.start).min().unwrap_or(wait.start).min(wait.start);
    Some(Explanation {
        waited_ns: wait.end - wait.start,
        parts: parts(&states, &wait, returned_ns),
        preemptions: preemptions(store, group, displaced_since..wait.end),
        neighbours: neighbours(store, group, execution, &wait),
    })
}

/// When the queue that kept the process waiting longest was suspended or buffered, from the begin of the state on.
fn states(store: &Store, group: usize, wait: &Range<u64>) -> Vec<(&'static str, Range<u64>)> {
    let of_track = |track: &Track| {
        let mut states = Vec::new();
        for row in track.slices.rows() {
            for index in track.slices.within(row, wait.start, wait.end) {
                let time = track.slices.begins_ns()[index]..track.slices.ends_ns()[index];
                match store.texts.get(track.slices.name(index)) {
                    "suspended" => states.push(("suspended", time)),
                    "buffered" => states.push(("buffered", time)),
                    _ => {}
                }
            }
        }
        states
    };
    let queues = store.tracks.iter().filter(|track| track.group == group && track.kind == TrackKind::Queue);
    queues
        .map(of_track)
        .max_by_key(|states| states.iter().map(|(_, time)| overlap(time, wait)).sum::<u64>())
        .unwrap_or_default()
}

fn parts(states: &[(&'static str, Range<u64>)], wait: &Range<u64>, returned_ns: u64) -> Vec<Part> {
    let call = wait.start..returned_ns.clamp(wait.start, wait.end);
    let sum = |name: &str, window: &Range<u64>| -> u64 {
        states.iter().filter(|(state, _)| *state == name).map(|(_, time)| overlap(time, window)).sum()
    };
    let (suspended, buffered) = (sum("suspended", wait), sum("buffered", wait));
    let in_call = (call.end - call.start).saturating_sub(sum("suspended", &call) + sum("buffered", &call));
    let in_flight = (wait.end - wait.start).saturating_sub(suspended + buffered + in_call);
    let parts = [
        ("in the call", in_call),
        ("buffered", buffered),
        ("suspended", suspended),
        ("in flight", in_flight),
    ];
    parts.into_iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| Part { name, ns }).collect()
}

fn preemptions(store: &Store, group: usize, time: Range<u64>) -> Vec<Preemption> {
    let pid = store.groups[group].pid.map(u64::from);
    let mut preemptions: Vec<_> = store
        .tracks
        .iter()
        .flat_map(|track| {
            let first = track.marks.partition_point(|mark| mark.ts_ns < time.start);
            let last = track.marks.partition_point(|mark| mark.ts_ns <= time.end);
            track.marks[first..last.max(first)].iter().map(move |mark| (track, mark))
        })
        .filter(|(_, mark)| is_preemption(store, mark))
        .filter(|(track, mark)| {
            track.group == group || pid.is_some() && store.argument_number(mark.arguments, "pid") == pid
        })
        .map(|(_, mark)| preemption(store, mark))
        .collect();
    preemptions.sort_by_key(|preemption| preemption.at_ns);
    preemptions
}

/// Whether a mark says that somebody was displaced.
pub(crate) fn is_preemption(store: &Store, mark: &Mark) -> bool {
    store.texts.get(mark.name) == "preempted"
}

/// What such a mark says.
pub(crate) fn preemption(store: &Store, mark: &Mark) -> Preemption {
    let text = |name| store.argument_text(mark.arguments, name).unwrap_or_default().to_owned();
    Preemption {
        at_ns: mark.ts_ns - store.span_ns.start,
        by: text("by"),
        by_pid: store.argument_number(mark.arguments, "by_pid"),
        level: store.argument_number(mark.arguments, "level"),
        reason: text("reason"),
    }
}

/// Who else ran on the device, or on any if that is not known.
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
        for row in track.slices.rows() {
            for index in track.slices.within(row, wait.start, wait.end) {
                seen += 1;
                if seen > NEIGHBOURS_MAX {
                    break;
                }
                let id = SliceId { track: number as u32, index: index as u32 };
                let owner = owner(store, id);
                if owner != group {
                    let time = track.slices.begins_ns()[index]..track.slices.ends_ns()[index];
                    *by_group.entry(owner).or_default() += overlap(&time, wait);
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

/// The group of the process for which something is executed: that of its launch, or of its track.
pub(crate) fn owner(store: &Store, execution: SliceId) -> usize {
    match store.begins_of(execution).first() {
        Some(launch) => store.tracks[launch.track as usize].group,
        None => store.tracks[execution.track as usize].group,
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn first(store: &Store, kind: TrackKind, group: &str) -> SliceId {
        let is_it = |track: &Track| track.kind == kind && store.groups[track.group].name == group;
        SliceId { track: store.tracks.iter().position(is_it).unwrap() as u32, index: 0 }
    }

    #[test]
    fn a_wait_is_divided_without_rest_and_names_who_was_in_the_way() {
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
        // What was started is asked about in the same way.
        assert_eq!(explain(&store, store.ends_of(launch)[0]).unwrap(), explanation);
    }

    #[test]
    fn the_urgent_one_waited_for_nobody() {
        let store = sample::store();
        let explanation = explain(&store, first(&store, TrackKind::Thread, sample::HOSTILE)).unwrap();
        assert_eq!(explanation.waited_ns, 10_000);
        assert!(explanation.preemptions.is_empty() && explanation.neighbours.is_empty());
    }

    #[test]
    fn what_has_no_execution_is_not_explained() {
        let store = sample::store();
        assert_eq!(explain(&store, first(&store, TrackKind::Queue, "train.py")), None);
    }
}
