//! The packets that shim and controller exchange over the controller's socket.
//!
//! The socket is a Unix socket of type `SOCK_SEQPACKET`; each packet is one of these structures, whole. A reader refuses a
//! packet of another length, or of an unknown kind. Only the controller sends descriptors: it takes none, and ends a connection over
//! which one comes. The kernel's credentials of the connection identify the sender; the
//! contents of a packet never do.
//!
//! ```text
//!   shim                              controller
//!   Hello                 ------->
//!                         <-------    Welcome, with the page
//!   (joins by a report, where programs keep the page)
//!   OpenClaim             ------->
//!                         <-------    Opened, which says how to report about this claim, with its gate page,
//!                                     and an epoll instance if this is another device
//!   Usage, OriginName,
//!   OriginUsage           ------->
//!   Reported              ------->    where no program sees the reports
//!                         <-------    Verdicts, with a verdict page, once a program has seen the process
//!                         <-------    Rules, with their text, and when they change: for shims that decide themselves
//!   Domain, KernelName,
//!   Settings, Hints       ------->
//!                         <-------    Events, while a recording runs
//! ```
//!
//! Claims are closed by [`crate::arbiter_page::Report::Close`], and by the end of process or connection. If a claim's word in the
//! page is not open with the generation of [`Opened`], the claim is gone: its process ignores the page and reconnects.

mod decode;
mod recording;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use decode::{FromController, FromShim, Malformed, PACKET_LEN_MAX};
pub use recording::{
    RECORD_SOCKET, Record, RecordPacketKind, RecordRefusal, RecordRefused, RecordShared, RecordedRing,
    RecordedRule, ToRecorder,
};

/// Changes whenever a packet changes its layout or meaning.
pub const WIRE_VERSION: u32 = 12;

/// File name of the socket that shims connect to, in the controller's folder.
pub const SHIM_SOCKET: &str = "shim.sock";

/// The controller's folder when it runs as root.
pub const SYSTEM_FOLDER: &str = "/run/xsched";

/// The controller's folder otherwise, below `$XDG_RUNTIME_DIR`.
pub const USER_FOLDER: &str = "xsched";

/// First word of every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PacketKind {
    /// A [`Hello`].
    Hello = 1,
    /// A [`Welcome`].
    Welcome = 2,
    /// An [`OpenClaim`].
    OpenClaim = 3,
    /// An [`Opened`].
    Opened = 4,
    /// A [`Reported`].
    Reported = 5,
    /// A [`Usage`].
    Usage = 6,
    /// A [`Refusal`].
    Refusal = 7,
    /// A [`Verdicts`].
    Verdicts = 8,
    /// A [`Rules`].
    Rules = 9,
    /// A [`Domain`].
    Domain = 10,
    /// A [`KernelName`].
    KernelName = 11,
    /// A [`Settings`].
    Settings = 12,
    /// An [`OriginName`].
    OriginName = 13,
    /// An [`OriginUsage`].
    OriginUsage = 14,
    /// An [`Events`].
    Events = 16,
    /// A [`Hints`].
    Hints = 17,
}

/// A shim registers its process. The first two words are the same in all versions. A process that uses two runtimes has a shim for
/// each, and each of these has a connection of its own.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Hello {
    /// [`PacketKind::Hello`]
    pub kind: u32,
    /// [`WIRE_VERSION`]
    pub version: u32,
    /// [`crate::arbiter_page::PAGE_VERSION`]
    pub page_version: u64,
    /// Which of the hints below were given: bits such as [`Hello::PRIORITY`].
    pub hints: u32,
    /// -255 to 255, larger is more urgent. A hint, which the controller limits.
    pub priority: i32,
    /// Share of the device in percent.
    pub utilization: u32,
    /// Weight beside others of the same priority.
    pub weight: u32,
    /// A token that `xsched-ctl run` has put into the environment; zero for none.
    pub token: [u8; 16],
    /// Within this time each request is to be done, in nanoseconds.
    pub deadline_ns: u64,
    /// The runtime that the shim is for: [`Runtime::number`](crate::probe::Runtime::number).
    pub runtime: u32,
    /// Zero.
    pub reserved: u32,
}

