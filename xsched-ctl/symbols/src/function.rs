//! Finds a function in the files that a process has mapped.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use crate::elf::symbol_file_offsets;
use crate::mapping::{FileId, Mapping};
use crate::maps::executable_mappings;
use crate::open::{Patience, open_mapped};

/// The file that has a function.
#[derive(Debug)]
pub enum MappedFunction {
    /// This file, which the caller knows already.
    Known(FileId),
    /// This file, at an offset from the file's symbol table.
    New {
        /// The file's identity.
        id: FileId,
        /// The file that the process has mapped.
        file: File,
        /// The offset at which the function begins.
        offset: u64,
    },
    /// The process has mapped no file with this function.
    Nowhere,
}

/// The file and the offset of the code at an address of this process. For probes at functions of this process.
///
/// # Errors
///
/// If this process's mappings cannot be read, if no file is mapped at the address, or if the file cannot be opened.
pub fn own_code(address: u64) -> io::Result<(File, u64)> {
    let pid = std::process::id();
    let mapping = executable_mappings(pid)?
        .into_iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&address))
        .ok_or_else(|| io::Error::other("the address is not in /proc/self/maps"))?;
    let file = open_mapped(pid, &mapping, Patience::Long).map_err(io::Error::other)?;
    Ok((file, address - mapping.start + mapping.file_offset))
}

/// How long a search may take. A process can map any number of files, and the caller waits while they are read.
const SEARCH_MAX: Duration = Duration::from_secs(1);

/// How the file names of shims begin, in the order in which they are searched. Where a process has several, all of them report
/// through the first one's function.
const SHIMS: [&str; 2] = ["libxsched_shim", "libxsched_cuda"];

/// Searches for the function `symbol` of a shim in the executable mappings of a process: in the files that are named like shims,
/// or in all others if there are none. Each file is searched once, however often it is mapped.
///
/// # Errors
///
/// If the process's mappings cannot be read, or if the search takes more than a second.
pub fn find_function(
    pid: u32,
    symbol: &str,
    is_known: impl Fn(FileId) -> bool,
) -> io::Result<MappedFunction> {
    let mut mappings = executable_mappings(pid)?;
    let rank = |mapping: &Mapping| SHIMS.iter().position(|name| mapping.library().starts_with(name));
    if mappings.iter().any(|mapping| rank(mapping).is_some()) {
        mappings.retain(|mapping| rank(mapping).is_some());
        mappings.sort_by_key(rank);
    }
    let (began, mut seen) = (Instant::now(), HashSet::new());
    for mapping in &mappings {
        let Some(id) = mapping.file.filter(|id| seen.insert(*id)) else { continue };
        if began.elapsed() > SEARCH_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the process has mapped too many files"));
        }
        if is_known(id) {
            return Ok(MappedFunction::Known(id));
        }
        let Ok(file) = open_mapped(pid, mapping, Patience::Long) else { continue };
        let found = symbol_file_offsets(&file, |name| name == symbol).unwrap_or_default();
        if let Some((_, offset)) = found.into_iter().next() {
            return Ok(MappedFunction::New { id, file, offset });
        }
    }
    Ok(MappedFunction::Nowhere)
}

/// Searches for the function `symbol` in one of the files that a process has mapped as code. Returns the file and the function's
/// offset there; none if the process has not mapped the file, or the file does not have the function. However many other files the
/// process has mapped, none of them is read.
///
/// # Errors
///
/// If the process's mappings cannot be read.
pub fn function_in(pid: u32, file: FileId, symbol: &str) -> io::Result<Option<(File, u64)>> {
    let mappings = executable_mappings(pid)?;
    let mapping = mappings.iter().find(|mapping| mapping.file == Some(file));
    let opened = mapping.and_then(|mapping| open_mapped(pid, mapping, Patience::Long).ok());
    let found = opened.and_then(|opened| {
        let found = symbol_file_offsets(&opened, |name| name == symbol).unwrap_or_default();
        found.into_iter().next().map(|(_, offset)| (opened, offset))
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_looked_for_in_the_one_file() {
        let pid = std::process::id();
        let mappings = executable_mappings(pid).unwrap();
        let library =
            |name: &str| mappings.iter().find(|mapping| mapping.library().starts_with(name)).unwrap();
        let libc = library("libc.so").file.unwrap();
        let (file, offset) = function_in(pid, libc, "getpid").unwrap().unwrap();
        let expected = symbol_file_offsets(&file, |name| name == "getpid").unwrap();
        assert_eq!(offset, expected[0].1);
        let loader = library("ld-").file.unwrap();
        assert!(function_in(pid, loader, "getpid").unwrap().is_none(), "it is in another file");
        let absent = FileId { inode: u64::MAX, ..libc };
        assert!(function_in(pid, absent, "getpid").unwrap().is_none());
    }
}
