//! From a process's virtual addresses to memory: the driver's page tables of two levels (GFX8).

use std::sync::atomic::Ordering;

use xsched_gcn3::{Memory, Unmapped};

use crate::clock::Clock;
use crate::mapped::Mapped;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Bits of a page's entry: there is a page, and it is the guest's memory.
const VALID: u64 = 1;
const SYSTEM: u64 = 2;

/// The address in an entry.
const ADDRESS: u64 = 0xff_ffff_f000;

/// The device's memory and the guest's.
#[derive(Debug)]
pub(crate) struct Memories {
    vram: Mapped,
    /// The device's memory begins here in its own address space.
    vram_base: u64,
    /// Parts of the guest's memory by bus address.
    guest: Vec<(u64, Mapped)>,
}

/// Where a page is: none for the device's memory, or the index of the guest's; and the offset there.
#[derive(Clone, Copy, Debug)]
struct Place {
    guest: Option<usize>,
    at: usize,
}

impl Memories {
    pub(crate) fn new(vram: Mapped, vram_base: u64) -> Self {
        Self { vram, vram_base, guest: Vec::new() }
    }

    pub(crate) fn add(&mut self, address: u64, memory: Mapped) {
        self.guest.push((address, memory));
    }

    /// Removes the parts that lie in a range.
    pub(crate) fn remove(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        self.guest
            .retain(|(begin, memory)| *begin < address || begin.saturating_add(memory.size() as u64) > end);
    }

    fn mapped(&self, place: Place) -> Option<&Mapped> {
        match place.guest {
            None => Some(&self.vram),
            Some(index) => self.guest.get(index).map(|(_, memory)| memory),
        }
    }

    /// A place in the device's memory.
    fn in_vram(&self, address: u64) -> Option<Place> {
        let at = usize::try_from(address.checked_sub(self.vram_base).unwrap_or(address)).ok()?;
        (at < self.vram.size()).then_some(Place { guest: None, at })
    }

    fn in_guest(&self, address: u64) -> Option<Place> {
        self.guest.iter().enumerate().find_map(|(index, (begin, memory))| {
            let at = usize::try_from(address.checked_sub(*begin)?).ok()?;
            (at < memory.size()).then_some(Place { guest: Some(index), at })
        })
    }

    fn entry(&self, address: u64) -> Option<u64> {
        let place = self.in_vram(address)?;
        self.vram.quad(place.at).map(|entry| entry.load(Ordering::Relaxed))
    }

    /// The place of a virtual page.
    fn walk(&self, tables: Tables, page: u64) -> Option<Place> {
        let directory = tables.base.checked_add((page >> tables.block_bits).checked_mul(8)?)?;
        let block = self.entry(directory).filter(|entry| entry & VALID != 0)?;
        let within = page & ((1 << tables.block_bits) - 1);
        let entry = self.entry((block & ADDRESS) + within * 8).filter(|entry| entry & VALID != 0)?;
        let address = entry & ADDRESS;
        if entry & SYSTEM != 0 { self.in_guest(address) } else { self.in_vram(address) }
    }
}

/// A process's page tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    /// Address of the directory.
    pub(crate) base: u64,
    /// A directory's entry is for two to this power pages.
    pub(crate) block_bits: u32,
}

/// Entries of the cache of translations.
const CACHED: usize = 256;

/// A process's memory, for a number of instructions: translations are cached that long.
#[derive(Debug)]
pub(crate) struct View<'a> {
    memories: &'a Memories,
    tables: Tables,
    cache: Box<[Option<(u64, Place)>; CACHED]>,
    clock: &'a Clock,
}

impl<'a> View<'a> {
    pub(crate) fn new(memories: &'a Memories, tables: Tables, clock: &'a Clock) -> Self {
        Self { memories, tables, cache: Box::new([None; CACHED]), clock }
    }

    fn place(&mut self, address: u64) -> Result<Place, Unmapped> {
        let page = address / PAGE;
        let slot = page as usize % CACHED;
        let place = match self.cache[slot] {
            Some((cached, place)) if cached == page => place,
            _ => {
                let place = self.memories.walk(self.tables, page).ok_or(Unmapped { address })?;
                self.cache[slot] = Some((page, place));
                place
            }
        };
        Ok(Place { at: place.at + (address % PAGE) as usize, ..place })
    }

    fn mapped(&mut self, address: u64) -> Result<(&Mapped, usize), Unmapped> {
        let place = self.place(address)?;
        let mapped = self.memories.mapped(place).ok_or(Unmapped { address })?;
        Ok((mapped, place.at))
    }
}

/// The parts of a range that lie in one page each: address, and where the part begins and ends.
fn parts(address: u64, size: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = address.wrapping_add(done as u64);
        let room = (PAGE - at % PAGE) as usize;
        let part = done..size.min(done + room);
        done = part.end;
        (!part.is_empty()).then_some((at, part))
    })
}

impl Memory for View<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Unmapped> {
        for (address, part) in parts(address, bytes.len()) {
            let (mapped, at) = self.mapped(address)?;
            mapped.read(at, &mut bytes[part]).ok_or(Unmapped { address })?;
        }
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Unmapped> {
        for (address, part) in parts(address, bytes.len()) {
            let (mapped, at) = self.mapped(address)?;
            mapped.write(at, &bytes[part]).ok_or(Unmapped { address })?;
        }
        Ok(())
    }

    fn update_u32(&mut self, address: u64, f: &mut dyn FnMut(u32) -> u32) -> Result<u32, Unmapped> {
        let (mapped, at) = self.mapped(address)?;
        let word = mapped.dword(at).ok_or(Unmapped { address })?;
        Ok(word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(f(old)))
            .expect("the function always has a result"))
    }

    fn update_u64(&mut self, address: u64, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Unmapped> {
        let (mapped, at) = self.mapped(address)?;
        let word = mapped.quad(at).ok_or(Unmapped { address })?;
        Ok(word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(f(old)))
            .expect("the function always has a result"))
    }

    /// 100 MHz since the device began, as its other parts count.
    fn clock(&mut self) -> u64 {
        self.clock.now() / 10
    }
}
