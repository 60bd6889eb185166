//! The containers that device code comes in, down to the code objects within.
//!
//! ```text
//!   wrapper    u32 "HIPF"  u32 version  void *binary  void *reserved      what __hipRegisterFatBinary is given
//!   bundle     "__CLANG_OFFLOAD_BUNDLE__"  u64 count  { u64 offset  u64 size  u64 idlen  id } ..
//!   compressed "CCOB"  u16 version  u16 method  sizes  u64 hash  a bundle, by zlib (0) or zstd (1)
//!              sizes: v1 u32 uncompressed; v2 u32 total, u32 uncompressed; v3 u64 total, u64 uncompressed
//!   code object  an ELF file
//! ```
//!
//! The length of an image in memory is not given; its headers have it.

use std::io::Read;
use std::slice;

use xsched_preload::memory;

use crate::kernels::ImageError;
use crate::runtime;

const ELF: &[u8] = b"\x7fELF";
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
/// `HIPF`
const WRAPPER_MAGIC: u32 = u32::from_be_bytes(*b"HIPF");

/// More than any bundle has: a larger count is no bundle.
const ENTRIES_MAX: u64 = 4096;
/// More than any image has.
const IMAGE_BYTES_MAX: u64 = 1 << 36;

/// The image behind the wrapper of a fat binary; None for code that lies in another file.
///
/// # Safety
/// `wrapper` must be null or what compiled code passes to `__hipRegisterFatBinary`.
pub(super) unsafe fn unwrap(wrapper: *const u8) -> Option<*const u8> {
    if wrapper.is_null() {
        return None;
    }
    // SAFETY: the wrapper's fields, by the caller's promise.
    let (magic, binary) = unsafe {
        (wrapper.cast::<u32>().read_unaligned(), wrapper.add(8).cast::<*const u8>().read_unaligned())
    };
    (magic == WRAPPER_MAGIC && !binary.is_null()).then_some(binary)
}

/// All of an image in memory.
///
/// # Safety
/// `start` must point to a complete image, which stays as it is for `'a`.
pub(super) unsafe fn image<'a>(start: *const u8) -> Result<&'a [u8], ImageError> {
    // SAFETY: each header is as long as what is read of it; `len` bytes follow by what the headers say.
    unsafe {
        let head = |len| slice::from_raw_parts(start, len);
        let len = if head(4) == ELF {
            elf_len(head(64))?
        } else if head(4) == COMPRESSED {
            match number(head(24), 4, 2)? {
                2 => number(head(24), 8, 4)?,
                3 => number(head(24), 8, 8)?,
                // Version 1 has no length: it ends no later than the library that it lies in.
                1 => runtime::bytes_mapped_from(start.addr()).ok_or(ImageError::Version(1))?,
                version => return Err(ImageError::Version(version)),
            }
        } else if head(4) == &BUNDLE[..4] && head(BUNDLE.len()) == BUNDLE {
            bundle_len(start)?
        } else {
            return Err(ImageError::Unknown);
        };
        if len > IMAGE_BYTES_MAX {
            return Err(ImageError::Cut);
        }
        Ok(slice::from_raw_parts(start, len as usize))
    }
}

/// Where an ELF file's section headers end: linkers put them last.
fn elf_len(header: &[u8]) -> Result<u64, ImageError> {
    let sections = number(header, 0x3a, 2)? * number(header, 0x3c, 2)?;
    Ok(number(header, 0x28, 8)? + sections)
}

/// Where a bundle's last entry ends.
///
/// # Safety
/// `start` must point to a complete bundle.
unsafe fn bundle_len(start: *const u8) -> Result<u64, ImageError> {
    let mut len = 0;
    let mut at = BUNDLE.len() + 8;
    // SAFETY: the count and each entry are there, by the caller's promise.
    unsafe {
        let word = |at: usize| start.add(at).cast::<u64>().read_unaligned();
        let count = word(BUNDLE.len());
        if count > ENTRIES_MAX {
            return Err(ImageError::Unknown);
        }
        for _ in 0..count {
            len = len.max(word(at).saturating_add(word(at + 8)));
            at += 24 + word(at + 16) as usize;
        }
    }
    Ok(len.max(at as u64))
}

/// Whether an image is compressed as a whole, and says how long it is: one of version 1 may seem as long as the library around it.
pub(super) fn is_compressed(image: &[u8]) -> bool {
    image.starts_with(COMPRESSED) && number(image, 4, 2).is_ok_and(|version| version > 1)
}

/// Calls `found` with each code object of an image, until it returns true.
pub(super) fn code_objects(image: &[u8], found: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool, ImageError> {
    if image.starts_with(ELF) {
        Ok(found(image))
    } else if image.starts_with(COMPRESSED) {
        code_objects(&decompressed(image)?, found)
    } else if image.starts_with(BUNDLE) {
        for entry in entries(image)? {
            if found(entry?) {
                return Ok(true);
            }
        }
        Ok(false)
    } else {
        Err(ImageError::Unknown)
    }
}

/// A bundle's entries that are code for a GPU.
fn entries(bundle: &[u8]) -> Result<impl Iterator<Item = Result<&[u8], ImageError>>, ImageError> {
    let count = number(bundle, BUNDLE.len(), 8)?;
    if count > ENTRIES_MAX {
        return Err(ImageError::Unknown);
    }
    let mut at = BUNDLE.len() + 8;
    let entry = move || {
        let (offset, size) = (number(bundle, at, 8)? as usize, number(bundle, at + 8, 8)? as usize);
        let id_len = number(bundle, at + 16, 8)? as usize;
        let id = part(bundle, at + 24, id_len)?;
        at += 24 + id_len;
        let is_for_gpu = id.windows(6).any(|window| window == b"amdgcn");
        Ok((is_for_gpu && size > 0).then_some((offset, size)))
    };
    let all = std::iter::repeat_with(entry).take(count as usize);
    Ok(all.filter_map(move |entry: Result<_, ImageError>| match entry {
        Ok(None) => None,
        Ok(Some((offset, size))) => Some(part(bundle, offset, size)),
        Err(error) => Some(Err(error)),
    }))
}

fn decompressed(image: &[u8]) -> Result<Vec<u8>, ImageError> {
    let (version, method) = (number(image, 4, 2)?, number(image, 6, 2)?);
    let (size, header) = match version {
        1 => (number(image, 8, 4)?, 20),
        2 => (number(image, 12, 4)?, 24),
        3 => (number(image, 16, 8)?, 32),
        _ => return Err(ImageError::Version(version)),
    };
    let payload = image.get(header..).ok_or(ImageError::Cut)?;
    if size > IMAGE_BYTES_MAX || !memory::can_allocate(2 * size as usize) {
        return Err(ImageError::NoMemory);
    }
    let mut bundle = Vec::new();
    let read = match method {
        0 => flate2::read::ZlibDecoder::new(payload).take(size).read_to_end(&mut bundle),
        1 => ruzstd::decoding::StreamingDecoder::new(payload)
            .map_err(|_| ImageError::Compression)?
            .take(size)
            .read_to_end(&mut bundle),
        _ => return Err(ImageError::Compression),
    };
    match read {
        Ok(len) if len as u64 == size => Ok(bundle),
        _ => Err(ImageError::Compression),
    }
}

/// A little-endian number.
fn number(bytes: &[u8], at: usize, len: usize) -> Result<u64, ImageError> {
    Ok(part(bytes, at, len)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn part(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], ImageError> {
    let end = at.checked_add(len).ok_or(ImageError::Cut)?;
    bytes.get(at..end).ok_or(ImageError::Cut)
}
