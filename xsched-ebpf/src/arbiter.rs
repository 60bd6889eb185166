//! The arbiter's page: which queues exist, which have work, and who may therefore launch.
//!
//! One page serves the machine. Only the arbiter writes it: the BPF programs, or the controller itself where there is
//! no BPF. Applications map it read-only. Everything in it is a word of 64 bits, read and written whole.
//!
//! A *queue* here is a process's claim on one device at one priority; it stands for all streams of the process that have
//! no priority of their own. Each device has a mask of the levels at which a queue is ready, and one of the levels at
//! which queues exist. A queue of level M may launch while no bit below M is ready: one load and one AND.
//!
//! The masks also say whether anybody has to be obeyed at all: when the controller is gone, all ready bits are clear.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Devices that a page has room for: eight accelerators in eight partitions each.
pub const DEVICE_MAX: usize = 64;

/// Levels of urgency; 0 is the most urgent.
pub const LEVEL_COUNT: usize = 64;

/// Queues that a page has room for.
pub const QUEUE_MAX: usize = 4096;

/// First word of a [`Page`].
pub const PAGE_MAGIC: u64 = u64::from_le_bytes(*b"XSCHPAGE");

/// Changes whenever the page or the operations of the report function change their layout or meaning.
pub const PAGE_VERSION: u64 = 1;

/// The symbol of the shim's function that the programs probe: `fn(operation, slot, argument)`, see [`Report`].
pub const REPORT_SYMBOL: &str = "xsched_arbiter_report";

/// The symbol of the controller's function that the programs probe: `fn(operation, slot, first, second)`, see
/// [`Control`].
pub const CONTROL_SYMBOL: &str = "xsched_arbiter_control";

/// What applications map.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Page {
    /// What holds for the machine.
    pub header: PageHeader,
    /// By device index.
    pub devices: [DeviceWords; DEVICE_MAX],
    /// By slot.
    pub queues: [QueueEntry; QUEUE_MAX],
}

/// What holds for the machine.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PageHeader {
    /// [`PAGE_MAGIC`]
    pub magic: u64,
    /// [`PAGE_VERSION`]
    pub version: u64,
    /// Grows with each controller that takes the page over.
    pub epoch: u64,
    /// 1 while a controller is there; 0: all ready masks are zero.
    pub obey: u64,
    /// When the controller last showed that it lives.
    pub heartbeat_ns: u64,
    /// How long the controller may be silent.
    pub silence_ns: u64,
    /// How long a queue counts as ready after its last report.
    pub lease_ns: u64,
    /// How long a queue stays ready after its last completion.
    pub linger_ns: u64,
    /// Thread group that may use [`Control`], as the initial pid namespace has it; 0: the page is not kept by programs.
    pub controller: u64,
    /// Changes that gave up on repairing a mask.
    pub exhausted: u64,
    /// Reports about queues that are not the caller's, or not there any more.
    pub refused: u64,
    /// Keeps the size a multiple of 128; zero.
    pub reserved: [u64; 5],
}

/// One device.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceWords {
    /// Which device, see [`device_key`]; 0: this place is free.
    pub key: u64,
    /// Bit L: a queue of level L is ready, and the controller is to be obeyed.
    pub ready: u64,
    /// Bit L: there is a queue of level L.
    pub exists: u64,
    /// Changes of `ready` so far.
    pub changes: u64,
    /// Ready queues by level.
    pub ready_counts: [u64; LEVEL_COUNT],
    /// Queues by level.
    pub exist_counts: [u64; LEVEL_COUNT],
}

/// One queue.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QueueEntry {
    /// A [`QueueWord`].
    pub word: u64,
    /// Until when it counts as ready without another report; meaningless unless it is ready.
    pub lease_until_ns: u64,
    /// Its process: thread group id as the initial pid namespace has it.
    pub owner: u64,
    /// Slot of the owner's next queue, plus one; 0: this is the last.
    pub next: u64,
}

const _: () = assert!(size_of::<PageHeader>() == 128);
const _: () = assert!(size_of::<DeviceWords>() == 32 + 16 * LEVEL_COUNT);
const _: () = assert!(size_of::<QueueEntry>() == 32);

/// A queue's state in one word, changed by compare-and-exchange only.
///
/// ```text
///   63           32 31        16 15       8 7        2   1      0
///   generation      0            device     level      ready   open
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct QueueWord(pub u64);

impl QueueWord {
    const OPEN: u64 = 1;
    const READY: u64 = 1 << 1;
    const LEVEL_SHIFT: u32 = 2;
    const DEVICE_SHIFT: u32 = 8;
    const GENERATION_SHIFT: u32 = 32;

    /// An open queue that is not ready. Level and device are taken modulo the room that there is for them.
    #[inline]
    pub const fn new(generation: u32, device: u64, level: u64) -> Self {
        let device = (device & (DEVICE_MAX as u64 - 1)) << Self::DEVICE_SHIFT;
        let level = (level & (LEVEL_COUNT as u64 - 1)) << Self::LEVEL_SHIFT;
        Self((generation as u64) << Self::GENERATION_SHIFT | device | level | Self::OPEN)
    }

    /// Whether the slot is in use.
    #[inline]
    pub const fn is_open(self) -> bool {
        self.0 & Self::OPEN != 0
    }

    /// Whether the queue has work.
    #[inline]
    pub const fn is_ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    /// Below [`LEVEL_COUNT`].
    #[inline]
    pub const fn level(self) -> u64 {
        self.0 >> Self::LEVEL_SHIFT & (LEVEL_COUNT as u64 - 1)
    }

