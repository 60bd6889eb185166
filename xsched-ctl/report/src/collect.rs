//! Collects totals from the events of a trace.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use xsched_perfetto::{
    LOST_EVENTS, OwnedAnnotation, OwnedSlice, OwnedValue, ProcessId, Scope, ThreadId, TraceEvent,
};

use xsched_abi::Runtime;
use xsched_recording::{Calls, call_of};

use super::delays::{Delays, EXECUTION};
use super::device_time::DeviceTime;
use super::groups::{Dimension, Groups, Key};

/// The content of a trace.
#[derive(Default)]
pub(super) struct Collected {
    groups: [Groups; Dimension::ALL.len()],
    processes: HashMap<ProcessId, String>,
    threads: HashMap<ThreadId, String>,
    pub(super) calls: Calls,
    /// Calls to the kernel driver, counted by function only: most of their time is part of a call to the runtime.
    pub(super) driver_calls: u64,
    pub(super) launches: u64,
    /// Calls that had not returned when recording ended.
    pub(super) unfinished: u64,
    /// Begin of the first call and end of the last, in nanoseconds of `CLOCK_BOOTTIME`.
    span_ns: Option<(u64, u64)>,
    /// The last values of the trace's global counters: losses by cause, calls left out by filter.
    pub(super) counters: BTreeMap<Arc<str>, i64>,
    pub(super) delays: Delays,
    /// Device time by process and origin, if recorded.
    pub(super) device_time: DeviceTime,
    /// Losses by cause and processor.
    pub(super) by_processor: BTreeMap<(Arc<str>, u64), u64>,
}

impl Collected {
    pub(super) fn event(&mut self, event: TraceEvent) {
        match event {
            TraceEvent::Slice(slice) => self.slice(slice),
            TraceEvent::Process { id, name: Some(name), .. } => {
                self.processes.entry(id).or_insert(name);
            }
            TraceEvent::Thread { id, name: Some(name) } => {
                self.threads.insert(id, name);
            }
            TraceEvent::Counter { scope: Scope::Global, name, value, .. } => {
                self.counters.insert(name, value);
            }
            TraceEvent::Instant { category, annotations, .. } if &*category == "loss" => {
                self.loss(&annotations);
            }
            _ => {}
        }
    }

    fn slice(&mut self, slice: OwnedSlice) {
        if let Some((runtime, is_launch)) = call_of(&slice.category) {
            self.call(&slice, runtime, is_launch);
        } else if slice.category.starts_with("driver.") {
            self.driver_call(slice);
        } else if &*slice.category == EXECUTION {
            self.delays.add(&slice);
            self.device_time.add(&slice);
        }
    }

    fn call(&mut self, slice: &OwnedSlice, runtime: Runtime, is_launch: bool) {
        let duration_ns = duration_ns(slice);
        self.calls.add(runtime);
        self.launches += u64::from(is_launch);
        self.unfinished += u64::from(duration_ns.is_none());
        let (first, last) = self.span_ns.unwrap_or((u64::MAX, 0));
        self.span_ns = Some((first.min(slice.begin_ns), last.max(slice.end_ns.unwrap_or(slice.begin_ns))));

        let text = |name| text(&slice.annotations, name);
        let (process, thread) = match slice.scope {
            Scope::Thread(thread) => (Some(thread.process), Some(thread)),
            Scope::Process(process) => (Some(process), None),
            Scope::Global | Scope::Track(_) => (None, None),
        };
        let kernel = || text("kernel").unwrap_or_else(|| "(no kernel named)".into());
        let keys = [
            (Dimension::Library, text("origin").or_else(|| text("library")).map(Key::Text)),
            (Dimension::Kernel, is_launch.then(|| Key::Text(kernel()))),
            (Dimension::Stream, text("stream").map(|stream| Key::Stream(process, stream))),
            (Dimension::Thread, thread.map(Key::Thread)),
            (Dimension::Process, process.map(Key::Process)),
            (Dimension::Api, Some(Key::Text(slice.name.clone()))),
            (Dimension::Rule, judged(&slice.annotations).map(Key::Text)),
        ];
        for (dimension, key) in keys {
            if let Some(key) = key {
                self.groups[dimension as usize].add(key, duration_ns);
            }
        }
    }

    fn driver_call(&mut self, slice: OwnedSlice) {
        self.driver_calls += 1;
        let duration_ns = duration_ns(&slice);
        self.groups[Dimension::Api as usize].add(Key::Text(slice.name), duration_ns);
    }

    fn loss(&mut self, annotations: &[OwnedAnnotation]) {
        let number = |name| {
            annotations.iter().find(|annotation| &*annotation.name == name).and_then(|found| {
                match found.value {
                    OwnedValue::U64(number) => Some(number),
                    _ => None,
                }
            })
        };
        let count = number("lost").or_else(|| number("count"));
        if let (Some(cause), Some(cpu), Some(count)) = (text(annotations, "cause"), number("cpu"), count) {
            let lost = self.by_processor.entry((cause, cpu)).or_default();
            *lost = lost.saturating_add(count);
        }
    }

    /// Whether this program has recorded it: its traces count losses from the beginning on.
    pub(super) fn is_ours(&self) -> bool {
        self.calls.total() > 0 || self.counters.contains_key(LOST_EVENTS)
    }

    /// The groups of one property.
    pub(super) fn groups(&self, dimension: Dimension) -> &Groups {
        &self.groups[dimension as usize]
    }

    pub(super) fn process_count(&self) -> usize {
        self.processes.len()
    }

    /// From the begin of the first call to the end of the last, in nanoseconds.
    pub(super) fn length_ns(&self) -> u64 {
        self.span_ns.map_or(0, |(first, last)| last.saturating_sub(first))
    }

    /// Lost calls, as the trace says.
    pub(super) fn lost(&self) -> i64 {
        self.counters.get(LOST_EVENTS).copied().unwrap_or(0)
    }

    pub(super) fn name(&self, key: &Key) -> String {
        match key {
            Key::Text(text) => text.to_string(),
            Key::Stream(Some(process), stream) => format!("{stream} of {}", self.process_name(*process)),
            Key::Stream(None, stream) => stream.to_string(),
            Key::Thread(thread) => match self.threads.get(thread) {
                Some(name) => format!("{name} ({}) of {}", thread.tid, self.process_name(thread.process)),
                None => format!("{} of {}", thread.tid, self.process_name(thread.process)),
            },
            Key::Process(process) => self.process_name(*process),
            Key::Others => "(others)".to_owned(),
        }
    }

    fn process_name(&self, process: ProcessId) -> String {
        match self.processes.get(&process) {
            Some(name) => format!("{name} ({})", process.pid),
            None => process.pid.to_string(),
        }
    }
}

fn duration_ns(slice: &OwnedSlice) -> Option<u64> {
    Some(slice.end_ns?.saturating_sub(slice.begin_ns))
}

/// The verdict on a call and its rule: `never-suspend: collectives`. None if the trace has none.
fn judged(annotations: &[OwnedAnnotation]) -> Option<Arc<str>> {
    let (verdict, rule) = (text(annotations, "verdict")?, text(annotations, "rule")?);
    Some(format!("{verdict}: {rule}").into())
}

pub(super) fn text(annotations: &[OwnedAnnotation], name: &str) -> Option<Arc<str>> {
    match &annotations.iter().find(|annotation| &*annotation.name == name)?.value {
        OwnedValue::Str(text) => Some(text.clone()),
        _ => None,
    }
}
