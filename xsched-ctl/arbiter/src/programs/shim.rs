//! Probes the shim of a process: the very file that it has mapped, at the offset that this file itself names.

use std::fs::File;

use aya::programs::UProbe;
use aya::programs::links::FdLink;
use xsched_abi::arbiter::REPORT_SYMBOL;
use xsched_symbols::{FileId, Mapping, executable_mappings, open_mapped, symbol_file_offsets};

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
    let mut mappings = executable_mappings(pid).map_err(|cause| ProgramsError::Mappings { pid, cause })?;
    mappings.sort_by_key(|mapping| !mapping.library().starts_with(USUAL_NAME));
    for mapping in &mappings {
        let Some(id) = mapping.file else { continue };
        let path = pins.path(&link_name(id));
        // A link holds its file, so nobody else's has the same number.
        if path.exists() {
            return Ok(());
        }
        let Some((file, offset)) = report_function(pid, mapping) else { continue };
        if pins.count(PREFIX) >= SHIMS_MAX {
            return Err(ProgramsError::TooManyShims);
        }
        let id = attach(program, "report", &file, offset)?;
        let link = program.take_link(id).expect("it has just been attached");
        let link = FdLink::try_from(link).map_err(|_| ProgramsError::NoLink("report"))?;
        link.pin(&path).map_err(|error| create::pin_error("the link of a shim", error))?;
        return Ok(());
    }
    Err(ProgramsError::NoShim { pid })
}

fn report_function(pid: u32, mapping: &Mapping) -> Option<(File, u64)> {
    let file = open_mapped(pid, mapping).ok()?;
    let found = symbol_file_offsets(&file, |name| name == REPORT_SYMBOL).ok()?;
    let (_, offset) = found.into_iter().next()?;
    Some((file, offset))
}

fn link_name(id: FileId) -> String {
    format!("{PREFIX}{:x}-{:x}-{:x}", id.device_major, id.device_minor, id.inode)
}
