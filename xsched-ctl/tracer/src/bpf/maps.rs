//! The maps through which user space and the programs communicate, apart from the ring buffers.

use std::collections::HashSet;

use aya::maps::{Array, HashMap, Map, MapData, MapError};
use xsched_abi::{CallKey, Config, Filter, Pending, Watched};
use xsched_bpf::{BpfError, CounterMap, Losses, keys, map_fd, map_value};

use super::enlist::Enlistment;
use super::object::Programs;

map_value!(ConfigValue, Config);
map_value!(Key, CallKey);
map_value!(Value, Pending);

/// The maps, taken out of the object.
pub(crate) struct Maps {
    config: Array<MapData, ConfigValue>,
    targets: HashMap<MapData, u32, u8>,
    known: HashMap<MapData, u64, u8>,
    pending: HashMap<MapData, Key, Value>,
    enlistment: Enlistment,
    counters: CounterMap,
}

pub(super) fn take<M: TryFrom<Map, Error = MapError>>(
    programs: &mut Programs,
    name: &'static str,
) -> Result<M, BpfError> {
    let map = programs.ebpf.take_map(name).expect("build.rs compiles all maps into the object");
    map.try_into().map_err(|cause| BpfError::Map { map: name, cause })
}

impl Maps {
    /// Takes the maps. Programs for `uprobe_multi` must have been loaded before, since that needs the maps.
    pub(crate) fn take(programs: &mut Programs) -> Result<Self, BpfError> {
        let targets = programs.ebpf.map("TARGETS").and_then(map_fd);
        let targets = targets.expect("build.rs compiles all maps into the object");
        Ok(Self {
            enlistment: Enlistment { targets },
            config: take(programs, "CONFIG")?,
            targets: take(programs, "TARGETS")?,
            known: take(programs, "KNOWN")?,
            pending: take(programs, "PENDING")?,
            counters: CounterMap::take(&mut programs.ebpf, programs.processor_count)?,
        })
    }

    /// Sets what to watch. Before that the programs watch nothing.
    pub(crate) fn configure(&mut self, config: Config) -> Result<(), BpfError> {
        self.config.set(0, ConfigValue(config), 0).map_err(|cause| BpfError::Map { map: "CONFIG", cause })
    }

    pub(crate) fn watch(&mut self, tgid: u32, how: Watched) -> Result<(), BpfError> {
        self.targets.insert(tgid, how as u8, 0).map_err(|cause| BpfError::Map { map: "TARGETS", cause })
    }

    /// Lets a child add itself to the list. Valid while this lives.
    pub(crate) fn enlistment(&self) -> Enlistment {
        self.enlistment
    }

    /// Removes a process from the list, if it is there.
    pub(crate) fn unwatch(&mut self, tgid: u32) {
        let _ = self.targets.remove(&tgid);
    }

    /// Whether a process is on the list, to which the programs add children.
    pub(crate) fn watches(&self, tgid: u32) -> bool {
        self.targets.get(&tgid, 0).is_ok()
    }

    /// Whether a process is on the list and may be stopped.
    pub(crate) fn may_stop(&self, tgid: u32) -> bool {
        self.targets.get(&tgid, 0).is_ok_and(|how| how == Watched::Stoppable as u8)
    }

    /// Marks a path as probed. If the map is full, opening the path is reported again.
    pub(crate) fn know(&mut self, path_hash: u64) {
        let _ = self.known.insert(path_hash, 1, 0);
    }

    /// Clears all marks: some paths lead to other files by now. Opening them is reported again.
    pub(crate) fn know_no_path(&mut self) {
        for path_hash in keys(&self.known) {
            let _ = self.known.remove(&path_hash);
        }
    }

    /// Takes the calls in progress of the processes that `whose` selects.
    pub(crate) fn take_pending(&mut self, mut whose: impl FnMut(u32) -> bool) -> Vec<(CallKey, Pending)> {
        let taken = keys(&self.pending).into_iter().filter(|key| whose(key.0.tgid));
        taken
            .filter_map(|key| {
                let value = self.pending.get(&key, 0).ok()?;
                let _ = self.pending.remove(&key);
                Some((key.0, value.0))
            })
            .collect()
    }

    pub(crate) fn threads_in_calls(&self) -> HashSet<u32> {
        keys(&self.pending).into_iter().map(|key| key.0.tid).collect()
    }

    pub(crate) fn losses(&self) -> Losses {
        self.counters.losses()
    }

    /// Calls that the programs have filtered out so far, by filter.
    pub(crate) fn left_out(&self, filter: Filter) -> u64 {
        self.counters.left_out(filter)
    }
}