impl Hello {
    /// [`Hello::priority`] was given.
    pub const PRIORITY: u32 = 1;
    /// [`Hello::utilization`] was given.
    pub const UTILIZATION: u32 = 1 << 1;
    /// [`Hello::weight`] was given.
    pub const WEIGHT: u32 = 1 << 2;
    /// [`Hello::deadline_ns`] was given.
    pub const DEADLINE: u32 = 1 << 3;
}

/// What a process asks for from now on, in place of what its [`Hello`] or an earlier packet of this kind has asked for.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Hints {
    /// [`PacketKind::Hints`]
    pub kind: u32,
    /// [`Hello::hints`]
    pub hints: u32,
    /// [`Hello::priority`]
    pub priority: i32,
    /// [`Hello::utilization`]
    pub utilization: u32,
    /// [`Hello::weight`]
    pub weight: u32,
    /// Zero.
    pub reserved: u32,
    /// [`Hello::deadline_ns`]
    pub deadline_ns: u64,
}

impl From<&Hello> for Hints {
    fn from(hello: &Hello) -> Self {
        let &Hello { hints, priority, utilization, weight, deadline_ns, .. } = hello;
        Self {
            kind: PacketKind::Hints as u32,
            hints,
            priority,
            utilization,
            weight,
            reserved: 0,
            deadline_ns,
        }
    }
}

/// The controller accepts a process. One descriptor comes with it: the page, to be mapped read-only.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Welcome {
    /// [`PacketKind::Welcome`]
    pub kind: u32,
    /// A [`Keeper`]: what writes the page. How to report about a claim is in its [`Opened`].
    pub keeper: u32,
    /// The page's epoch.
    pub epoch: u64,
    /// The token to show by [`crate::arbiter_page::Report::Join`]; unused where the controller keeps the page.
    pub token: u64,
    /// Maximum device time, in nanoseconds, that a process with more urgent neighbours may have in flight; 0: the shim determines
    /// it.
    pub in_flight_ns: u64,
    /// The highest preemption mode: 1 stops launching, 2 also gates queued commands.
    pub preemption_mode: u32,
    /// 1: decide and record, but defer nothing.
    pub observe: u32,
    /// In nanoseconds: a process with kernels shorter than this polls the page after a recent preemption; 0: none polls.
    pub poll_below_ns: u64,
}

/// What writes the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Keeper {
    /// BPF programs; processes report by calling the report function.
    Programs = 1,
    /// The controller; processes report by [`Reported`].
    Controller = 2,
}

/// A process will use a device, at one stream priority, by streams of which it asks the same.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OpenClaim {
    /// [`PacketKind::OpenClaim`]
    pub kind: u32,
    /// Returned in [`Opened`].
    pub request: u32,
    /// [`crate::arbiter_page::device_key`]
    pub device: u64,
    /// How much more urgent its streams in this claim are than the rest of the process: HIP's stream priorities, negated.
    pub stream_priority: i32,
    /// Which of the hints below were given, instead of those in [`Hello`]: bits such as [`Hello::PRIORITY`].
    pub hints: u32,
    /// As [`Hello::priority`].
    pub priority: i32,
    /// As [`Hello::utilization`].
    pub utilization: u32,
    /// As [`Hello::deadline_ns`].
    pub deadline_ns: u64,
}

/// The claim is open. Descriptors may come with it, in the order of the bits of [`Opened::brings`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Opened {
    /// [`PacketKind::Opened`]
    pub kind: u32,
    /// [`OpenClaim::request`]
    pub request: u32,
    /// Its slot in the page.
    pub slot: u32,
    /// Its generation.
    pub generation: u32,
    /// A [`Keeper`]: whether to report about it by calling the report function or by [`Reported`]. A process whose calls no
    /// program sees has to use the latter even where programs keep the page.
    pub keeper: u32,
    /// Which descriptors come with it: [`Opened::GATE`] and [`Opened::WAKE`].
    pub brings: u32,
}

impl Opened {
    /// The claim's gate page, to be mapped to read and to write; see [`crate::arbiter_page::GATE_SIZE`].
    pub const GATE: u32 = 1;
    /// An epoll instance that becomes readable when masks change on a device on which the process has a claim. It replaces the one
    /// before, which does not know this claim's device. It is edge-triggered, and readable at first: a wait with a timeout of zero
    /// resets it. No other process has the same instance: each marks its own.
    pub const WAKE: u32 = 1 << 1;
}

