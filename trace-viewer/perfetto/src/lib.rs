//! Perfetto traces: a small schema, a streaming writer, a reader.
//!
//! [`TraceWriter`] turns processes, threads, slices, instants and counters into a trace that
//! <https://ui.perfetto.dev> and `trace_processor` load. [`TraceReader`] reads them back, and [`RawEventReader`]
//! does so without an allocation for each event.
//! All of them work packet by packet in bounded memory, for traces of any length. All times are nanoseconds of
//! `CLOCK_BOOTTIME`. Perfetto describes the format at
//! <https://perfetto.dev/docs/reference/synthetic-track-event>.
//!
//! The types of this crate and their encoding:
//!
//! | type | in the trace |
//! | --- | --- |
//! | [`Process`], [`ProcessId`] | `TrackDescriptor.process`, uuid derived from pid and start time |
//! | [`ThreadId`] | `TrackDescriptor.thread`, below the track of the process |
//! | [`Slice`] | `TrackEvent` `SLICE_BEGIN` and `SLICE_END` on the thread's track |
//! | [`Track`], [`TrackId`] | `TrackDescriptor` with a name, below another track; its siblings are not merged with it |
//! | [`TrackSlice`] | like [`Slice`], on a [`Track`] |
//! | [`Stack`] | interned frames and callstacks, `TrackEvent.callstack_iid` |
//! | [`GpuStage`] | `GpuRenderStageEvent` |
//! | arrows from slice to slice | `TrackEvent.flow_ids`, `terminating_flow_ids` |
//! | [`Instant`] | `TrackEvent` `INSTANT` on any of these tracks, or on the track of the trace itself |
//! | [`CounterTrack`] | `TrackDescriptor.counter`; samples are `TrackEvent` `COUNTER` |
//! | [`Clocks`] | `ClockSnapshot` |
//! | lost events ([`TraceWriter::gap`]) | `previous_packet_dropped`, an instant, and the counter [`LOST_EVENTS`] |

mod annotation;
mod clocks;
mod identity;
mod intern;
mod parts;
mod read;
mod schema;
mod stack;
mod text;
mod writer;

pub use annotation::{Annotation, Value};
pub use clocks::Clocks;
pub use identity::{CounterId, ProcessId, Scope, ThreadId, TrackId};
pub use intern::Limits;
pub use parts::whole_packets;
pub use read::{
    EventDetails, Input, Malformed, OwnedAnnotation, OwnedSlice, OwnedValue, RawEvent, RawEventReader,
    ReadError, Tail, TraceEvent, TraceReader,
};
pub use stack::{Stack, StackFrame};
pub use text::{TEXT_LEN_MAX, from_c_bytes};
pub use writer::{
    CounterTrack, GpuStage, Instant, LOST_EVENTS, Process, Slice, TraceWriter, Track, TrackSlice, Unit,
    WriteError,
};
