//! Memory that is shared with other processes: the guest's and the device's.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// A shared mapping of a file. Others change it at any time, so every access is atomic.
#[derive(Debug)]
pub(crate) struct Mapped(MmapRaw);

impl Mapped {
    /// Maps part of a file.
    pub(crate) fn new(path: &Path, offset: u64, size: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        MmapOptions::new().offset(offset).len(size).map_raw(&file).map(Self)
    }

    pub(crate) fn size(&self) -> usize {
        self.0.len()
    }

    /// The address of `size` bytes at `at`, which are all inside.
    fn pointer(&self, at: usize, size: usize) -> Option<*mut u8> {
        let end = at.checked_add(size)?;
        // `wrapping_add` needs no promise; the range is inside.
        (end <= self.0.len()).then(|| self.0.as_mut_ptr().wrapping_add(at))
    }

    fn byte(&self, at: usize) -> Option<&AtomicU8> {
        let pointer = self.pointer(at, 1)?;
        // SAFETY: `pointer` is inside the mapping, which lives as long as `self`; this process accesses it by atomics only.
        Some(unsafe { AtomicU8::from_ptr(pointer) })
    }

    /// An aligned dword.
    pub(crate) fn dword(&self, at: usize) -> Option<&AtomicU32> {
        let pointer = self.pointer(at, 4).filter(|pointer| pointer.addr().is_multiple_of(4))?;
        // SAFETY: as in `byte`, and `pointer` is aligned.
        Some(unsafe { AtomicU32::from_ptr(pointer.cast()) })
    }

    /// Two aligned dwords.
    pub(crate) fn quad(&self, at: usize) -> Option<&AtomicU64> {
        let pointer = self.pointer(at, 8).filter(|pointer| pointer.addr().is_multiple_of(8))?;
        // SAFETY: as in `byte`, and `pointer` is aligned.
        Some(unsafe { AtomicU64::from_ptr(pointer.cast()) })
    }

    /// Reads bytes; `None` if they are not inside.
    pub(crate) fn read(&self, at: usize, bytes: &mut [u8]) -> Option<()> {
        self.pointer(at, bytes.len())?;
        let (words, rest) = bytes.as_chunks_mut::<4>();
        let mut next = at;
        if at.is_multiple_of(4) {
            for word in words {
                *word = self.dword(next)?.load(Ordering::Relaxed).to_le_bytes();
                next += 4;
            }
        } else {
            for byte in words.as_flattened_mut() {
                *byte = self.byte(next)?.load(Ordering::Relaxed);
                next += 1;
            }
        }
        for byte in rest {
            *byte = self.byte(next)?.load(Ordering::Relaxed);
            next += 1;
        }
        Some(())
    }

    /// Writes bytes; `None` if there is no room.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Option<()> {
        self.pointer(at, bytes.len())?;
        let (words, rest) = bytes.as_chunks::<4>();
        let mut next = at;
        if at.is_multiple_of(4) {
            for &word in words {
                self.dword(next)?.store(u32::from_le_bytes(word), Ordering::Relaxed);
                next += 4;
            }
        } else {
            for &byte in words.as_flattened() {
                self.byte(next)?.store(byte, Ordering::Relaxed);
                next += 1;
            }
        }
        for &byte in rest {
            self.byte(next)?.store(byte, Ordering::Relaxed);
            next += 1;
        }
        Some(())
    }
}
