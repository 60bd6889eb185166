//! Why an image gives no kernels, and what HIP says then.

use crate::error::HipError;

/// Why an image gives no kernels.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum CodeObjectError {
    #[error("neither a bundle nor an ELF file")]
    UnknownFormat,
    #[error("a compressed bundle that cannot be decompressed: {0}")]
    Compressed(String),
    #[error("nothing for this device")]
    NoEntry,
    #[error("`{0}` in HIP_SIM_ARCH is not a target such as gfx942 or gfx90a:xnack+")]
    NoDevice(String),
    #[error("malformed: {0}")]
    Malformed(String),
}

impl From<CodeObjectError> for HipError {
    fn from(error: CodeObjectError) -> Self {
        match error {
            CodeObjectError::UnknownFormat => HipError::InvalidKernelFile,
            CodeObjectError::Compressed(_) => HipError::InvalidValue,
            CodeObjectError::NoEntry | CodeObjectError::NoDevice(_) => HipError::NoBinaryForGpu,
            CodeObjectError::Malformed(_) => HipError::InvalidImage,
        }
    }
}
