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

pub mod dispatch;
pub mod gate;
mod operation;
pub mod protocol;
mod queue_word;
mod words;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use dispatch::Host;
pub use gate::{
    ALL_GATES, GATE_ALLOWED, GATE_KEPT_OPEN, GATE_OPEN, GATE_OPENED_AT, GATE_QUIET, GATE_SHUT_AT, GATE_SIZE,
    GATE_WISHES,
};
pub use operation::{ArbiterChange, ArbiterEvent, Control, Report};
pub use queue_word::QueueWord;
#[cfg(not(target_arch = "bpf"))]
pub use words::AtomicWords;
pub use words::{PAGE_WORDS, Word, Words};

/// Devices that a page has room for: eight accelerators in eight partitions each take a quarter. Anybody may name devices
/// that there are not.
pub const DEVICE_MAX: usize = 256;

/// Levels of urgency; 0 is the most urgent.
pub const LEVEL_COUNT: usize = 64;

/// Queues that a page has room for.
pub const QUEUE_MAX: usize = 4096;

/// First word of a [`Page`].
pub const PAGE_MAGIC: u64 = u64::from_le_bytes(*b"XSCHPAGE");

/// Changes whenever the page or the operations of the report function change their layout or meaning.
pub const PAGE_VERSION: u64 = 3;

/// Bytes of the programs' ring of events.
pub const EVENTS_SIZE: u32 = 1 << 20;

/// Bytes of the ring by which the programs call the controller. What is in it says nothing; if it is full, the controller has been
/// called.
pub const CALLS_SIZE: u32 = 4096;

/// Marks the owner of a queue for whose process the controller speaks, because no program hears it. The other bits are
/// the process's id as the controller has it.
pub const SPOKEN_FOR: u64 = 1 << 32;

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
    /// Slots in use lie below this.
    pub slots: u64,
    /// Events that found the ring full. Whoever reads the ring reads the page anew when this grows.
    pub events_lost: u64,
    /// Tells builds of the programs apart; 0 where there are none.
    pub programs: u64,
    /// 1 while the controller has to hear at once of whatever changes a mask of several queues.
    pub listens: u64,
    /// Keeps the size a multiple of 128; zero.
    pub reserved: u64,
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
    /// Its process: thread group id as the initial pid namespace has it, or an id with [`SPOKEN_FOR`].
    pub owner: u64,
    /// Zero.
    pub reserved: u64,
}

const _: () = assert!(size_of::<PageHeader>() == 128);
const _: () = assert!(size_of::<DeviceWords>() == 32 + 16 * LEVEL_COUNT);
const _: () = assert!(size_of::<QueueEntry>() == 32);

/// Where the kernel counts the threads of a process that are left. User space tells the programs.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KernelOffsets {
    /// Of `signal` in `struct task_struct`.
    pub task_signal: u32,
    /// Of `live` in `struct signal_struct`.
    pub signal_live: u32,
}

/// The bits of all levels that are more urgent than this one.
#[inline]
pub const fn more_urgent(level: u64) -> u64 {
    (1 << (level & (LEVEL_COUNT as u64 - 1))) - 1
}

/// Names a device by its PCI address and partition: ordinals differ between processes. A domain has all the bits that
/// Linux and the runtimes give it: those of Intel's VMD begin at 0x10000.
///
/// ```text
///   63   62     56 55            24 23      16 15      8 7       0
///   1    0         domain           bus        device    partition
/// ```
pub const fn device_key(domain: u32, bus: u32, device: u32, partition: u32) -> u64 {
    1 << 63
        | (domain as u64) << 24
        | (bus as u64 & 0xff) << 16
        | (device as u64 & 0xff) << 8
        | partition as u64 & 0xff
}

/// Whether [`device_key`] makes such numbers.
pub const fn is_device_key(key: u64) -> bool {
    key >> 56 == 1 << 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_parts_apart() {
        let word = QueueWord::new(u32::MAX, 255, 63);
        assert_eq!((word.generation(), word.device(), word.level()), (u32::MAX, 255, 63));
        assert!(word.is_open() && !word.is_ready());
        let word = word.with_ready(true).with_level(5);
        assert_eq!((word.generation(), word.device(), word.level()), (u32::MAX, 255, 5));
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
        assert!(is_device_key(device_key(0, 0, 0, 0)) && is_device_key(device_key(u32::MAX, 0xff, 0x1f, 7)));
        assert!(![0, 7, 1 << 62, u64::MAX].into_iter().any(is_device_key));
    }

    #[test]
    fn devices_of_different_domains_have_different_keys() {
        // Behind Intel's VMD domains begin at 0x10000.
        let keys = [0, 1, 0xffff, 0x1_0000, 0x1_0001, i32::MAX.cast_unsigned(), u32::MAX];
        let keys = keys.map(|domain| device_key(domain, 0xc1, 0, 0));
        for (index, key) in keys.iter().enumerate() {
            assert!(is_device_key(*key) && !keys[..index].contains(key), "{key:x}");
        }
    }
}
