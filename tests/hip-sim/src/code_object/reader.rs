//! Sequential reading of memory whose end may be unknown.

use core::slice;

use super::error::CodeObjectError;

/// A position in memory, and the number of bytes that may be read from there.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    next: *const u8,
    left: usize,
}

impl Reader {
    /// `len` is `usize::MAX` if only the contents give the length.
    pub(super) fn new(start: *const u8, len: usize) -> Self {
        Self { next: start, left: len }
    }

    /// Number of bytes that may still be read.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// # Safety
    ///
    /// `len` bytes from here on are readable for as long as the result is used. A shorter known length takes
    /// precedence.
    pub(super) unsafe fn bytes<'a>(&mut self, len: usize) -> Result<&'a [u8], CodeObjectError> {
        self.left = self.left.checked_sub(len).ok_or_else(cut)?;
        // SAFETY: the caller guarantees it, within the known length.
        unsafe {
            let bytes = slice::from_raw_parts(self.next, len);
            self.next = self.next.add(len);
            Ok(bytes)
        }
    }

    /// A little-endian number of at most eight bytes.
    ///
    /// # Safety
    ///
    /// As for [`bytes`](Self::bytes).
    pub(super) unsafe fn number(&mut self, len: usize) -> Result<u64, CodeObjectError> {
        // SAFETY: the caller upholds this function's contract.
        let bytes = unsafe { self.bytes(len)? };
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A part that begins `offset` bytes from here.
    ///
    /// # Safety
    ///
    /// As for [`bytes`](Self::bytes), for the part.
    pub(super) unsafe fn part<'a>(mut self, offset: u64, size: u64) -> Result<&'a [u8], CodeObjectError> {
        let (offset, size) = (offset as usize, size as usize);
        self.left = self.left.checked_sub(offset).ok_or_else(cut)?;
        self.next = self.next.wrapping_add(offset);
        // SAFETY: the caller upholds this function's contract.
        unsafe { self.bytes(size) }
    }
}

fn cut() -> CodeObjectError {
    CodeObjectError::Malformed("the data ends too early".into())
}
