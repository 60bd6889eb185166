//! Scheduling in the timeline.
//!
//! Everything of a device is in a group `GPU ADDRESS`, where processes are named `NAME PID`.
//!
//! | recorded | in the trace |
//! | --- | --- |
//! | an execution | a slice named after the kernel, or the function, on the track `NAME PID stream STREAM`, category `gpu` |
//! | the same for streams beyond the first 64 of a process on the device | on shared tracks, `NAME PID more streams`, as many as are needed so that no slices overlap, at most 4,096; `debug.stream` is the stream |
//! | how its times are known | `debug.timing`: `measured` or `estimated` |
//! | the call that started it | an arrow from the call's slice; `debug.api` |
//! | its origin, verdict and rule | `debug.origin`, `debug.verdict`, `debug.rule`, as for the call |
//! | its delay | `debug.queue_delay_ns`: from the call to the beginning. Its parts are `debug.host_ns`, `debug.buffered_ns`, `debug.behind_ns` and `debug.gated_ns`. `debug.suspended_ns` is the part of `debug.buffered_ns` in which others were more urgent; in all of `debug.gated_ns` they were |
//! | the process that preempted it for the longest time | `debug.by`, `debug.by_pid`, `debug.by_level` |
//! | the state of an XQueue | slices `running`, `suspended`, `buffered` on the track `NAME PID XQueue`, category `xqueue`; `debug.by`, … |
//! | a claim with work is suspended | an instant `preempted` there, category `arbiter`, with `debug.by`, `debug.by_pid`, `debug.by_level`, `debug.level`, `debug.reason` |
//! | the most urgent level with work | a slice `level N: NAME PID, …` on the track `arbiter`, category `arbiter`; `debug.level`, `debug.pids` |
//! | deferred commands | the counter `deferred ADDRESS` of the process |
//! | policy, settings and state of the controller | an instant `policy NAME`, category `controller`, at the beginning and with each change; `debug.policy`, `debug.state`, `debug.settings` as JSON |
//! | the parameters of a process | an instant `parameters` on the track of the process, category `controller`; `debug.parameters` as JSON |
//! | expected device time of what is in flight | the counter `in-flight time ADDRESS` of the process |
//! | device time of executions | the counter `device time ADDRESS` of the process |
//!
//! With `--gpu-render-stages`, an execution is Perfetto's typed GPU event instead. The stage is the kernel, the queue
//! is named like the track, the annotations are its extra data, and its number is that of the arrow.
//!
//! All slices have `debug.pid` and `debug.process`. An XQueue of streams with their own priority is named `NAME PID
//! XQueue +1`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use xsched_control_api::device_address::device_name;
use xsched_perfetto::{
    Annotation, CounterId, CounterTrack, GpuStage, ProcessId, Scope, Track, TrackId, TrackSlice, Unit,
    WriteError,
};

use super::{Executions, Timeline};
use crate::call::{Argument, Judged};
use crate::scheduling::{Entry, Execution, Holder, Phase, Preemption, Regime, XQueueId};

/// Processes that scheduling entries refer to.
pub(crate) type Labels = HashMap<u32, Labelled>;

/// How a process is shown.
#[derive(Clone, Debug)]
pub(crate) struct Labelled {
    /// Its id and start time.
    pub(crate) id: ProcessId,
    /// Its name and its process id.
    pub(crate) label: Arc<str>,
}

/// Limit on tracks and counters that are remembered as described. When it is reached, all are described again as they
/// are used.
const DESCRIBED_MAX: usize = 1 << 14;

/// Most streams of a process on a device with their own tracks: a thousand tracks would be unreadable.
const OWN_TRACKS_MAX: usize = 64;

/// Most tracks that the other streams share: as many as streams of a process are followed at once. If a process reports
/// more at once, which a correct one does not, these overlap on the last track.
const SHARED_TRACKS_MAX: usize = 1 << 12;

