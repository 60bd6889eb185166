//! The kernels in a file's device code.
//!
//! ```text
//!   wrapper     u32 "HIPF"  u32 version  void *binary  void *reserved
//!   bundle      "__CLANG_OFFLOAD_BUNDLE__"  u64 count  { u64 offset  u64 size  u64 idlen  id } ..
//!   compressed  "CCOB"  u16 version  u16 method  sizes  u64 hash  a bundle, by zlib (0) or zstd (1)
//! ```
//!
//! Bundles: <https://clang.llvm.org/docs/ClangOffloadBundler.html>.
//!
//! A kernel has a descriptor in each code object, with a symbol of its name and `.kd`
//! (<https://llvm.org/docs/AMDGPUUsage.html#symbols>). These texts are searched for in one pass over the data,
//! which may be gigabytes, without parsing the code objects.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use memchr::memmem::Finder;

use super::dynamic::Dynamic;
use super::{Image, NAME_BYTES_MAX};

/// `HIPF` as a number in the processor's byte order.
const WRAPPER_MAGIC: &[u8] = b"FPIH";
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";

/// The most entries of a bundle. Data with a larger count is not a bundle.
const ENTRIES_MAX: u64 = 4096;

/// The most device code that is searched.
const BYTES_MAX: u64 = 8 << 30;

/// Bytes that are searched at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The names of all kernels in the device code behind `wrappers`.
pub(super) fn kernels(image: &Image<'_>, dynamic: &Dynamic, wrappers: &[u64]) -> HashSet<String> {
    let mut names = HashSet::new();
    for &wrapper in wrappers {
        // Device code that cannot be read has no kernels.
        let _ = add_kernels(image, dynamic, wrapper, &mut names);
    }
    names
}

fn add_kernels(
    image: &Image<'_>,
    dynamic: &Dynamic,
    wrapper: u64,
    names: &mut HashSet<String>,
) -> Option<()> {
    if image.bytes(wrapper, 4)? != WRAPPER_MAGIC {
        return None;
    }
    let binary = dynamic.pointer(image, wrapper.checked_add(8)?)?;
    let start = image.headers.file_offset_of(binary)?;
    let header = image.bytes(binary, 32)?;
    if header.starts_with(BUNDLE) {
        for (offset, size) in entries(image, binary, number(&header, 24, 8)?)? {
            let mut code =
                Part { file: image.file, at: start.checked_add(offset)?, left: size.min(BYTES_MAX) };
            collect(&mut code, names).ok()?;
        }
        return Some(());
    }
    if !header.starts_with(COMPRESSED) {
        return None;
    }
    // (bytes of the bundle, bytes of this header)
    let (size, header_bytes) = match number(&header, 4, 2)? {
        1 => (number(&header, 8, 4)?, 20),
        2 => (number(&header, 12, 4)?, 24),
        3 => (number(&header, 16, 8)?, 32),
        _ => return None,
    };
    let packed = Part { file: image.file, at: start.checked_add(header_bytes)?, left: BYTES_MAX };
    let size = size.min(BYTES_MAX);
    match number(&header, 6, 2)? {
        0 => collect(&mut flate2::read::ZlibDecoder::new(packed).take(size), names).ok(),
        1 => collect(&mut ruzstd::decoding::StreamingDecoder::new(packed).ok()?.take(size), names).ok(),
        _ => None,
    }
}

/// Offset and size of a bundle's code objects.
fn entries(image: &Image<'_>, bundle: u64, count: u64) -> Option<Vec<(u64, u64)>> {
    let mut at = bundle.checked_add(BUNDLE.len() as u64 + 8)?;
    let mut entries = Vec::new();
    for _ in 0..Some(count).filter(|&count| count <= ENTRIES_MAX)? {
        entries.push((image.word(at)?, image.word(at.checked_add(8)?)?));
        at = at.checked_add(24)?.checked_add(image.word(at.checked_add(16)?)?)?;
    }
    Some(entries)
}

/// Adds the names of all texts that end with `.kd`, without that ending.
fn collect(code: &mut impl Read, names: &mut HashSet<String>) -> io::Result<()> {
    let ending = Finder::new(b".kd\0");
    let (mut bytes, mut kept) = (vec![0; CHUNK_BYTES + NAME_BYTES_MAX], 0);
    loop {
        let count = match code.read(&mut bytes[kept..]) {
            Ok(0) => return Ok(()),
            Ok(count) => kept + count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for end in ending.find_iter(&bytes[..count]) {
            let begin = bytes[..end].iter().rposition(|&byte| byte == 0);
            if let Some(name) = begin.and_then(|begin| std::str::from_utf8(&bytes[begin + 1..end]).ok())
                && !names.contains(name)
            {
                names.insert(name.to_owned());
            }
        }
        // A name may continue in the next chunk.
        let keep = count.min(NAME_BYTES_MAX);
        bytes.copy_within(count - keep..count, 0);
        kept = keep;
    }
}

/// A part of a file, from `at` on.
struct Part<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = self.file.read_at(&mut buffer[..count], self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// A little-endian number.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    Some(bytes.get(at..at + len)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(7).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn names_with_a_descriptor_are_kernels() {
        let mut names = HashSet::new();
        let text = b"cut.kd\0\0vector_add\0vector_add.kd\0_Z4stepPf.kd\0helper.kdx\0\0.kd";
        collect(&mut Slow(text), &mut names).unwrap();
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable();
        assert_eq!(names, ["_Z4stepPf", "vector_add"]);
    }
}
