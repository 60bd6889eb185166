//! The headers of an ELF file, with the ranges of its symbol tables.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use object::elf::{self, FileHeader32, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadCacheOps, ReadRef};

use crate::symbol_table::{RawSymbol, SymbolKind, SymbolTable, SymbolTableBuilder};

/// The largest header table that is read. A section header has 64 bytes, so this is a quarter of a million sections.
const HEADER_BYTES_MAX: u64 = 16 << 20;
/// The largest symbol or string table that is read. Those of libtorch have less than 100 MB.
pub(super) const TABLE_BYTES_MAX: u64 = 256 << 20;
/// The unit of mappings; segments extend to whole pages.
const PAGE_BYTES: u64 = 4096;

/// Why an ELF file could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum ElfError {
    #[error("not an ELF file")]
    NotElf,
    #[error("corrupt ELF file: {0}")]
    Corrupt(&'static str),
    /// A table is larger than in any real file.
    #[error("{what} of {bytes} bytes is too large")]
    TooLarge { what: &'static str, bytes: u64 },
    /// The file has no symbols of functions or data objects: it is stripped, or has no section headers.
    #[error("no symbols (stripped)")]
    NoSymbols,
    #[error("read failed: {0}")]
    Read(io::ErrorKind),
}

#[derive(Debug)]
pub(super) struct Headers {
    pub(super) is_64: bool,
    pub(super) endian: Endianness,
    pub(super) segments: Vec<Segment>,
    pub(super) tables: Vec<Table>,
    /// Address and size of the dynamic section.
    pub(super) dynamic: Option<(u64, u64)>,
}

/// A `PT_LOAD` header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) address: u64,
    pub(super) memory_bytes: u64,
    pub(super) file_offset: u64,
    pub(super) file_bytes: u64,
    pub(super) executable: bool,
    pub(super) writable: bool,
}

/// A symbol table and its strings, as ranges of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) dynamic: bool,
    pub(super) symbols: Range,
    pub(super) strings: Range,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Headers {
    pub(super) fn read(file: &File) -> Result<Self, ElfError> {
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
        // A file that was cut off after its segments still gives the offsets of addresses.
        let sections = header.section_headers(endian, data).unwrap_or_default();
        let mut tables = Vec::new();
        for section in sections {
            let kind = section.sh_type(endian);
            let dynamic = kind == elf::SHT_DYNSYM;
            // A valid file has one table of each kind; further ones would only cost time.
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

    pub(super) fn executable_segment(&self, file_offset: u64) -> Option<&Segment> {
        // Neighbouring segments may share a page of the file, but at most one of them is executable.
        self.segments.iter().find(|segment| {
            let start = segment.file_offset & !(PAGE_BYTES - 1);
            let end = segment.file_offset.saturating_add(segment.file_bytes).saturating_add(PAGE_BYTES - 1);
            segment.executable && (start..end & !(PAGE_BYTES - 1)).contains(&file_offset)
        })
    }

    pub(super) fn file_offset_of(&self, address: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| {
            address.checked_sub(segment.address).is_some_and(|inside| inside < segment.file_bytes)
        })?;
        segment.file_offset.checked_add(address - segment.address)
    }

    /// How large the symbol tables are, with their strings.
    pub(super) fn symbol_bytes(&self) -> u64 {
        let bytes = |table: &Table| table.symbols.bytes.saturating_add(table.strings.bytes);
        self.tables.iter().map(bytes).fold(0, u64::saturating_add)
    }

    pub(super) fn read_symbols(&self, file: &File) -> Result<SymbolTable, ElfError> {
        let mut builder = SymbolTableBuilder::default();
        for table in &self.tables {
            let strings = read_range(file, "string table", table.strings)?;
            let mut symbols = Vec::new();
            self.each_symbol(file, table, |symbol| symbols.push(symbol))?;
            builder.add(symbols, strings);
        }
        builder.finish().ok_or(ElfError::NoSymbols)
    }

    pub(super) fn each_symbol(
        &self,
        file: &File,
        table: &Table,
        each: impl FnMut(RawSymbol),
    ) -> Result<(), ElfError> {
        let bytes = read_range(file, "symbol table", table.symbols)?;
        if self.is_64 {
            each_symbol_of::<FileHeader64<Endianness>>(&bytes, self.endian, each)
        } else {
            each_symbol_of::<FileHeader32<Endianness>>(&bytes, self.endian, each)
        }
    }
}

impl Segment {
    pub(super) fn pages_contain(&self, address: u64) -> bool {
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
        // Undefined, absolute and common symbols are not in the file. SHN_XINDEX stands for an ordinary section
        // with a number that does not fit into the field.
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

pub(super) fn read_range(file: &File, what: &'static str, range: Range) -> Result<Vec<u8>, ElfError> {
    if range.bytes > TABLE_BYTES_MAX {
        return Err(ElfError::TooLarge { what, bytes: range.bytes });
    }
    // A file that announces more than it has must not cost that much memory.
    let file_bytes = file.metadata().map_err(|error| ElfError::Read(error.kind()))?.len();
    if range.offset.checked_add(range.bytes).is_none_or(|end| end > file_bytes) {
        return Err(ElfError::Corrupt("table outside the file"));
    }
    let mut bytes = vec![0; usize::try_from(range.bytes).map_err(|_| ElfError::Corrupt("table size"))?];
    file.read_exact_at(&mut bytes, range.offset).map_err(|error| ElfError::Read(error.kind()))?;
    Ok(bytes)
}

/// Reads for `object` that do not move the file's own position.
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

/// The same, with a limit on the memory for tables that no real file's headers reach.
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