/// Least distance between samples of a process's device time.
const DEVICE_TIME_EVERY_NS: u64 = 1_000_000;

/// What has been described since the trace began.
#[derive(Default)]
pub(super) struct Tracks {
    named: HashMap<(u64, String), TrackId>,
    gpus: Vec<u64>,
    counters: HashMap<(ProcessId, u64, &'static str), CounterId>,
    /// By process and device: the device time, and when it was last shown.
    device_ns: HashMap<(ProcessId, u64), (u64, u64)>,
    /// Streams by process and device.
    streams: HashMap<(ProcessId, u64), Streams>,
    /// Arrows with larger numbers may have begun in this trace.
    flow_floor: u64,
    flow_last: u64,
}

/// Which streams of a process on a device have their own tracks, and until when shared tracks are occupied.
#[derive(Default)]
struct Streams {
    own: HashSet<u64>,
    shared: Vec<u64>,
}

impl Streams {
    /// The index of the shared track for a slice of a stream; none if the stream has its own.
    fn shared(&mut self, stream: u64, begin_ns: u64, end_ns: u64) -> Option<usize> {
        if self.own.contains(&stream) || self.own.len() < OWN_TRACKS_MAX {
            self.own.insert(stream);
            return None;
        }
        let free = self.shared.iter().position(|taken_until_ns| *taken_until_ns <= begin_ns);
        let number = free.unwrap_or_else(|| {
            if self.shared.len() < SHARED_TRACKS_MAX {
                self.shared.push(0);
            }
            self.shared.len() - 1
        });
        self.shared[number] = end_ns.max(begin_ns).max(self.shared[number]);
        Some(number)
    }
}

impl Tracks {
    /// A new trace begins: nothing is described any more, and earlier arrows are in another trace.
    pub(super) fn restart(&mut self) {
        self.named.clear();
        self.counters.clear();
        self.flow_floor = self.flow_last;
    }

    /// Forgets the data of all processes but these.
    pub(super) fn forget_all_but(&mut self, labels: &Labels) {
        let known: HashSet<ProcessId> = labels.values().map(|labelled| labelled.id).collect();
        self.device_ns.retain(|(process, _), _| known.contains(process));
        self.streams.retain(|(process, _), _| known.contains(process));
    }

    /// A device's number, in the order of first use.
    fn gpu(&mut self, device: u64) -> u32 {
        let known = self.gpus.iter().position(|known| *known == device);
        known.unwrap_or_else(|| {
            self.gpus.push(device);
            self.gpus.len() - 1
        }) as u32
    }

    /// An arrow begins.
    pub(super) fn begins(&mut self, flow: u64) {
        self.flow_last = self.flow_last.max(flow);
    }
}

impl Timeline {
    /// Writes a scheduling entry. All its processes must be in `labels`.
    pub(crate) fn scheduling(&mut self, labels: &Labels, entry: &Entry) -> Result<(), WriteError> {
        match entry {
            Entry::Execution(execution) => self.execution(labels, execution),
            Entry::Phase(phase) => self.phase(labels, phase),
            Entry::Ready { device, level, pids, begin_ns, end_ns } => {
                let labels: Vec<_> = pids.iter().map(|pid| label(labels, *pid).to_string()).collect();
                let (labels, numbers) = (labels.join(", "), join(pids));
                let track = self.device_track(*device, "arbiter")?;
                self.writer.track_slice(&TrackSlice {
                    track,
                    begin_ns: *begin_ns,
                    end_ns: Some(*end_ns),
                    category: "arbiter",
                    name: &format!("level {level}: {labels}"),
                    annotations: &[
                        Annotation::new("level", *level),
                        Annotation::new("pids", &*numbers),
                        Annotation::new("processes", &*labels),
                    ],
                    ended_flow: None,
                })
            }
            Entry::Preempted(preemption) => self.preemption(labels, preemption),
            Entry::Depth(xqueue, time_ns, depth) => {
                self.sample(labels, *xqueue, "deferred", Unit::Count, *time_ns, *depth)
            }
            Entry::InFlight(xqueue, time_ns, ahead_ns) => {
                self.sample(labels, *xqueue, "in-flight time", Unit::Ns, *time_ns, *ahead_ns)
            }
            Entry::Regime(time_ns, Regime { policy, state, settings }) => {
                let (name, settings) = (format!("policy {policy}"), settings.to_text());
                let annotations = [
                    Annotation::new("policy", &**policy),
                    Annotation::new("state", &**state),
                    Annotation::new("settings", &*settings),
                ];
                self.writer.instant(&controller_instant(Scope::Global, *time_ns, &name, &annotations))
            }
            Entry::Parameters(pid, time_ns, parameters) => {
                let (own, text) = (label(labels, *pid), parameters.to_text());
                let scope = labels.get(pid).map_or(Scope::Global, |labelled| Scope::Process(labelled.id));
                let annotations = [
                    Annotation::new("pid", *pid),
                    Annotation::new("process", &own),
                    Annotation::new("parameters", &*text),
                ];
                self.writer.instant(&controller_instant(scope, *time_ns, "parameters", &annotations))
            }
        }
    }

