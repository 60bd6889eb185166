//! Decodes packets.
//!
//! Both sides read packets of a peer that they do not trust. A packet is refused unless this side may receive its kind, it has
//! the length of that kind, and its reserved words are zero.

use core::fmt;

use zerocopy::FromBytes;

use super::{
    Domain, Events, Hello, Hints, KernelName, NAME_LEN_MAX, ORIGINS_MAX, OpenClaim, Opened, OriginName,
    OriginTime, OriginUsage, PacketKind, Refusal, Reported, Rules, SETTINGS_LEN_MAX, SchedulingDomain,
    Settings, Usage, Verdicts, WIRE_VERSION, Welcome,
};
use crate::arbiter_page::is_device_key;

/// Length of the longest packet, apart from the text after a [`Settings`]. A receiver with a buffer that is one byte longer can detect a longer one.
pub const PACKET_LEN_MAX: usize = 16 + NAME_LEN_MAX;

/// An invalid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Too short for a kind.
    NoKind(usize),
    /// This side does not receive packets of this kind.
    Kind(u32),
    /// Packets of this kind have another length.
    Length {
        /// Its kind.
        kind: u32,
        /// Its length.
        len: usize,
    },
    /// A `Hello` of another version of the protocol, in which it may have another length.
    Version(u32),
    /// A reserved word is not zero.
    Reserved(u32),
    /// A number without a meaning, or a text longer than its field.
    Value(u32),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKind(len) => write!(f, "a packet of {len} bytes"),
            Self::Kind(kind) => write!(f, "a packet of kind {kind}"),
            Self::Length { kind, len } => write!(f, "a packet of kind {kind} with {len} bytes"),
            Self::Version(version) => write!(f, "a hello in version {version} of the protocol"),
            Self::Reserved(kind) => {
                write!(f, "a packet of kind {kind} with a reserved word that is not zero")
            }
            Self::Value(kind) => write!(f, "a packet of kind {kind} with a number that has no meaning"),
        }
    }
}

impl core::error::Error for Malformed {}

/// Reads a packet as the variant that its kind names, if it is one of these.
macro_rules! parse_as {
    ($kind:ident, $packet:ident: $($name:ident)*) => {
        match $kind {
            $(kind if kind == PacketKind::$name as u32 => whole(kind, $packet).map(Self::$name),)*
            kind => Err(Malformed::Kind(kind)),
        }
    };
}

/// A packet of a shim.
#[derive(Clone, Copy, Debug)]
pub enum FromShim {
    /// Its first packet.
    Hello(Hello),
    /// A process will use a device.
    OpenClaim(OpenClaim),
    /// A report that no program sees.
    Reported(Reported),
    /// The use of a claim.
    Usage(Usage),
    /// The scheduling domain of a library.
    Domain(Domain),
    /// The name of a kernel.
    KernelName(KernelName),
    /// Rules of the process's user.
    Settings(Settings),
    /// The name of an origin.
    OriginName(OriginName),
    /// How a claim's device time divides among origins.
    OriginUsage(OriginUsage),
    /// What the process asks for from now on.
    Hints(Hints),
}

