//! The environment of the page: a clock, the list of processes, the ring of events.

use aya_ebpf::bindings::{BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::generated::bpf_ktime_get_boot_ns;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{HashMap, RingBuf};
use xsched_protocol::arbiter_page::protocol::Wakes;
use xsched_protocol::arbiter_page::{
    ArbiterEvent, CALLS_SIZE, EVENTS_SIZE, Host, Word, Words as _, dispatch, protocol,
};

use crate::page::Kept;

/// Processes that may own queues: by owner, the token that the process has shown; 0 for those for which the controller reports.
#[map]
pub(crate) static OWNERS: HashMap<u64, u64> = HashMap::with_max_entries(16384, 0);

/// All events. The controller reads them but leaves the last record, so that the ring is always readable: processes poll it.
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(EVENTS_SIZE, 0);

/// Wakes the controller. If it polled the ring of events, it would be woken with every process.
#[map]
static CALLS: RingBuf = RingBuf::with_byte_size(CALLS_SIZE, 0);

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
    fn emit(&self, event: ArbiterEvent, wakes: Wakes) {
        match EVENTS.reserve::<ArbiterEvent>(0) {
            Some(mut entry) => {
                entry.write(event);
                let flag = if wakes.processes { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP };
                entry.submit(u64::from(flag));
            }
            None => self.add(Word::EVENTS_LOST, 1),
        }
        if wakes.controller
            && self.load(Word::LISTENS) != 0
            && let Some(mut call) = CALLS.reserve::<u64>(0)
        {
            call.write(0);
            call.submit(u64::from(BPF_RB_FORCE_WAKEUP));
        }
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
