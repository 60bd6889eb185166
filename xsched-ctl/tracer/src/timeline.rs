//! Calls as a Perfetto timeline.
//!
//! | recorded | in the trace |
//! | --- | --- |
//! | a call | a slice named after the function on its thread's track, category `hip.launch`, `hip.copy`, …, `cuda.launch`, … |
//! | kernel, grid, block, stream, bytes, … | `debug.kernel`, `debug.grid`, … |
//! | the library to which it belongs | `debug.origin` |
//! | the calling library and function | `debug.library`, `debug.caller` |
//! | the libraries of its call chain, innermost first | `debug.chain` |
//! | the functions of its call chain | its call stack, which Perfetto shows from v53 on |
//! | that frames were found by the frame pointers of generated code | `debug.chain_through_generated_code` |
//! | its verdict | `debug.verdict`: `schedule`, `passthrough` or `never-suspend`; `debug.level_max`: the highest preemption mode, if limited |
//! | the rule that gave it | `debug.rule`: its name, or its place in a file; the setting that it represents; `none fits`, `domain` |
//! | the time until its execution began on the device | `debug.queue_delay_ns`, if its process is followed |
//! | the driver's queue of its stream | `debug.queue` |
//! | what it returned | `debug.return`: a number, or an address |
//! | a call to the driver | see `timeline/driver.rs` |
//! | the execution that it starts | an arrow to it; see `timeline/scheduling.rs` |
//! | settings of the recording | an instant `trace_config` at its beginning, category `recording` |
//! | calls lost | an instant `events lost` by cause and processor, the counter `lost events`, one by cause |
//! | calls recorded incompletely | an instant `incomplete` likewise, and a counter by cause |
//! | calls that filters have left out | a counter by filter, `left_out.…` |

mod driver;
mod scheduling;

use std::collections::HashMap;

use xsched_abi::Counter;
use xsched_perfetto::{
    Annotation, Clocks, CounterId, CounterTrack, Instant, Process, ProcessId, Scope, Slice, ThreadId,
    TraceWriter, Unit, Value, WriteError,
};
use xsched_protocol::probe::Return;

use crate::call::{Argument, RuntimeCall};
use crate::error_names;
use scheduling::Tracks;
pub(crate) use scheduling::{Labelled, Labels};
use xsched_bpf::Losses;
use xsched_recording::{FoldedNames, KernelNames, LeftOut};
use xsched_symbols::now_ns;

/// Settings of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whole names of kernels, or without template arguments.
    pub names: KernelNames,
    /// How executions are written.
    pub executions: Executions,
}

/// How executions are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Executions {
    /// As slices, with arrows from their calls.
    #[default]
    Slices,
    /// As Perfetto's typed events of GPUs.
    RenderStages,
}

/// The machine's boot time, which this process's is not in a time namespace, and the other clocks.
fn clocks() -> Clocks {
    Clocks { boottime_ns: now_ns(), ..Clocks::now() }
}

/// Writes calls into a buffer, as whole packets.
pub(crate) struct Timeline {
    writer: TraceWriter<Vec<u8>>,
    losses: Losses,
    left_out: LeftOut,
    counters: HashMap<&'static str, CounterId>,
    /// Short names of kernels, unless whole names are used.
    folded: Option<FoldedNames>,
    /// Reused for each call: the texts of its arguments, to which annotations refer.
    texts: Vec<String>,
    executions: Executions,
    tracks: Tracks,
    config: Vec<(&'static str, String)>,
}

impl Timeline {
    pub(crate) fn new(style: Style) -> Result<Self, WriteError> {
        Ok(Self {
            writer: TraceWriter::new(Vec::new(), clocks())?,
            losses: Losses::default(),
            left_out: LeftOut::default(),
            counters: HashMap::new(),
            folded: (style.names == KernelNames::Folded).then(FoldedNames::default),
            executions: style.executions,
            texts: Vec::new(),
            tracks: Tracks::default(),
            config: Vec::new(),
        })
    }

    /// What has been written since this was last emptied.
    pub(crate) fn collected(&mut self) -> &mut Vec<u8> {
        self.writer.get_mut()
    }

