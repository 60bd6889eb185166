//! Perfetto traces: a small schema, a streaming writer, a reader.
//!
//! [`TraceWriter`] turns processes, threads, slices, instants and counters into a trace that
//! <https://ui.perfetto.dev> and `trace_processor` load; [`TraceReader`] gives the same things back,
//! and [`MomentReader`] without an allocation for each.
//! Both work packet by packet in bounded memory, whatever the length of the trace. All times are
//! nanoseconds of `CLOCK_BOOTTIME`.
//!
//! How the mapping looks on the wire:
//!
//! | here | in the trace |
//! | --- | --- |
//! | [`Process`], [`ProcessId`] | `TrackDescriptor.process`, uuid derived from pid and start time |
//! | [`ThreadId`] | `TrackDescriptor.thread` below it |
//! | [`Slice`] | `TrackEvent` `SLICE_BEGIN` and `SLICE_END` on the thread's track |
//! | [`Track`], [`TrackId`] | `TrackDescriptor` with a name, below another track; its siblings are not merged with it |
//! | [`TrackSlice`] | as [`Slice`], on such a track |
//! | [`Stack`] | interned frames and callstacks, `TrackEvent.callstack_iid` |
//! | [`GpuStage`] | `GpuRenderStageEvent` |
//! | arrows from slice to slice | `TrackEvent.flow_ids`, `terminating_flow_ids` |
//! | [`Instant`] | `TrackEvent` `INSTANT` on any of these, or on the trace's own track |
//! | [`CounterTrack`] | `TrackDescriptor.counter`; samples are `TrackEvent` `COUNTER` |
//! | [`Clocks`] | `ClockSnapshot` |
//! | a loss ([`TraceWriter::gap`]) | `previous_packet_dropped`, an instant, a step of the counter [`LOST_EVENTS`] |

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
    Event, Input, Malformed, Moment, MomentReader, OwnedAnnotation, OwnedSlice, OwnedValue, ReadError, Tail,
    TraceReader, What,
};
pub use stack::{Stack, StackFrame};
pub use text::{TEXT_LEN_MAX, from_c_bytes};
pub use writer::{
    CounterTrack, GpuStage, Instant, LOST_EVENTS, Process, Slice, TraceWriter, Track, TrackSlice, Unit,
    WriteError,
};
