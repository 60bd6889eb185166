//! Gates: words of memory that a stream waits for, which the arbiter or the host opens and closes.
//!
//! A command behind a closed gate has not begun, and begins when the gate opens. So many commands may be launched
//! ahead, and only the running command delays a more urgent process.
//!
//! A word that the arbiter writes lies in a page that is registered with the runtime. AMD's runtime waits there with
//! a small kernel, as it does for any word. With `GPU_STREAMOPS_CP_WAIT=1` the command processor waits instead, which
//! it can do in signal memory only. So if the runtime refuses a page, or does not wait there as it should, the word
//! lies in signal memory and the host writes it. If there is no signal memory either, there are no gates.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xsched_protocol::arbiter_page::{GATE_KEPT_OPEN, GATE_OPEN, GATE_SIZE};
use xsched_xqueue::{GatePage, now};

use crate::abi::Stream;
use crate::hip::marker::HipStream;
use crate::hip::real;
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::StreamName;

const CLOSED: u64 = 0;
const OPEN: u64 = GATE_KEPT_OPEN;

/// Any of [`GATE_OPEN`]'s bits makes a word as large as this.
const AT_LEAST: u64 = 1;
const _: () = assert!(GATE_OPEN.count_ones() == 2 && CLOSED < AT_LEAST);

/// How long a waiting stream is watched, and how long a stream may take to go on after its gate was opened.
const WATCHED: Duration = Duration::from_millis(1);
const OPENED_MAX: Duration = Duration::from_millis(200);

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
    /// A new gate of a stream's device, open. Tests it, which may take a fifth of a second.
    ///
    /// On a thread of the shim's own: it sets the device.
    pub(crate) fn new(stream: HipStream) -> Option<Self> {
        let HipStream { copy, device, .. } = stream;
        if !real::has_wait_value(copy, device) {
            return None;
        }
        real::set_device(copy, device);
        let host = real::signal_memory(copy)?;
        let gate = Self { host, device: host.cast() };
        let works = gate.makes_streams_wait(copy).unwrap_or(false);
        gate.set(true);
        works.then_some(gate)
    }

    /// The gate in a page, which the arbiter opens and closes. Tests the page, as above.
    pub(crate) fn shared(stream: HipStream, page: &'static GatePage) -> Option<Self> {
        let HipStream { copy, device, .. } = stream;
        if !real::has_wait_value(copy, device) {
            return None;
        }
        real::set_device(copy, device);
        let start = real::register(copy, page.start(), GATE_SIZE)?;
        let at = |word: &'static AtomicU64| {
            let host = NonNull::from(word);
            let offset = host.addr().get() - page.start().addr().get();
            // SAFETY: in the page, of which the device has as much as the host.
            Self { host, device: unsafe { start.byte_add(offset) } }
        };
        // The arbiter may close the gate itself at any time, so another word of the page is tested.
        at(page.trial()).makes_streams_wait(copy).unwrap_or(false).then(|| at(page.word()))
    }

    pub(crate) fn set(self, is_open: bool) {
        self.word().store(if is_open { OPEN } else { CLOSED }, Ordering::Release);
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

    /// Whether a stream waits here while the gate is closed, and goes on when it opens.
    fn makes_streams_wait(self, copy: &RuntimeCopy) -> Option<bool> {
        let (stream, event) = (real::create_stream(copy)?, real::create_event(copy)?);
        self.set(false);
        if !self.put(copy, stream) || !real::record_event(copy, event, stream) {
            return None;
        }
        std::thread::sleep(WATCHED);
        let waits = real::is_event_pending(copy, event);
        self.set(true);
        let deadline = now() + OPENED_MAX.into();
        while real::is_event_pending(copy, event) {
            if now() >= deadline {
                // The stream is leaked: destroying it would wait for it.
                return Some(false);
            }
            std::thread::sleep(WATCHED / 10);
        }
        real::destroy(copy, event, stream);
        Some(waits)
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
        // No other test uses this copy.
        const COPY: usize = 2;
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
