//! The part of Perfetto's trace schema that this crate uses, declared by hand.
//!
//! Field numbers are those of the files below
//! <https://github.com/google/perfetto/tree/main/protos/perfetto/trace>; `tests/decode.rs` checks each of them
//! against the complete schema. A `oneof` is declared as plain optional fields, which have the same encoding:
//! the writer sets one of them, and the reader takes any. The reader skips fields that are not declared here.

/// The key of each packet, which precedes its length: field 1 of `Trace`, length-delimited.
pub(crate) const PACKET_KEY: u8 = 1 << 3 | 2;

/// `SEQ_INCREMENTAL_STATE_CLEARED | SEQ_NEEDS_INCREMENTAL_STATE`: earlier definitions are not valid any more.
pub(crate) const FLAGS_CLEARED: u32 = 3;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet refers to interned data or uses defaults.
pub(crate) const FLAGS_NEEDS_STATE: u32 = 2;

/// `BuiltinClock`: the clock identifiers of `ClockSnapshot` and `timestamp_clock_id`.
pub(crate) mod clock {
    pub(crate) const REALTIME: u32 = 1;
    pub(crate) const MONOTONIC: u32 = 3;
    pub(crate) const BOOTTIME: u32 = 6;
}

/// `trace_packet.proto`. The writer writes whole packets, each length-delimited as field 1 of `Trace`.
#[expect(clippy::struct_field_names, reason = "Perfetto's names")]
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TracePacket {
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// A `bool` in old schemas, a bit set in new ones; 1 means "lost, no specific cause" in both.
    #[prost(uint32, optional, tag = "42")]
    pub previous_packet_dropped: Option<u32>,
    #[prost(message, optional, tag = "53")]
    pub gpu_render_stage_event: Option<GpuRenderStageEvent>,
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "59")]
    pub trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
    #[prost(bool, optional, tag = "87")]
    pub first_packet_on_sequence: Option<bool>,
}

/// `trace_packet_defaults.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TracePacketDefaults {
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
}

/// `clock_snapshot.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<ClockReading>,
    #[prost(uint32, optional, tag = "2")]
    pub primary_trace_clock: Option<u32>,
}

/// `ClockSnapshot.Clock`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ClockReading {
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

/// `interned_data.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<InternedString>,
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "5")]
    pub function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "17")]
    pub mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "23")]
    pub graphics_contexts: Vec<GraphicsContext>,
    #[prost(message, repeated, tag = "24")]
    pub gpu_specifications: Vec<RenderStage>,
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<InternedString>,
}

/// `Mapping` of `profile_common.proto`: a library, of which only the path is written.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Mapping {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The interned parts of its path.
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub path: Vec<u64>,
}

/// `Frame` of `profile_common.proto`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Frame {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub function: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub mapping: Option<u64>,
}

/// `Callstack` of `profile_common.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Callstack {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The outermost frame first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub frame_ids: Vec<u64>,
}

/// `InternedGraphicsContext` of `gpu_render_stage_event.proto`. Its field `api` is not set: it has no value for HIP.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct GraphicsContext {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
}

/// `InternedGpuRenderStageSpecification` of the same file: a queue or a stage.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RenderStage {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub description: Option<String>,
    #[prost(enumeration = "StageCategory", optional, tag = "4")]
    pub category: Option<i32>,
}

/// `InternedGpuRenderStageSpecification.RenderStageCategory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum StageCategory {
    Other = 0,
    Graphics = 1,
    Compute = 2,
}

/// `GpuRenderStageEvent` of the same file: work that ran on a queue of a GPU.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GpuRenderStageEvent {
    #[prost(uint64, optional, tag = "1")]
    pub event_id: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub duration: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub context: Option<u64>,
    #[prost(message, repeated, tag = "6")]
    pub extra_data: Vec<ExtraData>,
    #[prost(int32, optional, tag = "11")]
    pub gpu_id: Option<i32>,
    #[prost(uint64, optional, tag = "13")]
    pub hw_queue_iid: Option<u64>,
    #[prost(uint64, optional, tag = "14")]
    pub stage_iid: Option<u64>,
}