impl FromShim {
    /// Reads one packet. The text after a [`Settings`] is not looked at.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        Self::parse_beginning(packet, packet.len())
    }

    /// Reads a packet of this length, of which only the first [`PACKET_LEN_MAX`] bytes need be there.
    pub fn parse_beginning(packet: &[u8], len: usize) -> Result<Self, Malformed> {
        let kind = kind(packet)?;
        let packet = if kind == PacketKind::Settings as u32 {
            settings_of(packet, len)?
        } else if len == packet.len() {
            packet
        } else {
            return Err(Malformed::Length { kind, len });
        };
        let parsed = parse_as!(kind, packet: Hello OpenClaim Reported Usage Domain KernelName Settings OriginName OriginUsage Hints);
        let parsed = match parsed {
            Err(error) if kind == PacketKind::Hello as u32 => {
                return Err(another_version(packet).unwrap_or(error));
            }
            parsed => parsed?,
        };
        let reserved = match parsed {
            Self::Usage(packet) => packet.reserved,
            Self::Domain(packet) => packet.reserved,
            Self::KernelName(packet) => packet.reserved,
            Self::OriginName(packet) => packet.reserved,
            Self::Hints(packet) => packet.reserved,
            Self::OriginUsage(packet) => packet.times.iter().fold(0, |all, time| all | time.reserved),
            Self::Hello(_) | Self::OpenClaim(_) | Self::Reported(_) | Self::Settings(_) => 0,
        };
        let makes_sense = match &parsed {
            Self::Domain(packet) => {
                SchedulingDomain::from_number(packet.domain).is_some()
                    && packet.path_len as usize <= NAME_LEN_MAX
            }
            Self::KernelName(packet) => packet.name_len as usize <= NAME_LEN_MAX,
            Self::OriginName(packet) => packet.id < ORIGINS_MAX && packet.name_len as usize <= NAME_LEN_MAX,
            Self::OriginUsage(packet) => {
                let unused = packet.times.get(packet.count as usize..);
                unused.is_some_and(|unused| unused.iter().all(|time| *time == OriginTime::default()))
            }
            Self::Settings(packet) => packet.len <= SETTINGS_LEN_MAX,
            Self::OpenClaim(packet) => is_device_key(packet.device),
            Self::Hello(_) | Self::Reported(_) | Self::Usage(_) | Self::Hints(_) => true,
        };
        match (reserved, makes_sense) {
            (0, true) => Ok(parsed),
            (0, false) => Err(Malformed::Value(kind)),
            _ => Err(Malformed::Reserved(kind)),
        }
    }
}

/// The structure before a text of the length that it says.
fn settings_of(packet: &[u8], len: usize) -> Result<&[u8], Malformed> {
    let malformed = Malformed::Length { kind: PacketKind::Settings as u32, len };
    let (settings, _) = Settings::read_from_prefix(packet).map_err(|_| malformed)?;
    let is_whole = len == size_of::<Settings>() + settings.len as usize;
    packet.get(..size_of::<Settings>()).filter(|_| is_whole).ok_or(malformed)
}

/// A packet of the controller.
#[derive(Clone, Copy, Debug)]
pub enum FromController {
    /// The process is accepted.
    Welcome(Welcome),
    /// A claim is open.
    Opened(Opened),
    /// The connection ends.
    Refusal(Refusal),
    /// Programs decide on calls.
    Verdicts(Verdicts),
    /// The process decides on calls.
    Rules(Rules),
    /// A recording begins or ends.
    Events(Events),
}

impl FromController {
    /// Reads one packet.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let kind = kind(packet)?;
        parse_as!(kind, packet: Welcome Opened Refusal Verdicts Rules Events)
    }
}

pub(super) fn kind(packet: &[u8]) -> Result<u32, Malformed> {
    let (kind, _) = u32::read_from_prefix(packet).map_err(|_| Malformed::NoKind(packet.len()))?;
    Ok(kind)
}

/// Finds a `Hello` of another version, which may have another length. Its first two words are the same in all versions.
fn another_version(packet: &[u8]) -> Option<Malformed> {
    let (_, rest) = u32::read_from_prefix(packet).ok()?;
    let (version, _) = u32::read_from_prefix(rest).ok()?;
    (version != WIRE_VERSION).then_some(Malformed::Version(version))
}

pub(super) fn whole<T: FromBytes>(kind: u32, packet: &[u8]) -> Result<T, Malformed> {
    T::read_from_bytes(packet).map_err(|_| Malformed::Length { kind, len: packet.len() })
}

const _: () = assert!(size_of::<Hello>() <= PACKET_LEN_MAX && size_of::<Usage>() <= PACKET_LEN_MAX);
const _: () = assert!(size_of::<Welcome>() <= PACKET_LEN_MAX && size_of::<OpenClaim>() <= PACKET_LEN_MAX);
const _: () = assert!(size_of::<Domain>() <= PACKET_LEN_MAX && size_of::<KernelName>() <= PACKET_LEN_MAX);
const _: () =
    assert!(size_of::<OriginName>() <= PACKET_LEN_MAX && size_of::<OriginUsage>() <= PACKET_LEN_MAX);

#[cfg(test)]
mod tests {
    extern crate std;

    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::super::ORIGIN_TIMES_MAX;
    use super::*;

    fn hello() -> Hello {
        Hello { kind: PacketKind::Hello as u32, version: WIRE_VERSION, ..Hello::new_zeroed() }
    }

