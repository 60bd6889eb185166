//! The bytes of an ELF file: a file, or a copy in memory.
//!
//! Files are read, not mapped: if the owner of a mapped file truncates it, the reader gets SIGBUS.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use object::read::ReadCacheOps;

/// The source of an ELF file's bytes.
#[derive(Debug)]
pub enum Image {
    /// An open file. It may be deleted, and it may change or shrink while it is read.
    File(File),
    /// The whole contents: for an object without a file, such as the vDSO.
    Memory(Vec<u8>),
}

impl Image {
    /// Size in bytes.
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Fills `buffer` from `offset` on.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(buffer, offset),
            Self::Memory(bytes) => {
                let inside = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
                let inside = inside.and_then(|inside| inside.get(..buffer.len()));
                buffer.copy_from_slice(inside.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

impl From<File> for Image {
    fn from(file: File) -> Self {
        Self::File(file)
    }
}

/// An image with a position, for the `object` crate.
#[derive(Debug)]
pub(crate) struct Positioned<'image> {
    pub(crate) image: &'image Image,
    pub(crate) position: u64,
}

impl ReadCacheOps for Positioned<'_> {
    fn len(&mut self) -> Result<u64, ()> {
        self.image.len().map_err(drop)
    }

    fn seek(&mut self, position: u64) -> Result<u64, ()> {
        self.position = position;
        Ok(position)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ()> {
        let left = self.image.len().map_err(drop)?.saturating_sub(self.position);
        let count = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        self.read_exact(&mut buffer[..count])?;
        Ok(count)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ()> {
        self.image.read_exact_at(buffer, self.position).map_err(drop)?;
        self.position += buffer.len() as u64;
        Ok(())
    }
}