    /// Index of its device, below [`DEVICE_MAX`].
    #[inline]
    pub const fn device(self) -> u64 {
        self.0 >> Self::DEVICE_SHIFT & (DEVICE_MAX as u64 - 1)
    }

    /// How often the slot was opened. A report that names another generation is about a queue that is gone.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0 >> Self::GENERATION_SHIFT) as u32
    }

    /// The same queue, ready or not.
    #[inline]
    pub const fn with_ready(self, ready: bool) -> Self {
        if ready { Self(self.0 | Self::READY) } else { Self(self.0 & !Self::READY) }
    }

    /// The same queue at another level.
    #[inline]
    pub const fn with_level(self, level: u64) -> Self {
        let room = (LEVEL_COUNT as u64 - 1) << Self::LEVEL_SHIFT;
        Self(self.0 & !room | level << Self::LEVEL_SHIFT & room)
    }

    /// The slot after its queue was closed.
    #[inline]
    pub const fn closed(self) -> Self {
        Self(self.0 & !(Self::OPEN | Self::READY))
    }
}

/// The bits of all levels that are more urgent than this one.
#[inline]
pub const fn more_urgent(level: u64) -> u64 {
    (1 << (level & (LEVEL_COUNT as u64 - 1))) - 1
}

/// Names a device by its PCI address and partition: ordinals differ between processes.
///
/// ```text
///   63   62        40 39            24 23      16 15      8 7       0
///   1    0            domain           bus        device    partition
/// ```
pub const fn device_key(domain: u32, bus: u32, device: u32, partition: u32) -> u64 {
    1 << 63
        | (domain as u64 & 0xffff) << 24
        | (bus as u64 & 0xff) << 16
        | (device as u64 & 0xff) << 8
        | partition as u64 & 0xff
}

/// What an application tells the arbiter: first argument of the report function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Report {
    /// "I am the process that was given this number": slot 0, argument: the number.
    Join = 1,
    /// The queue has work, or still has: its lease begins anew. Argument: its generation, as in all that follow.
    Ready = 2,
    /// The queue has no work.
    Idle = 3,
    /// Somebody else's queue may have outlived its lease. The kernel's clock decides.
    Expire = 4,
    /// The controller may have been silent for too long. The kernel's clock decides. Slot and argument: 0.
    Check = 5,
    /// The queue is to be closed.
    Close = 6,
}

/// What the controller orders: first argument of its control function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Control {
    /// It lives, and is to be obeyed.
    Heartbeat = 1,
    /// Nobody is to be obeyed.
    Release = 2,
    /// A device's place is taken. Slot: its index; first: its key.
    AddDevice = 3,
    /// A queue is opened in a free slot. First: its [`QueueWord`]; second: its owner.
    Open = 4,
    /// A queue is closed. First: its generation.
    Close = 5,
    /// A queue's level changes. First: its generation; second: the level.
    SetLevel = 6,
    /// Lease and linger. First and second: nanoseconds.
    SetTimes = 7,
    /// A queue's lease is over. First: its generation.
    Expire = 8,
}

/// One change, in the arbiter's ring buffer. Whoever waits for the masks to change polls that ring.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ArbiterEvent {
    /// When.
    pub time_ns: u64,
    /// An [`ArbiterChange`].
    pub change: u32,
    /// Which queue, if it is about one.
    pub slot: u32,
    /// The queue's word afterwards; the number that was shown for [`ArbiterChange::Joined`].
    pub word: u64,
    /// The device's ready mask afterwards.
    pub ready: u64,
    /// Thread group that caused it, as the initial pid namespace has it.
    pub owner: u64,
}

const _: () = assert!(size_of::<ArbiterEvent>() == 40);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ArbiterChange {
    /// A queue became ready.
    Ready = 1,
    /// A queue became idle.
    Idle = 2,
    /// A queue's level changed.
    Level = 3,
    /// A queue was opened.
    Opened = 4,
    /// A queue was closed by its process or the controller.
    Closed = 5,
    /// A queue was closed because its process died or became another program.
    Died = 6,
    /// A queue's lease ran out: it is not ready any more.
    Expired = 7,
    /// The controller's word does not hold any more: everything may launch.
    Released = 8,
    /// The controller's word holds again.
    Obeyed = 9,
    /// A process has shown the number that it was given.
    Joined = 10,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_parts_apart() {
        let word = QueueWord::new(u32::MAX, 63, 63);
        assert_eq!((word.generation(), word.device(), word.level()), (u32::MAX, 63, 63));
        assert!(word.is_open() && !word.is_ready());
        let word = word.with_ready(true).with_level(5);
        assert_eq!((word.generation(), word.device(), word.level()), (u32::MAX, 63, 5));
        assert!(word.is_ready() && !word.with_ready(false).is_ready());
        assert!(!word.closed().is_open() && !word.closed().is_ready());
        assert_eq!(word.closed().generation(), u32::MAX);
    }

    #[test]
    fn more_urgent_is_below() {
        assert_eq!(more_urgent(0), 0);
        assert_eq!(more_urgent(3), 0b111);
        assert_eq!(more_urgent(63), u64::MAX >> 1);
    }

    #[test]
    fn a_device_has_a_key_whatever_its_address() {
        assert_ne!(device_key(0, 0, 0, 0), 0);
        assert_ne!(device_key(0, 0xc1, 0, 1), device_key(0, 0xc1, 1, 0));
    }
}
