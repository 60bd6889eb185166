//! The verdicts in the programs' maps. Each party's processes have their own map, in which the least recently used
//! verdicts are evicted. So no party's verdicts are evicted because of another.
//!
//! ```text
//!   VERDICTS   process ──► map of its party; beyond 32 parties, one that all further ones share
//! ```

use std::collections::HashMap;

use aya::maps::{self, HashOfMaps, Map, MapData, MapError};
use xsched_bpf::{BpfError, map_value, sys};
use xsched_control_api::peer::Party;
use xsched_protocol::verdict::{Decided, VerdictKey};

map_value!(pub(super) Key, VerdictKey);
map_value!(pub(super) Value, Decided);

/// Most parties with their own map. A map takes 6 MiB.
const PARTIES_MAX: usize = 32;

/// Verdicts in a map.
const ANSWERS_PER_PARTY: u32 = 1 << 16;

/// A party's map.
type Answers = maps::HashMap<MapData, Key, Value>;

/// The map in which the programs look up a process's verdicts.
pub(super) type ByProcess = HashOfMaps<MapData, u32, Answers>;

/// The party of a map; none: all further parties share it.
type Holder = Option<Party>;

pub(super) struct DecidedMaps {
    by_process: ByProcess,
    /// The maps with their numbers of processes.
    maps: HashMap<Holder, (Answers, usize)>,
    /// By process: the party of its map.
    holders: HashMap<u32, Holder>,
    /// Created ahead for the next party: the kernel takes some milliseconds for that.
    spare: Option<Answers>,
}

impl DecidedMaps {
    pub(super) fn new(by_process: ByProcess) -> Self {
        Self { by_process, maps: HashMap::new(), holders: HashMap::new(), spare: create().ok() }
    }

    /// Creates a map ahead, while nothing waits for it.
    pub(super) fn prepare(&mut self) {
        // If this fails, it is tried again when the map is needed, and then reported.
        self.spare = self.spare.take().or_else(|| create().ok());
    }

    /// A process of a party will request verdicts.
    pub(super) fn add(&mut self, tgid: u32, party: Party) -> Result<(), BpfError> {
        self.remove(tgid, []);
        let failed = |cause| BpfError::Map { map: "VERDICTS", cause };
        let has_own = self.maps.contains_key(&Some(party)) || self.maps.len() < PARTIES_MAX;
        let holder = has_own.then_some(party);
        let (map, processes) = match self.maps.remove(&holder) {
            Some(known) => known,
            None => (self.spare.take().map_or_else(create, Ok).map_err(failed)?, 0),
        };
        let added = self.by_process.insert(tgid, &map, 0).map_err(failed);
        if added.is_ok() {
            self.holders.insert(tgid, holder);
        }
        let processes = processes + usize::from(added.is_ok());
        if processes > 0 {
            self.maps.insert(holder, (map, processes));
        }
        added
    }

    /// A process requests no more verdicts. Removes those that it got.
    pub(super) fn remove(&mut self, tgid: u32, keys: impl IntoIterator<Item = VerdictKey>) {
        let Some(holder) = self.holders.remove(&tgid) else { return };
        // Removal fails only if it is not there.
        let _ = self.by_process.remove(&tgid);
        let Some((map, processes)) = self.maps.get_mut(&holder) else { return };
        *processes -= 1;
        if *processes == 0 {
            self.maps.remove(&holder);
            return;
        }
        for key in keys {
            let _ = map.remove(&Key(key));
        }
    }

    pub(super) fn decide(&mut self, tgid: u32, key: VerdictKey, decided: Decided) {
        let Some((map, _)) = self.holders.get(&tgid).and_then(|holder| self.maps.get_mut(holder)) else {
            return;
        };
        // A full map evicts the least recently used verdict.
        if let Err(error) = map.insert(Key(key), Value(decided), 0) {
            tracing::warn!("a verdict is not written: {error}");
        }
    }

    /// Removes a verdict, so that it is requested again. For a process that has left, the map is unknown, so all are
    /// searched.
    pub(super) fn forget(&mut self, tgid: u32, key: VerdictKey) {
        let holder = self.holders.get(&tgid);
        let maps = self.maps.iter_mut().filter(|(other, _)| holder.is_none_or(|holder| holder == *other));
        for (_, (map, _)) in maps {
            let _ = map.remove(&Key(key));
        }
    }
}

fn create() -> Result<Answers, MapError> {
    let (key, value) = (size_of::<VerdictKey>() as u32, size_of::<Decided>() as u32);
    let map = sys::create_lru_map(key, value, ANSWERS_PER_PARTY).map_err(MapError::IoError)?;
    Map::LruHashMap(MapData::from_fd(map)?).try_into()
}

#[cfg(test)]
mod tests;
