//! What shim and controller say to each other over the controller's socket.
//!
//! The socket is a unix one of type `SOCK_SEQPACKET`; each packet is one of these structures, whole. A reader refuses a
//! packet of any other length, and of a kind that it does not know. Whoever speaks is known by the kernel's credentials of
//! the connection, never by what a packet says.
//!
//! ```text
//!   shim                              controller
//!   Hello                 ------->
//!                         <-------    Welcome, with the page and something to wait on
//!   (joins by a report, where programs keep the page)
//!   OpenQueue             ------->
//!                         <-------    Opened, which says how to report about this queue
//!   Usage, OriginName,
//!   OriginUsage           ------->
//!   Reported              ------->    where no program hears the reports
//!                         <-------    Verdicts, with a page of verdicts, once it was heard; or
//!                         <-------    Rules, with their text, where no program hears it, and when they change
//!   Domain, KernelName,
//!   Settings              ------->
//!                         <-------    Events, while somebody records
//! ```
//!
//! Queues are closed by [`crate::arbiter_page::Report::Close`], and by the end of process or connection. A queue whose word in the
//! page is not open with the generation of [`Opened`] is gone: nobody obeys it, and its process connects anew.

mod decode;
mod recording;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use decode::{FromController, FromShim, Malformed, PACKET_LEN_MAX};
pub use recording::{
    RECORD_SOCKET, Record, RecordPacketKind, RecordRefusal, RecordRefused, RecordedRing, RecordedRule,
    ToRecorder,
};

/// Changes whenever a packet changes its layout or meaning.
pub const WIRE_VERSION: u32 = 6;

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
    /// An [`OpenQueue`].
    OpenQueue = 3,
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
}

/// A shim introduces its process. In all versions the first two words are what they are here.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Hello {
    /// [`PacketKind::Hello`]
    pub kind: u32,
    /// [`WIRE_VERSION`]
    pub version: u32,
    /// [`crate::arbiter_page::PAGE_VERSION`]
    pub page_version: u64,
    /// Which of the hints below were given: bits [`Hello::PRIORITY`] and so on.
    pub hints: u32,
    /// -255 to 255, larger is more urgent. A hint, which the controller limits.
    pub priority: i32,
    /// Share of the device in percent.
    pub utilization: u32,
    /// Weight beside others of the same priority.
    pub weight: u32,
    /// What `xsched-ctl run` has put into the environment; zero for nothing.
    pub token: [u8; 16],
}

impl Hello {
    /// [`Hello::priority`] was given.
    pub const PRIORITY: u32 = 1;
    /// [`Hello::utilization`] was given.
    pub const UTILIZATION: u32 = 1 << 1;
    /// [`Hello::weight`] was given.
    pub const WEIGHT: u32 = 1 << 2;
}

/// The controller takes a process in. Two descriptors come with it: the page, to be mapped read-only, and an epoll
/// instance that becomes readable when masks change (edge-triggered: a wait of zero empties it).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Welcome {
    /// [`PacketKind::Welcome`]
    pub kind: u32,
    /// A [`Keeper`]: who writes the page. How to report about a queue says its [`Opened`].
    pub keeper: u32,
    /// The page's epoch.
    pub epoch: u64,
    /// What to show by [`crate::arbiter_page::Report::Join`]; nothing to show where the controller keeps the page.
    pub number: u64,
    /// Most device time that a process with more urgent neighbours may have launched ahead, in nanoseconds; 0: the shim
    /// finds out.
    pub in_flight_ns: u64,
    /// How it is preempted, at most: 1 stops launching, 2 gates what is queued.
    pub preemption_level: u32,
    /// 1: decide and record, hold nothing back.
    pub observe: u32,
    /// Whose kernels are shorter than this polls the page when it had to give way of late, in nanoseconds; 0: nobody does.
    pub poll_below_ns: u64,
}

/// Who writes the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Keeper {
    /// BPF programs; processes report by calling the report function.
    Programs = 1,
    /// The controller; processes report by [`Reported`].
    Controller = 2,
}

/// A process will use a device, at one priority.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OpenQueue {
    /// [`PacketKind::OpenQueue`]
    pub kind: u32,
    /// Comes back in [`Opened`].
    pub request: u32,
    /// [`crate::arbiter_page::device_key`]
    pub device: u64,
    /// How much more urgent than the process its streams in this queue are, as the program asked for: HIP's stream
    /// priorities, negated.
    pub stream_priority: i32,
    /// Zero.
    pub reserved: u32,
}

/// The queue is there. One descriptor may come with it: its gate's page, to be mapped to read and to write; see
/// [`crate::arbiter_page::GATE_SIZE`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Opened {
    /// [`PacketKind::Opened`]
    pub kind: u32,
    /// [`OpenQueue::request`]
    pub request: u32,
    /// Its place in the page.
    pub slot: u32,
    /// Its generation.
    pub generation: u32,
    /// A [`Keeper`]: whether to report about it by calling the report function or by [`Reported`]. A process whose calls no
    /// program hears has to use the latter even where programs keep the page.
    pub keeper: u32,
    /// Zero.
    pub reserved: u32,
}

/// A report, where no program hears it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Reported {
    /// [`PacketKind::Reported`]
    pub kind: u32,
    /// The queue.
    pub slot: u32,
    /// A [`crate::arbiter_page::Report`].
    pub operation: u64,
    /// Its argument.
    pub argument: u64,
}

