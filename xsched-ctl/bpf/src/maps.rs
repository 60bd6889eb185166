//! Maps: their values, descriptors and sizes.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use aya::Pod;
use aya::maps::{HashMap, IterableMap, Map, MapData};

use crate::{BpfError, sys};

/// Makes a type of `xsched_abi` usable as a map's key or value.
#[macro_export]
macro_rules! map_value {
    ($vis:vis $name:ident, $inner:ty) => {
        #[repr(transparent)]
        #[derive(Clone, Copy)]
        $vis struct $name($vis $inner);

        // SAFETY: the types of `xsched_abi` are plain data without padding (`zerocopy::IntoBytes` is derived there),
        // and every bit pattern is valid (`zerocopy::FromBytes`).
        unsafe impl aya::Pod for $name {}
    };
}

/// The kernel's list of possible processor numbers: `0-127`, seldom with gaps
/// ([documentation](https://docs.kernel.org/admin-guide/cputopology.html)).
const POSSIBLE_PROCESSORS: &str = "/sys/devices/system/cpu/possible";

/// The largest of these numbers plus one.
pub fn processor_count() -> Result<u32, BpfError> {
    let unreadable = |cause| BpfError::Processors { path: POSSIBLE_PROCESSORS, cause };
    let list = std::fs::read_to_string(POSSIBLE_PROCESSORS).map_err(unreadable)?;
    let last = list.trim_end().rsplit(['-', ',']).next().and_then(|number| number.parse::<u32>().ok());
    last.map(|last| last + 1).ok_or_else(|| unreadable(io::Error::other(format!("it says {list:?}"))))
}

/// The descriptor of a map of the kinds that the objects have.
pub fn map_fd(map: &Map) -> Option<i32> {
    match map {
        Map::Array(data)
        | Map::ArrayOfMaps(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::RingBuf(data) => Some(data.fd().as_fd().as_raw_fd()),
        _ => None,
    }
}

/// The keys of a hash map. Programs may add and remove others meanwhile: those that were there all the time are among them. None if the
/// kernel refuses to tell them.
pub fn keys<K: Pod, V: Pod>(map: &HashMap<MapData, K, V>) -> Vec<K> {
    let keys = sys::keys(map.map().fd().as_fd(), size_of::<V>());
    keys.unwrap_or_else(|error| {
        tracing::warn!("the keys of a map cannot be read: {error}");
        Vec::new()
    })
}