    /// Begins a new trace: nothing from here on refers to what was written before. Processes and threads must be
    /// described again.
    pub(crate) fn restart(&mut self) -> Result<(), WriteError> {
        let clocks = clocks();
        self.writer.restart(clocks)?;
        self.counters.clear();
        self.tracks.restart();
        self.write_config(clocks.boottime_ns)?;
        let losses = std::mem::take(&mut self.losses);
        let losses_by_name = losses.iter().map(|(cause, count)| (cause.name(), count));
        let left_out = self.left_out;
        let left_out_by_name = left_out.iter().map(|(reason, count)| (reason.name(), count));
        for (name, count) in losses_by_name.chain(left_out_by_name).filter(|(_, count)| *count > 0) {
            let counter = self.counter(name)?;
            self.writer.counter(counter, clocks.boottime_ns, count as i64)?;
        }
        self.losses = losses;
        Ok(())
    }

    pub(crate) fn process(&mut self, process: &Process<'_>) -> Result<(), WriteError> {
        self.writer.process(process)
    }

    pub(crate) fn thread(&mut self, thread: ThreadId, name: &str) -> Result<(), WriteError> {
        self.writer.thread(thread, name)
    }

    /// Writes a correlation of the clocks, which drift apart.
    pub(crate) fn clocks(&mut self) -> Result<(), WriteError> {
        self.writer.clock_snapshot(clocks())
    }

    pub(crate) fn call(&mut self, process: ProcessId, call: &RuntimeCall) -> Result<(), WriteError> {
        self.texts.clear();
        let arguments: Vec<(&str, Argument)> = call.arguments().collect();
        self.texts
            .extend(arguments.iter().filter(|(_, argument)| is_text(*argument)).map(|(_, a)| a.to_string()));

        let mut annotations = Vec::with_capacity(arguments.len() + 8);
        annotations.push(Annotation::new("origin", &*call.origin));
        annotations.push(Annotation::new("library", &*call.caller.library));
        if let Some(symbol) = &call.caller.symbol {
            annotations.push(Annotation::new("caller", &**symbol));
        }
        if let Some(chain) = &call.chain {
            annotations.push(Annotation::new("chain", &chain.libraries));
            if chain.passes_generated {
                annotations.push(Annotation::new("chain_through_generated_code", true));
            }
        }
        annotations.extend(scheduling::judged(call.judged.as_ref()));
        annotations.extend(call.queue_delay_ns().map(|delay_ns| Annotation::new("queue_delay_ns", delay_ns)));
        if let Some(kernel) = &call.kernel {
            let name = self.folded.as_mut().map_or(kernel, |folded| folded.of(kernel));
            annotations.push(Annotation::new("kernel", &**name));
        }
        if let Some(graph) = call.graph {
            annotations.push(Annotation::new("kernels", graph.kernels));
            annotations.push(Annotation::new("nodes", graph.all));
        }
        if let Some(text) = call.text.as_ref().filter(|_| call.kernel.is_none()) {
            annotations.push(Annotation::new("name", &**text));
        }
        let mut texts = self.texts.iter();
        for (name, argument) in &arguments {
            let value = match *argument {
                Argument::Pointer(address) => Value::Pointer(address),
                Argument::Number(number) => Value::I64(number),
                _ => Value::Str(texts.next().expect("one text for each argument that is shown as text")),
            };
            annotations.push(Annotation { name, value });
        }
        if call.out != 0 {
            annotations.push(Annotation { name: "result", value: Value::Pointer(call.out) });
        }
        if let Some(queue) = call.queue {
            annotations.push(Annotation::new("queue", queue));
        }
        if let Some(cut_ns) = call.cut_ns {
            annotations.push(Annotation { name: "process_ended_ns", value: Value::U64(cut_ns) });
        }
        if call.end_ns.is_some() {
            match call.probe.ret {
                Return::Void => {}
                Return::Pointer => {
                    annotations.push(Annotation { name: "return", value: Value::Pointer(call.ret) });
                }
                Return::Error => {
                    let code = call.ret as u32;
                    annotations.push(Annotation::new("return", code));
                    if let Some(name) = error_names::name(call.probe.runtime, code).filter(|_| code != 0) {
                        annotations.push(Annotation::new("error", name));
                    }
                }
            }
        }
        let slice = Slice {
            thread: ThreadId { process, tid: call.tid },
            begin_ns: call.begin_ns,
            end_ns: call.end_ns.or(call.cut_ns),
            category: call.probe.category_name(),
            name: call.probe.name,
            annotations: &annotations,
        };
        let flow = call.followed.as_ref().map(|followed| followed.flow);
        if let Some(flow) = flow {
            self.tracks.begins(flow);
        }
        match (&call.chain, flow) {
            (Some(chain), flow) => self.writer.slice_with_stack(&slice, &chain.stack, flow),
            (None, Some(flow)) => self.writer.slice_with_flow(&slice, flow),
            (None, None) => self.writer.slice(&slice),
        }
    }

