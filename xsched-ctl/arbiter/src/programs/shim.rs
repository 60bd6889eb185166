//! Attaches a probe to the shim of a process: to the file that the process has mapped, at the offset from its symbol table.

use std::fs::File;
use std::path::PathBuf;

use aya::programs::links::FdLink;
use aya::programs::{ProbeKind, UProbe};
use xsched_protocol::arbiter_page::REPORT_SYMBOL;
use xsched_symbols::{FileId, MappedFunction, find_function, symbol_file_offsets};

use super::attach::attach;
use super::error::ProgramsError;
use super::pins::Pins;

/// The prefix of the names of the links.
const PREFIX: &str = "shim-";

/// The most files that should be probed at the same time. A file that is not the shim only slows down its own calls, but the
/// number of probes must be limited.
pub const SHIMS_MAX: usize = 256;

/// A search for the shim of a process. It reads the files that the process has mapped, so the process determines the time.
#[derive(Debug)]
pub struct ShimSearch {
    pins: PathBuf,
    pid: u32,
}

/// The shim of a process.
#[derive(Debug)]
pub struct FoundShim {
    pins: PathBuf,
    id: FileId,
    /// The file and the offset of its function; None if the file is probed already.
    unprobed: Option<(File, u64)>,
}

/// A shim with a probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbedShim(FileId);

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
        let Self { pins, pid } = self;
        // A link keeps its file alive, so no other file has the same inode number.
        let found = find_function(pid, REPORT_SYMBOL, |id| pins.join(link_name(id)).exists())
            .map_err(|cause| ProgramsError::Mappings { pid, cause })?;
        match found {
            MappedFunction::Known(id) => Ok(FoundShim { pins, id, unprobed: None }),
            MappedFunction::Nowhere => Err(ProgramsError::NoShim { pid }),
            MappedFunction::New { id, file, offset } => {
                Ok(FoundShim { pins, id, unprobed: Some((file, offset)) })
            }
        }
    }
}

impl FoundShim {
    /// The file of the shim.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The open file; None if it is probed already.
    pub fn unprobed(&self) -> Option<&File> {
        self.unprobed.as_ref().map(|(file, _)| file)
    }

    /// Attaches the probe, if necessary. May be called on any thread. It waits while probes are being removed, 100 ms for
    /// each.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the probe, or the file was written since it was found.
    pub fn probe(self) -> Result<ProbedShim, ProgramsError> {
        let Some((file, offset)) = self.unprobed else { return Ok(ProbedShim(self.id)) };
        let found = symbol_file_offsets(&file, |name| name == REPORT_SYMBOL).unwrap_or_default();
        if found.first().is_none_or(|(_, now)| *now != offset) {
            return Err(ProgramsError::ProbeGone);
        }
        let refused = |cause| ProgramsError::Program { program: "report", cause: Box::new(cause) };
        let mut program = UProbe::from_pin(self.pins.join("report"), ProbeKind::Entry).map_err(refused)?;
        let link = attach(&mut program, "report", &file, offset)?;
        let link = program.take_link(link).map_err(refused)?;
        let link = FdLink::try_from(link).map_err(|_| ProgramsError::NoLink("report"))?;
        let pin = self.pins.join(link_name(self.id));
        match link.pin(&pin) {
            // Another process with the same shim was faster.
            Err(_) if pin.exists() => {}
            pinned => drop(pinned.map_err(|error| ProgramsError::pin("the link of a shim", error))?),
        }
        Ok(ProbedShim(self.id))
    }
}

impl ProbedShim {
    /// The file of the shim.
    pub fn id(&self) -> FileId {
        self.0
    }

    pub(super) fn is_there(&self, pins: &Pins) -> bool {
        pins.path(&link_name(self.0)).exists()
    }
}

pub(super) fn probed(pins: &Pins) -> Vec<FileId> {
    pins.names().filter_map(|name| id_of_link(name.to_str()?)).collect()
}

/// Removes the probe from a file. The kernel does so later; this does not wait.
pub(super) fn unprobe(pins: &Pins, id: FileId) {
    // An error means that the file has no probe.
    let _ = std::fs::remove_file(pins.path(&link_name(id)));
}

fn link_name(id: FileId) -> String {
    format!("{PREFIX}{:x}-{:x}-{:x}", id.device_major, id.device_minor, id.inode)
}

fn id_of_link(name: &str) -> Option<FileId> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-').map(|part| u64::from_str_radix(part, 16).ok());
    let mut part = || parts.next().flatten();
    let (device_major, device_minor) = (u32::try_from(part()?).ok()?, u32::try_from(part()?).ok()?);
    Some(FileId { device_major, device_minor, inode: part()?, generation: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_link_identifies_its_file() {
        let id = FileId { device_major: 0x103, device_minor: 2, inode: 0xffff_ffff_abcd, generation: None };
        assert_eq!(id_of_link(&link_name(id)), Some(id));
        assert_eq!(["page", "shim-", "shim-1-2"].map(id_of_link), [None; 3]);
    }
}
