//! Code objects: their bundles, the selection of the one for the device, and the metadata of its kernels.
//!
//! ```text
//! compressed bundle --> bundle --(the entry that fits the device)--> ELF file --> metadata, device variables
//! ```

use core::ffi::c_void;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use crate::config;
use crate::kernel::{Argument, Kernel, Resources};
use crate::twin::Twin;

mod bundle;
mod compressed;
mod error;
mod image;
mod metadata;
mod ptx;
mod reader;
mod target;

use error::CodeObjectError;
pub(crate) use image::Global;
use target::Target;

/// Length of an image whose size only its own headers give.
pub(crate) const UNKNOWN_LEN: usize = usize::MAX;

/// The device as a target, with every feature: `gfx942:sramecc+:xnack-`. An invalid setting is returned
/// unchanged.
pub(crate) fn device_target() -> String {
    let arch = &config::get().arch;
    Target::of_device(arch).map_or_else(|| arch.clone(), |device| device.to_string())
}

/// The code object for this device, with the parts that the simulation needs.
pub(crate) struct CodeObject {
    pub(crate) kernels: HashMap<String, Arc<Kernel>>,
    pub(crate) globals: HashMap<String, Global>,
}

impl CodeObject {
    /// Reads a bundle, compressed or not, a bare ELF file, or a PTX text in memory.
    ///
    /// # Safety
    ///
    /// `image` points to such data. The data is as long as its headers say, or as `len`.
    pub(crate) unsafe fn from_address(image: *const c_void, len: usize) -> Result<Self, CodeObjectError> {
        let arch = &config::get().arch;
        let read = || {
            // SAFETY: the caller upholds this function's contract.
            if let Some(text) = unsafe { ptx_at(image.cast(), len) } {
                return Self::from_ptx(text);
            }
            let device = Target::of_device(arch).ok_or_else(|| CodeObjectError::NoDevice(arch.clone()))?;
            // SAFETY: the caller upholds this function's contract.
            let elf = unsafe { bundle::elf_for(image.cast(), len, &device) }?;
            Self::from_elf(&elf, &device)
        };
        read().inspect_err(|error| eprintln!("hip-sim: code object at {image:p} for {arch}: {error}"))
    }

    fn from_elf(elf: &[u8], device: &Target) -> Result<Self, CodeObjectError> {
        let image = image::Image::parse(elf)?;
        // The file's own target decides, whatever its bundle entry says.
        if image.target.as_ref().is_some_and(|code| device.fit(code).is_none()) {
            return Err(CodeObjectError::NoEntry);
        }
        let mut kernels = Vec::new();
        for note in image.metadata {
            kernels.extend(metadata::kernels(note)?);
        }
        if config::get().executor.is_some() {
            let code_object: Arc<[u8]> = elf.into();
            for kernel in &kernels {
                kernel.twin.set_code_object(&code_object);
            }
        }
        Ok(Self::new(kernels, image.globals))
    }

    fn from_ptx(text: &str) -> Result<Self, CodeObjectError> {
        let entries = ptx::kernels(text).map_err(CodeObjectError::Malformed)?;
        let kernels = entries.into_iter().map(|ptx::Entry { name, parameters }| {
            let arguments = parameters.into_iter().map(|(offset, size)| Argument { offset, size });
            Ok(Kernel {
                name: CString::new(name).map_err(|error| CodeObjectError::Malformed(error.to_string()))?,
                arguments: arguments.collect(),
                max_threads_per_block: 1024,
                lds_size: 0,
                resources: Resources::default(),
                twin: Twin::default(),
            })
        });
        Ok(Self::new(kernels.collect::<Result<_, CodeObjectError>>()?, HashMap::new()))
    }

    fn new(kernels: Vec<Kernel>, globals: HashMap<String, Global>) -> Self {
        let kernels = kernels.into_iter().map(|kernel| (kernel.name().to_owned(), Arc::new(kernel)));
        Self { kernels: kernels.collect(), globals }
    }
}

/// The text of an image that is PTX, which only the simulated `libcuda` (`tests/cuda-sim`) is given.
///
/// # Safety
///
/// `image` points to an image in one of the known formats, or a terminated string. It is as long as its headers or its
/// terminator say, or as `len`.
unsafe fn ptx_at<'a>(image: *const u8, len: usize) -> Option<&'a str> {
    // Every known format has four bytes; binary formats begin with others.
    let may_be_text = |byte: u8| byte.is_ascii_whitespace() || byte == b'/' || byte == b'.';
    // SAFETY: as above.
    if image.is_null() || len == 0 || !may_be_text(unsafe { *image }) {
        return None;
    }
    // SAFETY: a text is terminated, or as long as its file.
    let text = unsafe {
        if len == UNKNOWN_LEN {
            core::ffi::CStr::from_ptr(image.cast()).to_bytes()
        } else {
            core::slice::from_raw_parts(image, len)
        }
    };
    core::str::from_utf8(text).ok().filter(|text| ptx::is_ptx(text))
}
