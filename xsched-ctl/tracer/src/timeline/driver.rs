//! Calls to the driver in the timeline.
//!
//! | recorded | in the trace |
//! | --- | --- |
//! | an ioctl | a slice named after the command on its thread's track, category `driver.kfd` or `driver.drm` |
//! | fields of its struct | `debug.queue_id`, `debug.size`, … |
//! | the device | `debug.device`: its path |
//! | the stream for which it makes a queue | `debug.stream` |
//! | what it returned | `debug.return`, and `debug.error` with the errno's name if it failed |

use xsched_perfetto::{Annotation, ProcessId, Slice, ThreadId, Value, WriteError};

use super::Timeline;
use crate::call::Argument;
use crate::driver::{DriverCall, Shown};

impl Timeline {
    pub(crate) fn driver_call(&mut self, process: ProcessId, call: &DriverCall) -> Result<(), WriteError> {
        let fields: Vec<(&str, Shown)> = call.fields().collect();
        let stream = call.stream.map(|stream| Argument::Stream(stream).to_string());
        let error = call.error();
        let mut annotations = Vec::with_capacity(fields.len() + 5);
        if let Some(path) = &call.path {
            annotations.push(Annotation::new("device", &**path));
        }
        annotations.extend(fields.iter().map(|(name, shown)| {
            let value = match shown {
                Shown::Number(number) => Value::I64(*number),
                Shown::Pointer(address) => Value::Pointer(*address),
                Shown::Text(text) => Value::Str(text),
            };
            Annotation { name, value }
        }));
        if let Some(stream) = &stream {
            annotations.push(Annotation::new("stream", &**stream));
        }
        if let Some(cut_ns) = call.cut_ns {
            annotations.push(Annotation::new("process_ended_ns", cut_ns));
        }
        if call.end_ns.is_some() {
            annotations.push(Annotation::new("return", call.ret));
        }
        if let Some(error) = &error {
            annotations.push(Annotation::new("error", &**error));
        }
        self.writer.slice(&Slice {
            thread: ThreadId { process, tid: call.tid },
            begin_ns: call.begin_ns,
            end_ns: call.end_ns.or(call.cut_ns),
            category: call.category(),
            name: &call.name(),
            annotations: &annotations,
        })
    }
}
