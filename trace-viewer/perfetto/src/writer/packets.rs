//! Encodes packets of one sequence into a reused buffer.
//!
//! Events, which are most of a trace, are assembled from their fields (`wire.rs`) in reused buffers. The schema's encoder encodes
//! the other packets, which are rare. This module also sets the flags of the sequence. The first packet, and each one after the
//! interning tables were cleared, has the flag for that and repeats the defaults.

use prost::Message;

use crate::{
    annotation::{Annotation, Value},
    intern::{Interner, Table},
    schema::{
        ClockSnapshot, EventType, ExtraData, FLAGS_CLEARED, FLAGS_NEEDS_STATE, GpuRenderStageEvent,
        PACKET_KEY, TracePacket, TracePacketDefaults, TrackDescriptor,
        annotation_field::{BOOL, DOUBLE, INT, NAME_IID as ANNOTATION_NAME_IID, POINTER, STRING_IID, UINT},
        clock,
        event_field::{
            CALLSTACK_IID, CATEGORY_IID, COUNTER_VALUE, DEBUG_ANNOTATION, EVENT_TYPE, FLOW_ID, NAME_IID,
            TERMINATING_FLOW_ID, TRACK_UUID,
        },
        packet_field::{SEQUENCE, SEQUENCE_FLAGS, TIMESTAMP, TRACK_EVENT},
    },
    stack::Stack,
    text,
    writer::{GpuStage, wire},
};

/// The only sequence of a trace: there is one writer.
const SEQUENCE_ID: u32 = 1;

#[derive(Debug)]
pub(super) struct PacketBuffer {
    encoded: Vec<u8>,
    interner: Interner,
    /// The current event in three parts: `event` has its track, category and name; `details` its annotations, flows and call
    /// stack; `part` its type and its value.
    event: Vec<u8>,
    details: Vec<u8>,
    part: Vec<u8>,
    /// The fields before the event in its packet.
    packet: Vec<u8>,
    next: Next,
}

/// The role of the next packet in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The first packet.
    Opens,
    /// A packet that uses the earlier state.
    Continues,
    /// A packet that clears the state.
    Clears,
    /// A packet that clears the state because events before it were lost.
    ClearsAfterLoss,
}

impl PacketBuffer {
    pub(super) fn new(interner: Interner) -> Self {
        let (event, details, part, packet) = Default::default();
        Self { encoded: Vec::new(), interner, event, details, part, packet, next: Next::Opens }
    }