    /// Notes the settings of the recording: here, and at the beginning of each further trace.
    pub(crate) fn configure(
        &mut self,
        now_ns: u64,
        config: Vec<(&'static str, String)>,
    ) -> Result<(), WriteError> {
        self.config = config;
        self.write_config(now_ns)
    }

    fn write_config(&mut self, now_ns: u64) -> Result<(), WriteError> {
        if self.config.is_empty() {
            return Ok(());
        }
        let annotations: Vec<_> =
            self.config.iter().map(|(name, value)| Annotation::new(name, &**value)).collect();
        let instant = global(now_ns, "recording", "trace_config", &annotations);
        self.writer.instant(&instant)
    }

    /// Notes what was lost up to `now_ns`, given all losses so far: an instant for each cause and processor, and the
    /// causes' counters.
    pub(crate) fn losses(&mut self, now_ns: u64, losses: &Losses) -> Result<(), WriteError> {
        let before = std::mem::replace(&mut self.losses, losses.clone());
        for (cause, count) in losses.iter() {
            let known: HashMap<_, _> = before.parts(cause).collect();
            if known.values().sum::<u64>() == count {
                continue;
            }
            for (processor, count) in losses.parts(cause) {
                let more = count - known.get(&processor).copied().unwrap_or(0);
                if more > 0 {
                    self.loss(now_ns, cause, processor, more)?;
                }
            }
            let counter = self.counter(cause.name())?;
            self.writer.counter(counter, now_ns, count as i64)?;
        }
        Ok(())
    }

    fn loss(
        &mut self,
        now_ns: u64,
        cause: Counter,
        processor: Option<u32>,
        count: u64,
    ) -> Result<(), WriteError> {
        let cpu = processor.map(|processor| Annotation::new("cpu", processor));
        if cause.loses_call() {
            return self.writer.gap(now_ns, count, cause.describe(), cpu.as_slice());
        }
        let mut annotations =
            vec![Annotation::new("count", count), Annotation::new("cause", cause.describe())];
        annotations.extend(cpu);
        self.writer.instant(&global(now_ns, "loss", "incomplete", &annotations))
    }

    /// Notes what filters have left out up to `now_ns`, given the totals so far.
    pub(crate) fn left_out(&mut self, now_ns: u64, left_out: LeftOut) -> Result<(), WriteError> {
        let before = std::mem::replace(&mut self.left_out, left_out);
        for ((reason, before), (_, count)) in before.iter().zip(left_out.iter()) {
            if count != before {
                let counter = self.counter(reason.name())?;
                self.writer.counter(counter, now_ns, count as i64)?;
            }
        }
        Ok(())
    }

    /// Notes that the kept part is dumped, and that `let_go` calls before it have been dropped.
    pub(crate) fn dumped(&mut self, now_ns: u64, reason: &str, let_go: u64) -> Result<(), WriteError> {
        let annotations = [Annotation::new("reason", reason), Annotation::new("let_go", let_go)];
        self.writer.instant(&global(now_ns, "recording", "dumped", &annotations))
    }

    /// Notes why recording ends early.
    pub(crate) fn ends_because(&mut self, now_ns: u64, reason: &str) -> Result<(), WriteError> {
        let annotations = [Annotation::new("reason", reason)];
        self.writer.instant(&global(now_ns, "recording", "recording ends", &annotations))
    }

    fn counter(&mut self, name: &'static str) -> Result<CounterId, WriteError> {
        if let Some(counter) = self.counters.get(name) {
            return Ok(*counter);
        }
        let track = CounterTrack { scope: Scope::Global, name, unit: Unit::Count };
        let counter = self.writer.counter_track(&track)?;
        self.counters.insert(name, counter);
        Ok(counter)
    }
}

fn global<'a>(
    ts_ns: u64,
    category: &'a str,
    name: &'a str,
    annotations: &'a [Annotation<'a>],
) -> Instant<'a> {
    Instant { scope: Scope::Global, ts_ns, category, name, annotations }
}

fn is_text(argument: Argument) -> bool {
    !matches!(argument, Argument::Pointer(_) | Argument::Number(_))
}