/// A report, where no program sees it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Reported {
    /// [`PacketKind::Reported`]
    pub kind: u32,
    /// The claim.
    pub slot: u32,
    /// A [`crate::arbiter_page::Report`].
    pub operation: u64,
    /// Its argument.
    pub argument: u64,
}

/// The use of a claim so far. Sent after a change, at most every 10 ms.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Usage {
    /// [`PacketKind::Usage`]
    pub kind: u32,
    /// The claim.
    pub slot: u32,
    /// Its generation.
    pub generation: u32,
    /// Zero.
    pub reserved: u32,
    /// Device time of its commands that have completed, in nanoseconds.
    pub device_ns: u64,
    /// Commands launched.
    pub launched: u64,
    /// Commands that were deferred before they were launched.
    pub deferred: u64,
    /// Time for which commands were deferred because other claims were more urgent, in nanoseconds.
    pub suspended_ns: u64,
}

/// The name of an origin, where the process determines origins itself. Sent before its number is used.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OriginName {
    /// [`PacketKind::OriginName`]
    pub kind: u32,
    /// Its number in this process, below [`ORIGINS_MAX`].
    pub id: u32,
    /// Bytes of `name`.
    pub name_len: u32,
    /// Zero.
    pub reserved: u32,
    /// Its file's name.
    pub name: [u8; NAME_LEN_MAX],
}

/// Origins that a process distinguishes, including the unknown one and the rest.
pub const ORIGINS_MAX: u32 = 64;

/// How the device time of a claim divides among the origins of its calls; the sum is [`Usage::device_ns`]. Sent after that packet,
/// with the parts that have changed.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OriginUsage {
    /// [`PacketKind::OriginUsage`]
    pub kind: u32,
    /// The claim.
    pub slot: u32,
    /// Its generation.
    pub generation: u32,
    /// Number of parts in `times`. The others are zero.
    pub count: u32,
    /// The parts.
    pub times: [OriginTime; ORIGIN_TIMES_MAX],
}

/// Maximum number of parts in one packet.
pub const ORIGIN_TIMES_MAX: usize = 25;

/// The part of one origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OriginTime {
    /// The origin: the controller's number for it
    /// ([`VerdictSlot::origin`](crate::verdict::VerdictSlot::origin)), the process's own with [`Self::OWN`] added, or one of
    /// [`Self::UNKNOWN`] and [`Self::OTHERS`].
    pub origin: u32,
    /// Zero.
    pub reserved: u32,
    /// Device time so far, in nanoseconds.
    pub device_ns: u64,
}

impl OriginTime {
    /// Calls whose origin is unknown.
    pub const UNKNOWN: u32 = 0;
    /// Origins for which the process had no number left.
    pub const OTHERS: u32 = u32::MAX;
    /// The process's own number, see [`OriginName::id`].
    pub const OWN: u32 = 1 << 31;
}

impl OriginUsage {
    /// Parts of one claim, as many as fit.
    pub fn new(slot: u32, generation: u32, parts: &[OriginTime]) -> Self {
        let count = parts.len().min(ORIGIN_TIMES_MAX);
        let mut times = [OriginTime::default(); ORIGIN_TIMES_MAX];
        times[..count].copy_from_slice(&parts[..count]);
        Self { kind: PacketKind::OriginUsage as u32, slot, generation, count: count as u32, times }
    }

    /// The parts.
    pub fn parts(&self) -> &[OriginTime] {
        &self.times[..(self.count as usize).min(ORIGIN_TIMES_MAX)]
    }
}

/// A recording begins or ends. With the former comes one descriptor: the memory of a [ring](crate::events::Ring), which replaces
/// an earlier one.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Events {
    /// [`PacketKind::Events`]
    pub kind: u32,
    /// 1: a recording runs.
    pub wanted: u32,
}

/// The controller refuses. The connection ends. The shim retries later, unless its version differs.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Refusal {
    /// [`PacketKind::Refusal`]
    pub kind: u32,
    /// A [`RefusalReason`].
    pub reason: u32,
}

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RefusalReason {
    /// Shim and controller have different versions.
    Version = 1,
    /// An invalid packet.
    Malformed = 2,
    /// The page, or the process's part of it, is full.
    Full = 3,
    /// The process has not joined, or has ended, executed another program or connected again since.
    NotJoined = 4,
}

