//! The interned texts of each sequence of packets, and whether they may be relied on.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;

use crate::{
    read::{OwnedAnnotation, OwnedValue},
    schema::{
        DebugAnnotation, FLAGS_CLEARED, FLAGS_NEEDS_STATE, InternedString, TracePacket, TrackEvent, clock,
    },
};

#[derive(Debug, Default)]
pub(super) struct Sequences {
    by_id: HashMap<u32, Texts, RandomState>,
}

/// What one sequence has defined since it was cleared.
#[derive(Debug, Default)]
pub(super) struct Texts {
    categories: Table,
    event_names: Table,
    annotation_names: Table,
    annotation_values: Table,
    default_clock: Option<u32>,
    /// Whether the sequence was cleared since the last loss.
    valid: bool,
}

type Table = HashMap<u64, Arc<str>, RandomState>;

impl Sequences {
    /// Takes note of what a packet says about its sequence.
    pub(super) fn packet(&mut self, packet: &TracePacket) {
        let texts = self.by_id.entry(packet.trusted_packet_sequence_id()).or_default();
        if packet.sequence_flags() & FLAGS_CLEARED & !FLAGS_NEEDS_STATE != 0 {
            *texts = Texts { valid: true, ..Texts::default() };
        } else if packet.previous_packet_dropped() != 0 {
            texts.valid = false;
        }
        if let Some(defaults) = &packet.trace_packet_defaults {
            texts.default_clock = defaults.timestamp_clock_id;
        }
        if let Some(interned) = &packet.interned_data {
            extend(&mut texts.categories, &interned.event_categories);
            extend(&mut texts.event_names, &interned.event_names);
            extend(&mut texts.annotation_names, &interned.debug_annotation_names);
            extend(&mut texts.annotation_values, &interned.debug_annotation_string_values);
        }
    }

    /// The texts for a packet; `None` if it leans on state that was lost, or tells time by another clock.
    pub(super) fn texts(&self, packet: &TracePacket) -> Option<&Texts> {
        let texts = self.by_id.get(&packet.trusted_packet_sequence_id())?;
        let clock_id = packet.timestamp_clock_id.or(texts.default_clock).unwrap_or(clock::BOOTTIME);
        let needs_state = packet.sequence_flags() & FLAGS_NEEDS_STATE != 0;
        (clock_id == clock::BOOTTIME && (texts.valid || !needs_state)).then_some(texts)
    }
}

/// Each of these gives `None` for a number that was not defined.
impl Texts {
    pub(super) fn category(&self, event: &TrackEvent) -> Option<Arc<str>> {
        resolve(&self.categories, event.category_iid, event.category.as_deref())
    }

    pub(super) fn name(&self, event: &TrackEvent) -> Option<Arc<str>> {
        resolve(&self.event_names, event.name_iid, event.name.as_deref())
    }

    pub(super) fn annotations(&self, event: &TrackEvent) -> Option<Vec<OwnedAnnotation>> {
        // Collecting options does not know how many there are, and grows in steps.
        let mut annotations = Vec::with_capacity(event.debug_annotations.len());
        for annotation in &event.debug_annotations {
            annotations.push(self.annotation(annotation)?);
        }
        Some(annotations)
    }

    fn annotation(&self, annotation: &DebugAnnotation) -> Option<OwnedAnnotation> {
        let name = resolve(&self.annotation_names, annotation.name_iid, annotation.name.as_deref())?;
        Some(OwnedAnnotation { name, value: self.value(annotation)? })
    }

    fn value(&self, annotation: &DebugAnnotation) -> Option<OwnedValue> {
        Some(match *annotation {
            DebugAnnotation { string_value_iid: Some(iid), .. } => {
                OwnedValue::Str(self.annotation_values.get(&iid)?.clone())
            }
            DebugAnnotation { string_value: Some(ref text), .. } => OwnedValue::Str(text.as_str().into()),
            DebugAnnotation { uint_value: Some(number), .. } => OwnedValue::U64(number),
            DebugAnnotation { int_value: Some(number), .. } => OwnedValue::I64(number),
            DebugAnnotation { double_value: Some(number), .. } => OwnedValue::F64(number),
            DebugAnnotation { pointer_value: Some(address), .. } => OwnedValue::Pointer(address),
            DebugAnnotation { bool_value: Some(truth), .. } => OwnedValue::Bool(truth),
            _ => OwnedValue::Other,
        })
    }
}

fn extend(table: &mut Table, entries: &[InternedString]) {
    table.extend(
        entries.iter().map(|entry| (entry.iid(), String::from_utf8_lossy(entry.text()).as_ref().into())),
    );
}

fn resolve(table: &Table, iid: Option<u64>, inline: Option<&str>) -> Option<Arc<str>> {
    match iid {
        Some(iid) => table.get(&iid).cloned(),
        None => Some(inline.unwrap_or_default().into()),
    }
}
