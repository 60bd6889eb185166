//! Cuts a byte stream into packets.
//!
//! A trace is a sequence of `key, length, packet`. A writer that was killed leaves a cut tail, which is
//! reported but is not an error. Bytes that cannot be a packet are an error with their offset.

use std::io::{self, Read};

use super::wire::Malformed;
use crate::schema::PACKET_KEY;

/// Perfetto's own writers stay far below this. A longer length means that the file is damaged, or an attempt
/// to exhaust memory.
const PACKET_LEN_MAX: u64 = 64 << 20;

/// The size of a read. For a longer packet the buffer grows with the bytes that arrive, not with the announced length.
const BUFFER_LEN: usize = 256 << 10;

/// Why reading a trace failed. Offsets are bytes from the beginning of the input.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input itself failed.
    #[error("read the trace at byte {offset}: {source}")]
    Io {
        /// Where reading failed.
        offset: u64,
        /// The error of the input.
        source: io::Error,
    },
    /// A packet was expected, but the byte at this offset cannot begin one.
    #[error("find a packet at byte {offset}: it begins with {found:#04x} instead of 0x0a")]
    NotAPacket {
        /// Where the packet was expected.
        offset: u64,
        /// The byte that was found.
        found: u8,
    },
    /// A packet announces an impossible length.
    #[error("accept the length of the packet at byte {offset}: it is more than 64 MiB")]
    Length {
        /// Where the packet begins.
        offset: u64,
    },
    /// The contents of a packet are not valid.
    #[error("decode the packet at byte {offset}: {source}")]
    Malformed {
        /// Where the packet begins.
        offset: u64,
        /// What is wrong in the packet.
        source: Malformed,
    },
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// After a whole packet.
    Whole,
    /// Inside a packet: its writer was killed, or the file was truncated.
    Cut {
        /// Where the cut packet begins, in bytes: the length of the whole packets.
        offset: u64,
        /// How many bytes of it exist.
        kept_bytes: u64,
    },
}

#[derive(Debug)]
pub(super) struct Packets<R> {
    input: R,
    /// `start..end` of this has been read from the input and not been returned.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where the next packet begins: the end of the last packet that was accepted.
    offset: u64,
    /// The length of the packet that was returned last, until it is accepted.
    returned_len: u64,
    tail: Tail,
}

impl<R: Read> Packets<R> {
    pub(super) fn new(input: R) -> Self {
        let buffer = vec![0; BUFFER_LEN];
        Self { input, buffer, start: 0, end: 0, offset: 0, returned_len: 0, tail: Tail::Whole }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn tail(&self) -> Tail {
        self.tail
    }

    /// The contents of the next packet, or `None` at the end of the input, whether that is whole or cut.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        let offset = self.offset;
        if !self.has(1)? {
            return Ok(None);
        }
        let found = self.buffer[self.start];
        if found != PACKET_KEY {
            return Err(ReadError::NotAPacket { offset, found });
        }
        let Some((body_len, head_len)) = self.body_len()? else { return Ok(self.cut()) };
        let len = head_len + body_len;
        if !self.has(len)? {
            return Ok(self.cut());
        }
        let body = self.start + head_len..self.start + len;
        self.start = body.end;
        self.returned_len = len as u64;
        Ok(Some(&self.buffer[body]))
    }

    /// Accepts the packet that was returned last: it could be decoded.
    pub(super) fn accept(&mut self) {
        self.offset += std::mem::take(&mut self.returned_len);
    }

    /// The length of the packet's contents and of its header; `None` if the input ends inside the header.
    fn body_len(&mut self) -> Result<Option<(usize, usize)>, ReadError> {
        let too_long = ReadError::Length { offset: self.offset };
        let mut value = 0_u64;
        for index in 0..10 {
            if !self.has(index + 2)? {
                return Ok(None);
            }
            let byte = self.buffer[self.start + index + 1];
            // The tenth byte has one significant bit, and its other bits are dropped. A length with such bits
            // is refused, or leads to bytes that are not a packet.
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return if value <= PACKET_LEN_MAX {
                    Ok(Some((value as usize, index + 2)))
                } else {
                    Err(too_long)
                };
            }
        }
        Err(too_long)
    }

    fn cut<T>(&mut self) -> Option<T> {
        self.tail = Tail::Cut { offset: self.offset, kept_bytes: (self.end - self.start) as u64 };
        None
    }

    /// Whether at least `len` more bytes exist; reads until they are in the buffer.
    #[inline]
    fn has(&mut self, len: usize) -> Result<bool, ReadError> {
        Ok(self.end - self.start >= len || self.fill(len)?)
    }

    fn fill(&mut self, len: usize) -> Result<bool, ReadError> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < len {
            if self.end == self.buffer.len() {
                self.buffer.resize((2 * self.end).min(len), 0);
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { offset: self.offset, source }),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn packets_of_any_length_are_found_in_reads_of_any_size() {
        let lengths = [0, 1, 127, 128, 5_000, BUFFER_LEN - 3, BUFFER_LEN, 3 * BUFFER_LEN, 7];
        let mut trace = Vec::new();
        for (number, len) in lengths.into_iter().enumerate() {
            prost::encoding::bytes::encode(1, &vec![number as u8; len], &mut trace);
        }
        let seen = |input: &mut dyn Read| {
            let mut packets = Packets::new(input);
            let mut seen = Vec::new();
            while let Some(body) = packets.next().unwrap() {
                assert!(body.iter().all(|byte| usize::from(*byte) == seen.len()));
                seen.push(body.len());
                packets.accept();
            }
            assert_eq!((packets.offset(), packets.tail()), (trace.len() as u64, Tail::Whole));
            seen
        };
        assert_eq!(seen(&mut &*trace), lengths);
        assert_eq!(seen(&mut Slow(&trace)), lengths);
    }

    /// Memory is allocated for the bytes that exist, not for the announced length.
    #[test]
    fn an_announced_length_takes_no_memory() {
        let mut packets = Packets::new(&[0x0a, 0x80, 0x80, 0x80, 0x1f, 1, 2, 3][..]);
        assert_eq!(packets.next().unwrap(), None);
        assert_eq!(packets.tail(), Tail::Cut { offset: 0, kept_bytes: 8 });
        assert_eq!(packets.buffer.len(), BUFFER_LEN);
    }
}
