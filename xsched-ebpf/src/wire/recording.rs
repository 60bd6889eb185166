//! What controller and recorder say to each other, over a socket of their own of the same type.
//!
//! ```text
//!   recorder                          controller
//!   Record                ------->
//!                         <-------    RecordedRing, with its memory: one for the arbiter, then one for each process
//!                         <-------    RecordRefused, and the end
//! ```
//!
//! The connection is the recording: when it ends, nobody writes any more.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::decode::{Malformed, kind, whole};

/// File name of the socket that recorders connect to, in the controller's folder.
pub const RECORD_SOCKET: &str = "record.sock";

/// First word of every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RecordPacketKind {
    /// A [`Record`].
    Record = 32,
    /// A [`RecordedRing`].
    Ring = 33,
    /// A [`RecordRefused`].
    Refused = 34,
}

/// Somebody wants to record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    /// [`RecordPacketKind::Record`]
    pub kind: u32,
    /// [`super::WIRE_VERSION`]
    pub version: u32,
}

/// There is one more ring, or no more will be written to one.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordedRing {
    /// [`RecordPacketKind::Ring`]
    pub kind: u32,
    /// Its number; 0 is the arbiter's.
    pub ring: u32,
    /// Its process, in the controller's pid namespace; 0 if it has no id there, or for the arbiter's.
    pub pid: u32,
    /// 1: nobody writes to it any more, and no descriptor comes with this.
    pub is_over: u32,
}

/// Nothing is recorded, or not any more.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordRefused {
    /// [`RecordPacketKind::Refused`]
    pub kind: u32,
    /// A [`RecordRefusal`].
    pub reason: u32,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RecordRefusal {
    /// Another version of recorder and controller.
    Version = 1,
    /// Somebody else records.
    Busy = 2,
    /// There is no memory for rings.
    Full = 3,
}

/// What the controller says to a recorder.
#[derive(Clone, Copy, Debug)]
pub enum ToRecorder {
    /// A ring, or its end.
    Ring(RecordedRing),
    /// The end; a [`RecordRefusal`] if the reason is known here.
    Refused(Option<RecordRefusal>),
}

impl Record {
    /// Reads a packet.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        match kind(packet)? {
            kind if kind == RecordPacketKind::Record as u32 => whole(kind, packet),
            kind => Err(Malformed::Kind(kind)),
        }
    }
}

impl ToRecorder {
    /// Reads one packet.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        match kind(packet)? {
            kind if kind == RecordPacketKind::Ring as u32 => Ok(Self::Ring(whole(kind, packet)?)),
            kind if kind == RecordPacketKind::Refused as u32 => {
                let RecordRefused { reason, .. } = whole(kind, packet)?;
                let known = [RecordRefusal::Version, RecordRefusal::Busy, RecordRefusal::Full];
                Ok(Self::Refused(known.into_iter().find(|&one| one as u32 == reason)))
            }
            kind => Err(Malformed::Kind(kind)),
        }
    }
}
