//! Errors of building a table.

use std::io;

/// Why there is no table for an ELF file. Walks stop at addresses in such a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file does not begin with ELF's magic number.
    #[error("not an ELF file")]
    NotElf,
    /// Code for another processor, or 32-bit code.
    #[error("not for x86-64")]
    OtherMachine,
    /// No segment is executable.
    #[error("no executable segment")]
    NoCode,
    /// Neither `.eh_frame` nor `.debug_frame`.
    #[error("no unwind information: neither .eh_frame nor .debug_frame (-fno-asynchronous-unwind-tables?)")]
    NoUnwindInfo,
    /// A header or table contradicts itself or the file's size.
    #[error("corrupt ELF file: {0}")]
    Corrupt(&'static str),
    /// The unwind section cannot be parsed.
    #[error("corrupt unwind information: {0}")]
    CorruptUnwindInfo(gimli::Error),
    /// A size or a count is larger than in any real library.
    #[error("{what} of {count} is too large")]
    TooLarge {
        /// The object.
        what: &'static str,
        /// Its size in bytes, or the number of its elements.
        count: u64,
    },
    /// Reading failed.
    #[error("read failed: {0}")]
    Read(io::ErrorKind),
    /// A defect of this program, which the file has triggered.
    #[error("building the unwind table panicked: please report the file")]
    Panicked,
}
