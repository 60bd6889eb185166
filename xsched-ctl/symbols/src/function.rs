//! Finding a function that a process has mapped, in whatever file it is.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use crate::elf::symbol_file_offsets;
use crate::mapping::FileId;
use crate::maps::executable_mappings;
use crate::open::open_mapped;

/// Where a function is.
#[derive(Debug)]
pub enum MappedFunction {
    /// In this file, which was known before.
    Known(FileId),
    /// In this file, at an offset that the file itself names.
    New {
        /// Which one.
        id: FileId,
        /// The very file that the process has mapped.
        file: File,
        /// Where in it the function begins.
        offset: u64,
    },
    /// The process has mapped no file with this function.
    Nowhere,
}

/// Where the code at an address of this process is: the very file that it runs, and the offset there. For probes at
/// functions of its own.
///
/// # Errors
///
/// If this process's mappings cannot be read, no file is mapped there, or it cannot be opened.
pub fn own_code(address: u64) -> io::Result<(File, u64)> {
    let pid = std::process::id();
    let mapping = executable_mappings(pid)?
        .into_iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&address))
        .ok_or_else(|| io::Error::other("it is not in /proc/self/maps"))?;
    let file = open_mapped(pid, &mapping).map_err(io::Error::other)?;
    Ok((file, address - mapping.start + mapping.file_offset))
}

/// How long a search may take. A process may map what it likes, and its files are read on somebody else's time.
const SEARCH_MAX: Duration = Duration::from_secs(1);

/// Looks for the function `symbol` in what a process has mapped to run: first in files whose names begin with
/// `usual_name`, then in all others. Each file is looked at once, however often it is mapped.
///
/// # Errors
///
/// If the process's mappings cannot be read, or it takes more than a second to look through its files.
pub fn find_function(
    pid: u32,
    symbol: &str,
    usual_name: &str,
    is_known: impl Fn(FileId) -> bool,
) -> io::Result<MappedFunction> {
    let mut mappings = executable_mappings(pid)?;
    mappings.sort_by_key(|mapping| !mapping.library().starts_with(usual_name));
    let (began, mut seen) = (Instant::now(), HashSet::new());
    for mapping in &mappings {
        let Some(id) = mapping.file.filter(|id| seen.insert(*id)) else { continue };
        if began.elapsed() > SEARCH_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "there are too many files"));
        }
        if is_known(id) {
            return Ok(MappedFunction::Known(id));
        }
        let Ok(file) = open_mapped(pid, mapping) else { continue };
        let found = symbol_file_offsets(&file, |name| name == symbol).unwrap_or_default();
        if let Some((_, offset)) = found.into_iter().next() {
            return Ok(MappedFunction::New { id, file, offset });
        }
    }
    Ok(MappedFunction::Nowhere)
}
