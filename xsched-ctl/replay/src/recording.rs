//! Reads a recording: which commands each process put on which device, when they ran, and what the controller decided by.
//!
//! The format is that of `timeline/scheduling.rs` in the tracer.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use xsched_control_api::{answer::Settings, parameters::Parameters};
use xsched_perfetto::{
    OwnedAnnotation, OwnedSlice, OwnedValue, ReadError, Scope, TraceEvent, TraceReader, TrackId,
};
use xsched_sched::PolicyKind;

use crate::ReplayError;

/// A recording.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) policy: PolicyKind,
    pub(crate) settings: Settings,
    pub(crate) processes: BTreeMap<u32, Process>,
    /// By device and process.
    pub(crate) claims: BTreeMap<(Arc<str>, u32), Claim>,
    /// Processes that were the only ones at the front of a device until these times.
    pub(crate) fronts: Vec<(u32, u64)>,
    /// Names of kernels, by their numbers.
    pub(crate) names: Vec<Arc<str>>,
    /// Processes whose parameters have changed meanwhile; the last ones count.
    pub(crate) changed: Vec<u32>,
    /// Why it could be read in part only.
    pub(crate) damage: Option<ReadError>,
}

/// A process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// Its name and process id.
    pub(crate) label: Arc<str>,
    /// None if the controller did not say.
    pub(crate) parameters: Option<Parameters>,
    /// When the controller first named it, in nanoseconds of `CLOCK_BOOTTIME`.
    pub(crate) known_ns: Option<u64>,
    /// Begin and end of calls that may have waited for the device, in the order of their ends; `None`: its calls were not recorded.
    pub(crate) waits: Option<Vec<(u64, u64)>>,
}

impl Process {
    /// Its name without the process id.
    pub(crate) fn name(&self) -> &str {
        self.label.rsplit_once(' ').map_or("", |(name, _)| name)
    }
}

/// What a process does on a device: the commands of each stream, in the order of their calls.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    pub(crate) streams: BTreeMap<Arc<str>, Vec<Command>>,
}

/// A command. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) called_ns: u64,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// Time in the call and on the way to the runtime.
    pub(crate) host_ns: u64,
    pub(crate) was_deferred: bool,
    /// Number of the kernel's name.
    pub(crate) kernel: usize,
}

/// What is known so far.
#[derive(Default)]
struct Reading {
    regimes: Vec<(PolicyKind, Settings)>,
    unknown_policy: Option<String>,
    idle_state: Option<String>,
    tracks: HashMap<TrackId, (Scope, Arc<str>)>,
    processes: BTreeMap<u32, Process>,
    claims: BTreeMap<(Arc<str>, u32), Claim>,
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, usize>,
    changed: Vec<u32>,
    fronts: Vec<(u32, u64)>,
    /// By process.
    waits: HashMap<u32, Vec<(u64, u64)>>,
}

impl Recording {
    /// Reads a recording as far as it can be read.
    pub(crate) fn read(path: &Path, input: impl io::Read) -> Result<Self, ReplayError> {
        let mut reader = TraceReader::new(input);
        let (mut read, mut damage) = (Reading::default(), None);
        while let Some(event) = reader.next() {
            match event {
                Ok(event) => read.event(event),
                Err(cause) if reader.bytes_read() == 0 => {
                    return Err(ReplayError::NotATrace { path: path.to_owned(), cause });
                }
                Err(cause) => damage = Some(cause),
            }
        }
        read.finish(path, damage)
    }
}

impl Reading {
    fn event(&mut self, event: TraceEvent) {
        match event {
            TraceEvent::Track { id, parent, name } => drop(self.tracks.insert(id, (parent, name))),
            TraceEvent::Slice(slice) if &*slice.category == "arbiter" => {
                let alone = text(&slice.annotations, "pids").and_then(|pids| pids.parse().ok());
                self.fronts.extend(alone.zip(slice.end_ns));
            }
            TraceEvent::Slice(slice) if &*slice.category == "gpu" => self.execution(&slice),
            TraceEvent::Slice(OwnedSlice {
                scope: Scope::Thread(thread), begin_ns, end_ns, name, ..
            }) => {
                let waits = self.waits.entry(thread.process.pid).or_default();
                waits.extend(end_ns.filter(|_| may_wait(&name)).map(|end_ns| (begin_ns, end_ns)));
            }
            TraceEvent::Instant { category, name, annotations, ts_ns, .. } if &*category == "controller" => {
                if &*name == "parameters" {
                    self.parameters(ts_ns, &annotations);
                } else {
                    self.regime(&annotations);
                }
            }
            _ => {}
        }
    }

    fn regime(&mut self, annotations: &[OwnedAnnotation]) {
        let text = |name| text(annotations, name);
        let (Some(policy), Some(settings)) = (text("policy"), text("settings")) else { return };
        if let Some(state) = text("state").filter(|state| &**state != "active") {
            self.idle_state = Some(state.to_string());
        }
        match (policy.parse(), Settings::of_text(&settings)) {
            (Ok(policy), Some(settings)) => {
                if self.regimes.last() != Some(&(policy, settings)) {
                    self.regimes.push((policy, settings));
                }
            }
            _ => self.unknown_policy = Some(policy.to_string()),
        }
    }

