//! Reads ELF files: where their segments lie, and which symbols they define.
//!
//! Files are read, not mapped: a mapped file that its owner truncates ends the reader by SIGBUS. Nothing in a
//! file is believed; a size that is not in the file, or beyond what any real library has, is an error.

mod registration;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object::elf::{self, FileHeader32, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadCacheOps, ReadRef};

use crate::mapping::Mapping;
use crate::symbol_table::{SymbolTable, SymbolTableBuilder};

/// Largest header table that is read. A section header has 64 bytes: this is a quarter of a million sections.
const HEADER_BYTES_MAX: u64 = 16 << 20;
/// Largest symbol or string table that is read. libtorch's are below 100 MB.
const TABLE_BYTES_MAX: u64 = 256 << 20;
/// Longest name that is looked for. Whoever writes a table of strings that do not end has each of its symbols read to the end
/// of it otherwise.
const WANTED_BYTES_MAX: usize = 256;
/// Smallest unit of a mapping; segments reach out to whole pages.
const PAGE_BYTES: u64 = 4096;

/// Why an ELF file gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// The file does not begin as an ELF file does.
    #[error("not an ELF file")]
    NotElf,
    /// A header or table contradicts itself or the file's size.
    #[error("corrupt ELF file: {0}")]
    Corrupt(&'static str),
    /// A table is larger than any real one.
    #[error("{what} of {bytes} bytes is beyond reason")]
    TooLarge {
        /// Which table.
        what: &'static str,
        /// Its size according to the file.
        bytes: u64,
    },
    /// No function or data object is named: the file is stripped, or has no section headers.
    #[error("no symbols (stripped)")]
    NoSymbols,
    /// Reading failed.
    #[error("read failed: {0}")]
    Read(io::ErrorKind),
}

/// One ELF file: its segments, and its symbols once somebody asks.
#[derive(Debug)]
pub(crate) struct Elf {
    headers: Headers,
    /// Open until the symbols are read, so that they are found even after the file is deleted.
    file: Mutex<Option<File>>,
    symbols: OnceLock<Result<SymbolTable, ElfError>>,
    /// Of a file whose symbol table was stripped: names of kernels by the addresses of their handles.
    kernels: OnceLock<HashMap<u64, Arc<str>>>,
}

#[derive(Debug)]
struct Headers {
    is_64: bool,
    endian: Endianness,
    segments: Vec<Segment>,
    tables: Vec<Table>,
    /// Address and size of what the dynamic linker is told.
    dynamic: Option<(u64, u64)>,
}

/// A `PT_LOAD` header.
#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    memory_bytes: u64,
    file_offset: u64,
    file_bytes: u64,
    executable: bool,
    writable: bool,
}

/// A symbol table and its strings, as ranges of the file.
#[derive(Clone, Copy, Debug)]
struct Table {
    dynamic: bool,
    symbols: Range,
    strings: Range,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    Function,
    /// A function that chooses an implementation at load time (`STT_GNU_IFUNC`).
    Resolver,
    Object,
}

/// A defined symbol, before its name is looked at.
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

impl Elf {
    pub(crate) fn open(file: File) -> Result<Self, ElfError> {
        let headers = Headers::read(&file)?;
        let (symbols, kernels) = (OnceLock::new(), OnceLock::new());
        Ok(Self { headers, file: Mutex::new(Some(file)), symbols, kernels })
    }

    /// What must be added to the file's addresses to get those of the process, for an executable mapping of
    /// this file. None if the mapping shows no executable segment.
    pub(crate) fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let segment = self.headers.executable_segment(mapping.file_offset)?;
        let address = segment.address.wrapping_sub(segment.file_offset).wrapping_add(mapping.file_offset);
        Some(mapping.start.wrapping_sub(address))
    }

    /// Whether the file's address belongs to a segment, `.bss` included.
    pub(crate) fn covers(&self, address: u64) -> bool {
        self.headers.segments.iter().any(|segment| segment.pages_contain(address))
    }

    /// Where the byte at the file's address lies in the file; None for `.bss`.
    pub(crate) fn file_offset_of(&self, address: u64) -> Option<u64> {
        self.headers.file_offset_of(address)
    }

    pub(crate) fn symbols(&self) -> Result<&SymbolTable, ElfError> {
        let read = || {
            // A panic while the lock was held leaves the file as it was.
            let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
            let file = file.ok_or(ElfError::NoSymbols)?;
            if self.headers.tables.iter().all(|table| table.dynamic) {
                self.kernels.get_or_init(|| registration::read(&self.headers, &file));
            }
            self.headers.read_symbols(&file)
        };
        self.symbols.get_or_init(read).as_ref().map_err(ElfError::clone)
    }

    /// The mangled name of the kernel that a stripped file registers by a handle at the file's address.
    pub(crate) fn registered_kernel(&self, address: u64) -> Option<Arc<str>> {
        // They are read together with the symbols, of which there may be none.
        let _ = self.symbols();
        self.kernels.get()?.get(&address).cloned()
    }
}

