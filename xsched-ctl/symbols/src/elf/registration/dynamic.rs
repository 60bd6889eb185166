//! Reads the dynamic section: the constructors that the dynamic linker calls, and the words that hold imported functions.
//!
//! Format: <https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html>, relocations:
//! <https://gitlab.com/x86-psABIs/x86-64-ABI>.

use std::collections::HashMap;

use memchr::memmem;

use super::super::headers::TABLE_BYTES_MAX;
use super::Image;
use crate::symbol_table::name_at;

/// Tags of the dynamic section.
mod tag {
    pub(super) const STRTAB: u64 = 5;
    pub(super) const SYMTAB: u64 = 6;
    pub(super) const RELA: u64 = 7;
    pub(super) const RELASZ: u64 = 8;
    pub(super) const STRSZ: u64 = 10;
    pub(super) const PLTRELSZ: u64 = 2;
    pub(super) const JMPREL: u64 = 23;
    pub(super) const INIT_ARRAY: u64 = 25;
    pub(super) const INIT_ARRAYSZ: u64 = 27;
}

/// Types of relocations.
const GLOB_DAT: u32 = 6;
const JUMP_SLOT: u32 = 7;
const RELATIVE: u32 = 8;

/// Bytes of an entry of the dynamic section, of a relocation and of a symbol.
const ENTRY_BYTES: usize = 16;
const RELOCATION_BYTES: usize = 24;
const SYMBOL_BYTES: u64 = 24;

/// The most constructors of a file. Each source file with static objects has one.
const CONSTRUCTORS_MAX: u64 = 1 << 16;

/// A function that constructors call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Import {
    RegisterFatBinary,
    RegisterFunction,
}

/// The parts of the dynamic section that are needed here.
#[derive(Debug, Default)]
pub(super) struct Dynamic {
    /// Addresses of the functions in `.init_array`.
    pub(super) constructors: Vec<u64>,
    /// Imported functions by the address of the word that will hold their address.
    pub(super) slots: HashMap<u64, Import>,
    /// The relocation table, in the file's format.
    relocations: Vec<u8>,
}

struct Relocation {
    address: u64,
    kind: u32,
    symbol: u32,
    addend: u64,
}

/// The dynamic section and its string table; None if the file imports no function that registers kernels, or is not valid.
pub(super) fn imports(image: &Image<'_>) -> Option<(HashMap<u64, u64>, Vec<u8>)> {
    let section = image.headers.dynamic?;
    let section = image.bytes(section.0, usize::try_from(section.1).ok()?.min(1 << 16))?;
    let entries: HashMap<u64, u64> = section
        .chunks_exact(ENTRY_BYTES)
        .map(|entry| (word(entry, 0), word(entry, 8)))
        .take_while(|&(tag, _)| tag != 0)
        .collect();
    let strings = table(image, *entries.get(&tag::STRTAB)?, entries.get(&tag::STRSZ).copied())?;
    memmem::find(&strings, b"\0__hipRegisterFunction\0")?;
    Some((entries, strings))
}

fn table(image: &Image<'_>, address: u64, bytes: Option<u64>) -> Option<Vec<u8>> {
    let bytes = bytes.filter(|&bytes| bytes <= TABLE_BYTES_MAX)?;
    image.bytes(address, usize::try_from(bytes).ok()?)
}

impl Dynamic {
    /// None if the file imports no function that registers kernels, or is not valid.
    pub(super) fn read(image: &Image<'_>) -> Option<Self> {
        let (entries, strings) = imports(image)?;
        let get = |tag| entries.get(&tag).copied();
        let symbols = get(tag::SYMTAB)?;
        let import = |symbol: u32| {
            let name = image.bytes(symbols.checked_add(SYMBOL_BYTES * u64::from(symbol))?, 4)?;
            let name = u32::from_le_bytes(name.try_into().ok()?);
            match name_at(&strings, name)? {
                b"__hipRegisterFatBinary" => Some(Import::RegisterFatBinary),
                b"__hipRegisterFunction" => Some(Import::RegisterFunction),
                _ => None,
            }
        };
        let of_slots = get(tag::JMPREL).and_then(|address| table(image, address, get(tag::PLTRELSZ)));
        let relocations =
            get(tag::RELA).and_then(|address| table(image, address, get(tag::RELASZ))).unwrap_or_default();
        let slots = (relocations_in(&of_slots.unwrap_or_default()).chain(relocations_in(&relocations)))
            .filter(|relocation| matches!(relocation.kind, GLOB_DAT | JUMP_SLOT))
            .filter_map(|relocation| Some((relocation.address, import(relocation.symbol)?)))
            .collect();
        let mut dynamic = Self { constructors: Vec::new(), slots, relocations };
        dynamic.constructors = dynamic.array(image, get(tag::INIT_ARRAY)?, get(tag::INIT_ARRAYSZ)?)?;
        Some(dynamic)
    }

    /// The address that a word of the image holds after relocation.
    pub(super) fn pointer(&self, image: &Image<'_>, address: u64) -> Option<u64> {
        self.array(image, address, 8)?.first().copied()
    }

    /// Words of the image that are addresses: the values from relocations, or the values in the file for words without one.
    /// That is so if the file is not relocated, or has a table of another format, which keeps the addresses in place.
    fn array(&self, image: &Image<'_>, address: u64, bytes: u64) -> Option<Vec<u64>> {
        let count = usize::try_from((bytes / 8).min(CONSTRUCTORS_MAX)).ok()?;
        let in_place = image.bytes(address, 8 * count)?;
        let mut words: Vec<u64> = in_place.chunks_exact(8).map(|bytes| word(bytes, 0)).collect();
        for relocation in relocations_in(&self.relocations).filter(|relocation| relocation.kind == RELATIVE) {
            let index =
                relocation.address.checked_sub(address).and_then(|inside| usize::try_from(inside / 8).ok());
            if let Some(word) = index.and_then(|index| words.get_mut(index)) {
                *word = relocation.addend;
            }
        }
        Some(words)
    }
}

fn relocations_in(table: &[u8]) -> impl Iterator<Item = Relocation> {
    table.chunks_exact(RELOCATION_BYTES).map(|entry| {
        let info = word(entry, 8);
        Relocation {
            address: word(entry, 0),
            kind: info as u32,
            symbol: (info >> 32) as u32,
            addend: word(entry, 16),
        }
    })
}

/// The word at an offset, which must be inside `bytes`.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}
