//! Finds the unwind information of an ELF file: `.eh_frame`, else `.debug_frame`.
//!
//! `.eh_frame` is named by a section header or, in files without these, found through `PT_GNU_EH_FRAME`. A compressed
//! `.debug_frame` is left out: it matters for hand-written libraries only, whose assemblers do not compress.
//!
//! Of a file that has both, `.eh_frame` is read alone: compilers write one or the other.
//!
//! Nothing in a file is believed; a size that is not in the file, or beyond what any real library has, is an error.

use object::elf::{self, FileHeader64};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _, SectionTable};
use object::read::{ReadCache, ReadRef};

use crate::error::Error;
use crate::image::{Image, Positioned};

type Header = FileHeader64<LittleEndian>;

/// Largest header table that is read. A section header has 64 bytes: this is a quarter of a million sections.
const HEADER_BYTES_MAX: u64 = 16 << 20;
/// Largest unwind section that is read. libtorch's are below 60 MB.
const FRAME_BYTES_MAX: u64 = 256 << 20;
/// Longest build id that is believed. Linkers write 20 bytes.
const BUILD_ID_BYTES_MAX: usize = 64;
/// Smallest unit of a mapping; segments reach out to whole pages.
const PAGE_BYTES: u64 = 4096;

/// An executable `PT_LOAD` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Virtual address of its first byte, as the file counts.
    pub(crate) address: u64,
    /// Where that byte lies in the file.
    pub(crate) file_offset: u64,
    /// Its bytes in the file.
    pub(crate) bytes: u64,
}

/// The two dialects of unwind information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    EhFrame,
    DebugFrame,
}

/// What a table is made from.
#[derive(Debug)]
pub(crate) struct UnwindInfo {
    pub(crate) dialect: Dialect,
    /// Virtual address of the section; pointers in it may be relative to themselves.
    pub(crate) address: u64,
    pub(crate) section: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
    /// Empty if the file has none.
    pub(crate) build_id: Vec<u8>,
}

/// A range of the file that is to be read.
struct Found {
    dialect: Dialect,
    address: u64,
    file_offset: u64,
    bytes: u64,
}

impl Segment {
    pub(crate) fn contains(&self, begin: u64, end: u64) -> bool {
        self.address <= begin && end <= self.address.saturating_add(self.bytes)
    }

    /// Whether a mapping of the file from this offset on shows (the pages of) this segment.
    pub(crate) fn pages_contain(&self, file_offset: u64) -> bool {
        let start = self.file_offset & !(PAGE_BYTES - 1);
        let end = self.file_offset.saturating_add(self.bytes).saturating_add(PAGE_BYTES - 1);
        (start..end & !(PAGE_BYTES - 1)).contains(&file_offset)
    }
}

impl UnwindInfo {
    pub(crate) fn read(image: &Image) -> Result<Self, Error> {
        let mut ident = [0; 20];
        match image.read_exact_at(&mut ident, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Err(Error::NotElf),
            Err(error) => return Err(Error::Read(error.kind())),
        }
        if !ident.starts_with(b"\x7fELF") {
            return Err(Error::NotElf);
        }
        let machine = u16::from_le_bytes([ident[18], ident[19]]);
        if ident[4] != elf::ELFCLASS64.0 || ident[5] != elf::ELFDATA2LSB.0 || machine != elf::EM_X86_64.0 {
            return Err(Error::OtherMachine);
        }
        let cache = ReadCache::new(Positioned { image, position: 0 });
        let data = HeaderReads(&cache);
        let header = Header::parse(data).map_err(|_| Error::Corrupt("file header"))?;
        let programs =
            header.program_headers(LittleEndian, data).map_err(|_| Error::Corrupt("program headers"))?;

        let segments = executable_segments(programs)?;
        // Section headers are not loaded, so a damaged table says nothing about the code.
        let sections = header.sections(LittleEndian, data).unwrap_or_default();
        let found = named(&sections, b".eh_frame", Dialect::EhFrame)
            .or_else(|| through_header(image, programs))
            .or_else(|| named(&sections, b".debug_frame", Dialect::DebugFrame))
            .ok_or(Error::NoUnwindInfo)?;
        if found.bytes > FRAME_BYTES_MAX {
            return Err(Error::TooLarge { what: "unwind section", count: found.bytes });
        }
        let end = found.file_offset.checked_add(found.bytes);
        if end.is_none_or(|end| image.len().map_or(true, |len| end > len)) {
            return Err(Error::Corrupt("unwind section beyond the end of the file"));
        }
        let mut section = vec![0; found.bytes as usize];
        image.read_exact_at(&mut section, found.file_offset).map_err(|error| Error::Read(error.kind()))?;
        let build_id = build_id(programs, data);
        Ok(Self { dialect: found.dialect, address: found.address, section, segments, build_id })
    }
}

