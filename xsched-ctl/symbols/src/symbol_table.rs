//! The symbols of one file, sorted by address, for lookups by address.

use std::collections::{HashMap, hash_map};
use std::sync::{Arc, Mutex, PoisonError};

use crate::demangle::demangle;

/// How many smaller symbols inside a larger one a lookup skips. Real nesting is 1 or 2.
const NESTING_MAX: usize = 32;

/// A named address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name in the file, without a version.
    pub mangled: Arc<str>,
    /// The name for display, with parameters; equal to `mangled` if that is not a mangled name.
    pub demangled: Arc<str>,
    /// Bytes between the symbol's start and the address that was looked up.
    pub offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    Function,
    /// A function that chooses an implementation at load time (`STT_GNU_IFUNC`).
    Resolver,
    Object,
}

/// A defined symbol, before its name is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawSymbol {
    pub(crate) kind: SymbolKind,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Offset in the string table.
    pub(crate) name: u32,
    pub(crate) is_local: bool,
    pub(crate) is_weak: bool,
}

#[derive(Debug)]
pub(crate) struct SymbolTable {
    /// By address; of several symbols at one address, the one to show is the last.
    entries: Vec<Entry>,
    strings: Vec<Vec<u8>>,
    /// Names that were looked up, by index in `entries`: the same few are looked up repeatedly.
    named: Mutex<HashMap<usize, Names>>,
}

#[derive(Clone, Debug)]
struct Names {
    mangled: Arc<str>,
    demangled: Arc<str>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    bytes: u64,
    name: u32,
    /// The index of its string table.
    strings: u8,
    is_object: bool,
    /// Larger is better: a global name is preferred to a weak one, and a weak one to a local one.
    rank: u8,
}

#[derive(Debug, Default)]
pub(crate) struct SymbolTableBuilder {
    entries: Vec<Entry>,
    strings: Vec<Vec<u8>>,
}

impl SymbolTableBuilder {
    pub(crate) fn add(&mut self, symbols: Vec<RawSymbol>, strings: Vec<u8>) {
        // A valid file has one table of each kind; a corrupt one could have thousands.
        let Ok(table) = u8::try_from(self.strings.len()) else { return };
        self.entries.extend(symbols.into_iter().map(|symbol| Entry {
            address: symbol.address,
            bytes: symbol.bytes,
            name: symbol.name,
            strings: table,
            is_object: symbol.kind == SymbolKind::Object,
            rank: if symbol.is_local { 0 } else { 2 - u8::from(symbol.is_weak) },
        }));
        self.strings.push(strings);
    }

    /// None if there are no symbols.
    pub(crate) fn finish(mut self) -> Option<SymbolTable> {
        self.entries.sort_by_key(|entry| (entry.address, entry.rank));
        self.entries.dedup_by_key(|entry| (entry.address, entry.bytes, entry.rank, entry.is_object));
        self.entries.shrink_to_fit();
        let Self { entries, strings } = self;
        (!entries.is_empty()).then(|| SymbolTable { entries, strings, named: Mutex::default() })
    }
}

impl SymbolTable {
    /// The symbol that covers the file's address.
    pub(crate) fn at(&self, address: u64) -> Option<Symbol> {
        let index = self.covering(address)?;
        let entry = self.entries[index];
        // A panic while the lock was held leaves the map with complete entries only.
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let names = match named.entry(index) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(new) => new.insert(self.read_names(entry)?),
        };
        let Names { mangled, demangled } = names.clone();
        Some(Symbol { mangled, demangled, offset: address - entry.address })
    }

    fn read_names(&self, entry: Entry) -> Option<Names> {
        let bytes = name_at(self.strings.get(usize::from(entry.strings))?, entry.name)?;
        let mangled: Arc<str> = String::from_utf8_lossy(bytes).into();
        let demangled = demangle(&mangled).into();
        Some(Names { mangled, demangled })
    }

    fn covering(&self, address: u64) -> Option<usize> {
        let end = self.entries.partition_point(|entry| entry.address <= address);
        let nearest = self.entries[..end].last()?.address;
        (0..end).rev().take(NESTING_MAX).find(|&index| {
            let entry = self.entries[index];
            let inside = address - entry.address;
            match entry.bytes {
                // Hand-written assembly often has no size: such a symbol extends to the next one.
                0 if !entry.is_object => entry.address == nearest,
                0 => inside == 0,
                bytes => inside < bytes,
            }
        })
    }
}

/// The name at an offset of a string table, without a version (`malloc@@GLIBC_2.2.5`).
pub(crate) fn name_at(strings: &[u8], offset: u32) -> Option<&[u8]> {
    let tail = strings.get(usize::try_from(offset).ok()?..)?;
    let name = &tail[..tail.iter().position(|&byte| byte == 0)?];
    match name.iter().position(|&byte| byte == b'@') {
        Some(at) if at > 0 => Some(&name[..at]),
        _ => (!name.is_empty()).then_some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(symbols: &[(&str, SymbolKind, u64, u64, bool)]) -> SymbolTable {
        let mut strings = vec![0];
        let mut raw = Vec::new();
        for &(name, kind, address, bytes, is_local) in symbols {
            raw.push(RawSymbol {
                kind,
                address,
                bytes,
                name: strings.len() as u32,
                is_local,
                is_weak: false,
            });
            strings.extend_from_slice(name.as_bytes());
            strings.push(0);
        }
        let mut builder = SymbolTableBuilder::default();
        builder.add(raw, strings);
        builder.finish().unwrap()
    }

    fn name(table: &SymbolTable, address: u64) -> Option<(String, u64)> {
        table.at(address).map(|symbol| (symbol.mangled.to_string(), symbol.offset))
    }

    #[test]
    fn only_addresses_inside_a_symbol_have_a_name() {
        use SymbolKind::{Function, Object};
        let table = table(&[
            ("outer", Function, 0x100, 0x100, false),
            ("inner", Function, 0x120, 0x10, false),
            ("sizeless", Function, 0x300, 0, false),
            ("mark", Object, 0x400, 0, false),
            ("versioned@@V1", Object, 0x500, 8, false),
        ]);
        let expected = [
            (0xff, None),
            (0x100, Some(("outer", 0))),
            (0x12f, Some(("inner", 0xf))),
            (0x130, Some(("outer", 0x30))),
            (0x1ff, Some(("outer", 0xff))),
            (0x200, None),
            (0x3ff, Some(("sizeless", 0xff))),
            (0x400, Some(("mark", 0))),
            (0x401, None),
            (0x507, Some(("versioned", 7))),
            (u64::MAX, None),
        ];
        for (address, symbol) in expected {
            let symbol = symbol.map(|(name, offset): (&str, u64)| (name.to_owned(), offset));
            assert_eq!(name(&table, address), symbol, "{address:#x}");
        }
    }

    #[test]
    fn a_global_name_is_preferred_to_a_local_one() {
        use SymbolKind::Function;
        let table = table(&[("shown", Function, 0x100, 4, false), ("hidden", Function, 0x100, 4, true)]);
        assert_eq!(name(&table, 0x101), Some(("shown".into(), 1)));
    }
}
