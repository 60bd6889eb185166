//! The metadata of a code object: notes in MessagePack that name its kernels and their arguments. Linkers concatenate the notes
//! of what they link: clang writes one for all kernels, and Tensile's code objects have one for each.
//!
//! Field names are those of LLVM's "User Guide for AMDGPU Backend", section "Code Object Metadata", versions 3 to 6.

use object::LittleEndian;
use object::elf::{FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader};
use serde::Deserialize;

use crate::kernels::{ImageError, Kernel, Parameter};

/// `NT_AMDGPU_METADATA`, of the owner `AMDGPU`.
const NOTE_TYPE: NoteType = NoteType(32);
const NOTE_OWNER: &[u8] = b"AMDGPU";

/// More than the arguments of any kernel take.
const ARGUMENT_BYTES_MAX: usize = 1 << 20;

/// A block's threads where a kernel states no limit.
const THREADS_MAX: u32 = 1024;

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "amdhsa.kernels", default)]
    kernels: Vec<KernelMetadata>,
}

#[derive(Deserialize)]
struct KernelMetadata {
    #[serde(rename = ".name")]
    name: String,
    #[serde(rename = ".args", default)]
    arguments: Vec<ArgumentMetadata>,
    #[serde(rename = ".max_flat_workgroup_size")]
    threads_max: Option<u32>,
    #[serde(rename = ".group_segment_fixed_size", default)]
    shared_bytes: u32,
}

#[derive(Deserialize)]
struct ArgumentMetadata {
    #[serde(rename = ".offset")]
    offset: usize,
    #[serde(rename = ".size")]
    size: usize,
    #[serde(rename = ".value_kind")]
    kind: String,
}

/// The kernels of a code object.
pub(super) fn kernels(code_object: &[u8]) -> Result<Vec<(String, Kernel)>, ImageError> {
    let notes = notes(code_object).map_err(|_| ImageError::Elf)?;
    // Kernels of a note that cannot be read are unknown.
    let read = notes.iter().filter_map(|note| rmp_serde::from_slice::<Metadata>(note).ok());
    let kernels: Vec<_> = read.flat_map(|metadata| metadata.kernels).filter_map(kernel).collect();
    if kernels.is_empty() { Err(ImageError::NoMetadata) } else { Ok(kernels) }
}

fn notes(code_object: &[u8]) -> object::Result<Vec<&[u8]>> {
    let header = FileHeader64::<LittleEndian>::parse(code_object)?;
    let endian = header.endian()?;
    let mut found = Vec::new();
    for segment in header.program_headers(endian, code_object)? {
        let Some(mut notes) = segment.notes(endian, code_object)? else { continue };
        while let Some(note) = notes.next()? {
            if note.n_type(endian) == NOTE_TYPE && note.name() == NOTE_OWNER {
                found.push(note.desc());
            }
        }
    }
    Ok(found)
}

/// None for a kernel that no runtime would launch: memory for its arguments would be wasted.
fn kernel(metadata: KernelMetadata) -> Option<(String, Kernel)> {
    // Hidden arguments come from the runtime, behind the explicit ones.
    let explicit = metadata.arguments.into_iter().filter(|argument| !argument.kind.starts_with("hidden_"));
    let parameters: Vec<_> = explicit.map(|a| Parameter { offset: a.offset, size: a.size }).collect();
    let fits = |p: &Parameter| p.offset.checked_add(p.size).is_some_and(|end| end <= ARGUMENT_BYTES_MAX);
    if !parameters.iter().all(fits) {
        return None;
    }
    let kernel = Kernel {
        parameters,
        threads_max: metadata.threads_max.unwrap_or(THREADS_MAX),
        shared_bytes: metadata.shared_bytes,
    };
    Some((metadata.name, kernel))
}
