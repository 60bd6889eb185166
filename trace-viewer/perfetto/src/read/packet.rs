//! Decodes one packet in one pass: its parts, and the contents of an event.

use prost::Message as _;

use super::{
    event::{EventDetails, OwnedAnnotation, OwnedValue},
    sequence::Interned,
    table::Table,
    wire::{Field, Fields, Malformed},
};
use crate::{
    identity::TrackId,
    schema::{EventType, GpuRenderStageEvent, annotation_field, event_field, packet_field},
};

/// The category of slices that are typed GPU events in the trace.
const GPU_CATEGORY: &str = "gpu";

/// The fields of a packet; nested messages are still encoded.
#[derive(Debug, Default)]
pub(super) struct Packet<'a> {
    pub(super) ts_ns: Option<u64>,
    pub(super) sequence: u32,
    pub(super) flags: u32,
    pub(super) clock_id: Option<u32>,
    /// Whether earlier packets of its sequence were lost.
    pub(super) is_after_loss: bool,
    pub(super) defaults: Option<&'a [u8]>,
    pub(super) interned: Option<&'a [u8]>,
    pub(super) clocks: Option<&'a [u8]>,
    pub(super) descriptor: Option<&'a [u8]>,
    pub(super) event: Option<&'a [u8]>,
    pub(super) gpu_stage: Option<&'a [u8]>,
}

impl<'a> Packet<'a> {
    pub(super) fn of(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut packet = Self::default();
        let mut fields = Fields::of(body);
        while let Some(field) = fields.next()? {
            match field {
                (packet_field::TIMESTAMP, Field::Number(number)) => packet.ts_ns = Some(number),
                (packet_field::SEQUENCE, Field::Number(number)) => packet.sequence = number as u32,
                (packet_field::SEQUENCE_FLAGS, Field::Number(number)) => packet.flags = number as u32,
                (packet_field::CLOCK_ID, Field::Number(number)) => packet.clock_id = Some(number as u32),
                (packet_field::DROPPED, Field::Number(number)) => packet.is_after_loss = number != 0,
                (packet_field::DEFAULTS, Field::Bytes(part)) => packet.defaults = Some(part),
                (packet_field::INTERNED_DATA, Field::Bytes(part)) => packet.interned = Some(part),
                (packet_field::CLOCK_SNAPSHOT, Field::Bytes(part)) => packet.clocks = Some(part),
                (packet_field::TRACK_DESCRIPTOR, Field::Bytes(part)) => packet.descriptor = Some(part),
                (packet_field::TRACK_EVENT, Field::Bytes(part)) => packet.event = Some(part),
                (packet_field::GPU_RENDER_STAGE, Field::Bytes(part)) => packet.gpu_stage = Some(part),
                _ => {}
            }
        }
        Ok(packet)
    }
}

/// The type and the track of an event, without its details.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventHead {
    pub(super) event_type: EventType,
    pub(super) track: u64,
    pub(super) counter_value: Option<i64>,
}

/// Decodes an event, with its details into `details`. `None` if the event refers to a text that was not defined, or has no
/// type or no track.
pub(super) fn event<T: Clone + Default>(
    body: &[u8],
    interned: &Interned<T>,
    intern: &mut impl FnMut(&str) -> T,
    details: &mut EventDetails<T>,
) -> Result<Option<EventHead>, Malformed> {
    details.clear();
    let (mut event_type, mut track, mut counter_value) = (None, None, None);
    let mut is_known = true;
    let mut fields = Fields::of(body);
    while let Some(field) = fields.next()? {
        match field {
            (event_field::CATEGORY_IID, Field::Number(iid)) => {
                is_known &= set(&mut details.category, interned.categories.get(iid));
            }
            (event_field::NAME_IID, Field::Number(iid)) => {
                is_known &= set(&mut details.name, interned.event_names.get(iid));
            }
            (event_field::CATEGORY, Field::Bytes(text)) => {
                details.category = intern(&String::from_utf8_lossy(text));
            }
            (event_field::NAME, Field::Bytes(text)) => details.name = intern(&String::from_utf8_lossy(text)),
            (event_field::DEBUG_ANNOTATION, Field::Bytes(part)) => {
                match annotation(part, interned, intern)? {
                    Some(annotation) => details.annotations.push(annotation),
                    None => is_known = false,
                }
            }
            (event_field::EVENT_TYPE, Field::Number(number)) => {
                event_type = EventType::try_from(number as i32).ok();
            }
            (event_field::TRACK_UUID, Field::Number(number)) => track = Some(number),
            (event_field::COUNTER_VALUE, Field::Number(number)) => counter_value = Some(number as i64),
            (event_field::CALLSTACK_IID, Field::Number(iid)) => {
                details.stack = interned.stacks.get(iid).cloned();
                is_known &= details.stack.is_some();
            }
            (event_field::FLOW_ID, field) => flows(&mut details.flows, field),
            (event_field::TERMINATING_FLOW_ID, field) => flows(&mut details.ended_flows, field),
            _ => {}
        }
    }
    let (Some(event_type), Some(track), true) = (event_type, track, is_known) else { return Ok(None) };
    Ok(Some(EventHead { event_type, track, counter_value }))
}

