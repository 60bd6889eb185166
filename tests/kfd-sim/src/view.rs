//! Memory as the device sees it: by its own addresses, checked.

use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use xsched_gcn3::{Memory, Unmapped};

use crate::clock;
use crate::space::{Range, Space};

/// How many ranges are remembered.
const RECENT: usize = 4;

/// The address space with the ranges that were used last. Mappings that end are seen by the next view, so one is for a short time.
#[derive(Debug)]
pub(crate) struct View<'space> {
    space: &'space Space,
    recent: [Range; RECENT],
}

impl<'space> View<'space> {
    pub(crate) fn new(space: &'space Space) -> Self {
        Self { space, recent: [Range::default(); RECENT] }
    }

    /// Where an address is in this process, and how many bytes follow.
    fn host(&mut self, address: u64) -> Result<(usize, u64), Unmapped> {
        for index in 0..RECENT {
            if let Some(found) = self.recent[index].find(address) {
                self.recent.swap(0, index);
                return Ok(found);
            }
        }
        let range = self.space.find(address).ok_or(Unmapped { address })?;
        self.recent.rotate_right(1);
        self.recent[0] = range;
        range.find(address).ok_or(Unmapped { address })
    }

    /// Calls `f` with each piece of these bytes that is in one range: where it is, and which bytes.
    fn pieces(
        &mut self,
        address: u64,
        size: usize,
        mut f: impl FnMut(usize, std::ops::Range<usize>),
    ) -> Result<(), Unmapped> {
        let mut at = 0;
        while at < size {
            let (host, room) = self.host(address.wrapping_add(at as u64))?;
            let end = size.min(at + room.min(usize::MAX as u64) as usize);
            f(host, at..end);
            at = end;
        }
        Ok(())
    }

    /// A word of 8 bytes, for atomic operations.
    pub(crate) fn quad(&mut self, address: u64) -> Result<&'static AtomicU64, Unmapped> {
        let (host, room) = self.host(address)?;
        if room < 8 || !host.is_multiple_of(8) {
            return Err(Unmapped { address });
        }
        // SAFETY: a mapped range, which the runtime keeps while the device uses it; aligned. Others access it by atomics or as
        // hardware would let them.
        Ok(unsafe { AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(host)) })
    }

    fn dword(&mut self, address: u64) -> Result<&'static AtomicU32, Unmapped> {
        let (host, room) = self.host(address)?;
        if room < 4 || !host.is_multiple_of(4) {
            return Err(Unmapped { address });
        }
        // SAFETY: as in `quad`.
        Ok(unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(host)) })
    }
}

fn word(host: usize) -> &'static AtomicU32 {
    // SAFETY: `pieces` gave the address of four aligned bytes of a mapped range, which stays while the device uses it.
    unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(host)) }
}

fn byte(host: usize) -> &'static AtomicU8 {
    // SAFETY: `pieces` gave the address of a byte of a mapped range, which stays while the device uses it.
    unsafe { AtomicU8::from_ptr(ptr::with_exposed_provenance_mut(host)) }
}

fn load(host: usize, bytes: &mut [u8]) {
    let mut at = host;
    if host.is_multiple_of(4) {
        let (words, rest) = bytes.as_chunks_mut::<4>();
        for target in words {
            *target = word(at).load(Ordering::Relaxed).to_le_bytes();
            at += 4;
        }
        return load_bytes(at, rest);
    }
    load_bytes(at, bytes);
}

fn load_bytes(host: usize, bytes: &mut [u8]) {
    for (at, target) in (host..).zip(bytes) {
        *target = byte(at).load(Ordering::Relaxed);
    }
}

fn store(host: usize, bytes: &[u8]) {
    let mut at = host;
    if host.is_multiple_of(4) {
        let (words, rest) = bytes.as_chunks::<4>();
        for &value in words {
            word(at).store(u32::from_le_bytes(value), Ordering::Relaxed);
            at += 4;
        }
        return store_bytes(at, rest);
    }
    store_bytes(at, bytes);
}

fn store_bytes(host: usize, bytes: &[u8]) {
    for (at, &value) in (host..).zip(bytes) {
        byte(at).store(value, Ordering::Relaxed);
    }
}

impl Memory for View<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Unmapped> {
        self.pieces(address, bytes.len(), |host, which| load(host, &mut bytes[which]))
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Unmapped> {
        self.pieces(address, bytes.len(), |host, which| store(host, &bytes[which]))
    }

    fn update_u32(&mut self, address: u64, f: &mut dyn FnMut(u32) -> u32) -> Result<u32, Unmapped> {
        let word = self.dword(address)?;
        Ok(word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(f(old)))
            .unwrap_or_else(|old| old))
    }

    fn update_u64(&mut self, address: u64, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Unmapped> {
        let word = self.quad(address)?;
        Ok(word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(f(old)))
            .unwrap_or_else(|old| old))
    }

    fn clock(&mut self) -> u64 {
        clock::device()
    }
}