/// What a queue has used so far. Sent when it changed, every 10 ms at most.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Usage {
    /// [`PacketKind::Usage`]
    pub kind: u32,
    /// The queue.
    pub slot: u32,
    /// Its generation.
    pub generation: u32,
    /// Zero.
    pub reserved: u32,
    /// Device time of its commands that have completed, in nanoseconds.
    pub device_ns: u64,
    /// Commands launched.
    pub launched: u64,
    /// Commands that were held back before.
    pub held_back: u64,
    /// Time for which something was held back because others were more urgent, in nanoseconds.
    pub suspended_ns: u64,
}

/// The name of a library that calls belong to, where the process finds that out itself. Sent before its number is used.
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

/// Libraries that a process tells apart, those that are unknown and all others included.
pub const ORIGINS_MAX: u32 = 64;

/// How the device time of a queue divides among the libraries that the calls belong to; together it is
/// [`Usage::device_ns`]. Sent behind that, with those parts that have changed.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OriginUsage {
    /// [`PacketKind::OriginUsage`]
    pub kind: u32,
    /// The queue.
    pub slot: u32,
    /// Its generation.
    pub generation: u32,
    /// How many of `times` there are. The others are zero.
    pub count: u32,
    /// The parts.
    pub times: [OriginTime; ORIGIN_TIMES_MAX],
}

/// Parts in one packet.
pub const ORIGIN_TIMES_MAX: usize = 25;

/// One library's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OriginTime {
    /// Which library: the controller's number for it
    /// ([`VerdictSlot::origin`](crate::verdict::VerdictSlot::origin)), the process's own with [`Self::OWN`] added, or one of
    /// [`Self::UNKNOWN`] and [`Self::OTHERS`].
    pub origin: u32,
    /// Zero.
    pub reserved: u32,
    /// Device time so far, in nanoseconds.
    pub device_ns: u64,
}

impl OriginTime {
    /// It is not known to whom the calls belong.
    pub const UNKNOWN: u32 = 0;
    /// Libraries for which the process had no number left.
    pub const OTHERS: u32 = u32::MAX;
    /// The process's own number, see [`OriginName::id`].
    pub const OWN: u32 = 1 << 31;
}

impl OriginUsage {
    /// Parts of one queue, as many as there is room for.
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

/// Somebody records, or nobody does any more. With the former comes one descriptor: the memory of a
/// [ring](crate::events::Ring), which takes the place of one that was given before.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Events {
    /// [`PacketKind::Events`]
    pub kind: u32,
    /// 1: somebody records.
    pub wanted: u32,
}

/// The controller refuses; the connection ends, and the shim tries again later, unless it is of another version.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Refusal {
    /// [`PacketKind::Refusal`]
    pub kind: u32,
    /// A [`RefusalReason`].
    pub reason: u32,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RefusalReason {
    /// Another version of shim and controller.
    Version = 1,
    /// A packet that makes no sense.
    Malformed = 2,
    /// The page, or the process's part of it, is full.
    Full = 3,
    /// The process did not show its number.
    NotJoined = 4,
}

/// Programs decide about the calls of the process. One descriptor comes with it: a
/// [`VerdictPage`](crate::verdict::VerdictPage), to be mapped read-only. Sent again when `flags` change, with the same page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Verdicts {
    /// [`PacketKind::Verdicts`]
    pub kind: u32,
    /// How many slots the page has.
    pub slots: u32,
    /// Bits, such as [`Verdicts::RULES_NAME_KERNELS`].
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

impl Verdicts {
    /// Verdicts depend on the kernel: the process tells its name and puts its number into the subject.
    pub const RULES_NAME_KERNELS: u32 = 1;
}

/// The process decides about its calls itself. One descriptor comes with it: a sealed memory file with the text of the
/// rules, and behind it what the process's user is called, a line for each name. Sent again when they change.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Rules {
    /// [`PacketKind::Rules`]
    pub kind: u32,
    /// Length of the text in bytes.
    pub len: u32,
    /// Number of its first rule, behind which the others have theirs, see [`crate::verdict::RuleId::handed_out`]; 0: they have
    /// none.
    pub first_rule: u32,
}

/// Longest text in a packet, in bytes. What is longer is cut.
pub const NAME_LEN_MAX: usize = 400;

/// A library has said what its calls are.
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
    /// The library, as the process has it mapped.
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

impl SchedulingDomain {
    /// The domain with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Auto),
            1 => Some(Self::System),
            2 => Some(Self::Application),
            _ => None,
        }
    }
}

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
    /// As the code object has it: mangled.
    pub name: [u8; NAME_LEN_MAX],
}

/// The user of the process has rules of his own, which come before all others for this process. Sent after [`Verdicts`]. One
/// descriptor comes with it: a sealed memory file with their text.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Settings {
    /// [`PacketKind::Settings`]
    pub kind: u32,
    /// Length of the text in bytes, at most [`SETTINGS_LEN_MAX`].
    pub len: u32,
}

/// Longest text of a process's own rules, in bytes.
pub const SETTINGS_LEN_MAX: u32 = 60 << 10;

macro_rules! text {
    ($packet:ident $text:ident $len:ident $number:ident) => {
        impl $packet {
            /// With as much of the text as there is room for.
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

const _: () = assert!(size_of::<Hello>() == 48 && size_of::<Welcome>() == 48 && size_of::<OpenQueue>() == 24);
const _: () = assert!(size_of::<Verdicts>() == 16 && size_of::<Rules>() == 12 && size_of::<Settings>() == 8);
const _: () = assert!(size_of::<Domain>() == 416 && size_of::<KernelName>() == 416);
const _: () = assert!(size_of::<OriginName>() == 416 && size_of::<OriginUsage>() == 416);
const _: () = assert!(size_of::<Opened>() == 24 && size_of::<Reported>() == 24 && size_of::<Usage>() == 48);
