//! The verdict pages, one per process, and which process may renew them.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{self, HashOfMaps};
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::Array;
use xsched_protocol::verdict::{Order, OriginConfig, VERDICT_PAGES_MAX, VerdictPage};

use crate::atomic;
use crate::scope::Current;

/// A [`VerdictPage`], as words. If the BTF of a map's value is a struct, Linux 6.1 takes the map as different from the pages that
/// user space makes, which have no BTF.
type Page = btf_maps::Array<[u64; size_of::<VerdictPage>() / 8], 1, { BPF_F_MMAPABLE as usize }>;

/// By process. User space makes them when processes join, and freezes them.
#[btf_map]
static VERDICT_PAGES: HashOfMaps<u32, Page, { VERDICT_PAGES_MAX as usize }> = HashOfMaps::new();

#[map]
static ORIGIN: Array<OriginConfig> = Array::with_max_entries(1, 0);

/// The configuration that user space has written.
#[inline(always)]
pub(crate) fn config() -> Option<&'static OriginConfig> {
    ORIGIN.get(0)
}

/// The verdict page of a process.
#[inline(always)]
pub(crate) fn of(tgid: u32) -> Option<*mut VerdictPage> {
    // SAFETY: a page that was just taken from the map lives until the program has ended; if it was replaced, what is written to it
    // is not read.
    unsafe { VERDICT_PAGES.get_value_ptr_mut(&tgid, &0) }.map(|page| page.cast())
}

/// Verdicts that a process has kept may be wrong.
#[inline(always)]
pub(crate) fn renew(tgid: u32) {
    if let Some(page) = of(tgid) {
        // SAFETY: the map owns the page, and programs change the word in this way only.
        unsafe { atomic::add(&raw mut (*page).generation, 1) };
    }
}

/// An operation of the controller.
#[inline(always)]
pub(crate) fn order(operation: u64, argument: u64) {
    let Some(config) = ORIGIN.get_ptr_mut(0) else { return };
    let caller = u64::from(Current::thread().tgid);
    // SAFETY: the map owns the element. Its words are written whole, by user space before any process can call this, and here.
    let (number, controller) = unsafe {
        (
            core::ptr::read_volatile(&raw const (*config).number),
            core::ptr::read_volatile(&raw const (*config).controller),
        )
    };
    if operation == Order::BecomeController as u64 && number != 0 && argument == number {
        // SAFETY: as above. A token is valid once.
        unsafe {
            core::ptr::write_volatile(&raw mut (*config).controller, caller);
            core::ptr::write_volatile(&raw mut (*config).number, 0);
        }
    } else if operation == Order::Renew as u64 && controller == caller {
        renew(argument as u32);
    }
}