    #[test]
    fn a_whole_packet_is_read() {
        assert!(matches!(FromShim::parse(hello().as_bytes()), Ok(FromShim::Hello(_))));
        let usage = Usage { kind: PacketKind::Usage as u32, device_ns: 7, ..Usage::new_zeroed() };
        assert!(
            matches!(FromShim::parse(usage.as_bytes()), Ok(FromShim::Usage(read)) if read.device_ns == 7)
        );
        let opened = Opened { kind: PacketKind::Opened as u32, slot: 3, ..Opened::new_zeroed() };
        assert!(matches!(
            FromController::parse(opened.as_bytes()),
            Ok(FromController::Opened(read)) if read.slot == 3
        ));
    }

    #[test]
    fn packets_of_the_other_side_are_refused() {
        let welcome = Welcome { kind: PacketKind::Welcome as u32, ..Welcome::new_zeroed() };
        assert_eq!(FromShim::parse(welcome.as_bytes()).unwrap_err(), Malformed::Kind(2));
        assert_eq!(FromController::parse(hello().as_bytes()).unwrap_err(), Malformed::Kind(1));
    }

    #[test]
    fn packets_of_another_length_are_refused() {
        let packet = hello();
        let bytes = packet.as_bytes();
        for len in 0..4 {
            assert_eq!(FromShim::parse(&bytes[..len]).unwrap_err(), Malformed::NoKind(len));
        }
        for len in 4..bytes.len() {
            assert_eq!(FromShim::parse(&bytes[..len]).unwrap_err(), Malformed::Length { kind: 1, len });
        }
        let longer = [bytes, &[0]].concat();
        assert_eq!(FromShim::parse(&longer).unwrap_err(), Malformed::Length { kind: 1, len: longer.len() });
    }

    /// A process of another version is told the reason for its refusal; its packet may be longer or shorter.
    #[test]
    fn a_hello_of_another_version_is_recognised_at_any_length() {
        let packet = Hello { version: WIRE_VERSION + 1, ..hello() };
        let bytes = packet.as_bytes();
        for other in [&bytes[..8], &bytes[..bytes.len() - 1], &[bytes, &[0; 16]].concat()] {
            assert_eq!(FromShim::parse(other).unwrap_err(), Malformed::Version(WIRE_VERSION + 1));
        }
        assert!(
            matches!(FromShim::parse(bytes), Ok(FromShim::Hello(read)) if read.version == WIRE_VERSION + 1)
        );
    }

    #[test]
    fn reserved_words_are_zero() {
        let packet = Usage { kind: PacketKind::Usage as u32, reserved: 1, ..Usage::new_zeroed() };
        assert_eq!(FromShim::parse(packet.as_bytes()).unwrap_err(), Malformed::Reserved(6));
    }

    #[test]
    fn a_claim_is_of_a_device() {
        let packet = OpenClaim { kind: PacketKind::OpenClaim as u32, device: 7, ..OpenClaim::new_zeroed() };
        assert_eq!(FromShim::parse(packet.as_bytes()).unwrap_err(), Malformed::Value(3));
    }

    #[test]
    fn texts_are_as_long_as_they_say() {
        let long = [b'x'; NAME_LEN_MAX + 1];
        for text in [&b""[..], b"/opt/rocm/lib/librccl.so.1", &long] {
            let packet = Domain::new(SchedulingDomain::System as u32, text);
            let Ok(FromShim::Domain(read)) = FromShim::parse(packet.as_bytes()) else { panic!("refused") };
            assert_eq!(read.text(), &text[..text.len().min(NAME_LEN_MAX)]);
        }
        let name = KernelName { name_len: NAME_LEN_MAX as u32 + 1, ..KernelName::new(3, b"gemm") };
        assert_eq!(FromShim::parse(name.as_bytes()).unwrap_err(), Malformed::Value(11));
        assert_eq!(FromShim::parse(Domain::new(3, b"x").as_bytes()).unwrap_err(), Malformed::Value(10));
    }

