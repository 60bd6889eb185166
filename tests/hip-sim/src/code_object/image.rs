//! The ELF file of a code object: its target, its metadata notes and its global variables.

use core::ops::RangeInclusive;
use std::collections::HashMap;

use object::elf;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

use super::error::CodeObjectError;
use super::target::Target;

/// `NT_AMDGPU_METADATA`, in notes named `AMDGPU`.
const NOTE_METADATA: elf::NoteType = elf::NoteType(32);
const NOTE_NAME: &[u8] = b"AMDGPU";

/// `EI_OSABI` of AMD's code objects, and `EI_ABIVERSION` of their versions 3 to 6.
const OSABI: u8 = 64;
const ABI_VERSIONS: RangeInclusive<u8> = 1..=4;

/// A device variable with its initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Global {
    pub(crate) initial: Vec<u8>,
}

/// The parts of the file that the simulation uses.
pub(super) struct Image<'a> {
    /// None for a processor that the simulation does not know.
    pub(super) target: Option<Target>,
    /// Notes in MessagePack format: one of each object that the linker has put together, such as each of Tensile's kernels.
    pub(super) metadata: Vec<&'a [u8]>,
    pub(super) globals: HashMap<String, Global>,
}

impl<'a> Image<'a> {
    pub(super) fn parse(elf: &'a [u8]) -> Result<Self, CodeObjectError> {
        let file = ElfFile64::<LittleEndian>::parse(elf).map_err(malformed)?;
        let header = file.elf_header();
        let (endian, ident) = (LittleEndian, &header.e_ident);
        if header.e_machine(endian) != elf::EM_AMDGPU || ident.os_abi.0 != OSABI {
            return Err(malformed("not compiled for AMD's devices"));
        }
        if !ABI_VERSIONS.contains(&ident.abi_version) {
            return Err(malformed(format!("code object version {}", u16::from(ident.abi_version) + 2)));
        }
        let target = Target::of_elf(header.e_flags(endian).0, ident.abi_version);
        Ok(Self { target, metadata: metadata_notes(&file)?, globals: globals(&file) })
    }
}

fn malformed(error: impl core::fmt::Display) -> CodeObjectError {
    CodeObjectError::Malformed(error.to_string())
}

fn metadata_notes<'a>(file: &ElfFile64<'a, LittleEndian>) -> Result<Vec<&'a [u8]>, CodeObjectError> {
    let endian = LittleEndian;
    let mut found = Vec::new();
    for segment in file.elf_header().program_headers(endian, file.data()).map_err(malformed)? {
        let Some(mut notes) = segment.notes(endian, file.data()).map_err(malformed)? else { continue };
        while let Some(note) = notes.next().map_err(malformed)? {
            if note.n_type(endian) == NOTE_METADATA && note.name() == NOTE_NAME {
                found.push(note.desc());
            }
        }
    }
    if found.is_empty() { Err(malformed("no metadata note")) } else { Ok(found) }
}

/// Data symbols, without kernel descriptors, which are data symbols whose names end in `.kd`.
fn globals(file: &ElfFile64<'_, LittleEndian>) -> HashMap<String, Global> {
    let variables = file.dynamic_symbols().filter(|s| s.kind() == SymbolKind::Data && s.is_definition());
    let named = variables.filter_map(|symbol| {
        let name = symbol.name().ok().filter(|name| name.strip_suffix(".kd").is_none())?;
        let size = usize::try_from(symbol.size()).ok()?;
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        // A section without contents (.bss) holds zeros.
        let data = section.data_range(symbol.address(), symbol.size()).ok().flatten();
        Some((name.to_owned(), Global { initial: data.map_or_else(|| vec![0; size], <[u8]>::to_vec) }))
    });
    named.collect()
}
