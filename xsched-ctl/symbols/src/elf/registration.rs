//! The kernels that a file registers, for files without a symbol table.
//!
//! The compiler adds a constructor to each file with kernels, which registers them when the file is loaded
//! (<https://github.com/ROCm/clr/blob/fe70c0d6b08e/hipamd/src/hip_platform.cpp> has the functions that it calls):
//!
//! ```text
//! .init_array ──► constructor:  lea rdi, [wrapper]        call __hipRegisterFatBinary
//!                               lea rsi, [handle]         identifies the kernel in a launch
//!                               lea rcx, [name]           call __hipRegisterFunction
//! ```
//!
//! A tracer that starts later has not seen these calls, so it reads their arguments from the code. A name counts only if the
//! device code that the same constructors register has a kernel of that name. So misread code names no kernel.

mod constructors;
mod dynamic;
mod fat_binary;

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::headers::{Headers, Segment};
use constructors::{Calls, Memory};
use dynamic::Dynamic;

/// The longest name that is read. Names of templates have thousands of bytes.
const NAME_BYTES_MAX: usize = 16 << 10;

/// Whether a file imports the functions that register kernels.
pub(super) fn is_possible(headers: &Headers, file: &File) -> bool {
    dynamic::imports(&Image { headers, file }).is_some()
}

/// Mangled names by the file's addresses of their handles; empty if no registered kernels can be found.
pub(super) fn read(headers: &Headers, file: &File) -> HashMap<u64, Arc<str>> {
    let image = Image { headers, file };
    let Some(dynamic) = Dynamic::read(&image) else { return HashMap::new() };
    let calls = Calls::of_constructors(&image, &dynamic);
    if calls.functions.is_empty() {
        return HashMap::new();
    }
    let mut kernels: HashMap<u64, Option<Arc<str>>> = HashMap::new();
    let device = fat_binary::kernels(&image, &dynamic, &calls.wrappers);
    for (handle, name) in calls.functions {
        let Some(name) = image.name(name).filter(|name| device.contains(&**name)) else { continue };
        kernels
            .entry(handle)
            // Two kernels cannot share a handle, so the code was misread.
            .and_modify(|known| *known = known.take().filter(|known| *known == name))
            .or_insert_with(|| Some(Arc::clone(&name)));
    }
    kernels.into_iter().filter_map(|(handle, name)| Some((handle, name?))).collect()
}

/// A file's memory image before relocation.
struct Image<'a> {
    headers: &'a Headers,
    file: &'a File,
}

impl Image<'_> {
    /// Up to `count` bytes from an address on, limited by the end of its segment.
    fn bytes(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        let (segment, inside) = self.segment(address)?;
        let count = usize::try_from(segment.file_bytes - inside).map_or(count, |left| left.min(count));
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, segment.file_offset.checked_add(inside)?).ok()?;
        Some(bytes)
    }

    fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(address, 8)?.try_into().ok()?))
    }

    /// A name in read-only memory.
    fn name(&self, address: u64) -> Option<Arc<str>> {
        if self.segment(address)?.0.writable {
            return None;
        }
        let mut bytes = self.bytes(address, 256)?;
        let is_whole = |bytes: &[u8]| bytes.contains(&0);
        if !is_whole(&bytes) {
            bytes = self.bytes(address, NAME_BYTES_MAX)?;
        }
        let name = &bytes[..bytes.iter().position(|&byte| byte == 0)?];
        let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
        Some(std::str::from_utf8(name).ok().filter(|_| is_name)?.into())
    }

    fn segment(&self, address: u64) -> Option<(&Segment, u64)> {
        self.headers.segments.iter().find_map(|segment| {
            let inside = address.checked_sub(segment.address)?;
            (inside < segment.file_bytes).then_some((segment, inside))
        })
    }
}

impl Memory for Image<'_> {
    fn code(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        self.segment(address).filter(|(segment, _)| segment.executable)?;
        self.bytes(address, count)
    }
}