/// Offsets in the file of the dynamic functions whose names are `wanted`: where uprobes attach.
///
/// A name that is defined in several versions comes once for each address. Resolvers of indirect functions are
/// left out: their code is not the function's.
pub fn symbol_file_offsets(
    file: &File,
    mut wanted: impl FnMut(&str) -> bool,
) -> Result<Vec<(String, u64)>, ElfError> {
    let headers = Headers::read(file)?;
    let mut found = Vec::new();
    for table in headers.tables.iter().filter(|table| table.dynamic) {
        let strings = read_range(file, "string table", table.strings)?;
        headers.each_symbol(file, table, |symbol| {
            if symbol.kind != SymbolKind::Function {
                return;
            }
            let name = wanted_name_at(&strings, symbol.name);
            let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) else {
                return;
            };
            if wanted(name)
                && let Some(offset) = headers.file_offset_of(symbol.address)
            {
                found.push((name.to_owned(), offset));
            }
        })?;
    }
    if !headers.tables.iter().any(|table| table.dynamic) {
        return Err(ElfError::NoSymbols);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Address in the file of the dynamic variable with this name.
pub fn variable_address(file: &File, name: &str) -> Result<Option<u64>, ElfError> {
    let headers = Headers::read(file)?;
    let mut found = None;
    for table in headers.tables.iter().filter(|table| table.dynamic) {
        let strings = read_range(file, "string table", table.strings)?;
        headers.each_symbol(file, table, |symbol| {
            let is_it = || wanted_name_at(&strings, symbol.name) == Some(name.as_bytes());
            if symbol.kind == SymbolKind::Object && is_it() {
                found = Some(symbol.address);
            }
        })?;
    }
    Ok(found)
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

/// As [`name_at`]; none also for a name that is longer than any that is looked for.
fn wanted_name_at(strings: &[u8], offset: u32) -> Option<&[u8]> {
    let end = usize::try_from(offset).ok()?.saturating_add(WANTED_BYTES_MAX);
    name_at(strings.get(..end).unwrap_or(strings), offset)
}

impl Headers {
    fn read(file: &File) -> Result<Self, ElfError> {
        let mut ident = [0; 16];
        match file.read_exact_at(&mut ident, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(ElfError::NotElf),
            Err(error) => return Err(ElfError::Read(error.kind())),
        }
        if !ident.starts_with(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        let cache = ReadCache::new(Positioned { file, position: 0 });
        match ident[4] {
            1 => Self::parse::<FileHeader32<Endianness>>(HeaderReads(&cache)),
            2 => Self::parse::<FileHeader64<Endianness>>(HeaderReads(&cache)),
            _ => Err(ElfError::Corrupt("neither 32-bit nor 64-bit")),
        }
    }

    fn parse<Elf>(data: HeaderReads<'_, '_>) -> Result<Self, ElfError>
    where
        Elf: FileHeader<Endian = Endianness>,
    {
        let header = Elf::parse(data).map_err(|_| ElfError::Corrupt("file header"))?;
        let endian = header.endian().map_err(|_| ElfError::Corrupt("byte order"))?;
        let segments =
            (header.program_headers(endian, data).map_err(|_| ElfError::Corrupt("program headers"))?)
                .iter()
                .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
                .map(|segment| Segment {
                    address: segment.p_vaddr(endian).into(),
                    memory_bytes: segment.p_memsz(endian).into(),
                    file_offset: segment.p_offset(endian).into(),
                    file_bytes: segment.p_filesz(endian).into(),
                    executable: segment.p_flags(endian).contains(elf::PF_X),
                    writable: segment.p_flags(endian).contains(elf::PF_W),
                })
                .collect();
        let dynamic = (header.program_headers(endian, data).unwrap_or_default().iter())
            .find(|segment| segment.p_type(endian) == elf::PT_DYNAMIC)
            .map(|segment| (segment.p_vaddr(endian).into(), segment.p_filesz(endian).into()));
        // A file that was cut off behind its segments still answers where an address lies.
        let sections = header.section_headers(endian, data).unwrap_or_default();
        let mut tables = Vec::new();
        for section in sections {
            let kind = section.sh_type(endian);
            let dynamic = kind == elf::SHT_DYNSYM;
            // A file has one of each: a second one is there to be read in vain.
            let is_first = || tables.iter().all(|table: &Table| table.dynamic != dynamic);
            if !dynamic && kind != elf::SHT_SYMTAB || !is_first() {
                continue;
            }
            let strings = sections.get(section.sh_link(endian) as usize);
            let strings = strings.filter(|strings| strings.sh_type(endian) == elf::SHT_STRTAB);
            let Some(strings) = strings else { continue };
            let range = |section: &Elf::SectionHeader| Range {
                offset: section.sh_offset(endian).into(),
                bytes: section.sh_size(endian).into(),
            };
            tables.push(Table { dynamic, symbols: range(section), strings: range(strings) });
        }
        Ok(Self { is_64: header.is_type_64(), endian, segments, tables, dynamic })
    }

    fn executable_segment(&self, file_offset: u64) -> Option<&Segment> {
        // Neighbouring segments may share a page of the file, but only one of them is executable.
        self.segments.iter().find(|segment| {
            let start = segment.file_offset & !(PAGE_BYTES - 1);
            let end = segment.file_offset.saturating_add(segment.file_bytes).saturating_add(PAGE_BYTES - 1);
            segment.executable && (start..end & !(PAGE_BYTES - 1)).contains(&file_offset)
        })
    }

    fn file_offset_of(&self, address: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| {
            address.checked_sub(segment.address).is_some_and(|inside| inside < segment.file_bytes)
        })?;
        segment.file_offset.checked_add(address - segment.address)
    }

    fn read_symbols(&self, file: &File) -> Result<SymbolTable, ElfError> {
        let mut builder = SymbolTableBuilder::default();
        for table in &self.tables {
            let strings = read_range(file, "string table", table.strings)?;
            let mut symbols = Vec::new();
            self.each_symbol(file, table, |symbol| symbols.push(symbol))?;
            builder.add(symbols, strings);
        }
        builder.finish().ok_or(ElfError::NoSymbols)
    }

    fn each_symbol(&self, file: &File, table: &Table, each: impl FnMut(RawSymbol)) -> Result<(), ElfError> {
        let bytes = read_range(file, "symbol table", table.symbols)?;
        if self.is_64 {
            each_symbol_of::<FileHeader64<Endianness>>(&bytes, self.endian, each)
        } else {
            each_symbol_of::<FileHeader32<Endianness>>(&bytes, self.endian, each)
        }
    }
}

impl Segment {
    fn pages_contain(&self, address: u64) -> bool {
        let start = self.address & !(PAGE_BYTES - 1);
        let end = self.address.saturating_add(self.memory_bytes).saturating_add(PAGE_BYTES - 1);
        (start..end & !(PAGE_BYTES - 1)).contains(&address)
    }
}

fn each_symbol_of<Elf>(
    bytes: &[u8],
    endian: Endianness,
    mut each: impl FnMut(RawSymbol),
) -> Result<(), ElfError>
where
    Elf: FileHeader<Endian = Endianness>,
{
    let count = bytes.len() / size_of::<Elf::Sym>();
    let (symbols, _) = object::pod::slice_from_bytes::<Elf::Sym>(bytes, count)
        .map_err(|()| ElfError::Corrupt("alignment of the symbol table"))?;
    for symbol in symbols {
        let kind = match symbol.st_type() {
            elf::STT_FUNC => SymbolKind::Function,
            elf::STT_GNU_IFUNC => SymbolKind::Resolver,
            elf::STT_OBJECT => SymbolKind::Object,
            _ => continue,
        };
        let section = symbol.st_shndx(endian);
        // Undefined, absolute and common symbols have no place in the file. SHN_XINDEX is an ordinary section
        // whose number did not fit.
        if section.is_special() && section != elf::SHN_XINDEX {
            continue;
        }
        each(RawSymbol {
            kind,
            address: symbol.st_value(endian).into(),
            bytes: symbol.st_size(endian).into(),
            name: symbol.st_name(endian),
            is_local: symbol.st_bind() == elf::STB_LOCAL,
            is_weak: symbol.st_bind() == elf::STB_WEAK,
        });
    }
    Ok(())
}

fn read_range(file: &File, what: &'static str, range: Range) -> Result<Vec<u8>, ElfError> {
    if range.bytes > TABLE_BYTES_MAX {
        return Err(ElfError::TooLarge { what, bytes: range.bytes });
    }
    // A file that claims more than it has must not cost the memory that it claims.
    let file_bytes = file.metadata().map_err(|error| ElfError::Read(error.kind()))?.len();
    if range.offset.checked_add(range.bytes).is_none_or(|end| end > file_bytes) {
        return Err(ElfError::Corrupt("table outside of the file"));
    }
    let mut bytes = vec![0; usize::try_from(range.bytes).map_err(|_| ElfError::Corrupt("table size"))?];
    file.read_exact_at(&mut bytes, range.offset).map_err(|error| ElfError::Read(error.kind()))?;
    Ok(bytes)
}

/// Reads for `object` that leave the file's own position alone.
#[derive(Debug)]
struct Positioned<'file> {
    file: &'file File,
    position: u64,
}

impl ReadCacheOps for Positioned<'_> {
    fn len(&mut self) -> Result<u64, ()> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(drop)
    }

    fn seek(&mut self, position: u64) -> Result<u64, ()> {
        self.position = position;
        Ok(position)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ()> {
        let count = self.file.read_at(buffer, self.position).map_err(drop)?;
        self.position += count as u64;
        Ok(count)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ()> {
        self.file.read_exact_at(buffer, self.position).map_err(drop)?;
        self.position += buffer.len() as u64;
        Ok(())
    }
}

/// The same, but refusing tables that would cost more memory than any real file's headers.
#[derive(Clone, Copy, Debug)]
struct HeaderReads<'data, 'file>(&'data ReadCache<Positioned<'file>>);

impl<'data> ReadRef<'data> for HeaderReads<'data, '_> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        if size > HEADER_BYTES_MAX { Err(()) } else { self.0.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: std::ops::Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests;