    /// Forgets the data of all processes but these; the others have ended.
    pub(crate) fn forget_all_but(&mut self, labels: &Labels) {
        self.tracks.forget_all_but(labels);
    }

    /// Number of remembered items.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        let Tracks { named, counters, device_ns, streams, .. } = &self.tracks;
        named.len() + counters.len() + device_ns.len() + streams.len()
    }

    fn execution(&mut self, labels: &Labels, execution: &Execution) -> Result<(), WriteError> {
        let Execution { xqueue, begin_ns, end_ns, .. } = *execution;
        let own = label(labels, xqueue.pid);
        let stream = Argument::Stream(execution.stream).to_string();
        let life = labels.get(&xqueue.pid).map_or(ProcessId { pid: xqueue.pid, start_ns: 0 }, |own| own.id);
        let streams = self.tracks.streams.entry((life, xqueue.device)).or_default();
        let queue = match streams.shared(execution.stream, begin_ns, end_ns) {
            None => format!("{own} stream {stream}"),
            Some(0) => format!("{own} more streams"),
            Some(number) => format!("{own} more streams {}", number + 1),
        };
        let track = self.device_track(xqueue.device, &queue)?;
        let mut annotations = vec![
            Annotation::new("pid", xqueue.pid),
            Annotation::new("process", &own),
            Annotation::new("stream", &*stream),
            Annotation::new("timing", execution.timing.name()),
            Annotation::new("queue_delay_ns", begin_ns.saturating_sub(execution.called_ns)),
            Annotation::new("host_ns", execution.host_ns),
            Annotation::new("buffered_ns", execution.buffered_ns),
            Annotation::new("suspended_ns", execution.suspended_ns),
            Annotation::new("behind_ns", execution.behind_ns),
            Annotation::new("gated_ns", execution.gated_ns),
        ];
        annotations.extend(execution.api.map(|api| Annotation::new("api", api)));
        annotations.extend(execution.origin.as_ref().map(|origin| Annotation::new("origin", &**origin)));
        annotations.extend(judged(execution.judged.as_ref()));
        let holder = execution.holder.map(|holder| (label(labels, holder.pid), holder));
        annotations.extend(by(holder.as_ref()).into_iter().flatten());
        let name = execution
            .name
            .as_ref()
            .map(|name| self.folded.as_mut().map_or(name, |folded| folded.of(name)).clone());
        let name = name.as_deref().unwrap_or("command");
        let ended_flow = execution.flow.filter(|flow| *flow > self.tracks.flow_floor);
        match self.executions {
            Executions::Slices => self.writer.track_slice(&TrackSlice {
                track,
                begin_ns,
                end_ns: Some(end_ns),
                category: "gpu",
                name,
                annotations: &annotations,
                ended_flow,
            })?,
            Executions::RenderStages => self.writer.gpu_stage(&GpuStage {
                gpu: self.tracks.gpu(xqueue.device),
                gpu_name: &gpu_name(xqueue.device),
                queue: &queue,
                pid: xqueue.pid,
                begin_ns,
                end_ns,
                name,
                annotations: &annotations,
                ended_flow,
            })?,
        }
        self.add_device_time(labels, xqueue, end_ns, end_ns.saturating_sub(begin_ns))
    }