    /// The packets that were encoded since [`Self::clear_encoded`], all of them whole.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    pub(super) fn clear_encoded(&mut self) {
        self.encoded.clear();
    }

    /// Makes the next packet report that events before it were lost.
    pub(super) fn mark_loss(&mut self) {
        self.interner.clear();
        self.next = Next::ClearsAfterLoss;
    }

    /// Forgets all definitions, and makes the next packet clear the state.
    pub(super) fn restart(&mut self) {
        self.interner.clear();
        if self.next == Next::Continues {
            self.next = Next::Clears;
        }
    }

    pub(super) fn clock_snapshot(&mut self, snapshot: ClockSnapshot) {
        self.push(TracePacket { clock_snapshot: Some(snapshot), ..Default::default() });
    }

    /// Describes a track, as from the latest time seen so far.
    pub(super) fn describe(&mut self, descriptor: TrackDescriptor) {
        self.describe_at(0, descriptor);
    }

    /// Describes a track as from `ts_ns`, or from the latest time seen so far if that is 0. The descriptor of a process carries
    /// its start time. Perfetto processes descriptors in time order, and if a pid was reused, each descriptor must be within the
    /// lifetime of its process.
    pub(super) fn describe_at(&mut self, ts_ns: u64, descriptor: TrackDescriptor) {
        self.push(TracePacket {
            timestamp: (ts_ns > 0).then_some(ts_ns),
            track_descriptor: Some(descriptor),
            ..Default::default()
        });
    }

    fn clear_if_full(&mut self) {
        if self.interner.is_full() {
            self.restart();
        }
    }

    /// Begins the event that [`Self::push_event`] writes.
    pub(super) fn begin_event(
        &mut self,
        track_uuid: u64,
        category_and_name: Option<(&str, &str)>,
        annotations: &[Annotation<'_>],
    ) {
        self.clear_if_full();
        self.event.clear();
        self.details.clear();
        wire::number(&mut self.event, TRACK_UUID, track_uuid);
        if let Some((category, name)) = category_and_name {
            wire::number(&mut self.event, CATEGORY_IID, self.interner.iid(Table::Category, category));
            wire::number(&mut self.event, NAME_IID, self.interner.iid(Table::EventName, name));
        }
        for annotation in annotations {
            // Two numbers of at most 12 bytes each.
            wire::short_message(&mut self.details, DEBUG_ANNOTATION, |out| {
                encode_annotation(&mut self.interner, annotation, out);
            });
        }
    }

    /// Adds the flows that begin and that end at the event.
    pub(super) fn set_flows(&mut self, begun: &[u64], ended: &[u64]) {
        for flow in begun {
            wire::fixed64(&mut self.details, FLOW_ID, *flow);
        }
        for flow in ended {
            wire::fixed64(&mut self.details, TERMINATING_FLOW_ID, *flow);
        }
    }

    /// Adds the call stack.
    pub(super) fn set_stack(&mut self, stack: &Stack) {
        wire::number(&mut self.details, CALLSTACK_IID, self.interner.stack_iid(stack));
    }

    /// Removes annotations, flows and call stack from the event: only the begin of a slice has them.
    pub(super) fn keep_name_only(&mut self) {
        self.details.clear();
    }

    /// Writes the event as one of the given type.
    pub(super) fn push_event(&mut self, event_type: EventType, ts_ns: u64) {
        self.part.clear();
        wire::number(&mut self.part, EVENT_TYPE, event_type as u64);
        self.push_filled(ts_ns);
    }

    /// Writes the event as a sample of a counter.
    pub(super) fn push_counter(&mut self, ts_ns: u64, value: i64) {
        self.part.clear();
        wire::number(&mut self.part, EVENT_TYPE, EventType::Counter as u64);
        wire::number(&mut self.part, COUNTER_VALUE, value as u64);
        self.push_filled(ts_ns);
    }

    /// Writes the event with the fields in `part`.
    fn push_filled(&mut self, ts_ns: u64) {
        self.packet.clear();
        let interned_data = self.interner.take_pending();
        if interned_data.is_none() && self.next == Next::Continues {
            wire::number(&mut self.packet, TIMESTAMP, ts_ns);
            wire::number(&mut self.packet, SEQUENCE, SEQUENCE_ID.into());
            wire::number(&mut self.packet, SEQUENCE_FLAGS, FLAGS_NEEDS_STATE.into());
        } else {
            let mut head = TracePacket { timestamp: Some(ts_ns), interned_data, ..Default::default() };
            self.next.stamp(&mut head);
            head.encode(&mut self.packet).expect("a Vec grows as needed");
        }
        let parts = [&self.event, &self.part, &self.details];
        let len = parts.iter().map(|part| part.len()).sum();
        wire::begin_message(&mut self.packet, TRACK_EVENT, len);
        self.encoded.push(PACKET_KEY);
        wire::varint(&mut self.encoded, (self.packet.len() + len) as u64);
        self.encoded.extend_from_slice(&self.packet);
        for part in parts {
            self.encoded.extend_from_slice(part);
        }
    }

    /// Writes a typed GPU event. Most traces have none, so it needs no reused buffers.
    pub(super) fn push_gpu_stage(&mut self, stage: &GpuStage<'_>) {
        self.clear_if_full();
        let extra = |annotation: &Annotation<'_>| ExtraData {
            name: Some(text::clean(annotation.name)),
            value: Some(text::clean(&annotation.value.to_string())),
        };
        let event = GpuRenderStageEvent {
            event_id: stage.ended_flow,
            duration: Some(stage.end_ns.saturating_sub(stage.begin_ns)),
            context: Some(self.interner.gpu_context_iid(stage.pid)),
            extra_data: stage.annotations.iter().map(extra).collect(),
            gpu_id: Some(stage.gpu as i32),
            hw_queue_iid: Some(self.interner.gpu_queue_iid(stage.gpu_name, stage.queue)),
            stage_iid: Some(self.interner.gpu_stage_iid(stage.name)),
        };
        let interned_data = self.interner.take_pending();
        self.push(TracePacket {
            timestamp: Some(stage.begin_ns),
            interned_data,
            gpu_render_stage_event: Some(event),
            ..Default::default()
        });
    }

    fn push(&mut self, mut packet: TracePacket) {
        self.next.stamp(&mut packet);
        encode_packet(&packet, &mut self.encoded);
    }
}

impl Next {
    /// Sets the fields of a packet that belong to the sequence.
    fn stamp(&mut self, packet: &mut TracePacket) {
        let next = std::mem::replace(self, Self::Continues);
        let cleared = next != Self::Continues;
        packet.trusted_packet_sequence_id = Some(SEQUENCE_ID);
        packet.sequence_flags = Some(if cleared { FLAGS_CLEARED } else { FLAGS_NEEDS_STATE });
        packet.first_packet_on_sequence = (next == Self::Opens).then_some(true);
        packet.previous_packet_dropped = (next == Self::ClearsAfterLoss).then_some(1);
        packet.trace_packet_defaults =
            cleared.then_some(TracePacketDefaults { timestamp_clock_id: Some(clock::BOOTTIME) });
    }
}

fn encode_packet(packet: &TracePacket, encoded: &mut Vec<u8>) {
    encoded.push(PACKET_KEY);
    packet.encode_length_delimited(encoded).expect("a Vec grows as needed");
}

/// The fields of a `DebugAnnotation`.
fn encode_annotation(interner: &mut Interner, annotation: &Annotation<'_>, out: &mut Vec<u8>) {
    wire::number(out, ANNOTATION_NAME_IID, interner.iid(Table::AnnotationName, annotation.name));
    match annotation.value {
        Value::Str(text) => wire::number(out, STRING_IID, interner.iid(Table::AnnotationValue, text)),
        Value::Shared(text) => wire::number(out, STRING_IID, interner.shared_iid(text)),
        Value::U64(number) => wire::number(out, UINT, number),
        Value::I64(number) => wire::number(out, INT, number as u64),
        Value::F64(number) => wire::fixed64(out, DOUBLE, number.to_bits()),
        Value::Pointer(address) => wire::number(out, POINTER, address),
        Value::Bool(truth) => wire::number(out, BOOL, truth.into()),
    }
}
