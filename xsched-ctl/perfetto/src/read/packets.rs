//! Cuts a byte stream into packets.
//!
//! A trace is a sequence of `key, length, packet`. A writer that was killed leaves a cut tail, which is
//! reported but is no error; bytes that cannot be a packet are an error that names their place.

use std::io::{self, BufRead, BufReader, Read};

use prost::Message;

use crate::schema::{PACKET_KEY, TracePacket};

/// Perfetto's own writers stay far below this; a longer length is a sign of garbage, or of an attempt to
/// exhaust memory.
const PACKET_LEN_MAX: u64 = 64 << 20;

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
        source: prost::DecodeError,
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
    input: BufReader<R>,
    /// Where the next packet begins.
    offset: u64,
    tail: Tail,
    body: Vec<u8>,
}

/// A number that the input ended in, or did not.
enum Varint {
    Whole { value: u64, len: u64 },
    Cut { len: u64 },
}

impl<R: Read> Packets<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::new(input), offset: 0, tail: Tail::Whole, body: Vec::new() }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn tail(&self) -> Tail {
        self.tail
    }

    /// The next packet, or `None` at the end of the input, whole or cut.
    pub(super) fn next(&mut self) -> Result<Option<TracePacket>, ReadError> {
        let offset = self.offset;
        let Some(key) = self.byte()? else { return Ok(None) };
        if key != PACKET_KEY {
            return Err(ReadError::NotAPacket { offset, found: key });
        }
        let (body_len, length_len) = match self.varint()? {
            Varint::Whole { value, len } if value <= PACKET_LEN_MAX => (value, len),
            Varint::Whole { .. } => return Err(ReadError::Length { offset }),
            Varint::Cut { len } => return Ok(self.cut(1 + len)),
        };
        self.body.clear();
        let read = self.input.by_ref().take(body_len).read_to_end(&mut self.body);
        let read = read.map_err(|source| ReadError::Io { offset, source })? as u64;
        if read < body_len {
            return Ok(self.cut(1 + length_len + read));
        }
        let packet = TracePacket::decode(&*self.body);
        let packet = packet.map_err(|source| ReadError::Malformed { offset, source })?;
        self.offset += 1 + length_len + body_len;
        Ok(Some(packet))
    }

    fn cut(&mut self, kept_bytes: u64) -> Option<TracePacket> {
        self.tail = Tail::Cut { offset: self.offset, kept_bytes };
        None
    }

    fn byte(&mut self) -> Result<Option<u8>, ReadError> {
        let offset = self.offset;
        loop {
            match self.input.fill_buf() {
                Ok(available) => {
                    let byte = available.first().copied();
                    self.input.consume(usize::from(byte.is_some()));
                    return Ok(byte);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { offset, source }),
            }
        }
    }

    fn varint(&mut self) -> Result<Varint, ReadError> {
        let mut value = 0_u64;
        for len in 0..10 {
            let Some(byte) = self.byte()? else { return Ok(Varint::Cut { len }) };
            // The tenth byte has one significant bit; what it has too much falls off, and with it the
            // length becomes one that is refused or one that leads to garbage.
            value |= u64::from(byte & 0x7f) << (7 * len);
            if byte & 0x80 == 0 {
                return Ok(Varint::Whole { value, len: len + 1 });
            }
        }
        Err(ReadError::Length { offset: self.offset })
    }
}
