//! One packet, walked once: where its parts are, and what an event says.

use prost::Message as _;

use super::{
    OwnedAnnotation, OwnedValue, What,
    sequence::{Interned, Table},
    wire::{Field, Fields, Malformed},
};
use crate::{
    identity::TrackId,
    schema::{EventType, GpuRenderStageEvent, annotation_field, event_field, packet_field},
};

/// The category of slices that were typed events of a GPU.
const GPU_CATEGORY: &str = "gpu";

/// What a packet has, its parts still encoded.
#[derive(Debug, Default)]
pub(super) struct Packet<'a> {
    pub(super) ts_ns: Option<u64>,
    pub(super) sequence: u32,
    pub(super) flags: u32,
    pub(super) clock_id: Option<u32>,
    /// Whether something before it on its sequence was lost.
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

/// What an event is, besides what is said about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) event_type: EventType,
    pub(super) track: u64,
    pub(super) counter_value: Option<i64>,
}

/// Reads an event, and what it says into `what`. `None` if it refers to a text that was not defined, or says not what it
/// is or to which track it belongs.
pub(super) fn event<T: Clone + Default>(
    body: &[u8],
    interned: &Interned<T>,
    intern: &mut impl FnMut(&str) -> T,
    what: &mut What<T>,
) -> Result<Option<Head>, Malformed> {
    what.clear();
    let (mut event_type, mut track, mut counter_value) = (None, None, None);
    let mut is_known = true;
    let mut fields = Fields::of(body);
    while let Some(field) = fields.next()? {
        match field {
            (event_field::CATEGORY_IID, Field::Number(iid)) => {
                is_known &= set(&mut what.category, interned.categories.get(iid));
            }
            (event_field::NAME_IID, Field::Number(iid)) => {
                is_known &= set(&mut what.name, interned.event_names.get(iid));
            }
            (event_field::CATEGORY, Field::Bytes(text)) => {
                what.category = intern(&String::from_utf8_lossy(text));
            }
            (event_field::NAME, Field::Bytes(text)) => what.name = intern(&String::from_utf8_lossy(text)),
            (event_field::DEBUG_ANNOTATION, Field::Bytes(part)) => {
                match annotation(part, interned, intern)? {
                    Some(annotation) => what.annotations.push(annotation),
                    None => is_known = false,
                }
            }
            (event_field::EVENT_TYPE, Field::Number(number)) => {
                event_type = EventType::try_from(number as i32).ok();
            }
            (event_field::TRACK_UUID, Field::Number(number)) => track = Some(number),
            (event_field::COUNTER_VALUE, Field::Number(number)) => counter_value = Some(number as i64),
            (event_field::CALLSTACK_IID, Field::Number(iid)) => {
                what.stack = interned.stacks.get(iid).cloned();
                is_known &= what.stack.is_some();
            }
            (event_field::FLOW_ID, field) => flows(&mut what.flows, field),
            (event_field::TERMINATING_FLOW_ID, field) => flows(&mut what.ended_flows, field),
            _ => {}
        }
    }
    let (Some(event_type), Some(track), true) = (event_type, track, is_known) else { return Ok(None) };
    Ok(Some(Head { event_type, track, counter_value }))
}

/// Reads a typed event of a GPU: its track, and how long it ran. `None` if it names no queue that was defined.
pub(super) fn gpu_stage<T: Clone + Default>(
    body: &[u8],
    interned: &Interned<T>,
    intern: &mut impl FnMut(&str) -> T,
    what: &mut What<T>,
) -> Result<Option<(TrackId, u64)>, Malformed> {
    what.clear();
    let event = GpuRenderStageEvent::decode(body)?;
    let Some(queue) = interned.gpu.get(event.hw_queue_iid()) else { return Ok(None) };
    what.category = intern(GPU_CATEGORY);
    what.name = interned.gpu.get(event.stage_iid()).map(|stage| stage.name.clone()).unwrap_or_default();
    for extra in &event.extra_data {
        let value = match extra.value().parse() {
            Ok(number) => OwnedValue::U64(number),
            Err(_) => OwnedValue::Str(intern(extra.value())),
        };
        what.annotations.push(OwnedAnnotation { name: intern(extra.name()), value });
    }
    what.ended_flows.extend(event.event_id);
    Ok(Some((queue.track, event.duration())))
}

/// Whether there is a text to set.
fn set<T: Clone>(text: &mut T, known: Option<&T>) -> bool {
    known.inspect(|known| text.clone_from(known)).is_some()
}

/// Writers may put several into one field.
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

/// `None` if it refers to a text that was not defined.
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