    fn phase(&mut self, labels: &Labels, phase: &Phase) -> Result<(), WriteError> {
        let own = label(labels, phase.xqueue.pid);
        let track = self.xqueue_track(&own, phase.xqueue)?;
        let holder = phase.holder.map(|holder| (label(labels, holder.pid), holder));
        let mut annotations =
            vec![Annotation::new("pid", phase.xqueue.pid), Annotation::new("process", &own)];
        annotations.extend(phase.level.map(|level| Annotation::new("level", u64::from(level))));
        annotations.extend(by(holder.as_ref()).into_iter().flatten());
        self.writer.track_slice(&TrackSlice {
            track,
            begin_ns: phase.begin_ns,
            end_ns: Some(phase.end_ns),
            category: "xqueue",
            name: phase.doing.name(),
            annotations: &annotations,
            ended_flow: None,
        })
    }

    fn preemption(&mut self, labels: &Labels, preemption: &Preemption) -> Result<(), WriteError> {
        let Preemption { xqueue, time_ns, level, by: holder, reason } = *preemption;
        let own = label(labels, xqueue.pid);
        let track = self.xqueue_track(&own, xqueue)?;
        let holder = (label(labels, holder.pid), holder);
        let mut annotations = vec![
            Annotation::new("pid", xqueue.pid),
            Annotation::new("process", &own),
            Annotation::new("level", level),
            Annotation::new("reason", reason),
        ];
        annotations.extend(by(Some(&holder)).into_iter().flatten());
        self.writer.instant(&xsched_perfetto::Instant {
            scope: Scope::Track(track),
            ts_ns: time_ns,
            category: "arbiter",
            name: "preempted",
            annotations: &annotations,
        })
    }

    fn add_device_time(
        &mut self,
        labels: &Labels,
        xqueue: XQueueId,
        time_ns: u64,
        more_ns: u64,
    ) -> Result<(), WriteError> {
        let Some(labelled) = labels.get(&xqueue.pid) else { return Ok(()) };
        let known = self.tracks.device_ns.entry((labelled.id, xqueue.device)).or_default();
        known.0 = known.0.saturating_add(more_ns);
        let total_ns = known.0;
        if time_ns < known.1.saturating_add(DEVICE_TIME_EVERY_NS) {
            return Ok(());
        }
        known.1 = time_ns;
        self.sample(labels, xqueue, "device time", Unit::Ns, time_ns, total_ns)
    }

    fn sample(
        &mut self,
        labels: &Labels,
        xqueue: XQueueId,
        name: &'static str,
        unit: Unit,
        time_ns: u64,
        value: u64,
    ) -> Result<(), WriteError> {
        let Some(labelled) = labels.get(&xqueue.pid) else { return Ok(()) };
        let key = (labelled.id, xqueue.device, name);
        let counter = if let Some(counter) = self.tracks.counters.get(&key) {
            *counter
        } else {
            let name = format!("{name} {}", device_name(xqueue.device));
            let track = CounterTrack { scope: Scope::Process(labelled.id), name: &name, unit };
            let counter = self.writer.counter_track(&track)?;
            if self.tracks.counters.len() >= DESCRIBED_MAX {
                self.tracks.counters.clear();
            }
            self.tracks.counters.insert(key, counter);
            counter
        };
        self.writer.counter(counter, time_ns, i64::try_from(value).unwrap_or(i64::MAX))
    }

