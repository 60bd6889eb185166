//! A device's signals: words in the memory that its processes share, so that any process that advances the
//! schedule can read them.
//!
//! Each process has some of its own. When they are all in use, `hipMallocSignalMemory` gives ordinary memory,
//! which other processes read more slowly (`words`).

use core::ffi::c_void;
use core::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::Device;
use super::region::SIGNALS;

/// Signals of this process that are in use, as bits.
#[derive(Default)]
pub(super) struct Used(Mutex<u64>);

/// A signal that belongs to an allocation; dropping it frees it.
pub(crate) struct Signal {
    device: Arc<Device>,
    index: usize,
}

impl Device {
    /// A signal set to zero; none if all are in use.
    pub(crate) fn take_signal(self: &Arc<Self>) -> Option<Signal> {
        let mut used = self.signals.0.lock().expect("no holder panics");
        let free = used.trailing_ones() as usize;
        if free == SIGNALS {
            return None;
        }
        *used |= 1 << free;
        let signal = Signal { device: Arc::clone(self), index: self.member() * SIGNALS + free };
        self.region().signals[signal.index].store(0, Ordering::Release);
        Some(signal)
    }

    /// The signal at an address, and the address's offset in it in bytes; none for other memory.
    pub(super) fn find_signal(&self, address: usize) -> Option<(u32, usize)> {
        let signals = &self.region().signals;
        let offset = address.checked_sub(signals.as_ptr().addr())?;
        (offset < size_of_val(signals)).then_some(((offset / 8) as u32, offset % 8))
    }
}

impl Signal {
    pub(crate) fn address(&self) -> *mut c_void {
        self.device.region().signals[self.index].as_ptr().cast()
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        // A poisoned lock is no reason to end the process.
        if let Ok(mut used) = self.device.signals.0.lock() {
            *used &= !(1 << (self.index % SIGNALS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_found_by_their_addresses_and_reused() {
        let device = Device::private(0);
        let signals: Vec<_> = std::iter::from_fn(|| device.take_signal()).collect();
        assert_eq!(signals.len(), SIGNALS);
        let address = signals[3].address() as usize;
        assert_eq!(device.find_signal(address + 4), Some((3, 4)));
        let local = 0_u64;
        assert_eq!(device.find_signal((&raw const local).addr()), None);
        drop(signals);
        assert_eq!(device.take_signal().map(|signal| signal.index), Some(0));
    }
}
