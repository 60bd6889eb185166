//! Takes in resolved calls: writes them to the timeline, and adds them to the summary.

mod sink;

use std::collections::{BTreeMap, HashSet};
use std::fs;

use xsched_perfetto::{Process, ProcessId, ThreadId, WriteError};
use xsched_symbols::{Change, Processes, now_ns};

use crate::call::RuntimeCall;
use crate::driver::{DriverCall, DriverSummary};
use crate::error::TracerError;
use crate::flight_recorder::Item;
use crate::machine::{Machine, Row};
use crate::output::Destination;
use crate::scheduling::{Changes, Entry};
use crate::summary::Summary;
use crate::timeline::{Labelled, Labels, Style, Timeline};
use sink::After;
pub use sink::Sink;
use xsched_bpf::Losses;
use xsched_recording::{LeftOut, Reason};
use xsched_terminal::Internal;

/// Takes in calls.
pub struct Recorder {
    recording: Option<Recording>,
    /// Why the timeline could not be written to its end.
    failure: Option<TracerError>,
    summary: Summary,
    driver_summary: DriverSummary,
    /// For each process, if requested.
    machine: Option<Machine>,
    losses: Losses,
    left_out: LeftOut,
    /// Calls that came when the sink took no more.
    oversize: u64,
    /// Whether the timeline says why it ends early.
    has_reason: bool,
    notices: Vec<String>,
}

/// Why a recording ends whose file is full.
pub const SIZE_REACHED: &str = "its file has reached `--max-size`";

struct Recording {
    timeline: Timeline,
    sink: Sink,
    /// Processes and threads whose names are in the trace.
    processes: HashSet<ProcessId>,
    threads: HashSet<ThreadId>,
    /// Processes that scheduling entries refer to.
    labels: Labels,
    /// At this number of labels, those of ended processes are forgotten.
    labels_max: usize,
    /// The latest settings and parameters, which each further trace repeats.
    settings: Option<Entry>,
    parameters: BTreeMap<u32, Entry>,
    /// The sink takes no more calls.
    is_full: bool,
}

/// Number of labels at which those of ended processes are first looked for.
const LABELS_MAX: usize = 1 << 12;

/// What was recorded, for the final report.
pub struct Recorded {
    /// Destination of the trace and its size in bytes; none if no trace was requested, or it could not be written.
    pub trace: Option<(Destination, u64)>,
    /// Why it could not be written to its end. The totals are those of what was to be in it.
    pub failure: Option<TracerError>,
    /// Further messages for the user.
    pub notices: Vec<String>,
    /// By library.
    pub summary: Summary,
    /// By command of the driver.
    pub driver_summary: DriverSummary,
    /// By process, if requested.
    pub machine: Option<Machine>,
    /// What is missing.
    pub losses: Losses,
    /// What filters have left out.
    pub left_out: LeftOut,
}

impl Recorder {
    /// Writes a timeline to `sink`, if there is one.
    pub fn new(sink: Option<Sink>, style: Style) -> Result<Self, TracerError> {
        let recording = sink
            .map(|sink| {
                Ok::<_, TracerError>(Recording {
                    timeline: Timeline::new(style).map_err(memory_write)?,
                    sink,
                    processes: HashSet::new(),
                    threads: HashSet::new(),
                    labels: Labels::new(),
                    labels_max: LABELS_MAX,
                    settings: None,
                    parameters: BTreeMap::new(),
                    is_full: false,
                })
            })
            .transpose()?;
        Ok(Self {
            recording,
            failure: None,
            summary: Summary::default(),
            driver_summary: DriverSummary::default(),
            machine: None,
            losses: Losses::default(),
            left_out: LeftOut::default(),
            oversize: 0,
            has_reason: false,
            notices: Vec::new(),
        })
    }

    /// Also computes totals for each process.
    #[must_use]
    pub fn per_process(self) -> Self {
        Self { machine: Some(Machine::default()), ..self }
    }

