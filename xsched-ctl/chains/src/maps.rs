//! The data by which the programs walk stacks: processes, their mappings, and unwind rows. See `xsched_abi::chain`.

use std::os::fd::{AsFd as _, OwnedFd};
use std::{collections, io};

use aya::Ebpf;
use aya::maps::{HashMap, Map, MapData, MapError};
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

/// All maps.
pub struct ChainMaps {
    pub(crate) processes: ProcessMaps,
    pub(crate) rows: RowMaps,
}

/// Processes and their mappings.
pub(crate) struct ProcessMaps {
    spaces: HashMap<MapData, u32, SpaceValue>,
    mappings: Shared<Code>,
    /// The programs' ids of processes, where these differ from the ids here. Other processes are not given to the
    /// programs.
    ids: Option<collections::HashMap<u32, u32>>,
}

/// Unwind rows, by page of code.
pub(crate) struct RowMaps {
    pages: Shared<Page>,
    chunks: MapData,
}

/// A part of the rows, which programs see once it is inserted.
pub(crate) struct Chunk {
    map: OwnedFd,
    /// Through this its rows are written.
    pub(crate) rows: Shared<Row>,
}

impl ChainMaps {
    /// Takes the maps. Programs for `uprobe_multi` must have been loaded before, since that needs the maps.
    pub fn take(programs: &mut Ebpf) -> Result<Self, BpfError> {
        let Map::ArrayOfMaps(chunks) = take(programs, "CHUNKS") else {
            unreachable!("the object's maps have fixed types")
        };
        let spaces = HashMap::try_from(take(programs, "SPACES"))
            .map_err(|cause| BpfError::Map { map: "SPACES", cause })?;
        let mappings = shared(programs, "MAPPINGS", MAPPINGS_MAX)?;
        Ok(Self {
            processes: ProcessMaps { spaces, mappings, ids: None },
            rows: RowMaps { pages: shared(programs, "PAGES", PAGES_MAX)?, chunks },
        })
    }
}

impl ProcessMaps {
    /// Sets the programs' id of a process; none: the process is not given to them any more. After the first call only
    /// processes with an id are given to them.
    pub(crate) fn know_as(&mut self, pid: u32, tgid: Option<u32>) {
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
    pub(crate) fn set_space(&mut self, pid: u32, space: &Space) -> Result<(), MapError> {
        match self.id_there(pid) {
            Some(tgid) => self.spaces.insert(tgid, SpaceValue(*space), 0),
            None => Ok(()),
        }
    }

    /// Removes a process, if it is there.
    pub(crate) fn remove_space(&mut self, pid: u32) {
        if let Some(tgid) = self.id_there(pid) {
            let _ = self.spaces.remove(&tgid);
        }
    }

    /// Writes mappings from the element `first` on. No space may refer to these elements.
    pub(crate) fn write_mappings(&mut self, first: u32, mappings: &[Code]) {
        self.mappings.write(first as usize, mappings);
    }
}

impl RowMaps {
    /// Writes pages from the element `first` on. No mapping may refer to these elements.
    pub(crate) fn write_pages(&mut self, first: u32, pages: &[Page]) {
        self.pages.write(first as usize, pages);
    }

    /// Creates a chunk that programs do not see yet.
    pub(crate) fn create_chunk() -> Result<Chunk, BpfError> {
        let map = sys::create_mappable_array(size_of::<Row>() as u32, CHUNK_ROWS).map_err(chunks_error)?;
        let rows = Shared::map(map.as_fd(), CHUNK_ROWS as usize).map_err(chunks_error)?;
        Ok(Chunk { map, rows })
    }

    /// Inserts chunks from the index `first` on. The kernel takes milliseconds.
    pub(crate) fn insert_chunks(&mut self, first: u32, chunks: &[Chunk]) -> Result<(), BpfError> {
        debug_assert!(first as usize + chunks.len() <= CHUNKS_MAX as usize, "the caller knows the bound");
        if chunks.is_empty() {
            return Ok(());
        }
        let maps: Vec<_> = chunks.iter().map(|chunk| chunk.map.as_fd()).collect();
        sys::insert_maps(self.chunks.fd().as_fd(), first, &maps).map_err(chunks_error)
    }
}

fn chunks_error(error: io::Error) -> BpfError {
    BpfError::Map { map: "CHUNKS", cause: MapError::IoError(error) }
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
