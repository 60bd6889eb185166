//! Cuts a byte stream into packets.
//!
//! A trace is a sequence of `key, length, packet`. A writer that was killed leaves a cut tail, which is
//! reported but is no error; bytes that cannot be a packet are an error that names their place.

use std::io::{self, Read};

use super::wire::Malformed;
use crate::schema::PACKET_KEY;

/// Perfetto's own writers stay far below this; a longer length is a sign of garbage, or of an attempt to
/// exhaust memory.
const PACKET_LEN_MAX: u64 = 64 << 20;

/// What is read at once. The buffer grows for a longer packet, as its bytes come and not as it announces them.
const BUFFER_LEN: usize = 256 << 10;

/// Why reading a trace failed. Offsets are bytes from the beginning of the input.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input itself failed.
    #[error("read the trace at byte {offset}: {source}")]
    Io {
        /// Where.
        offset: u64,
        /// What the input said.
        source: io::Error,
    },
    /// There should be a packet here, but what is here cannot begin one.
    #[error("find a packet at byte {offset}: it begins with {found:#04x} instead of 0x0a")]
    NotAPacket {
        /// Where.
        offset: u64,
        /// The byte that was found.
        found: u8,
    },
    /// A packet claims an impossible length.
    #[error("believe the length of the packet at byte {offset}")]
    Length {
        /// Where the packet begins.
        offset: u64,
    },
    /// The inside of a packet is not what its fields announce.
    #[error("decode the packet at byte {offset}: {source}")]
    Malformed {
        /// Where the packet begins.
        offset: u64,
        /// What is wrong in it.
        source: Malformed,
    },
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Behind a whole packet.
    Whole,
    /// Inside a packet: its writer was killed, or the file was truncated.
    Cut {
        /// Where the cut packet begins, in bytes: the length of the whole packets.
        offset: u64,
        /// How much of it is there.
        kept_bytes: u64,
    },
}

#[derive(Debug)]
pub(super) struct Packets<R> {
    input: R,
    /// Of this, `start..end` has been read and not been used.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where the next packet begins, counted in whole packets that were understood.
    offset: u64,
    /// The length of the packet that was given out last.
    given_len: u64,
    tail: Tail,
}

impl<R: Read> Packets<R> {
    pub(super) fn new(input: R) -> Self {
        let buffer = vec![0; BUFFER_LEN];
        Self { input, buffer, start: 0, end: 0, offset: 0, given_len: 0, tail: Tail::Whole }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn tail(&self) -> Tail {
        self.tail
    }

    /// What is in the next packet, or `None` at the end of the input, whole or cut.
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
        self.given_len = len as u64;
        Ok(Some(&self.buffer[body]))
    }

    /// Says that the packet that was given out last was understood.
    pub(super) fn accept(&mut self) {
        self.offset += std::mem::take(&mut self.given_len);
    }

    /// Length of the packet's inside and of what precedes it; `None` if the input ends before that is said.
    fn body_len(&mut self) -> Result<Option<(usize, usize)>, ReadError> {
        let too_long = ReadError::Length { offset: self.offset };
        let mut value = 0_u64;
        for place in 0..10 {
            if !self.has(place + 2)? {
                return Ok(None);
            }
            let byte = self.buffer[self.start + place + 1];
            // The tenth byte has one significant bit; what it has too much falls off, and with it the
            // length becomes one that is refused or one that leads to garbage.
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return if value <= PACKET_LEN_MAX {
                    Ok(Some((value as usize, place + 2)))
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

    /// Whether so many bytes follow; reads until they do.
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

    /// Gives one byte a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn packets_of_any_length_are_found_however_they_come() {
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

    /// A length is believed when the bytes are there.
    #[test]
    fn an_announced_length_takes_no_memory() {
        let mut packets = Packets::new(&[0x0a, 0x80, 0x80, 0x80, 0x1f, 1, 2, 3][..]);
        assert_eq!(packets.next().unwrap(), None);
        assert_eq!(packets.tail(), Tail::Cut { offset: 0, kept_bytes: 8 });
        assert_eq!(packets.buffer.len(), BUFFER_LEN);
    }
}