/// Programs decide on the calls of the process. One descriptor comes with it: a
/// [`VerdictPage`](crate::verdict::VerdictPage), to be mapped read-only.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Verdicts {
    /// [`PacketKind::Verdicts`]
    pub kind: u32,
    /// How many slots the page has.
    pub slots: u32,
}

/// The process decides on its calls itself. One descriptor comes with it: a sealed memory file with the text of the rules,
/// followed by the names of the process's user, one a line. Sent again when they change.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Rules {
    /// [`PacketKind::Rules`]
    pub kind: u32,
    /// Length of the text in bytes.
    pub len: u32,
    /// Number of its first rule; the numbers of the others follow, see [`crate::verdict::RuleId::handed_out`]. 0: they have none.
    pub first_rule: u32,
}

/// Longest text in a packet, in bytes. Longer text is cut.
pub const NAME_LEN_MAX: usize = 400;

/// A library has declared the scheduling domain of its calls.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Domain {
    /// [`PacketKind::Domain`]
    pub kind: u32,
    /// A [`SchedulingDomain`].
    pub domain: u32,
    /// Bytes of `path`.
    pub path_len: u32,
    /// Zero.
    pub reserved: u32,
    /// The library's path, as in the process's mappings.
    pub path: [u8; NAME_LEN_MAX],
}

/// `hipSchedulingDomain_t`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SchedulingDomain {
    /// The rules decide.
    Auto = 0,
    /// Never suspended.
    System = 1,
    /// Scheduled.
    Application = 2,
}

from_number!(u32, SchedulingDomain: Auto System Application);

/// The name of a kernel that the process has numbered. Sent before the number is used.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KernelName {
    /// [`PacketKind::KernelName`]
    pub kind: u32,
    /// Its number.
    pub id: u32,
    /// Bytes of `name`.
    pub name_len: u32,
    /// Zero.
    pub reserved: u32,
    /// As in the code object: mangled.
    pub name: [u8; NAME_LEN_MAX],
}

/// The process's user has set rules for this process, which precede all others. Sent after [`Verdicts`]. Their text follows in the
/// same packet, which alone may be longer than [`PACKET_LEN_MAX`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Settings {
    /// [`PacketKind::Settings`]
    pub kind: u32,
    /// Length of the text in bytes, at most [`SETTINGS_LEN_MAX`].
    pub len: u32,
}

/// Longest text of a user's rules for a process, in bytes.
pub const SETTINGS_LEN_MAX: u32 = 60 << 10;

macro_rules! text {
    ($packet:ident $text:ident $len:ident $number:ident) => {
        impl $packet {
            /// With as much of the text as fits.
            pub fn new($number: u32, text: &[u8]) -> Self {
                let len = text.len().min(NAME_LEN_MAX);
                let mut cut = [0; NAME_LEN_MAX];
                cut[..len].copy_from_slice(&text[..len]);
                Self { kind: PacketKind::$packet as u32, $number, $len: len as u32, reserved: 0, $text: cut }
            }

            /// The text.
            pub fn text(&self) -> &[u8] {
                &self.$text[..(self.$len as usize).min(NAME_LEN_MAX)]
            }
        }
    };
}

text!(Domain path path_len domain);
text!(KernelName name name_len id);
text!(OriginName name name_len id);

const _: () = assert!(size_of::<Hello>() == 64 && size_of::<Welcome>() == 48 && size_of::<OpenClaim>() == 40);
const _: () = assert!(size_of::<Verdicts>() == 8 && size_of::<Rules>() == 12 && size_of::<Settings>() == 8);
const _: () = assert!(size_of::<Hints>() == 32);
const _: () = assert!(size_of::<Domain>() == 416 && size_of::<KernelName>() == 416);
const _: () = assert!(size_of::<OriginName>() == 416 && size_of::<OriginUsage>() == 416);
const _: () = assert!(size_of::<Opened>() == 24 && size_of::<Reported>() == 24 && size_of::<Usage>() == 48);