    fn xqueue_track(&mut self, own: &str, xqueue: XQueueId) -> Result<TrackId, WriteError> {
        let name = match xqueue.stream_priority {
            0 => format!("{own} XQueue"),
            priority => format!("{own} XQueue {priority:+}"),
        };
        self.device_track(xqueue.device, &name)
    }

    /// A track in a device's group.
    fn device_track(&mut self, device: u64, name: &str) -> Result<TrackId, WriteError> {
        if let Some(track) = self.tracks.named.get(&(device, name.to_owned())) {
            return Ok(*track);
        }
        let parent = self.writer.track(&Track { parent: Scope::Global, name: &gpu_name(device) })?;
        let track = self.writer.track(&Track { parent: Scope::Track(parent), name })?;
        if self.tracks.named.len() >= DESCRIBED_MAX {
            self.tracks.named.clear();
        }
        self.tracks.named.insert((device, name.to_owned()), track);
        Ok(track)
    }
}

fn controller_instant<'a>(
    scope: Scope,
    ts_ns: u64,
    name: &'a str,
    annotations: &'a [Annotation<'a>],
) -> xsched_perfetto::Instant<'a> {
    xsched_perfetto::Instant { scope, ts_ns, category: "controller", name, annotations }
}

/// The name of a device, and of the group of its tracks.
fn gpu_name(device: u64) -> String {
    format!("GPU {}", device_name(device))
}

fn label(labels: &Labels, pid: u32) -> Arc<str> {
    labels.get(&pid).map_or_else(|| pid.to_string().into(), |labelled| Arc::clone(&labelled.label))
}

/// The annotations of the preempting process.
fn by(holder: Option<&(Arc<str>, Holder)>) -> Option<[Annotation<'_>; 3]> {
    let (label, holder) = holder?;
    Some([
        Annotation::new("by", label),
        Annotation::new("by_pid", holder.pid),
        Annotation::new("by_level", holder.level),
    ])
}

/// The annotations of a verdict.
pub(super) fn judged(judged: Option<&Judged>) -> impl Iterator<Item = Annotation<'_>> {
    judged.into_iter().flat_map(|Judged { verdict, mode, rule }| {
        let mode = (*mode != 0).then(|| Annotation::new("level_max", u64::from(*mode)));
        [Some(Annotation::new("verdict", *verdict)), Some(Annotation::new("rule", &**rule)), mode]
            .into_iter()
            .flatten()
    })
}

fn join(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process may report that everything it has ever done is still in progress.
    #[test]
    fn the_number_of_shared_tracks_is_limited() {
        let mut streams = Streams::default();
        let shared = |number| streams.shared(number, 1, u64::MAX);
        assert!((0..3 * SHARED_TRACKS_MAX as u64).map(shared).max() < Some(Some(SHARED_TRACKS_MAX)));
        assert_eq!(streams.shared.len(), SHARED_TRACKS_MAX);
    }

    #[test]
    fn a_thousand_streams_share_tracks_on_which_nothing_overlaps() {
        let mut streams = Streams::default();
        let mut shown: HashMap<Option<usize>, Vec<(u64, u64)>> = HashMap::new();
        for number in 0..1000 {
            // Each lasts until after the next two begin.
            let (begin_ns, end_ns) = (10 * number, 10 * number + 25);
            shown.entry(streams.shared(number, begin_ns, end_ns)).or_default().push((begin_ns, end_ns));
        }
        assert_eq!(shown.remove(&None).map(|own| own.len()), Some(OWN_TRACKS_MAX));
        let mut shared: Vec<_> = shown.keys().copied().collect();
        shared.sort_unstable();
        assert_eq!(shared, [Some(0), Some(1), Some(2)]);
        for slices in shown.values() {
            assert!(slices.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{slices:?}");
        }
        assert_eq!(streams.shared(3, 0, 1), None, "it still has its track");
    }
}
