//! Clang's offload bundles, uncompressed, and the entry that fits a device.
//!
//! ```text
//! "__CLANG_OFFLOAD_BUNDLE__"  u64 count  count x { u64 offset, u64 size, u64 id_len, id }  code objects..
//! ```
//!
//! An id is `hipv4-amdgcn-amd-amdhsa--gfx942` with feature flags such as `:xnack-` after it, of which this device
//! asks nothing. A bundle comes by address alone, so its header is read piece by piece.

use core::slice;

use super::CodeObjectError;

const MAGIC: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_MAGIC: &[u8; 4] = b"CCOB";
const ELF_MAGIC: &[u8; 4] = b"\x7fELF";

/// Reads forward through memory.
struct Reader(*const u8);

impl Reader {
    /// # Safety
    ///
    /// `len` bytes are readable from here on, for as long as the result is used.
    unsafe fn bytes<'a>(&mut self, len: usize) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = slice::from_raw_parts(self.0, len);
            self.0 = self.0.add(len);
            bytes
        }
    }

    /// # Safety
    ///
    /// Eight bytes are readable from here on.
    unsafe fn u64(&mut self) -> usize {
        // SAFETY: the caller's promise.
        let bytes = unsafe { self.bytes(8) };
        u64::from_le_bytes(bytes.try_into().expect("eight bytes were asked for")) as usize
    }
}

/// The ELF file for a processor: the bundle's entry for it, or the image itself if it is no bundle.
///
/// # Safety
///
/// `image` points to a bundle or an ELF file, complete as its headers say, that outlives the result.
pub(super) unsafe fn elf_for<'a>(image: *const u8, arch: &str) -> Result<&'a [u8], CodeObjectError> {
    if image.is_null() {
        return Err(CodeObjectError::UnknownFormat);
    }
    // SAFETY: every format that the caller may pass has more than four bytes.
    let magic: [u8; 4] = unsafe { image.cast::<[u8; 4]>().read() };
    match &magic {
        ELF_MAGIC => {
            // SAFETY: the magic says that it is a complete ELF file.
            unsafe { Ok(slice::from_raw_parts(image, elf_size(image))) }
        }
        COMPRESSED_MAGIC => Err(CodeObjectError::Compressed),
        // SAFETY: the rest of the magic is compared before anything else is read.
        _ => unsafe { entry(image, arch) },
    }
}

/// # Safety
///
/// As for `elf_for`.
unsafe fn entry<'a>(image: *const u8, arch: &str) -> Result<&'a [u8], CodeObjectError> {
    let mut reader = Reader(image);
    // SAFETY: byte by byte, so that data of another kind is not read past its first difference.
    if !MAGIC.iter().all(|byte| unsafe { reader.bytes(1) } == [*byte]) {
        return Err(CodeObjectError::UnknownFormat);
    }
    // SAFETY: a bundle has these fields, by the caller's promise.
    unsafe {
        for _ in 0..reader.u64() {
            let (offset, size, id_len) = (reader.u64(), reader.u64(), reader.u64());
            let id = reader.bytes(id_len);
            if is_for(id, arch) {
                return Ok(slice::from_raw_parts(image.add(offset), size));
            }
        }
    }
    Err(CodeObjectError::NoEntry(arch.to_owned()))
}

/// Whether an entry's id is for AMD's processor `arch`, whatever features it was compiled for.
fn is_for(id: &[u8], arch: &str) -> bool {
    let Ok(id) = core::str::from_utf8(id) else { return false };
    let Some((kind, target)) = id.split_once("-amdgcn-amd-amdhsa-") else { return false };
    let processor = target.trim_start_matches('-').split(':').next().unwrap_or_default();
    kind.starts_with("hip") && processor == arch
}

/// Size of an ELF64 file by its headers: the section header table comes last in what compilers write.
///
/// # Safety
///
/// `image` points to an ELF64 header.
unsafe fn elf_size(image: *const u8) -> usize {
    // SAFETY: fields of the header: e_shoff, e_shentsize, e_shnum.
    unsafe {
        let offset = image.add(40).cast::<u64>().read_unaligned() as usize;
        let entry_size = image.add(58).cast::<u16>().read_unaligned() as usize;
        let count = image.add(60).cast::<u16>().read_unaligned() as usize;
        offset + entry_size * count
    }
}

#[cfg(test)]
pub(super) mod tests {
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

    fn find<'a>(image: &'a [u8], arch: &str) -> Result<&'a [u8], CodeObjectError> {
        // SAFETY: a complete image, as the functions above made it.
        unsafe { elf_for(image.as_ptr(), arch) }
    }

    #[test]
    fn the_entry_for_the_processor_is_found() {
        let bundle = bundle(&[
            ("host-x86_64-unknown-linux--", b""),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", b"old"),
            ("hipv4-amdgcn-amd-amdhsa--gfx942", b"new"),
        ]);
        assert_eq!(find(&bundle, "gfx942"), Ok(&b"new"[..]));
        assert_eq!(find(&bundle, "gfx90a"), Ok(&b"old"[..]));
        assert_eq!(find(&bundle, "gfx94"), Err(CodeObjectError::NoEntry("gfx94".into())));
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        assert_eq!(find(b"__CLANG_x", "gfx942"), Err(CodeObjectError::UnknownFormat));
        assert_eq!(find(b"CCOB....", "gfx942"), Err(CodeObjectError::Compressed));
    }
}