    #[test]
    fn a_claims_time_has_as_many_parts_as_it_says() {
        let part = |origin| OriginTime { origin, reserved: 0, device_ns: 7 };
        let parts: std::vec::Vec<_> = (1..40).map(part).collect();
        for count in [0, 1, ORIGIN_TIMES_MAX, 39] {
            let packet = OriginUsage::new(3, 4, &parts[..count]);
            let Ok(FromShim::OriginUsage(read)) = FromShim::parse(packet.as_bytes()) else {
                panic!("refused")
            };
            assert_eq!((read.slot, read.parts()), (3, &parts[..count.min(ORIGIN_TIMES_MAX)]));
        }
        let two = OriginUsage::new(3, 4, &parts[..2]);
        for count in [0, 1, 26, u32::MAX] {
            let packet = OriginUsage { count, ..two };
            assert_eq!(FromShim::parse(packet.as_bytes()).unwrap_err(), Malformed::Value(14), "{count}");
        }
        let reserved = OriginUsage::new(3, 4, &[OriginTime { reserved: 1, ..part(1) }]);
        assert_eq!(FromShim::parse(reserved.as_bytes()).unwrap_err(), Malformed::Reserved(14));
        let unnumbered = OriginName::new(ORIGINS_MAX, b"libx.so");
        assert_eq!(FromShim::parse(unnumbered.as_bytes()).unwrap_err(), Malformed::Value(13));
    }

    #[test]
    fn a_text_is_as_long_as_its_settings_say() {
        let longest = Settings { kind: PacketKind::Settings as u32, len: SETTINGS_LEN_MAX };
        let whole = 8 + SETTINGS_LEN_MAX as usize;
        let beginning = [longest.as_bytes(), &[b'x'; PACKET_LEN_MAX - 8]].concat();
        let read = FromShim::parse_beginning(&beginning, whole);
        assert!(matches!(read, Ok(FromShim::Settings(read)) if read.len == SETTINGS_LEN_MAX));
        for len in [8, PACKET_LEN_MAX, whole - 1, whole + 1] {
            let refused = FromShim::parse_beginning(&beginning, len).unwrap_err();
            assert_eq!(refused, Malformed::Length { kind: 12, len });
        }
        let longer = Settings { len: SETTINGS_LEN_MAX + 1, ..longest };
        let refused = FromShim::parse_beginning(longer.as_bytes(), whole + 1).unwrap_err();
        assert_eq!(refused, Malformed::Value(12));
        let other = FromShim::parse_beginning(&[&[5; 1][..], &[0; 23]].concat(), whole).unwrap_err();
        assert_eq!(other, Malformed::Length { kind: 5, len: whole });
    }

    /// Random bytes, and valid packets with random damage, are read or refused; what is read equals what was sent.
    #[test]
    fn random_packets_are_read_whole_or_refused() {
        let seed = fastrand::u64(..);
        std::println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut next = || random.u64(..);
        let (mut read, mut refused) = (0, 0);
        for _ in 0..200_000 {
            // Mostly one of the valid lengths, or nearly.
            let len = match next() % 4 {
                0 => next() % (PACKET_LEN_MAX as u64 + 2),
                1 => PACKET_LEN_MAX as u64 + next() % 2,
                _ => 24 + 8 * (next() % 4),
            } as usize;
            let mut packet: std::vec::Vec<u8> = (0..len).map(|_| next() as u8).collect();
            // Otherwise hardly any would have a valid kind.
            if let Some(first) = packet.first_chunk_mut::<4>() {
                *first = (next() as u32 % 18).to_le_bytes();
            }
            // Otherwise hardly any would be valid.
            if len == PACKET_LEN_MAX {
                packet[4..16].fill(0);
                packet[8] = next() as u8;
                packet[9] = next() as u8 & 1;
            }
            match FromShim::parse(&packet) {
                Ok(parsed) => {
                    let back = match &parsed {
                        FromShim::Hello(packet) => packet.as_bytes(),
                        FromShim::Hints(packet) => packet.as_bytes(),
                        FromShim::OpenClaim(packet) => packet.as_bytes(),
                        FromShim::Reported(packet) => packet.as_bytes(),
                        FromShim::Usage(packet) => packet.as_bytes(),
                        FromShim::Domain(packet) => packet.as_bytes(),
                        FromShim::KernelName(packet) => packet.as_bytes(),
                        FromShim::Settings(settings) => {
                            assert_eq!(packet.len(), 8 + settings.len as usize);
                            packet.truncate(8);
                            settings.as_bytes()
                        }
                        FromShim::OriginName(packet) => packet.as_bytes(),
                        FromShim::OriginUsage(packet) => packet.as_bytes(),
                    };
                    assert_eq!(back, packet);
                    read += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
    }
}
