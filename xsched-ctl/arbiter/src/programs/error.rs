//! Errors of the programs that keep a page.

use std::io;

use aya::maps::MapError;
use aya::pin::PinError;
use aya::programs::ProgramError;

/// Why programs cannot keep a page.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum ProgramsError {
    #[error("another controller keeps {0}")]
    Occupied(String),
    #[error("cannot use {path}: {cause}")]
    Folder {
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("cannot create the BPF maps: {0}")]
    Object(#[from] aya::EbpfError),
    #[error("cannot use the BPF program `{program}`: {cause}")]
    Program {
        program: &'static str,
        /// The kernel's error, with the verifier's log if it wrote one.
        #[source]
        cause: Box<ProgramError>,
    },
    /// A program could not be attached with a link that can be pinned. That needs Linux 5.15.
    #[error("the program `{0}` cannot stay attached after the end of this process")]
    NoLink(&'static str),
    #[error("cannot use the BPF map `{map}`: {cause}")]
    Map {
        map: &'static str,
        #[source]
        cause: MapError,
    },
    #[error("cannot set up the arbiter page: {0}")]
    Page(#[source] io::Error),
    #[error("cannot pin {name}: {cause}")]
    Pin {
        name: String,
        #[source]
        cause: io::Error,
    },
    /// The offset of the kernel's thread count is not known.
    #[error(transparent)]
    Types(#[from] xsched_programs::TypesError),
    #[error("cannot find own code: {0}")]
    OwnCode(#[source] io::Error),
    /// The probe at this process's own function did not fire.
    #[error("the programs do not receive calls of this process")]
    Unheard,
    #[error(
        "process {pid} has mapped no file with the function `{}`",
        xsched_protocol::arbiter_page::REPORT_SYMBOL
    )]
    NoShim { pid: u32 },
    #[error("cannot read the mappings of process {pid}: {cause}")]
    Mappings {
        pid: u32,
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
