//! Code objects: how they are bundled, which one is for the device, and what its metadata says of its kernels.

use core::ffi::c_void;
use std::collections::HashMap;
use std::sync::Arc;

use crate::config;
use crate::error::HipError;
use crate::kernel::Kernel;

mod bundle;
mod image;
mod metadata;

pub(crate) use image::Global;

/// Why an image gives no kernels.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum CodeObjectError {
    #[error("neither a bundle nor an ELF file")]
    UnknownFormat,
    #[error("a compressed bundle, which is not modelled")]
    Compressed,
    #[error("a bundle without an entry for {0}")]
    NoEntry(String),
    #[error("malformed: {0}")]
    Malformed(String),
}

impl From<CodeObjectError> for HipError {
    fn from(error: CodeObjectError) -> Self {
        match error {
            CodeObjectError::UnknownFormat => HipError::InvalidKernelFile,
            CodeObjectError::NoEntry(_) => HipError::NoBinaryForGpu,
            CodeObjectError::Compressed | CodeObjectError::Malformed(_) => HipError::InvalidImage,
        }
    }
}

/// The code object for this device, as far as the simulation needs it.
pub(crate) struct CodeObject {
    pub(crate) kernels: HashMap<String, Arc<Kernel>>,
    pub(crate) globals: HashMap<String, Global>,
}

impl CodeObject {
    /// From a bundle or a bare ELF file in memory, whose length only its own headers tell.
    ///
    /// # Safety
    ///
    /// `image` points to such data, complete as its headers say.
    pub(crate) unsafe fn from_address(image: *const c_void) -> Result<Self, CodeObjectError> {
        // SAFETY: the caller's promise.
        let elf = unsafe { bundle::elf_for(image.cast(), &config::get().arch) };
        elf.and_then(Self::from_elf)
            .inspect_err(|error| eprintln!("hip-sim: code object at {image:p}: {error}"))
    }

    fn from_elf(elf: &[u8]) -> Result<Self, CodeObjectError> {
        let image = image::Image::parse(elf)?;
        let kernels = metadata::kernels(image.metadata)?;
        let kernels = kernels.into_iter().map(|kernel| (kernel.name().to_owned(), Arc::new(kernel)));
        Ok(Self { kernels: kernels.collect(), globals: image.globals })
    }
}
