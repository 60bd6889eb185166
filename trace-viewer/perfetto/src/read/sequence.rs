//! The interned texts of each sequence of packets, and whether they may be relied on.

use std::{cmp::Ordering, collections::HashMap};

use foldhash::fast::RandomState;
use prost::Message as _;

use super::{packet::Packet, stacks::Stacks, wire::Malformed};
use crate::{
    identity::{Scope, TrackId},
    schema::{FLAGS_CLEARED, FLAGS_NEEDS_STATE, InternedData, InternedString, TracePacketDefaults, clock},
};

#[derive(Debug)]
pub(super) struct Sequences<T> {
    by_id: HashMap<u32, Interned<T>, RandomState>,
}

/// What one sequence has defined since it was cleared.
#[derive(Debug)]
pub(super) struct Interned<T> {
    pub(super) categories: Table<T>,
    pub(super) event_names: Table<T>,
    pub(super) annotation_names: Table<T>,
    pub(super) annotation_values: Table<T>,
    pub(super) stacks: Stacks<T>,
    pub(super) gpu: Table<GpuName<T>>,
    default_clock: Option<u32>,
    /// Whether the sequence was cleared since the last loss.
    valid: bool,
}

/// The name of a queue or stage of GPUs.
#[derive(Clone, Debug)]
pub(super) struct GpuName<T> {
    pub(super) name: T,
    /// The track that has this name, below the one that has the name of the GPU, if it is a queue.
    pub(super) track: TrackId,
}

/// Texts, or what has been made of them, by number. Writers mostly count from one, so most are found by their place.
#[derive(Debug)]
pub(super) struct Table<T> {
    in_order: Vec<T>,
    others: HashMap<u64, T, RandomState>,
}

impl<T> Default for Sequences<T> {
    fn default() -> Self {
        Self { by_id: HashMap::default() }
    }
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self {
            categories: Table::default(),
            event_names: Table::default(),
            annotation_names: Table::default(),
            annotation_values: Table::default(),
            stacks: Stacks::default(),
            gpu: Table::default(),
            default_clock: None,
            valid: false,
        }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { in_order: Vec::new(), others: HashMap::default() }
    }
}

impl<T: Clone + Default> Sequences<T> {
    /// Takes note of what a packet says about its sequence, and gives what it may lean on: `None` if that was lost, or if
    /// it tells time by another clock.
    pub(super) fn packet(
        &mut self,
        packet: &Packet<'_>,
        intern: &mut impl FnMut(&str) -> T,
    ) -> Result<Option<&Interned<T>>, Malformed> {
        let interned = self.by_id.entry(packet.sequence).or_default();
        if packet.flags & FLAGS_CLEARED & !FLAGS_NEEDS_STATE != 0 {
            *interned = Interned { valid: true, ..Interned::default() };
        } else if packet.is_after_loss {
            interned.valid = false;
        }
        if let Some(defaults) = packet.defaults {
            interned.default_clock = TracePacketDefaults::decode(defaults)?.timestamp_clock_id;
        }
        if let Some(data) = packet.interned {
            let data = InternedData::decode(data)?;
            interned.categories.extend(&data.event_categories, intern);
            interned.event_names.extend(&data.event_names, intern);
            interned.annotation_names.extend(&data.debug_annotation_names, intern);
            interned.annotation_values.extend(&data.debug_annotation_string_values, intern);
            interned.stacks.extend(&data, intern);
            for stage in &data.gpu_specifications {
                let gpu = Scope::Track(TrackId::new(Scope::Global, stage.description()));
                let (name, track) = (intern(stage.name()), TrackId::new(gpu, stage.name()));
                interned.gpu.insert(stage.iid(), GpuName { name, track });
            }
        }
        let clock_id = packet.clock_id.or(interned.default_clock).unwrap_or(clock::BOOTTIME);
        let needs_state = packet.flags & FLAGS_NEEDS_STATE != 0;
        Ok((clock_id == clock::BOOTTIME && (interned.valid || !needs_state)).then_some(interned))
    }
}

impl<T> Table<T> {
    /// The text with a number; `None` for one that was not defined.
    #[inline]
    pub(super) fn get(&self, iid: u64) -> Option<&T> {
        self.in_order.get((iid as usize).wrapping_sub(1)).or_else(|| self.others.get(&iid))
    }

    pub(super) fn extend(&mut self, entries: &[InternedString], intern: &mut impl FnMut(&str) -> T) {
        for entry in entries {
            self.insert(entry.iid(), intern(&String::from_utf8_lossy(entry.text())));
        }
    }

    pub(super) fn insert(&mut self, iid: u64, value: T) {
        let place = (iid as usize).wrapping_sub(1);
        match place.cmp(&self.in_order.len()) {
            Ordering::Less => self.in_order[place] = value,
            Ordering::Equal => self.in_order.push(value),
            Ordering::Greater => _ = self.others.insert(iid, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_any_order_lead_to_their_texts() {
        let mut table = Table::default();
        let entry = |(iid, text): (u64, &str)| InternedString { iid: Some(iid), text: Some(text.into()) };
        let mut define = |entries: &[(u64, &str)]| {
            let entries: Vec<_> = entries.iter().copied().map(entry).collect();
            table.extend(&entries, &mut |text| text.to_owned());
        };
        define(&[(1, "a"), (2, "b"), (9, "i"), (u64::MAX, "z"), (0, "nought")]);
        define(&[(3, "c"), (2, "B"), (9, "I")]);
        let found = [0, 1, 2, 3, 4, 9, u64::MAX].map(|iid| table.get(iid).map(String::as_str));
        let expected = [Some("nought"), Some("a"), Some("B"), Some("c"), None, Some("I"), Some("z")];
        assert_eq!(found, expected);
    }
}