fn executable_segments(programs: &[elf::ProgramHeader64<LittleEndian>]) -> Result<Vec<Segment>, Error> {
    let loaded = programs.iter().filter(|program| {
        program.p_type(LittleEndian) == elf::PT_LOAD && program.p_flags(LittleEndian).contains(elf::PF_X)
    });
    let segments: Vec<Segment> = loaded
        .map(|program| Segment {
            address: program.p_vaddr(LittleEndian),
            file_offset: program.p_offset(LittleEndian),
            bytes: program.p_filesz(LittleEndian),
        })
        .collect();
    if segments.is_empty() { Err(Error::NoCode) } else { Ok(segments) }
}

fn named<'data>(
    sections: &SectionTable<'data, Header, HeaderReads<'data, '_>>,
    name: &[u8],
    dialect: Dialect,
) -> Option<Found> {
    let (_, section) = sections.section_by_name(LittleEndian, name)?;
    // A file of debug information keeps the headers of sections that it does not hold, and linkers write .eh_frame even
    // if nothing is in it but its terminator.
    let is_absent = section.sh_type(LittleEndian) == elf::SHT_NOBITS
        || section.sh_size(LittleEndian) <= size_of::<u32>() as u64;
    if is_absent || section.sh_flags(LittleEndian).contains(elf::SHF_COMPRESSED) {
        return None;
    }
    Some(Found {
        dialect,
        address: section.sh_addr(LittleEndian),
        file_offset: section.sh_offset(LittleEndian),
        bytes: section.sh_size(LittleEndian),
    })
}

/// `.eh_frame` by way of `.eh_frame_hdr`. How long it is nobody says: it ends at a terminator, at the latest with its
/// segment.
fn through_header(image: &Image, programs: &[elf::ProgramHeader64<LittleEndian>]) -> Option<Found> {
    let hint = programs.iter().find(|program| program.p_type(LittleEndian) == elf::PT_GNU_EH_FRAME)?;
    let mut bytes = [0; 16];
    let count = bytes.len().min(hint.p_filesz(LittleEndian) as usize);
    image.read_exact_at(&mut bytes[..count], hint.p_offset(LittleEndian)).ok()?;
    let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(hint.p_vaddr(LittleEndian));
    let header = gimli::EhFrameHdr::new(&bytes, gimli::LittleEndian).parse(&bases, 8).ok()?;
    let address = header.eh_frame_ptr().direct().ok()?;
    programs.iter().filter(|program| program.p_type(LittleEndian) == elf::PT_LOAD).find_map(|program| {
        let inside = address.checked_sub(program.p_vaddr(LittleEndian))?;
        let bytes = program.p_filesz(LittleEndian).checked_sub(inside).filter(|&bytes| bytes > 0)?;
        let file_offset = program.p_offset(LittleEndian).checked_add(inside)?;
        Some(Found { dialect: Dialect::EhFrame, address, file_offset, bytes })
    })
}

fn build_id(programs: &[elf::ProgramHeader64<LittleEndian>], data: HeaderReads<'_, '_>) -> Vec<u8> {
    let notes = programs.iter().filter_map(|program| program.notes(LittleEndian, data).ok().flatten());
    for mut notes in notes {
        while let Ok(Some(note)) = notes.next() {
            let is_build_id =
                note.name() == elf::ELF_NOTE_GNU && note.n_type(LittleEndian) == elf::NT_GNU_BUILD_ID;
            if is_build_id && note.desc().len() <= BUILD_ID_BYTES_MAX {
                return note.desc().to_vec();
            }
        }
    }
    Vec::new()
}

/// Reads through a cache, but refuses tables that would cost more memory than any real file's headers.
#[derive(Clone, Copy, Debug)]
struct HeaderReads<'data, 'image>(&'data ReadCache<Positioned<'image>>);

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
