//! The walks that the programs remember, read through shared mappings.

use std::io;
use std::os::fd::AsFd as _;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use aya::Ebpf;
use aya::maps::{Map, MapData, MapError};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use xsched_abi::memo::{SET_COUNT, Start, WAYS, Walk, Way};
use zerocopy::{FromBytes, IntoBytes};

use crate::BpfError;

const ELEMENTS: usize = SET_COUNT as usize * WAYS as usize;
const WALK_WORDS: usize = size_of::<Walk>() / 8;
const WAY_WORDS: usize = size_of::<Way>() / 8;
const START_WORD: usize = std::mem::offset_of!(Walk, start) / 8;

const _: () = assert!(size_of::<Walk>().is_multiple_of(8), "the kernel rounds elements up to eight bytes");

/// The maps, mapped.
#[derive(Debug)]
pub struct RememberedWalks {
    ways: Words,
    walks: Words,
    /// The sequence under which each was taken last.
    taken: Box<[u32; ELEMENTS]>,
}

impl RememberedWalks {
    /// Takes the maps out of the object.
    ///
    /// # Panics
    ///
    /// If the object has no such maps.
    pub fn take(object: &mut Ebpf) -> Result<Self, BpfError> {
        Ok(Self {
            ways: Words::take(object, "SETS", ELEMENTS * WAY_WORDS)?,
            walks: Words::take(object, "MEMO", ELEMENTS * WALK_WORDS)?,
            taken: Box::new([0; ELEMENTS]),
        })
    }

    /// Takes the walks with these starts that have come since the last call, or all.
    pub fn read(&mut self, all: bool, wants: impl Fn(&Start) -> bool, mut take: impl FnMut(&Walk)) {
        for index in 0..ELEMENTS {
            let sequence = self.sequence(index);
            if sequence == 0 || sequence & 1 != 0 || (!all && self.taken[index] == sequence) {
                continue;
            }
            let words = &self.walks.all()[index * WALK_WORDS..(index + 1) * WALK_WORDS];
            let start: Start = copy(&words[START_WORD..]);
            let walk = wants(&start).then(|| copy::<Walk>(words));
            fence(Ordering::Acquire);
            // A program that has begun to write it meanwhile ends with another sequence.
            if self.sequence(index) == sequence {
                self.taken[index] = sequence;
                if let Some(walk) = walk {
                    take(&walk);
                }
            }
        }
    }

    fn sequence(&self, index: usize) -> u32 {
        self.ways.all()[index * WAY_WORDS].load(Ordering::Acquire) as u32
    }
}

fn copy<T: FromBytes + IntoBytes>(words: &[AtomicU64]) -> T {
    let mut copied = T::new_zeroed();
    for (to, from) in copied.as_mut_bytes().chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
    }
    copied
}

/// An array map's memory, as words.
#[derive(Debug)]
struct Words {
    start: NonNull<AtomicU64>,
    count: usize,
    /// Keeps the map in the kernel.
    _map: MapData,
}

impl Words {
    fn take(object: &mut Ebpf, name: &'static str, count: usize) -> Result<Self, BpfError> {
        let map = object.take_map(name).expect("build.rs compiles all maps into the object");
        let Map::Array(map) = map else { unreachable!("the object's maps have fixed types") };
        let failed = |error| BpfError::Map { map: name, cause: MapError::IoError(error) };
        let (bytes, file) = (count * size_of::<u64>(), map.fd().as_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        let start = start.map_err(|error| failed(error.into()))?;
        let start = NonNull::new(start.cast());
        let start = start.ok_or_else(|| failed(io::Error::other("mapped at address zero")))?;
        Ok(Self { start, count, _map: map })
    }

    fn all(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many words, and lives as long as `self`. Programs change them, and an aligned load of a
        // word is atomic on read-only memory too.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

// SAFETY: the mapping belongs to the process, whichever thread reads it, and its words are read atomically.
unsafe impl Send for Words {}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: `take` made the mapping with this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * size_of::<u64>()) };
    }
}
