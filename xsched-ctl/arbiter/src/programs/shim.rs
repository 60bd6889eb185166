//! Probes the shim of a process: the very file that it has mapped, at the offset that this file itself names.

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

/// Sees to a probe in the shim of a process.
pub(super) fn probe(program: &mut UProbe, pins: &Pins, pid: u32) -> Result<(), ProgramsError> {
    // A link holds its file, so nobody else's has the same number.
    let is_probed = |id| pins.path(&link_name(id)).exists();
    let found = find_function(pid, REPORT_SYMBOL, USUAL_NAME, is_probed)
        .map_err(|cause| ProgramsError::Mappings { pid, cause })?;
    let (id, file, offset) = match found {
        MappedFunction::Known(_) => return Ok(()),
        MappedFunction::Nowhere => return Err(ProgramsError::NoShim { pid }),
        MappedFunction::New { id, file, offset } => (id, file, offset),
    };
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
