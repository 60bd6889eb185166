//! Gates: words of memory that a stream waits for, which the arbiter or the host opens and closes.
//!
//! A command behind a closed gate has not begun, and begins when the gate opens. So many commands may be launched
//! ahead, and only the running command delays a more urgent process.
//!
//! A word that the arbiter writes lies in a page that is registered with the runtime. AMD's runtime waits there with
//! a small kernel, as it does for any word. With `GPU_STREAMOPS_CP_WAIT=1` the command processor waits instead, which
//! it can do in signal memory only. So if the runtime refuses a page, or does not wait there as it should, the word
//! lies in signal memory and the host writes it. If there is no signal memory either, there are no gates.

mod trial;

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_protocol::arbiter_page::{GATE_KEPT_OPEN, GATE_OPEN};
use xsched_xqueue::GatePage;

use crate::abi::Stream;
pub(crate) use crate::hip::gate::trial::{GateOwner, HipTrial};
use crate::hip::marker::HipStream;
use crate::hip::real;
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::StreamName;

const CLOSED: u64 = 0;
const OPEN: u64 = GATE_KEPT_OPEN;

/// Any of [`GATE_OPEN`]'s bits makes a word as large as this.
const AT_LEAST: u64 = 1;
const _: () = assert!(GATE_OPEN.count_ones() == 2 && CLOSED < AT_LEAST);

/// A word of memory that is never freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipGate {
    host: NonNull<AtomicU64>,
    /// Its address on the device.
    device: NonNull<c_void>,
}

// SAFETY: an atomic word that any thread may use.
unsafe impl Send for HipGate {}

impl HipGate {
    /// A word of a page, of which the device has as much as the host.
    fn within(page: &'static GatePage, word: &'static AtomicU64, start: NonNull<c_void>) -> Self {
        let host = NonNull::from(word);
        let offset = host.addr().get() - page.start().addr().get();
        // SAFETY: the word is in the page.
        Self { host, device: unsafe { start.byte_add(offset) } }
    }

    pub(crate) fn set(self, is_open: bool) {
        self.word().store(if is_open { OPEN } else { CLOSED }, Ordering::Release);
    }

    fn is_open(self) -> bool {
        self.word().load(Ordering::Acquire) != CLOSED
    }

    /// Makes a stream wait for the gate. False if the runtime refuses.
    pub(crate) fn put_before(self, stream: HipStream) -> bool {
        let put = || self.put(stream.copy, stream.handle());
        // A thread that launches late may have another device set, whose null stream would be meant.
        if stream.name == StreamName::Legacy {
            stream.on_its_device(|| Some(put())).unwrap_or(false)
        } else {
            put()
        }
    }

    fn put(self, copy: &RuntimeCopy, stream: Stream) -> bool {
        real::wait_value(copy, stream, self.device, AT_LEAST)
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: allocated for good. A reset of the device would free it: gates are forgotten before.
        unsafe { self.host.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::api::Id;
    use crate::runtime::copies::ORIGINALS;

    thread_local! {
        static DEVICE: Cell<i32> = const { Cell::new(0) };
        /// Which streams wait, each with the device that was set.
        static WAITS: Cell<[Option<(i32, usize)>; 2]> = const { Cell::new([None; 2]) };
    }

    extern "C" fn device(device: &mut i32) -> u32 {
        *device = DEVICE.get();
        0
    }

    extern "C" fn set_device(device: i32) -> u32 {
        DEVICE.set(device);
        0
    }

    extern "C" fn wait(stream: usize) -> u32 {
        let [last, _] = WAITS.get();
        WAITS.set([Some((DEVICE.get(), stream)), last]);
        0
    }

    #[test]
    fn a_gate_for_a_null_stream_is_put_on_that_streams_device() {
        // No other test uses this copy's functions.
        const COPY: usize = 0;
        static WORD: AtomicU64 = AtomicU64::new(OPEN);
        let functions = [
            (Id::hipGetDevice, device as *mut c_void),
            (Id::hipSetDevice, set_device as *mut c_void),
            (Id::hipStreamWaitValue64, wait as *mut c_void),
        ];
        for (id, function) in functions {
            ORIGINALS[COPY][id as usize].store(function, Ordering::Release);
        }
        let host = NonNull::from(&WORD);
        let gate = HipGate { host, device: host.cast() };
        let stream = |name| HipStream { copy: RuntimeCopy::at(COPY), device: 1, name };
        let created = stream(StreamName::Created(0x5000));
        assert!(gate.put_before(stream(StreamName::Legacy)) && gate.put_before(created));
        let created = Some((0, 0x5000));
        assert_eq!(WAITS.get(), [created, Some((1, 0))], "the device of a created stream is its own");
        assert_eq!(DEVICE.get(), 0, "as before");
    }
}
