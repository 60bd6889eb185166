//! What controller and recorder say to each other, over a socket of their own of the same type.
//!
//! ```text
//!   recorder                          controller
//!   Record                ------->
//!                         <-------    RecordedRing, with its memory: one for the arbiter, then one for each process
//!                         <-------    RecordedRule, for each that has decided about calls
//!                         <-------    RecordRefused, and the end
//! ```
//!
//! The connection is the recording: when it ends, nobody writes any more.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::NAME_LEN_MAX;
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
    /// A [`RecordedRule`].
    Rule = 35,
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

/// What a rule is called by which calls are treated.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordedRule {
    /// [`RecordPacketKind::Rule`]
    pub kind: u32,
    /// Its number, see [`crate::verdict::RuleId`].
    pub number: u32,
    /// Bytes of `name`.
    pub name_len: u32,
    /// Zero.
    pub reserved: u32,
    /// Its name, or where it is written.
    pub name: [u8; NAME_LEN_MAX],
}

impl RecordedRule {
    /// A packet; what is too long of the name is cut.
    pub fn new(number: u16, name: &str) -> Self {
        let name_len = name.floor_char_boundary(NAME_LEN_MAX);
        let mut cut = [0; NAME_LEN_MAX];
        cut[..name_len].copy_from_slice(&name.as_bytes()[..name_len]);
        let kind = RecordPacketKind::Rule as u32;
        Self { kind, number: number.into(), name_len: name_len as u32, reserved: 0, name: cut }
    }

    /// The name.
    pub fn text(&self) -> &[u8] {
        &self.name[..(self.name_len as usize).min(NAME_LEN_MAX)]
    }
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
#[expect(clippy::large_enum_variant, reason = "it is read, looked at and forgotten; there is no heap here")]
pub enum ToRecorder {
    /// A ring, or its end.
    Ring(RecordedRing),
    /// What a rule is called.
    Rule(RecordedRule),
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
            kind if kind == RecordPacketKind::Rule as u32 => Ok(Self::Rule(whole(kind, packet)?)),
            kind if kind == RecordPacketKind::Refused as u32 => {
                let RecordRefused { reason, .. } = whole(kind, packet)?;
                let known = [RecordRefusal::Version, RecordRefusal::Busy, RecordRefusal::Full];
                Ok(Self::Refused(known.into_iter().find(|&one| one as u32 == reason)))
            }
            kind => Err(Malformed::Kind(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes as _;

    use super::*;

    #[test]
    fn a_rule_is_told_with_its_name_as_far_as_there_is_room() {
        let long = "\u{fc}".repeat(NAME_LEN_MAX);
        for (name, len) in [("", 0), ("collectives", 11), (&long, NAME_LEN_MAX)] {
            let packet = RecordedRule::new(7, name);
            let Ok(ToRecorder::Rule(read)) = ToRecorder::parse(packet.as_bytes()) else { panic!("refused") };
            assert_eq!((read.number, read.text()), (7, &name.as_bytes()[..len]));
        }
        assert!(ToRecorder::parse(&RecordedRule::new(1, "x").as_bytes()[1..]).is_err());
    }
}
