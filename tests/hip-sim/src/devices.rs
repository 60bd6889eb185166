//! The devices that this process sees: their peers and settings, and each thread's current device.
//!
//! A machine has `HIP_SIM_DEVICES` devices. `ROCR_VISIBLE_DEVICES` selects among those, then
//! `HIP_VISIBLE_DEVICES` (or `CUDA_VISIBLE_DEVICES`) among the rest. Ordinals count the visible devices;
//! identities stay with the physical device.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicUsize};
use std::collections::BTreeSet;
use std::env;
use std::sync::{Arc, Mutex};

use crate::config;
use crate::engine;
use crate::runtime::table;

/// One device, as HIP presents it.
pub(crate) struct Device {
    /// Its number on the machine.
    pub(crate) physical: usize,
    pub(crate) engine: Arc<engine::Device>,
    /// Spin, yield or block while waiting: stored for the application to read back.
    pub(crate) flags: AtomicU32,
    /// Ordinals of the devices whose memory this one may use.
    pub(crate) peers: Mutex<BTreeSet<usize>>,
    /// Limits in bytes, stored for the application to read back.
    pub(crate) stack_size: AtomicUsize,
    pub(crate) heap_size: AtomicUsize,
}

impl Device {
    fn new(physical: usize) -> Self {
        Self {
            physical,
            engine: engine::Device::open(physical),
            flags: AtomicU32::new(0),
            peers: Mutex::default(),
            stack_size: AtomicUsize::new(1024),
            heap_size: AtomicUsize::new(8 << 20),
        }
    }
}

table! {
    /// The devices in the order of their ordinals.
    pub(crate) all: Vec<Device> = visible(config::get().devices)
}

/// The calling thread's device; none if this process sees none.
pub(crate) fn of_this_thread() -> Option<&'static Device> {
    all().get(current())
}

fn visible(count: usize) -> Vec<Device> {
    let variable = |name| env::var(name).ok();
    let hip = variable("HIP_VISIBLE_DEVICES").or_else(|| variable("CUDA_VISIBLE_DEVICES"));
    let physical = pick(&(0..count).collect::<Vec<_>>(), variable("ROCR_VISIBLE_DEVICES").as_deref());
    let physical = pick(&physical, hip.as_deref());
    physical.into_iter().map(Device::new).collect()
}

/// Selects devices by a list of indices. The first invalid index ends the list; no list keeps every device.
fn pick(devices: &[usize], list: Option<&str>) -> Vec<usize> {
    let Some(list) = list else { return devices.to_vec() };
    let mut picked = Vec::new();
    for word in list.split(',') {
        let index = word.trim().parse::<usize>().ok();
        match index.and_then(|index| devices.get(index)) {
            Some(device) if !picked.contains(device) => picked.push(*device),
            _ => break,
        }
    }
    picked
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Ordinal of the calling thread's device. A thread whose locals are already destroyed has the first.
pub(crate) fn current() -> usize {
    CURRENT.try_with(Cell::get).unwrap_or(0)
}

/// Sets the calling thread's device; it must exist.
pub(crate) fn set_current(ordinal: usize) {
    // As above: an ending thread makes no call that depends on its device.
    let _ = CURRENT.try_with(|current| current.set(ordinal));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_index_ends_the_list() {
        assert_eq!(pick(&[0, 1, 2, 3], None), [0, 1, 2, 3]);
        assert_eq!(pick(&[0, 1, 2, 3], Some("2, 0")), [2, 0]);
        assert_eq!(pick(&[0, 1, 2, 3], Some("1,-1,2")), [1]);
        assert_eq!(pick(&[2, 3], Some("1")), [3]);
        assert!(pick(&[0, 1], Some("")).is_empty());
    }
}
