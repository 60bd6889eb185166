//! Probes the shim of a process: the very file that it has mapped, at the offset that this file itself names.

use std::fs::File;
use std::path::PathBuf;

use aya::programs::UProbe;
use aya::programs::links::FdLink;
use xsched_abi::arbiter::REPORT_SYMBOL;
use xsched_symbols::{FileId, MappedFunction, find_function};

use super::pins::Pins;
use super::{ProgramsError, attach, create};

/// How the file names of all builds of the shim begin. One with another name is found too, by its symbol.
const USUAL_NAME: &str = "libxsched_shim";

/// How the names of the links are made.
const PREFIX: &str = "shim-";

/// Builds of the shim on one machine. Others than the shim can only make their own calls slower, but not without end.
const SHIMS_MAX: usize = 256;

/// A search for the shim of a process, which reads what the process has mapped: as much as that process likes.
#[derive(Debug)]
pub struct ShimSearch {
    pins: PathBuf,
    pid: u32,
}

/// The shim of a process.
#[derive(Debug)]
pub struct FoundShim {
    /// None: it is probed already.
    unprobed: Option<(FileId, File, u64)>,
}

impl ShimSearch {
    pub(super) fn new(pins: &Pins, pid: u32) -> Self {
        Self { pins: pins.path(""), pid }
    }

    /// Searches, on any thread. It may take seconds.
    ///
    /// # Errors
    ///
    /// [`ProgramsError::NoShim`] and [`ProgramsError::Mappings`]
    pub fn run(self) -> Result<FoundShim, ProgramsError> {
        let pid = self.pid;
        // A link holds its file, so nobody else's has the same number.
        let is_probed = |id| self.pins.join(link_name(id)).exists();
        let found = find_function(pid, REPORT_SYMBOL, USUAL_NAME, is_probed)
            .map_err(|cause| ProgramsError::Mappings { pid, cause })?;
        match found {
            MappedFunction::Known(_) => Ok(FoundShim { unprobed: None }),
            MappedFunction::Nowhere => Err(ProgramsError::NoShim { pid }),
            MappedFunction::New { id, file, offset } => Ok(FoundShim { unprobed: Some((id, file, offset)) }),
        }
    }
}

/// Sees to a probe in the shim of a process.
pub(super) fn probe(program: &mut UProbe, pins: &Pins, shim: FoundShim) -> Result<(), ProgramsError> {
    let Some((id, file, offset)) = shim.unprobed else { return Ok(()) };
    if pins.path(&link_name(id)).exists() {
        // Another process with the same shim was faster.
        return Ok(());
    }
    if pins.count(PREFIX) >= SHIMS_MAX {
        return Err(ProgramsError::TooManyShims);
    }
    let link = attach(program, "report", &file, offset)?;
    let link = program.take_link(link).expect("it has just been attached");
    let link = FdLink::try_from(link).map_err(|_| ProgramsError::NoLink("report"))?;
    link.pin(pins.path(&link_name(id))).map_err(|error| create::pin_error("the link of a shim", error))?;
    Ok(())
}

fn link_name(id: FileId) -> String {
    format!("{PREFIX}{:x}-{:x}-{:x}", id.device_major, id.device_minor, id.inode)
}
