//! Errors of the programs that keep a page.

use std::io;

use aya::maps::MapError;
use aya::pin::PinError;
use aya::programs::ProgramError;

/// Why programs cannot keep a page.
#[derive(Debug, thiserror::Error)]
pub enum ProgramsError {
    /// Another controller is running.
    #[error("another controller keeps {0}")]
    Occupied(String),
    /// The folder for pins cannot be used.
    #[error("cannot use {path}: {cause}")]
    Folder {
        /// The folder.
        path: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The kernel refused the maps.
    #[error("the kernel refused the BPF maps: {0}")]
    Object(#[from] aya::EbpfError),
    /// The kernel refused a program.
    #[error("the kernel refused the BPF program `{program}`: {cause}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The kernel's error, with the verifier's log if it wrote one.
        #[source]
        cause: Box<ProgramError>,
    },
    /// A program could not be attached with a link that can be pinned. That needs Linux 5.15.
    #[error("the program `{0}` cannot stay attached after the end of this process")]
    NoLink(&'static str),
    /// A map could not be used.
    #[error("cannot use the BPF map `{map}`: {cause}")]
    Map {
        /// Its name.
        map: &'static str,
        /// The kernel's error.
        #[source]
        cause: MapError,
    },
    /// The page could not be mapped or frozen.
    #[error("cannot set up the arbiter page: {0}")]
    Page(#[source] io::Error),
    /// A map, program or link could not be pinned.
    #[error("cannot pin {name}: {cause}")]
    Pin {
        /// Its name.
        name: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The offset of the kernel's thread count is not known.
    #[error(transparent)]
    Types(#[from] xsched_programs::TypesError),
    /// This process's own code was not found.
    #[error("cannot find own code: {0}")]
    OwnCode(#[source] io::Error),
    /// The probe at this process's own function did not fire.
    #[error("the programs do not receive calls of this process")]
    Unheard,
    /// The process has not mapped a file with the shim's function.
    #[error(
        "process {pid} has mapped no file with the function `{}`",
        xsched_protocol::arbiter_page::REPORT_SYMBOL
    )]
    NoShim {
        /// The process.
        pid: u32,
    },
    /// The process's mappings could not be read.
    #[error("cannot read the mappings of process {pid}: {cause}")]
    Mappings {
        /// The process.
        pid: u32,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The probe in the process's shim was removed, or the file of the shim was written, during the search.
    #[error("the probe in the shim was removed")]
    ProbeGone,
}

impl ProgramsError {
    /// The error of pinning an object with this name.
    pub(super) fn pin(name: &str, error: PinError) -> Self {
        let cause = match error {
            PinError::SyscallError(error) => error.io_error,
            other => io::Error::other(other),
        };
        Self::Pin { name: name.to_owned(), cause }
    }
}