    fn parameters(&mut self, ts_ns: u64, annotations: &[OwnedAnnotation]) {
        let Some(pid) = number(annotations, "pid").and_then(|pid| u32::try_from(pid).ok()) else { return };
        let parameters = text(annotations, "parameters").and_then(|text| Parameters::of_text(&text));
        let process = self.process(pid, annotations);
        process.known_ns.get_or_insert(ts_ns);
        let before = std::mem::replace(&mut process.parameters, parameters);
        if before.is_some_and(|before| parameters.is_some_and(|now| now != before)) {
            self.changed.push(pid);
        }
    }

    fn process(&mut self, pid: u32, annotations: &[OwnedAnnotation]) -> &mut Process {
        self.processes.entry(pid).or_insert_with(|| {
            let label = text(annotations, "process").unwrap_or_else(|| pid.to_string().into());
            Process { label, parameters: None, known_ns: None, waits: None }
        })
    }

    /// One that has not ended is left out.
    fn execution(&mut self, slice: &OwnedSlice) {
        let number = |name| number(&slice.annotations, name);
        let pid = number("pid").and_then(|pid| u32::try_from(pid).ok());
        let (Some(pid), Some(end_ns)) = (pid, slice.end_ns) else { return };
        let part = |name| number(name).unwrap_or(0);
        let kernel = self.kernel(&slice.name);
        let command = Command {
            called_ns: slice.begin_ns.saturating_sub(part("queue_delay_ns")),
            begin_ns: slice.begin_ns,
            end_ns: end_ns.max(slice.begin_ns),
            host_ns: part("host_ns"),
            was_deferred: part("buffered_ns") > 0,
            kernel,
        };
        self.process(pid, &slice.annotations);
        let stream = text(&slice.annotations, "stream").unwrap_or_else(|| "".into());
        let claim = self.claims.entry((self.device(slice.scope), pid)).or_default();
        claim.streams.entry(stream).or_default().push(command);
    }

    /// The name of the group of a track.
    fn device(&self, scope: Scope) -> Arc<str> {
        let parent = |scope| if let Scope::Track(id) = scope { self.tracks.get(&id) } else { None };
        let group = parent(scope).and_then(|(group, _)| parent(*group));
        group.map_or_else(|| "GPU".into(), |(_, name)| Arc::clone(name))
    }

    fn kernel(&mut self, name: &Arc<str>) -> usize {
        *self.numbers.entry(Arc::clone(name)).or_insert_with(|| {
            self.names.push(Arc::clone(name));
            self.names.len() - 1
        })
    }

    fn finish(self, path: &Path, damage: Option<ReadError>) -> Result<Recording, ReplayError> {
        let Self {
            regimes,
            unknown_policy,
            idle_state,
            mut processes,
            mut claims,
            names,
            mut changed,
            mut waits,
            fronts,
            ..
        } = self;
        let path = || path.to_owned();
        if claims.is_empty() {
            return Err(ReplayError::NoExecutions(path()));
        }
        if let Some(policy) = unknown_policy {
            return Err(ReplayError::UnknownPolicy { path: path(), policy });
        }
        let Some(&(policy, settings)) = regimes.first() else {
            return Err(ReplayError::NoController(path()));
        };
        if let Some((other, _)) = regimes.iter().find(|regime| **regime != (policy, settings)) {
            let [was, then] = [policy, *other].map(|policy| policy.to_string());
            return Err(ReplayError::Changed { path: path(), was, then });
        }
        if let Some(state) = idle_state {
            return Err(ReplayError::Idle { path: path(), state });
        }
        for commands in claims.values_mut().flat_map(|claim| claim.streams.values_mut()) {
            commands.sort_by_key(|command| (command.called_ns, command.end_ns));
        }
        for (pid, process) in &mut processes {
            process.waits = waits.remove(pid);
            process.waits.iter_mut().for_each(|waits| waits.sort_unstable_by_key(|(_, end_ns)| *end_ns));
        }
        changed.sort_unstable();
        changed.dedup();
        Ok(Recording { policy, settings, processes, claims, fronts, names, changed, damage })
    }
}

/// Whether a function of HIP or CUDA may return when something has completed.
fn may_wait(function: &str) -> bool {
    let is = |part: &str| function.contains(part);
    is("Synchronize") || is("Query") || (is("Memcpy") || is("Memset")) && !is("Async")
}

fn text(annotations: &[OwnedAnnotation], name: &str) -> Option<Arc<str>> {
    annotations.iter().find(|annotation| &*annotation.name == name).and_then(|found| match &found.value {
        OwnedValue::Str(text) => Some(Arc::clone(text)),
        _ => None,
    })
}

fn number(annotations: &[OwnedAnnotation], name: &str) -> Option<u64> {
    annotations.iter().find(|annotation| &*annotation.name == name).and_then(|found| match found.value {
        OwnedValue::U64(number) => Some(number),
        OwnedValue::I64(number) => u64::try_from(number).ok(),
        _ => None,
    })
}
