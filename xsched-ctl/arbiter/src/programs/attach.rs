//! Attaches programs to files.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeLinkId, UProbeScope};

use super::error::ProgramsError;

/// Attaches a program at an offset of a file, for all processes.
pub(super) fn attach(
    program: &mut UProbe,
    name: &'static str,
    file: &File,
    offset: u64,
) -> Result<UProbeLinkId, ProgramsError> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    program
        .attach(UProbeAttachLocation::AbsoluteOffset(offset), path, UProbeScope::AllProcesses)
        .map_err(|cause| ProgramsError::Program { program: name, cause: Box::new(cause) })
}
