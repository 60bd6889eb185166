//! The environment of the page: a clock, the list of processes, the ring of events.

use aya_ebpf::bindings::{BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::btf_maps::{self, ArrayOfMaps};
use aya_ebpf::helpers::generated::bpf_ktime_get_boot_ns;
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::{HashMap, RingBuf};
use xsched_protocol::arbiter_page::{
    ArbiterEvent, DEVICE_MAX, EVENTS_SIZE, Host, WAKE_UPS_SIZE, Word, Words as _, dispatch, protocol,
};

use crate::page::Kept;

/// Processes that may own claims: by owner, the token that the process has shown; 0 for those for which the controller reports.
#[map]
pub(crate) static OWNERS: HashMap<u64, u64> = HashMap::with_max_entries(16384, 0);

/// All events, for the controller.
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(EVENTS_SIZE, 0);

/// A ring for each device, which wakes the processes that poll it. Its records carry no information. User space inserts a device's
/// ring before any process waits for it.
#[btf_map]
static WAKE_UPS: ArrayOfMaps<btf_maps::RingBuf<u64, { WAKE_UPS_SIZE as usize }>, DEVICE_MAX> =
    ArrayOfMaps::new();

impl Host for Kept {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        // SAFETY: the helper takes nothing.
        unsafe { bpf_ktime_get_boot_ns() }
    }

    #[inline(always)]
    fn lives(&self, owner: u64) -> bool {
        OWNERS.get_ptr(owner).is_some()
    }

    #[inline(always)]
    fn emit(&self, event: ArbiterEvent, calls: bool) {
        match EVENTS.reserve::<ArbiterEvent>(0) {
            Some(mut entry) => {
                entry.write(event);
                let is_heard = calls && self.load(Word::LISTENS) != 0;
                let flag = if is_heard { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP };
                entry.submit(u64::from(flag));
            }
            None => self.add(Word::EVENTS_LOST, 1),
        }
    }

    #[inline(always)]
    fn wake(&self, device: u64) {
        wake(device);
    }

    #[inline(always)]
    fn refresh(&self, device: u64) -> bool {
        refresh(device) != 0
    }

    #[inline(always)]
    fn close_one(&self, slot: u64, owner: u64) {
        close_one(slot, owner);
    }
}

/// A function of its own, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn wake(device: u64) -> u64 {
    if let Some(ring) = WAKE_UPS.get(device as u32 & (DEVICE_MAX as u32 - 1)) {
        // A full ring wakes no process: see `WAKE_UPS_SIZE`.
        let _ = ring.output(0, u64::from(BPF_RB_FORCE_WAKEUP));
    }
    0
}

/// A function of its own, which the verifier checks once and not for each device.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn refresh(device: u64) -> u64 {
    Kept::get().map_or(0, |page| u64::from(protocol::refresh(&page, device)))
}

/// Likewise, for each slot.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn close_one(slot: u64, owner: u64) -> u64 {
    if let Some(page) = Kept::get() {
        dispatch::close_one(&page, slot, owner);
    }
    0
}
