//! What the programs walk stacks by: processes, their mappings, and unwind rows. See `xsched_abi::chain`.

use std::os::fd::AsFd as _;

use aya::maps::{ArrayOfMaps, HashMap, Map, MapData, MapError};
use xsched_abi::chain::{CHUNK_ROWS, CHUNKS_MAX, MAPPINGS_MAX, PAGES_MAX, Page};
use xsched_abi::unwind::Row;
use xsched_abi::{Code, Space};

use super::object::{BpfError, Programs};
use super::shared::Shared;
use super::sys;

#[repr(transparent)]
#[derive(Clone, Copy)]
struct SpaceValue(Space);

// SAFETY: the type is plain data without padding (`zerocopy::IntoBytes` is derived for it), and every bit pattern is
// valid (`zerocopy::FromBytes`).
unsafe impl aya::Pod for SpaceValue {}

/// The maps.
pub(crate) struct ChainMaps {
    spaces: HashMap<MapData, u32, SpaceValue>,
    mappings: Shared<Code>,
    pages: Shared<Page>,
    chunks: ArrayOfMaps<MapData>,
}

impl ChainMaps {
    /// Takes the maps; programs must have been loaded for `uprobe_multi` before, since that needs them.
    pub(crate) fn take(programs: &mut Programs) -> Result<Self, BpfError> {
        let chunks = ArrayOfMaps::try_from(take(programs, "CHUNKS"))
            .map_err(|cause| BpfError::Map { map: "CHUNKS", cause })?;
        let spaces = HashMap::try_from(take(programs, "SPACES"))
            .map_err(|cause| BpfError::Map { map: "SPACES", cause })?;
        Ok(Self {
            spaces,
            mappings: shared(programs, "MAPPINGS", MAPPINGS_MAX)?,
            pages: shared(programs, "PAGES", PAGES_MAX)?,
            chunks,
        })
    }

    /// Says where a process's mappings are. An error means that there are too many processes.
    pub(crate) fn set_space(&mut self, tgid: u32, space: &Space) -> Result<(), MapError> {
        self.spaces.insert(tgid, SpaceValue(*space), 0)
    }

    /// Forgets a process. One that is not known is forgotten already.
    pub(crate) fn remove_space(&mut self, tgid: u32) {
        let _ = self.spaces.remove(&tgid);
    }

    /// Writes mappings from the element `first` on. No space may refer to them.
    pub(crate) fn write_mappings(&mut self, first: u32, mappings: &[Code]) {
        self.mappings.write(first as usize, mappings);
    }

    /// Writes pages from the element `first` on. No mapping may refer to them.
    pub(crate) fn write_pages(&mut self, first: u32, pages: &[Page]) {
        self.pages.write(first as usize, pages);
    }

    /// Makes a chunk, and gives a window into it to write rows through.
    pub(crate) fn add_chunk(&mut self, index: u32) -> Result<Shared<Row>, BpfError> {
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

fn take(programs: &mut Programs, name: &'static str) -> Map {
    programs.ebpf.take_map(name).expect("build.rs compiles all maps into the object")
}

fn shared<T: zerocopy::IntoBytes + zerocopy::Immutable>(
    programs: &mut Programs,
    name: &'static str,
    count: u32,
) -> Result<Shared<T>, BpfError> {
    let Map::Array(map) = take(programs, name) else { unreachable!("the object's maps have fixed types") };
    // The mapping keeps the map; its descriptor is not needed any more.
    Shared::map(map.fd().as_fd(), count as usize)
        .map_err(|error| BpfError::Map { map: name, cause: MapError::IoError(error) })
}