    /// Totals for each process so far, if requested.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    pub(crate) fn call(&mut self, processes: &mut Processes, call: &RuntimeCall) -> Result<(), TracerError> {
        if self.refuses_call() {
            return Ok(());
        }
        self.summary.add(call);
        if let Some(machine) = &mut self.machine {
            let process = processes.find(call.pid, call.begin_ns);
            let start_ns = process.map_or(0, xsched_symbols::Process::started_ns);
            machine.add(ProcessId { pid: call.pid, start_ns }, call, || {
                let name = process.map(|process| process.display_name()).unwrap_or_default();
                Row::new(&name, process.and_then(xsched_symbols::Process::ended_ns))
            });
        }
        let Some(recording) = &mut self.recording else { return Ok(()) };
        let process =
            recording.describe(processes, call.pid, call.tid, call.begin_ns).map_err(memory_write)?;
        recording.timeline.call(process, call).map_err(memory_write)?;
        recording.end_or_close(Item::Hip(call))
    }

    /// Whether a call cannot be recorded any more. One that does not fit is counted.
    fn refuses_call(&mut self) -> bool {
        self.oversize += u64::from(self.is_full() && !self.has_failed());
        self.is_full()
    }

    /// Whether the output takes no more calls, which ends the recording: it has reached its size limit, or has failed.
    pub(crate) fn is_full(&self) -> bool {
        self.has_failed() || self.recording.as_ref().is_some_and(|recording| recording.is_full)
    }

    /// Whether the output has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Notes in the timeline why recording ends early.
    pub(crate) fn ends_because(&mut self, now_ns: u64, reason: &str) -> Result<(), TracerError> {
        self.has_reason = true;
        match &mut self.recording {
            Some(recording) => recording.timeline.ends_because(now_ns, reason).map_err(memory_write),
            None => Ok(()),
        }
    }

    /// Says why the recording ends, if its last calls have filled the file.
    pub(crate) fn ends_full(&mut self, now_ns: u64) -> Result<(), TracerError> {
        if !self.is_full() || self.has_failed() || self.has_reason {
            return Ok(());
        }
        self.notices.push(format!("recording ends: {SIZE_REACHED}"));
        self.ends_because(now_ns, SIZE_REACHED)
    }

    pub(crate) fn driver_call(
        &mut self,
        processes: &mut Processes,
        call: &DriverCall,
    ) -> Result<(), TracerError> {
        if self.refuses_call() {
            return Ok(());
        }
        self.driver_summary.add(call);
        let Some(recording) = &mut self.recording else { return Ok(()) };
        let process =
            recording.describe(processes, call.pid, call.tid, call.begin_ns).map_err(memory_write)?;
        recording.timeline.driver_call(process, call).map_err(memory_write)?;
        recording.end_or_close(Item::Driver)
    }

    pub(crate) fn scheduling(&mut self, processes: &Processes, entries: &[Entry]) -> Result<(), TracerError> {
        let Some(recording) = self.recording.as_mut().filter(|recording| !recording.is_full) else {
            return Ok(());
        };
        for entry in entries {
            recording.name(processes, entry);
            recording.timeline.scheduling(&recording.labels, entry).map_err(memory_write)?;
            recording.end_or_close(Item::Scheduling)?;
        }
        Ok(())
    }

    /// Notes changes of the controller's settings and of processes' parameters.
    pub(crate) fn settings(&mut self, processes: &Processes, changes: Changes) -> Result<(), TracerError> {
        let Changes { entries, left } = changes;
        self.scheduling(processes, &entries)?;
        let Some(recording) = &mut self.recording else { return Ok(()) };
        // The end of a process that is not recorded is not heard of otherwise.
        recording.parameters.retain(|pid, _| !left.contains(pid));
        for entry in entries {
            match entry {
                Entry::Parameters(pid, ..) => drop(recording.parameters.insert(pid, entry)),
                _ => recording.settings = Some(entry),
            }
        }
        Ok(())
    }

    /// Notes the settings of the recording.
    pub fn configure(&mut self, config: Vec<(&'static str, String)>) -> Result<(), TracerError> {
        match &mut self.recording {
            Some(recording) => recording.timeline.configure(now_ns(), config).map_err(memory_write),
            None => Ok(()),
        }
    }

    /// The probes are attached: the timeline begins now, not when attaching began. Nothing was recorded so far.
    pub(crate) fn begin(&mut self) -> Result<(), TracerError> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        recording.timeline.collected().clear();
        recording.timeline.restart().map_err(memory_write)
    }

    /// Notes a change: names that may have changed are written again at their next use.
    pub(crate) fn changed(&mut self, change: &Change) {
        if let (Some(machine), Change::Executed { pid } | Change::Exited { pid }) =
            (&mut self.machine, change)
        {
            machine.ended(*pid, now_ns());
        }
        let Some(recording) = &mut self.recording else { return };
        match *change {
            Change::Renamed { pid, tid } => {
                recording.threads.retain(|thread| thread.tid != tid);
                if pid == tid {
                    recording.processes.retain(|process| process.pid != pid);
                }
            }
            Change::Exited { pid } => {
                recording.forget(pid);
                recording.parameters.remove(&pid);
            }
            _ => {}
        }
    }

    pub(crate) fn losses(&mut self, now_ns: u64, losses: Losses) -> Result<(), TracerError> {
        if losses == self.losses {
            return Ok(());
        }
        self.losses = losses;
        match &mut self.recording {
            Some(recording) => recording.timeline.losses(now_ns, &self.losses).map_err(memory_write),
            None => Ok(()),
        }
    }

    pub(crate) fn left_out(&mut self, now_ns: u64, mut left_out: LeftOut) -> Result<(), TracerError> {
        left_out.add(Reason::Oversize, self.oversize);
        self.left_out = left_out;
        match &mut self.recording {
            Some(recording) => recording.timeline.left_out(now_ns, left_out).map_err(memory_write),
            None => Ok(()),
        }
    }

    /// Writes another correlation of the clocks.
    pub(crate) fn clocks(&mut self) -> Result<(), TracerError> {
        match &mut self.recording {
            Some(recording) => recording.timeline.clocks().map_err(memory_write),
            None => Ok(()),
        }
    }

    /// Forgets data of what ended before a time; calls from before that time no longer wait.
    pub(crate) fn forget_ended(&mut self, before_ns: u64) {
        if let Some(machine) = &mut self.machine {
            machine.forget_ended(before_ns);
        }
    }

    /// Forgets the names of a process that ended a while ago: calls of it may have been written since.
    pub(crate) fn forget(&mut self, pid: u32) {
        if let Some(recording) = &mut self.recording {
            recording.forget(pid);
        }
    }

    /// Passes the timeline to the output once there is enough of it; with `all`, passes everything.
    pub(crate) async fn pass_on(&mut self, all: bool) {
        if let Some(Recording { timeline, sink, .. }) = &mut self.recording
            && let Err(failure) = sink.pass_on(timeline, now_ns(), all).await
        {
            self.recording = None;
            self.failure = Some(failure);
        }
    }

    pub(crate) fn dump(&mut self, reason: &str) {
        match &mut self.recording {
            Some(Recording { sink: Sink::Kept(kept), .. }) => kept.want(reason.to_owned()),
            _ => self.notices.push("there is nothing to dump: `--ring SIZE` keeps a recording".to_owned()),
        }
    }

    /// Messages about the timeline, if there is one.
    pub(crate) fn note(&mut self, notices: Vec<String>) {
        if self.recording.is_some() {
            self.notices.extend(notices);
        }
    }

    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        let mut notices = std::mem::take(&mut self.notices);
        if let Some(Recording { sink: Sink::Kept(kept), .. }) = &mut self.recording {
            notices.extend(kept.take_notices());
        }
        notices
    }

    /// Totals so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Losses so far.
    pub fn lost(&self) -> &Losses {
        &self.losses
    }

    /// Writes the rest and waits until it is written.
    pub(crate) async fn finish(mut self) -> Recorded {
        let mut notices = self.take_notices();
        let (mut trace, mut failure) = (None, self.failure);
        if let Some(Recording { mut timeline, sink, .. }) = self.recording {
            match sink.finish(&mut timeline, now_ns()).await {
                Ok((written, more)) => {
                    trace = Some(written);
                    notices.extend(more);
                }
                Err(error) => failure = Some(error),
            }
        }
        Recorded {
            trace,
            failure,
            notices,
            summary: self.summary,
            driver_summary: self.driver_summary,
            machine: self.machine,
            losses: self.losses,
            left_out: self.left_out,
        }
    }
}

