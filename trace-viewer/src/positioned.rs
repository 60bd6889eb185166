//! Reads a file from a position of its own, so that several readers can share one descriptor.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt as _,
};

/// A reader with its own position in `file`.
pub(crate) struct PositionedReader<'a> {
    file: &'a File,
    offset: u64,
}

impl<'a> PositionedReader<'a> {
    /// Reads from the beginning of `file`.
    pub(crate) fn new(file: &'a File) -> Self {
        Self { file, offset: 0 }
    }
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
