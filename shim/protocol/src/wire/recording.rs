//! The packets that controller and recorder exchange, over a socket of their own of the same type.
//!
//! ```text
//!   recorder                          controller
//!   Record                ------->
//!                         <-------    RecordedRing, with its memory: one for the arbiter, then one for each process
//!                         <-------    RecordedRule, for each rule that has decided on calls
//!                         <-------    RecordShared, when another recorder was refused, or has been displaced
//!                         <-------    RecordRefused, then the end
//! ```
//!
//! The connection is the recording: when it ends, writing ends.

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
    /// A [`RecordShared`].
    Shared = 36,
}

/// A request to record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    /// [`RecordPacketKind::Record`]
    pub kind: u32,
    /// [`super::WIRE_VERSION`]
    pub version: u32,
}

/// A ring was added, or its writing has ended.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordedRing {
    /// [`RecordPacketKind::Ring`]
    pub kind: u32,
    /// Its number; 0 is the arbiter's.
    pub ring: u32,
    /// Its process, in the controller's pid namespace; 0 if it has no id there, or for the arbiter's.
    pub pid: u32,
    /// 1: its writing has ended, and no descriptor comes with this.
    pub is_over: u32,
}

/// The name of a rule that has decided on calls.
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
    /// Its name, or the position of its definition.
    pub name: [u8; NAME_LEN_MAX],
}

impl RecordedRule {
    /// A packet; a name that is too long is cut.
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

/// There is another recorder, whose probes have to see all calls: processes are not to record any themselves.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordShared {
    /// [`RecordPacketKind::Shared`]
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
}

impl RecordShared {
    /// The packet.
    pub const fn new() -> Self {
        Self { kind: RecordPacketKind::Shared as u32, reserved: 0 }
    }
}

impl Default for RecordShared {
    fn default() -> Self {
        Self::new()
    }
}

/// The recording is refused, or ends.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordRefused {
    /// [`RecordPacketKind::Refused`]
    pub kind: u32,
    /// A [`RecordRefusal`].
    pub reason: u32,
}

/// The reason for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RecordRefusal {
    /// Another version of recorder and controller.
    Version = 1,
    /// Another recording runs.
    Busy = 2,
    /// There is no memory for rings.
    Full = 3,
}

/// A packet of the controller to a recorder.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "it is read, used and dropped; there is no heap here")]
pub enum ToRecorder {
    /// A ring, or its end.
    Ring(RecordedRing),
    /// The name of a rule.
    Rule(RecordedRule),
    /// There is another recorder.
    Shared,
    /// The end; with a [`RecordRefusal`] if the reason is known here.
    Refused(Option<RecordRefusal>),
}

impl Record {
    /// Reads a packet.
    ///
    /// # Errors
    /// The packet is invalid.
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
    /// The packet is invalid.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        match kind(packet)? {
            kind if kind == RecordPacketKind::Ring as u32 => Ok(Self::Ring(whole(kind, packet)?)),
            kind if kind == RecordPacketKind::Rule as u32 => Ok(Self::Rule(whole(kind, packet)?)),
            kind if kind == RecordPacketKind::Shared as u32 => {
                whole::<RecordShared>(kind, packet).map(|_| Self::Shared)
            }
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
    fn that_a_recording_is_shared_is_a_packet_of_its_own() {
        let packet = RecordShared::new();
        assert!(matches!(ToRecorder::parse(packet.as_bytes()), Ok(ToRecorder::Shared)));
        assert!(ToRecorder::parse(&packet.as_bytes()[..4]).is_err());
    }

    #[test]
    fn a_rules_name_is_cut_to_its_field() {
        let long = "\u{fc}".repeat(NAME_LEN_MAX);
        for (name, len) in [("", 0), ("collectives", 11), (&long, NAME_LEN_MAX)] {
            let packet = RecordedRule::new(7, name);
            let Ok(ToRecorder::Rule(read)) = ToRecorder::parse(packet.as_bytes()) else { panic!("refused") };
            assert_eq!((read.number, read.text()), (7, &name.as_bytes()[..len]));
        }
        assert!(ToRecorder::parse(&RecordedRule::new(1, "x").as_bytes()[1..]).is_err());
    }
}
