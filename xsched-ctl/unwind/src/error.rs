//! Why there is no table for a file.

use std::io;

/// Why an ELF file gave no table. Walks through it stop there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file does not begin as an ELF file does.
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
    /// Something is larger than in any real library.
    #[error("{what} of {count} is beyond reason")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Bytes, or how many.
        count: u64,
    },
    /// Reading failed.
    #[error("read failed: {0}")]
    Read(io::ErrorKind),
    /// A defect of this program, met with this file.
    #[error("building its unwind table panicked: please report the file")]
    Panicked,
}
