//! Finds the unwind information of an ELF file: `.eh_frame`, else `.debug_frame`.
//!
//! `.eh_frame` is found by its section header or, in files without section headers, through `PT_GNU_EH_FRAME`
//! (<https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/ehframechpt.html>). A compressed
//! `.debug_frame` is not supported: only libraries from hand-written assembly need `.debug_frame`, and assemblers do not
//! compress it.
//!
//! In a file with both sections only `.eh_frame` is read: compilers write one or the other.
//!
//! All contents are checked. A size beyond the end of the file, or larger than in any real library, is an error.

use object::elf::{self, FileHeader64};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _, SectionTable};
use object::read::{ReadCache, ReadRef};

use crate::error::Error;
use crate::image::{Image, Positioned};

type Header = FileHeader64<LittleEndian>;

/// The largest header table that is read. A section header has 64 bytes, so this is a quarter of a million sections.
const HEADER_BYTES_MAX: u64 = 16 << 20;
/// The largest unwind section that is read. Those of libtorch have less than 60 MB.
const FRAME_BYTES_MAX: u64 = 256 << 20;
/// The longest build id that is accepted. Linkers write 20 bytes.
const BUILD_ID_BYTES_MAX: usize = 64;
/// The unit of mappings; segments extend to whole pages.
const PAGE_BYTES: u64 = 4096;

/// An executable `PT_LOAD` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The file's virtual address of the first byte.
    pub(crate) address: u64,
    /// The file offset of that byte.
    pub(crate) file_offset: u64,
    /// The size in the file, in bytes.
    pub(crate) bytes: u64,
}

/// The two formats of unwind information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    EhFrame,
    DebugFrame,
}

/// The input of a table.
#[derive(Debug)]
pub(crate) struct UnwindInfo {
    pub(crate) dialect: Dialect,
    /// The virtual address of the section. Pointers in it may be relative to their own address.
    pub(crate) address: u64,
    pub(crate) section: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
    /// Empty if the file has none.
    pub(crate) build_id: Vec<u8>,
}

/// The range of the file that contains the unwind information.
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

    /// Whether a mapping of the file from this offset on maps pages of this segment.
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
        // Section headers are not loaded, so the code may be valid although their table is damaged.
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
    // A separate file of debug information has headers of sections that it does not contain, and linkers write .eh_frame even
    // if it contains only its terminator.
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

/// Finds `.eh_frame` through `.eh_frame_hdr`. Its length is not recorded: it ends at a terminator, or at the end of its
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

/// Reads through a cache, with a limit on the memory for tables that no real file's headers reach.
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
