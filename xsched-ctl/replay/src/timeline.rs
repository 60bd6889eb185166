//! A run of the model as a timeline, in the form of a recording: `view` opens it, and it can be replayed.
//!
//! | in the run | in the trace |
//! | --- | --- |
//! | a command on the device | a slice on the track `NAME PID stream STREAM`, category `gpu`; `debug.timing` is `modelled` |
//! | a process may not launch | a slice `suspended` on the track `NAME PID XQueue`, category `xqueue`; `debug.by`, `debug.by_pid` |
//! | what decided | instants of the category `controller` |
//!
//! Times are those of the recording: the run begins with its first call.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use xsched_perfetto::{
    Annotation, Clocks, Instant, Process, ProcessId, Scope, TraceWriter, Track, TrackId, TrackSlice,
    WriteError,
};
use xsched_sched::simulation::{Execution, Modelled, Wait};
use xsched_sched::{Nanos, PolicyKind};

use crate::model::Parameterised;
use crate::rebuild::Programs;
use crate::recording::Recording;

/// A run.
pub(crate) struct Run<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) programs: &'a Programs,
    pub(crate) policy: PolicyKind,
    pub(crate) parameters: &'a Parameterised,
    pub(crate) modelled: &'a Modelled,
}

impl Run<'_> {
    /// Writes it.
    pub(crate) fn write(&self, to: impl Write) -> Result<(), WriteError> {
        let begin_ns = self.programs.begin_ns;
        let mut writer = TraceWriter::new(to, Clocks { boottime_ns: begin_ns, ..Clocks::now() })?;
        self.write_settings(&mut writer, begin_ns)?;
        let mut tracks = Tracks::default();
        for wait in &self.modelled.waits {
            self.write_wait(&mut writer, &mut tracks, wait)?;
        }
        for execution in &self.modelled.executions {
            self.write_execution(&mut writer, &mut tracks, execution)?;
        }
        Ok(())
    }

    fn write_settings(&self, writer: &mut TraceWriter<impl Write>, ts_ns: u64) -> Result<(), WriteError> {
        let (policy, settings) = (self.policy.to_string(), self.recording.settings.to_text());
        let annotations = [
            Annotation::new("policy", &*policy),
            Annotation::new("state", "active"),
            Annotation::new("settings", &*settings),
        ];
        let name = format!("policy {policy}");
        let scope = Scope::Global;
        writer.instant(&Instant {
            scope,
            ts_ns,
            category: "controller",
            name: &name,
            annotations: &annotations,
        })?;
        for (pid, process) in &self.recording.processes {
            let id = ProcessId { pid: *pid, start_ns: 0 };
            writer.process(&Process { id, name: process.name(), cmdline: &[] })?;
            let (parameters, _) = self.parameters.get(pid).copied().unwrap_or_default();
            let text = parameters.to_text();
            let annotations = [
                Annotation::new("pid", *pid),
                Annotation::new("process", &*process.label),
                Annotation::new("parameters", &*text),
            ];
            let (scope, name) = (Scope::Process(id), "parameters");
            writer.instant(&Instant {
                scope,
                ts_ns,
                category: "controller",
                name,
                annotations: &annotations,
            })?;
        }
        Ok(())
    }

    fn write_execution(
        &self,
        writer: &mut TraceWriter<impl Write>,
        tracks: &mut Tracks,
        execution: &Execution,
    ) -> Result<(), WriteError> {
        let Execution { claim, stream, step, called, submitted, launched, began, ended } = *execution;
        let program = &self.programs.all[claim];
        let stream = &program.streams[stream];
        let label = self.label(claim);
        let track = tracks.of(writer, &program.device, &format!("{label} stream {}", stream.name))?;
        let annotations = [
            Annotation::new("pid", program.pid),
            Annotation::new("process", label),
            Annotation::new("stream", &*stream.name),
            Annotation::new("timing", "modelled"),
            Annotation::new("queue_delay_ns", (began - called).0),
            Annotation::new("host_ns", (submitted - called).0),
            Annotation::new("buffered_ns", (launched - submitted).0),
            Annotation::new("behind_ns", (began - launched).0),
        ];
        let kernel = stream.steps[step].class as usize;
        writer.track_slice(&TrackSlice {
            track,
            begin_ns: self.time_ns(began),
            end_ns: Some(self.time_ns(ended)),
            category: "gpu",
            name: self.recording.names.get(kernel).map_or("command", |name| name),
            annotations: &annotations,
            ended_flow: None,
        })
    }

    fn write_wait(
        &self,
        writer: &mut TraceWriter<impl Write>,
        tracks: &mut Tracks,
        wait: &Wait,
    ) -> Result<(), WriteError> {
        let Wait { claim, from, to, by } = *wait;
        let (program, label) = (&self.programs.all[claim], self.label(claim));
        let track = tracks.of(writer, &program.device, &format!("{label} XQueue"))?;
        let mut annotations = vec![Annotation::new("pid", program.pid), Annotation::new("process", label)];
        if let Some(by) = by {
            annotations.push(Annotation::new("by", self.label(by)));
            annotations.push(Annotation::new("by_pid", self.programs.all[by].pid));
        }
        writer.track_slice(&TrackSlice {
            track,
            begin_ns: self.time_ns(from),
            end_ns: Some(self.time_ns(to)),
            category: "xqueue",
            name: "suspended",
            annotations: &annotations,
            ended_flow: None,
        })
    }

    fn label(&self, claim: usize) -> &str {
        let pid = self.programs.all[claim].pid;
        self.recording.processes.get(&pid).map_or("", |process| &process.label)
    }

    fn time_ns(&self, time: Nanos) -> u64 {
        self.programs.begin_ns + time.0
    }
}

/// Tracks that are described: groups by device, and their tracks by name.
#[derive(Default)]
struct Tracks {
    groups: BTreeMap<String, TrackId>,
    named: HashMap<(TrackId, String), TrackId>,
}

impl Tracks {
    fn of(
        &mut self,
        writer: &mut TraceWriter<impl Write>,
        device: &str,
        name: &str,
    ) -> Result<TrackId, WriteError> {
        let group = if let Some(group) = self.groups.get(device) {
            *group
        } else {
            let group = writer.track(&Track { parent: Scope::Global, name: device })?;
            self.groups.insert(device.to_owned(), group);
            group
        };
        if let Some(track) = self.named.get(&(group, name.to_owned())) {
            return Ok(*track);
        }
        let track = writer.track(&Track { parent: Scope::Track(group), name })?;
        self.named.insert((group, name.to_owned()), track);
        Ok(track)
    }
}
