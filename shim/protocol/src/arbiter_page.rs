//! The arbiter page: which claims exist, which have work, and which levels may therefore launch.
//!
//! One page serves the machine. Only the arbiter writes it: the BPF programs, or the controller itself where there is
//! no BPF. Applications map it read-only. Everything in it is a word of 64 bits, read and written whole.
//!
//! A claim is a process's use of one device at one stream priority; it stands for all streams of that priority. Each
//! device has a mask of the levels at which a claim is ready, and one of the levels at which claims exist. A claim of level M
//! may launch while no bit below M is ready: one load and one AND.
//!
//! When the controller is gone, all ready bits are clear: then no claim has to wait for another.

mod claim_word;
pub mod dispatch;
pub mod gate;
mod operation;
pub mod protocol;
mod words;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use claim_word::ClaimWord;
pub use dispatch::Host;
pub use gate::{
    ALL_GATES, GATE_ALLOWED, GATE_CLOSED_AT, GATE_KEPT_OPEN, GATE_OPEN, GATE_OPENED_AT, GATE_QUIET,
    GATE_SIZE, GATE_WISHES,
};
pub use operation::{ArbiterChange, ArbiterEvent, Control, Report};
#[cfg(not(target_arch = "bpf"))]
pub use words::AtomicWords;
pub use words::{PAGE_WORDS, Word, Words};

/// Devices that a page has entries for: eight accelerators in eight partitions each take a quarter. The rest is for devices
/// that do not exist: a process may name any.
pub const DEVICE_MAX: usize = 256;

/// Levels of urgency; 0 is the most urgent.
pub const LEVEL_COUNT: usize = 64;

/// Claims that a page has slots for.
pub const CLAIM_MAX: usize = 4096;

/// Slots in one block: a change of a device's mask looks only at the blocks with claims of that device.
pub const BLOCK_SLOTS: usize = 64;

/// First word of a [`Page`].
pub const PAGE_MAGIC: u64 = u64::from_le_bytes(*b"XSCHPAGE");

/// Changes whenever the page or the operations of the report function change their layout or meaning.
pub const PAGE_VERSION: u64 = 4;

/// Bytes of the programs' ring of events.
pub const EVENTS_SIZE: u32 = 1 << 20;

/// Bytes of a device's ring of wake-ups, see [`Host::wake`]. The controller makes space in it with each heartbeat. A wake-up that
/// finds no space is lost: processes look every 10 ms by themselves.
pub const WAKE_UPS_SIZE: u32 = 1 << 14;

/// Marks the owner of a proxied claim: the controller reports for its process, because no program sees the process's reports. The
/// other bits are the controller's number of the connection.
pub const PROXIED: u64 = 1 << 32;

/// The symbol of the shim's function that the programs probe: `fn(operation, slot, argument)`, see [`Report`].
pub const REPORT_SYMBOL: &str = "xsched_arbiter_report";

/// What applications map.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Page {
    /// What holds for the machine.
    pub header: PageHeader,
    /// By block of slots: bit D is set if a claim of a device may be there whose index is D modulo 64.
    pub blocks: [u64; CLAIM_MAX / BLOCK_SLOTS],
    /// By device index.
    pub devices: [DeviceWords; DEVICE_MAX],
    /// By slot.
    pub claims: [ClaimEntry; CLAIM_MAX],
}

/// What holds for the machine.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PageHeader {
    /// Magic number: [`PAGE_MAGIC`].
    pub magic: u64,
    /// Version of the layout: [`PAGE_VERSION`].
    pub version: u64,
    /// Grows with each controller that takes the page over.
    pub epoch: u64,
    /// 1 while a controller is there; 0: all ready masks are zero.
    pub obey: u64,
    /// When the controller wrote its last heartbeat.
    pub heartbeat_ns: u64,
    /// How old the last heartbeat may be.
    pub silence_ns: u64,
    /// How long a claim counts as ready after its last report.
    pub lease_ns: u64,
    /// How long a claim stays ready after its last completion.
    pub linger_ns: u64,
    /// Thread group that may use [`Control`], by its id in the initial pid namespace; 0: no program keeps the page.
    pub controller: u64,
    /// Changes that reached their bound on attempts before the masks were right.
    pub exhausted: u64,
    /// Reports about claims that are not the caller's, or are closed.
    pub refused: u64,
    /// Slots in use lie below this.
    pub slots: u64,
    /// Events that found the ring full. A reader of the ring reads the whole page again when this grows.
    pub events_lost: u64,
    /// Distinguishes builds of the programs; 0 where there are none.
    pub programs: u64,
    /// 1 while the programs have to wake the controller at every change of a mask with several levels.
    pub listens: u64,
    /// Keeps the size a multiple of 128; zero.
    pub reserved: u64,
}

/// One device.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceWords {
    /// The device's [`device_key`]; 0: this entry is free.
    pub key: u64,
    /// Bit L: a claim of level L is ready, and a controller is there.
    pub ready: u64,
    /// Bit L: there is a claim of level L.
    pub exists: u64,
    /// Changes of `ready` so far.
    pub changes: u64,
    /// Ready claims by level.
    pub ready_counts: [u64; LEVEL_COUNT],
    /// Claims by level.
    pub exist_counts: [u64; LEVEL_COUNT],
}

/// One claim.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClaimEntry {
    /// A [`ClaimWord`].
    pub word: u64,
    /// Until when it counts as ready without another report; valid only while it is ready.
    pub lease_until_ns: u64,
    /// Its process: thread group id in the initial pid namespace, or an id with [`PROXIED`].
    pub owner: u64,
    /// Zero.
    pub reserved: u64,
}

const _: () = assert!(CLAIM_MAX.is_multiple_of(BLOCK_SLOTS));
const _: () = assert!(size_of::<PageHeader>() == 128);
const _: () = assert!(size_of::<DeviceWords>() == 32 + 16 * LEVEL_COUNT);
const _: () = assert!(size_of::<ClaimEntry>() == 32);

/// Where the kernel counts a process's remaining threads. User space passes these offsets to the programs.
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

/// Names a device by its PCI address and partition: ordinals differ between processes. The domain has all the bits that Linux
/// and the runtimes give it. Those behind Intel's VMD begin at 0x10000:
/// <https://github.com/torvalds/linux/blob/v6.12/drivers/pci/controller/vmd.c> (`vmd_find_free_domain`).
///
/// ```text
///   63   62     56 55            24 23      16 15                 13 12      8 7                 0
///   1    0         domain           bus        partition, bits 10..8 device    partition, bits 7..0
/// ```
pub const fn device_key(domain: u32, bus: u32, device: u32, partition: u32) -> u64 {
    1 << 63
        | (domain as u64) << 24
        | (bus as u64 & 0xff) << 16
        | (partition as u64 >> 8 & 0x7) << 13
        | (device as u64 & 0x1f) << 8
        | partition as u64 & 0xff
}

/// The most partitions that a key tells apart.
pub const PARTITION_MAX: u32 = 0x7ff;

/// Domain, bus, device and partition of a key from [`device_key`].
pub const fn device_parts(key: u64) -> (u32, u32, u32, u32) {
    let partition = (key >> 13 & 0x7) << 8 | key & 0xff;
    ((key >> 24) as u32, (key >> 16 & 0xff) as u32, (key >> 8 & 0x1f) as u32, partition as u32)
}

/// Whether a key may come from [`device_key`].
pub const fn is_device_key(key: u64) -> bool {
    key >> 56 == 1 << 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_parts_apart() {
        let word = ClaimWord::new(u32::MAX, 255, 63);
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