impl Recording {
    /// Does what the sink requires after something has been written.
    fn end_or_close(&mut self, item: Item<'_>) -> Result<(), TracerError> {
        match self.sink.after(item, self.timeline.collected().len()) {
            After::GoOn => {}
            After::End => self.is_full = true,
            After::Close => self.close_segment()?,
        }
        Ok(())
    }

    /// The names of a process and its threads are written again at their next use.
    fn forget(&mut self, pid: u32) {
        self.processes.retain(|process| process.pid != pid);
        self.threads.retain(|thread| thread.process.pid != pid);
    }

    /// Writes the names of the call's process and thread, once.
    fn describe(
        &mut self,
        processes: &mut Processes,
        pid: u32,
        tid: u32,
        begin_ns: u64,
    ) -> Result<ProcessId, WriteError> {
        let found = processes.find(pid, begin_ns);
        let id = ProcessId { pid, start_ns: found.map_or(0, xsched_symbols::Process::started_ns) };
        let thread = ThreadId { process: id, tid };
        let is_new_process = self.processes.insert(id);
        if !is_new_process && self.threads.contains(&thread) {
            return Ok(id);
        }
        let thread_name = found.and_then(|process| process.thread_name(tid)).unwrap_or_default().to_owned();
        if is_new_process {
            let name = found.map(|process| process.display_name().into_owned()).unwrap_or_default();
            let cmdline: Vec<&str> = processes.command_line(pid).iter().map(String::as_str).collect();
            self.timeline.process(&Process { id, name: &name, cmdline: &cmdline })?;
        }
        if self.threads.insert(thread) && !thread_name.is_empty() {
            self.timeline.thread(thread, &thread_name)?;
        }
        Ok(id)
    }

