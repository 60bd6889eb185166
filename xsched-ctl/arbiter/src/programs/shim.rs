//! Probes the shim of a process: the very file that it has mapped, at the offset that this file itself names.

use std::fs::File;
use std::path::PathBuf;

use aya::programs::links::FdLink;
use aya::programs::{ProbeKind, UProbe};
use xsched_protocol::arbiter_page::REPORT_SYMBOL;
use xsched_symbols::{FileId, MappedFunction, find_function, symbol_file_offsets};

use super::pins::Pins;
use super::{ProgramsError, attach, create};

/// Beginning of the shim's file names. A shim with another name is found too, by its symbol.
const USUAL_NAME: &str = "libxsched_shim";

/// How the names of the links are made.
const PREFIX: &str = "shim-";

/// Builds of the shim that should be probed at once. Others than the shim can only make their own calls slower, but not without end.
pub const SHIMS_MAX: usize = 256;

/// A search for the shim of a process, which reads what the process has mapped: as much as that process likes.
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
    /// None: it is probed already.
    unprobed: Option<(File, u64)>,
}

/// The shim of a process, which is probed.
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
        // A link holds its file, so nobody else's has the same number.
        let found = find_function(pid, REPORT_SYMBOL, USUAL_NAME, |id| pins.join(link_name(id)).exists())
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
    /// The file that has it.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The same, to be read; none if it is probed already.
    pub fn unprobed(&self) -> Option<&File> {
        self.unprobed.as_ref().map(|(file, _)| file)
    }

    /// Sees to a probe, on any thread: it waits for as long as somebody takes others away, a tenth of a second for each.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it, or the file has been written since it was found.
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
            pinned => drop(pinned.map_err(|error| create::pin_error("the link of a shim", error))?),
        }
        Ok(ProbedShim(self.id))
    }
}

impl ProbedShim {
    /// The file that has it.
    pub fn id(&self) -> FileId {
        self.0
    }

    pub(super) fn is_there(&self, pins: &Pins) -> bool {
        pins.path(&link_name(self.0)).exists()
    }
}

/// Files that are probed.
pub(super) fn probed(pins: &Pins) -> Vec<FileId> {
    pins.names().filter_map(|name| id_of_link(name.to_str()?)).collect()
}

/// Takes the probe out of a file, which may take its time without anybody's waiting.
pub(super) fn unprobe(pins: &Pins, id: FileId) {
    // One that is not there is taken out.
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
    fn a_links_name_says_which_file_it_is_of() {
        let id = FileId { device_major: 0x103, device_minor: 2, inode: 0xffff_ffff_abcd, generation: None };
        assert_eq!(id_of_link(&link_name(id)), Some(id));
        assert_eq!(["page", "shim-", "shim-1-2"].map(id_of_link), [None; 3]);
    }
}