/// Decodes a typed GPU event: its track and its duration. `None` if its queue was not defined.
pub(super) fn gpu_stage<T: Clone + Default>(
    body: &[u8],
    interned: &Interned<T>,
    intern: &mut impl FnMut(&str) -> T,
    details: &mut EventDetails<T>,
) -> Result<Option<(TrackId, u64)>, Malformed> {
    details.clear();
    let event = GpuRenderStageEvent::decode(body)?;
    let Some(queue) = interned.gpu.get(event.hw_queue_iid()) else { return Ok(None) };
    details.category = intern(GPU_CATEGORY);
    details.name = interned.gpu.get(event.stage_iid()).map(|stage| stage.name.clone()).unwrap_or_default();
    for extra in &event.extra_data {
        let value = match extra.value().parse() {
            Ok(number) => OwnedValue::U64(number),
            Err(_) => OwnedValue::Str(intern(extra.value())),
        };
        details.annotations.push(OwnedAnnotation { name: intern(extra.name()), value });
    }
    details.ended_flows.extend(event.event_id);
    Ok(Some((queue.track, event.duration())))
}

/// Sets `text` if `known` is a text; returns whether it is.
fn set<T: Clone>(text: &mut T, known: Option<&T>) -> bool {
    known.inspect(|known| text.clone_from(known)).is_some()
}

/// Adds the flows of a field. Writers may put several flows into one field.
fn flows(flows: &mut Vec<u64>, field: Field<'_>) {
    match field {
        Field::Fixed64(number) => flows.push(number),
        Field::Bytes(packed) => {
            let (numbers, _) = packed.as_chunks();
            flows.extend(numbers.iter().map(|number| u64::from_le_bytes(*number)));
        }
        Field::Number(_) | Field::Fixed32 => {}
    }
}

/// Decodes an annotation. `None` if it refers to a text that was not defined.
fn annotation<T: Clone + Default>(
    body: &[u8],
    interned: &Interned<T>,
    intern: &mut impl FnMut(&str) -> T,
) -> Result<Option<OwnedAnnotation<T>>, Malformed> {
    let (mut name, mut value) = (Some(T::default()), Some(OwnedValue::Other));
    let mut text_of = |text: &[u8]| intern(&String::from_utf8_lossy(text));
    let known = |table: &Table<T>, iid| table.get(iid).cloned();
    let mut fields = Fields::of(body);
    while let Some(field) = fields.next()? {
        match field {
            (annotation_field::NAME_IID, Field::Number(iid)) => name = known(&interned.annotation_names, iid),
            (annotation_field::NAME, Field::Bytes(text)) => name = Some(text_of(text)),
            (annotation_field::STRING_IID, Field::Number(iid)) => {
                value = known(&interned.annotation_values, iid).map(OwnedValue::Str);
            }
            (annotation_field::STRING, Field::Bytes(text)) => value = Some(OwnedValue::Str(text_of(text))),
            (annotation_field::UINT, Field::Number(number)) => value = Some(OwnedValue::U64(number)),
            (annotation_field::INT, Field::Number(number)) => value = Some(OwnedValue::I64(number as i64)),
            (annotation_field::DOUBLE, Field::Fixed64(bits)) => {
                value = Some(OwnedValue::F64(f64::from_bits(bits)));
            }
            (annotation_field::POINTER, Field::Number(address)) => value = Some(OwnedValue::Pointer(address)),
            (annotation_field::BOOL, Field::Number(number)) => value = Some(OwnedValue::Bool(number != 0)),
            _ => {}
        }
    }
    Ok(name.zip(value).map(|(name, value)| OwnedAnnotation { name, value }))
}
