//! Clang's [offload bundles](https://clang.llvm.org/docs/ClangOffloadBundler.html), and the entry that fits a
//! device.
//!
//! ```text
//! "__CLANG_OFFLOAD_BUNDLE__"  u64 count  count x { u64 offset, u64 size, u64 id_len, id }  code objects..
//! ```
//!
//! An id is `hipv4-amdgcn-amd-amdhsa--gfx942`, optionally followed by feature settings such as `:xnack-`.
//! Often only a bundle's address is known, so its header is read field by field.

use std::borrow::Cow;

use super::compressed;
use super::error::CodeObjectError;
use super::reader::Reader;
use super::target::{Fit, Target};

const MAGIC: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";
const ELF_MAGIC: &[u8; 4] = b"\x7fELF";

/// The ELF file for a device: the bundle's entry for it, or the image itself if it is not a bundle.
///
/// # Safety
///
/// `image` points to a bundle or an ELF file that outlives the result. It is as long as its headers say, or
/// as `len`.
pub(super) unsafe fn elf_for<'a>(
    image: *const u8,
    len: usize,
    device: &Target,
) -> Result<Cow<'a, [u8]>, CodeObjectError> {
    if image.is_null() {
        return Err(CodeObjectError::UnknownFormat);
    }
    let reader = Reader::new(image, len);
    // SAFETY: every format that the caller may pass has more than four bytes.
    let magic = unsafe { reader.part(0, 4) }.map_err(|_| CodeObjectError::UnknownFormat)?;
    // SAFETY: the magic identifies the format.
    unsafe {
        if magic == ELF_MAGIC {
            return reader.part(0, elf_size(reader)?).map(Cow::Borrowed);
        }
        if magic == compressed::MAGIC {
            let bundle = compressed::decompress(reader)?;
            let found = entry(Reader::new(bundle.as_ptr(), bundle.len()), device)?;
            return Ok(Cow::Owned(found.to_vec()));
        }
        entry(reader, device).map(Cow::Borrowed)
    }
}

/// # Safety
///
/// As for `elf_for`.
unsafe fn entry<'a>(start: Reader, device: &Target) -> Result<&'a [u8], CodeObjectError> {
    let mut reader = start;
    // SAFETY: read byte by byte, so that data of another format is not read past the first different byte.
    if !MAGIC.iter().all(|byte| unsafe { reader.bytes(1) }.is_ok_and(|found| found == [*byte])) {
        return Err(CodeObjectError::UnknownFormat);
    }
    let mut best: Option<(Fit, u64, u64)> = None;
    // SAFETY: a bundle has these fields, as the caller guarantees.
    unsafe {
        for _ in 0..reader.number(8)? {
            let (offset, size, id_len) = (reader.number(8)?, reader.number(8)?, reader.number(8)?);
            let id = reader.bytes(id_len as usize)?;
            if let Some(fit) = target_of(id).and_then(|code| device.fit(&code))
                && best.is_none_or(|(before, ..)| fit > before)
            {
                best = Some((fit, offset, size));
            }
        }
        let (_, offset, size) = best.ok_or(CodeObjectError::NoEntry)?;
        start.part(offset, size)
    }
}

/// The target of an entry; none for host code and other vendors' devices.
fn target_of(id: &[u8]) -> Option<Target> {
    let (kind, target) = core::str::from_utf8(id).ok()?.split_once("-amdgcn-amd-amdhsa-")?;
    kind.starts_with("hip").then(|| target.trim_start_matches('-').parse().ok())?
}

/// Size of an ELF64 file: the end of everything that its headers refer to.
///
/// # Safety
///
/// As for `elf_for`; the image is an ELF file.
unsafe fn elf_size(file: Reader) -> Result<u64, CodeObjectError> {
    // SAFETY: fields of the file header and the program headers.
    unsafe {
        let field =
            |at: u64, len: u64| file.part(at, len).map(|bytes| Reader::new(bytes.as_ptr(), bytes.len()));
        let number = |at, len: u64| field(at, len).and_then(|mut field| field.number(len as usize));
        let (segments, segment_size, segment_count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let (sections, section_size, section_count) = (number(40, 8)?, number(58, 2)?, number(60, 2)?);
        let mut end = sections.saturating_add(section_size * section_count);
        for segment in 0..segment_count {
            let header = segments.saturating_add(segment * segment_size);
            let (offset, size) =
                (number(header.saturating_add(8), 8)?, number(header.saturating_add(32), 8)?);
            end = end.max(offset.saturating_add(size));
        }
        Ok(end)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::compressed::tests::compress;
    use super::*;

    /// A bundle with these entries.
    pub(in super::super) fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let header: usize = 32 + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
        let mut bytes = MAGIC.to_vec();
        bytes.extend((entries.len() as u64).to_le_bytes());
        let mut offset = header;
        for (id, code) in entries {
            for field in [offset, code.len(), id.len()] {
                bytes.extend((field as u64).to_le_bytes());
            }
            bytes.extend(id.as_bytes());
            offset += code.len();
        }
        for (_, code) in entries {
            bytes.extend(*code);
        }
        bytes
    }

    fn find<'a>(image: &'a [u8], arch: &str) -> Result<Cow<'a, [u8]>, CodeObjectError> {
        // SAFETY: the length is the slice's.
        unsafe { elf_for(image.as_ptr(), image.len(), &Target::of_device(arch).unwrap()) }
    }

    fn found(image: &[u8], arch: &str) -> String {
        find(image, arch)
            .map_or_else(|error| error.to_string(), |code| String::from_utf8(code.into()).unwrap())
    }

    fn some_targets() -> Vec<u8> {
        bundle(&[
            ("host-x86_64-unknown-linux--", b""),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", b"retrying"),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", b"plain"),
            ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", b"family"),
            ("hip-amdgcn-amd-amdhsa--gfx942", b"exact"),
        ])
    }

    #[test]
    fn the_entry_for_the_device_is_found() {
        let bundle = some_targets();
        assert_eq!(found(&bundle, "gfx942"), "exact");
        assert_eq!(found(&bundle, "gfx950"), "family");
        assert_eq!(found(&bundle, "gfx90a"), "plain");
        assert_eq!(found(&bundle, "gfx90a:xnack+"), "retrying");
        assert_eq!(find(&bundle, "gfx94"), Err(CodeObjectError::NoEntry));
    }

    #[test]
    fn a_compressed_bundle_has_the_same_entries() {
        for version in [1, 2, 3] {
            let image = compress(&some_targets(), version, 1);
            assert_eq!(found(&image, "gfx942"), "exact", "version {version}");
            assert_eq!(find(&image, "gfx94"), Err(CodeObjectError::NoEntry));
        }
    }

    #[test]
    fn data_that_is_no_bundle_is_refused() {
        assert_eq!(find(b"__CLANG_x", "gfx942"), Err(CodeObjectError::UnknownFormat));
        assert_eq!(find(b"no", "gfx942"), Err(CodeObjectError::UnknownFormat));
        assert!(matches!(find(b"CCOB....", "gfx942"), Err(CodeObjectError::Compressed(_))));
    }

    #[test]
    fn a_truncated_bundle_is_malformed() {
        let bundle = some_targets();
        for len in MAGIC.len()..bundle.len() {
            assert!(find(&bundle[..len], "gfx942").is_err(), "{len} bytes");
        }
    }
}