/// `GpuRenderStageEvent.ExtraData`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExtraData {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// `EventCategory`, `EventName`, `DebugAnnotationName` and `InternedString` share one layout.
/// The text is bytes, as is Perfetto's `InternedString.str`: a reader must accept texts that are not UTF-8.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InternedString {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub text: Option<Vec<u8>>,
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum EventType {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// Fields of a `TracePacket` that are encoded and decoded by hand.
pub(crate) mod packet_field {
    pub(crate) const CLOCK_SNAPSHOT: u32 = 6;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const SEQUENCE: u32 = 10;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const INTERNED_DATA: u32 = 12;
    pub(crate) const SEQUENCE_FLAGS: u32 = 13;
    pub(crate) const DROPPED: u32 = 42;
    pub(crate) const GPU_RENDER_STAGE: u32 = 53;
    pub(crate) const CLOCK_ID: u32 = 58;
    pub(crate) const DEFAULTS: u32 = 59;
    pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
}

/// Fields of a `TrackEvent` (`track_event.proto`), which is encoded and decoded by hand.
pub(crate) mod event_field {
    pub(crate) const CATEGORY_IID: u32 = 3;
    pub(crate) const DEBUG_ANNOTATION: u32 = 4;
    pub(crate) const EVENT_TYPE: u32 = 9;
    pub(crate) const NAME_IID: u32 = 10;
    pub(crate) const TRACK_UUID: u32 = 11;
    pub(crate) const CATEGORY: u32 = 22;
    pub(crate) const NAME: u32 = 23;
    pub(crate) const COUNTER_VALUE: u32 = 30;
    pub(crate) const FLOW_ID: u32 = 47;
    pub(crate) const TERMINATING_FLOW_ID: u32 = 48;
    /// Versions of the engine before v53 ignore it.
    pub(crate) const CALLSTACK_IID: u32 = 56;
}

/// Fields of a `DebugAnnotation` (`debug_annotation.proto`), which is encoded and decoded by hand, too.
pub(crate) mod annotation_field {
    pub(crate) const NAME_IID: u32 = 1;
    pub(crate) const BOOL: u32 = 2;
    pub(crate) const UINT: u32 = 3;
    pub(crate) const INT: u32 = 4;
    pub(crate) const DOUBLE: u32 = 5;
    pub(crate) const STRING: u32 = 6;
    pub(crate) const POINTER: u32 = 7;
    pub(crate) const NAME: u32 = 10;
    pub(crate) const STRING_IID: u32 = 17;
}

/// `track_descriptor.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    #[prost(string, optional, tag = "14")]
    pub description: Option<String>,
    #[prost(enumeration = "SiblingMerge", optional, tag = "15")]
    pub sibling_merge_behavior: Option<i32>,
}

/// `TrackDescriptor.SiblingMergeBehavior`: whether the UI may merge tracks of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum SiblingMerge {
    Unspecified = 0,
    ByTrackName = 1,
    None = 2,
}

/// `process_descriptor.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(string, repeated, tag = "2")]
    pub cmdline: Vec<String>,
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
    #[prost(int64, optional, tag = "7")]
    pub start_timestamp_ns: Option<i64>,
}

/// `thread_descriptor.proto`. Its `tid` became an int64 in 2025; values that fit into an int32 have the same encoding.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// `CounterDescriptor.Unit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum CounterUnit {
    Unspecified = 0,
    TimeNs = 1,
    Count = 2,
    SizeBytes = 3,
}

/// `counter_descriptor.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CounterDescriptor {
    #[prost(enumeration = "CounterUnit", optional, tag = "3")]
    pub unit: Option<i32>,
}