    /// Looks up the names of an entry's processes.
    fn name(&mut self, processes: &Processes, entry: &Entry) {
        if self.labels.len() >= self.labels_max {
            self.forget_gone(processes);
        }
        let time_ns = entry.time_ns();
        for pid in entry.pids() {
            let found = processes.find(pid, time_ns).or_else(|| processes.process(pid));
            let start_ns = found.map_or(0, xsched_symbols::Process::started_ns);
            let id = ProcessId { pid, start_ns };
            if self.labels.get(&pid).is_none_or(|known| found.is_some() && known.id != id) {
                let name = found.map(|process| process.display_name().into_owned());
                let label = format!("{} {pid}", name.or_else(|| neighbour(pid)).unwrap_or_default());
                self.labels.insert(pid, Labelled { id, label: label.trim_start().into() });
            }
        }
    }

    /// Forgets processes that are no longer known. Others are looked up again at their next use.
    fn forget_gone(&mut self, processes: &Processes) {
        self.labels.retain(|pid, known| {
            processes.process(*pid).is_some_and(|process| process.started_ns() == known.id.start_ns)
        });
        self.timeline.forget_all_but(&self.labels);
        self.labels_max = LABELS_MAX.max(2 * self.labels.len());
    }

    /// Keeps the collected segment, and begins a new one.
    fn close_segment(&mut self) -> Result<(), TracerError> {
        let Sink::Kept(kept) = &mut self.sink else { return Ok(()) };
        kept.close(std::mem::take(self.timeline.collected()));
        self.processes.clear();
        self.threads.clear();
        self.timeline.restart().map_err(memory_write)?;
        for entry in self.settings.iter().chain(self.parameters.values()) {
            self.timeline.scheduling(&self.labels, entry).map_err(memory_write)?;
        }
        Ok(())
    }
}

/// Name of a running process that is not recorded and therefore not tracked.
fn neighbour(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

/// The timeline is written into memory, which does not fail.
fn memory_write(error: WriteError) -> TracerError {
    Internal::at("encoding the timeline")(std::io::Error::other(error)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::call;
    use crate::output::{Format, Kept};
    use crate::scheduling::XQueueId;
    use xsched_control_api::parameters::Parameters;

    #[test]
    fn ended_processes_take_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept { size_max: 1 << 30, slow_ns: None };
        let format = Format { kept: Some(kept), ..Format::default() };
        let sink = Sink::open(Destination::File(dir.path().join("f")), format).unwrap();
        let mut recorder = Recorder::new(Some(sink), Style::default()).unwrap();
        // Ids beyond those of any kernel.
        for pid in (1 << 23..).take(8 * LABELS_MAX) {
            let xqueue = XQueueId { pid, device: 1, stream_priority: 0 };
            let entry = Entry::Depth(xqueue, u64::from(pid), 1);
            recorder.scheduling(&Processes::new(), &[entry]).unwrap();
        }
        let recording = recorder.recording.unwrap();
        assert!(recording.labels.len() <= LABELS_MAX, "{}", recording.labels.len());
        let remembered = recording.timeline.remembered();
        assert!(remembered < 7 * LABELS_MAX, "{remembered}");
    }

    #[test]
    fn parameters_of_processes_that_have_left_the_controller_are_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept { size_max: 1 << 20, slow_ns: None };
        let format = Format { kept: Some(kept), ..Format::default() };
        let sink = Sink::open(Destination::File(dir.path().join("f")), format).unwrap();
        let mut recorder = Recorder::new(Some(sink), Style::default()).unwrap();
        // Other users' processes, which the recording knows from the controller only.
        for pid in (1 << 23..).take(1000) {
            let entries = vec![Entry::Parameters(pid, u64::from(pid), Parameters::default())];
            recorder.settings(&Processes::new(), Changes { entries, left: vec![pid - 1] }).unwrap();
        }
        assert_eq!(recorder.recording.unwrap().parameters.len(), 1);
    }

    #[test]
    fn names_of_a_process_whose_calls_come_after_its_end_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let sink = Sink::open(Destination::File(dir.path().join("f")), Format::default()).unwrap();
        let mut recorder = Recorder::new(Some(sink), Style::default()).unwrap();
        let late = call("hipLaunchKernel");
        recorder.changed(&Change::Exited { pid: late.pid });
        // It has waited for its chain.
        recorder.call(&mut Processes::new(), &late).unwrap();
        recorder.forget(late.pid);
        let recording = recorder.recording.unwrap();
        assert!(recording.processes.is_empty() && recording.threads.is_empty());
    }
}
