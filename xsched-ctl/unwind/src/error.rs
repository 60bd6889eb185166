//! Errors of building a table.

use std::io;

/// Why there is no table for an ELF file. Walks stop at addresses in such a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum Error {
    #[error("not an ELF file")]
    NotElf,
    /// Code for another processor, or 32-bit code.
    #[error("not for x86-64")]
    OtherMachine,
    #[error("no executable segment")]
    NoCode,
    #[error("no unwind information: neither .eh_frame nor .debug_frame (-fno-asynchronous-unwind-tables?)")]
    NoUnwindInfo,
    #[error("corrupt ELF file: {0}")]
    Corrupt(&'static str),
    #[error("corrupt unwind information: {0}")]
    CorruptUnwindInfo(gimli::Error),
    /// A size or a count is larger than in any real library.
    #[error("{what} of {count} is too large")]
    TooLarge {
        what: &'static str,
        /// Its size in bytes, or the number of its elements.
        count: u64,
    },
    #[error("read failed: {0}")]
    Read(io::ErrorKind),
    /// A defect of this program, which the file has triggered.
    #[error("building the unwind table panicked: please report the file")]
    Panicked,
}
