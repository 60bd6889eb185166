//! Encodes packets of one sequence into a reused buffer.
//!
//! One packet is kept for events and filled again and again, so that its vectors keep their capacity; the
//! rare others are made afresh. The flags of the sequence are decided here: the first packet, and each one
//! after the interning tables were cleared, says so and repeats the defaults.

use prost::Message;

use crate::{
    annotation::{Annotation, Value},
    intern::{Interner, Table},
    schema::{
        ClockSnapshot, DebugAnnotation, EventType, FLAGS_CLEARED, FLAGS_NEEDS_STATE, PACKET_KEY, TracePacket,
        TracePacketDefaults, TrackDescriptor, TrackEvent, clock,
    },
};

/// The only sequence of a trace: there is one writer.
const SEQUENCE_ID: u32 = 1;

#[derive(Debug)]
pub(super) struct PacketBuffer {
    encoded: Vec<u8>,
    interner: Interner,
    event: TracePacket,
    next: Next,
}

/// What the next packet has to say about the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// That it is the first.
    Opens,
    /// Nothing new.
    Continues,
    /// That the state was cleared.
    Clears,
    /// That the state was cleared because something before it was lost.
    ClearsAfterLoss,
}

impl PacketBuffer {
    pub(super) fn new(interner: Interner) -> Self {
        let event = TracePacket { track_event: Some(TrackEvent::default()), ..Default::default() };
        Self { encoded: Vec::new(), interner, event, next: Next::Opens }
    }

    /// What was encoded since [`Self::clear_encoded`]: whole packets.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    pub(super) fn clear_encoded(&mut self) {
        self.encoded.clear();
    }

    /// Makes the next packet say that something is missing before it.
    pub(super) fn mark_loss(&mut self) {
        self.interner.clear();
        self.next = Next::ClearsAfterLoss;
    }

    /// Forgets what was written, and makes the next packet say so.
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

    /// Describes a track as from `ts_ns`, or from the latest time seen so far if that is 0. Descriptors of
    /// processes carry the time of their start: Perfetto takes descriptors in order of time, and for a pid
    /// that was used again each must fall into its own life.
    pub(super) fn describe_at(&mut self, ts_ns: u64, descriptor: TrackDescriptor) {
        self.push(TracePacket {
            timestamp: (ts_ns > 0).then_some(ts_ns),
            track_descriptor: Some(descriptor),
            ..Default::default()
        });
    }

    /// Fills the event that [`Self::push_event`] writes.
    pub(super) fn begin_event(
        &mut self,
        track_uuid: u64,
        category_and_name: Option<(&str, &str)>,
        annotations: &[Annotation<'_>],
    ) {
        if self.interner.is_full() {
            self.interner.clear();
            if self.next == Next::Continues {
                self.next = Next::Clears;
            }
        }
        let interner = &mut self.interner;
        let event = self.event.track_event.get_or_insert_default();
        event.track_uuid = Some(track_uuid);
        event.category_iid = category_and_name.map(|(category, _)| interner.iid(Table::Category, category));
        event.name_iid = category_and_name.map(|(_, name)| interner.iid(Table::EventName, name));
        event.counter_value = None;
        event.flow_ids.clear();
        event.terminating_flow_ids.clear();
        event.debug_annotations.clear();
        event
            .debug_annotations
            .extend(annotations.iter().map(|annotation| encode_annotation(interner, annotation)));
    }

    /// Adds the arrows that begin and that end at the event.
    pub(super) fn set_flows(&mut self, begun: &[u64], ended: &[u64]) {
        let event = self.event.track_event.get_or_insert_default();
        event.flow_ids.extend(begun);
        event.terminating_flow_ids.extend(ended);
    }

    /// Takes annotations and arrows off the event: they belong to its begin only.
    pub(super) fn keep_name_only(&mut self) {
        let event = self.event.track_event.get_or_insert_default();
        event.debug_annotations.clear();
        event.flow_ids.clear();
        event.terminating_flow_ids.clear();
    }

    /// Writes the event as one of the given type.
    pub(super) fn push_event(&mut self, event_type: EventType, ts_ns: u64) {
        self.event.track_event.get_or_insert_default().event_type = Some(event_type.into());
        self.event.timestamp = Some(ts_ns);
        self.event.interned_data = self.interner.take_pending();
        self.next.stamp(&mut self.event);
        encode_packet(&self.event, &mut self.encoded);
    }

    /// Writes the event as a sample of a counter.
    pub(super) fn push_counter(&mut self, ts_ns: u64, value: i64) {
        self.event.track_event.get_or_insert_default().counter_value = Some(value);
        self.push_event(EventType::Counter, ts_ns);
    }

    fn push(&mut self, mut packet: TracePacket) {
        self.next.stamp(&mut packet);
        encode_packet(&packet, &mut self.encoded);
    }
}

impl Next {
    /// Sets the fields that place a packet in the sequence.
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
    packet.encode_length_delimited(encoded).expect("a Vec always has room");
}

fn encode_annotation(interner: &mut Interner, annotation: &Annotation<'_>) -> DebugAnnotation {
    let name_iid = Some(interner.iid(Table::AnnotationName, annotation.name));
    let unset = DebugAnnotation { name_iid, ..Default::default() };
    match annotation.value {
        Value::Str(text) => {
            DebugAnnotation { string_value_iid: Some(interner.iid(Table::AnnotationValue, text)), ..unset }
        }
        Value::Shared(text) => DebugAnnotation { string_value_iid: Some(interner.shared_iid(text)), ..unset },
        Value::U64(number) => DebugAnnotation { uint_value: Some(number), ..unset },
        Value::I64(number) => DebugAnnotation { int_value: Some(number), ..unset },
        Value::F64(number) => DebugAnnotation { double_value: Some(number), ..unset },
        Value::Pointer(address) => DebugAnnotation { pointer_value: Some(address), ..unset },
        Value::Bool(truth) => DebugAnnotation { bool_value: Some(truth), ..unset },
    }
}
