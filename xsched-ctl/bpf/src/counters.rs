//! The programs' counters, read through a shared mapping: without system calls, for any number of processors.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd as _;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::Ebpf;
use aya::maps::{Map, MapData, MapError};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use xsched_abi::{Counter, Counters, Filter};

use crate::BpfError;

const MAP: &str = "COUNTERS";

/// The map, mapped.
#[derive(Debug)]
pub struct CounterMap {
    elements: NonNull<Counters>,
    processor_count: usize,
    /// Keeps the map in the kernel.
    _map: MapData,
}

impl CounterMap {
    /// Takes the map out of the object.
    ///
    /// # Panics
    ///
    /// If the object has no such map.
    pub fn take(object: &mut Ebpf, processor_count: u32) -> Result<Self, BpfError> {
        let map = object.take_map(MAP).expect("build.rs compiles all maps into the object");
        let Map::Array(map) = map else { unreachable!("the object's maps have fixed types") };
        let processor_count = processor_count as usize;
        let elements = Self::mmap(&map, processor_count * size_of::<Counters>())
            .map_err(|error| BpfError::Map { map: MAP, cause: MapError::IoError(error) })?;
        Ok(Self { elements: elements.cast(), processor_count, _map: map })
    }

    fn mmap(map: &MapData, len: usize) -> io::Result<NonNull<c_void>> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let address = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, map.fd().as_fd(), 0)?
        };
        NonNull::new(address).ok_or_else(|| io::Error::other("mapped at address zero"))
    }

    /// What has been lost so far.
    pub fn losses(&self) -> Losses {
        let by_processor = (0..self.processor_count)
            .map(|processor| {
                // SAFETY: the mapping has an element for each processor, and lives as long as `self`.
                let losses = unsafe { &raw const (*self.elements.as_ptr().add(processor)).losses };
                std::array::from_fn(|cause| read(losses.cast(), cause))
            })
            .collect();
        Losses { by_processor, elsewhere: [0; Counter::ALL.len()] }
    }

    /// Calls that the programs have filtered out so far, by filter.
    pub fn left_out(&self, filter: Filter) -> u64 {
        (0..self.processor_count)
            .map(|processor| {
                // SAFETY: as above.
                let left_out = unsafe { &raw const (*self.elements.as_ptr().add(processor)).left_out };
                read(left_out.cast(), filter as usize)
            })
            .sum()
    }
}

/// Reads a cell of an array of counters while programs add to it.
fn read(counters: *const u64, index: usize) -> u64 {
    // SAFETY: the callers pass arrays in the mapping with an index within them. The cells are changed atomically, and
    // an aligned load of a word is atomic on read-only memory too.
    unsafe { AtomicU64::from_ptr(counters.add(index).cast_mut()) }.load(Ordering::Relaxed)
}

// SAFETY: the mapping belongs to the process, whichever thread reads it, and its cells are read atomically.
unsafe impl Send for CounterMap {}

impl Drop for CounterMap {
    fn drop(&mut self) {
        // SAFETY: `take` made the mapping with this length, and nothing refers to it any more.
        let _ =
            unsafe { munmap(self.elements.as_ptr().cast(), self.processor_count * size_of::<Counters>()) };
    }
}

/// Counts of all losses, by cause and by the processor on which they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Losses {
    by_processor: Vec<[u64; Counter::ALL.len()]>,
    /// Losses counted by user space.
    elsewhere: [u64; Counter::ALL.len()],
}

impl Default for Losses {
    fn default() -> Self {
        Self { by_processor: Vec::new(), elsewhere: [0; Counter::ALL.len()] }
    }
}

impl Losses {
    /// Adds losses of a cause that user space has counted.
    #[must_use]
    pub fn plus(mut self, cause: Counter, count: u64) -> Self {
        self.elsewhere[cause as usize] += count;
        self
    }

    /// Each cause with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> {
        Counter::ALL.into_iter().map(|cause| (cause, self.parts(cause).map(|(_, count)| count).sum()))
    }

    /// The count of a cause by processor, and by user space (`None`). Processors without losses are left out.
    pub fn parts(&self, cause: Counter) -> impl Iterator<Item = (Option<u32>, u64)> {
        let on_processors =
            (0..).map(Some).zip(self.by_processor.iter().map(move |counts| counts[cause as usize]));
        on_processors.chain([(None, self.elsewhere[cause as usize])]).filter(|(_, count)| *count > 0)
    }

    /// Calls that are missing from the trace.
    pub fn calls(&self) -> u64 {
        self.iter().filter(|(cause, _)| cause.loses_call()).map(|(_, count)| count).sum()
    }
}

impl Losses {
    /// Losses of one cause on the processors from 0 on.
    pub fn on_processors(cause: Counter, counts: &[u64]) -> Self {
        let by_processor = counts
            .iter()
            .map(|&count| {
                let mut counts = [0; Counter::ALL.len()];
                counts[cause as usize] = count;
                counts
            })
            .collect();
        Self { by_processor, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_summed_over_processors_and_user_space() {
        let losses = Losses::on_processors(Counter::RingFull, &[3, 0, 4]).plus(Counter::LateProbes, 2);
        let found: Vec<_> = losses.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(found, [(Counter::RingFull, 7), (Counter::LateProbes, 2)]);
        assert_eq!(losses.calls(), 7, "a late probe is no lost call");
        assert_eq!(losses.parts(Counter::RingFull).collect::<Vec<_>>(), [(Some(0), 3), (Some(2), 4)]);
        assert_eq!(losses.parts(Counter::LateProbes).collect::<Vec<_>>(), [(None, 2)]);
    }
}
