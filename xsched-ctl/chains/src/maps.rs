//! The data by which the programs walk stacks: processes, their mappings, and unwind rows. See `xsched_abi::chain`.

use std::collections;
use std::os::fd::AsFd as _;

use aya::Ebpf;
use aya::maps::{ArrayOfMaps, HashMap, Map, MapData, MapError};
use xsched_abi::{
    Code, Space,
    chain::{CHUNK_ROWS, CHUNKS_MAX, MAPPINGS_MAX, PAGES_MAX, Page},
    unwind::Row,
};
use xsched_bpf::{BpfError, Shared, sys};

#[repr(transparent)]
#[derive(Clone, Copy)]
struct SpaceValue(Space);

// SAFETY: the type is plain data without padding (`zerocopy::IntoBytes` is derived for it), and every bit pattern is
// valid (`zerocopy::FromBytes`).
unsafe impl aya::Pod for SpaceValue {}

/// The maps.
pub struct ChainMaps {
    spaces: HashMap<MapData, u32, SpaceValue>,
    mappings: Shared<Code>,
    pages: Shared<Page>,
    chunks: ArrayOfMaps<MapData>,
    /// The programs' ids of processes, where these differ from the ids here. Other processes are not given to the
    /// programs.
    ids: Option<collections::HashMap<u32, u32>>,
}

impl ChainMaps {
    /// Takes the maps. Programs for `uprobe_multi` must have been loaded before, since that needs the maps.
    pub fn take(programs: &mut Ebpf) -> Result<Self, BpfError> {
        let chunks = ArrayOfMaps::try_from(take(programs, "CHUNKS"))
            .map_err(|cause| BpfError::Map { map: "CHUNKS", cause })?;
        let spaces = HashMap::try_from(take(programs, "SPACES"))
            .map_err(|cause| BpfError::Map { map: "SPACES", cause })?;
        Ok(Self {
            spaces,
            mappings: shared(programs, "MAPPINGS", MAPPINGS_MAX)?,
            pages: shared(programs, "PAGES", PAGES_MAX)?,
            chunks,
            ids: None,
        })
    }

    /// Sets the programs' id of a process; none: the process is not given to them any more. After the first call only
    /// processes with an id are given to them.
    pub fn know_as(&mut self, pid: u32, tgid: Option<u32>) {
        let ids = self.ids.get_or_insert_default();
        match tgid {
            Some(tgid) => drop(ids.insert(pid, tgid)),
            None => drop(ids.remove(&pid)),
        }
    }

    fn id_there(&self, pid: u32) -> Option<u32> {
        self.ids.as_ref().map_or(Some(pid), |ids| ids.get(&pid).copied())
    }

    /// Writes where a process's mappings are. An error means that there are too many processes.
    pub fn set_space(&mut self, pid: u32, space: &Space) -> Result<(), MapError> {
        match self.id_there(pid) {
            Some(tgid) => self.spaces.insert(tgid, SpaceValue(*space), 0),
            None => Ok(()),
        }
    }

    /// Removes a process, if it is there.
    pub fn remove_space(&mut self, pid: u32) {
        if let Some(tgid) = self.id_there(pid) {
            let _ = self.spaces.remove(&tgid);
        }
    }

    /// Writes mappings from the element `first` on. No space may refer to these elements.
    pub fn write_mappings(&mut self, first: u32, mappings: &[Code]) {
        self.mappings.write(first as usize, mappings);
    }

    /// Writes pages from the element `first` on. No mapping may refer to these elements.
    pub fn write_pages(&mut self, first: u32, pages: &[Page]) {
        self.pages.write(first as usize, pages);
    }

    /// Creates a chunk, and returns a mapping of it through which rows are written.
    pub fn add_chunk(&mut self, index: u32) -> Result<Shared<Row>, BpfError> {
        debug_assert!(index < CHUNKS_MAX, "the caller knows the bound");
        let map_error = |error| BpfError::Map { map: "CHUNKS", cause: MapError::IoError(error) };
        let fd = sys::create_mappable_array(size_of::<Row>() as u32, CHUNK_ROWS).map_err(map_error)?;
        let rows = Shared::map(fd.as_fd(), CHUNK_ROWS as usize).map_err(map_error)?;
        MapData::from_fd(fd)
            .and_then(|chunk| self.chunks.set(index, &chunk, 0))
            .map_err(|cause| BpfError::Map { map: "CHUNKS", cause })?;
        Ok(rows)
    }
}

fn take(programs: &mut Ebpf, name: &'static str) -> Map {
    programs.take_map(name).expect("build.rs compiles all maps into the object")
}

fn shared<T: zerocopy::IntoBytes + zerocopy::Immutable>(
    programs: &mut Ebpf,
    name: &'static str,
    count: u32,
) -> Result<Shared<T>, BpfError> {
    let Map::Array(map) = take(programs, name) else { unreachable!("the object's maps have fixed types") };
    // The mapping keeps the BPF map alive; its descriptor is no longer needed.
    Shared::map(map.fd().as_fd(), count as usize)
        .map_err(|error| BpfError::Map { map: name, cause: MapError::IoError(error) })
}
