//! The interned texts of each sequence of packets, and whether they are valid.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use prost::Message as _;

use super::{packet::Packet, stacks::Stacks, table::Table, wire::Malformed};
use crate::{
    identity::{Scope, TrackId},
    schema::{FLAGS_CLEARED, FLAGS_NEEDS_STATE, InternedData, TracePacketDefaults, clock},
};

#[derive(Debug, Default)]
pub(super) struct Sequences<T> {
    by_id: HashMap<u32, Interned<T>, RandomState>,
}

/// The definitions of one sequence since it was cleared.
#[derive(Debug, Default)]
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
    /// For a queue: the track of this name below the track with the name of the GPU.
    pub(super) track: TrackId,
}

impl<T: Clone + Default> Sequences<T> {
    /// Adds a packet's definitions to its sequence, and returns the definitions that the packet may refer to. `None` if they
    /// were lost, or if the packet's time is on another clock.
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
