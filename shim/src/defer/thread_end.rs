//! The end of a thread that has used its own stream.
//!
//! The runtime destroys the per-thread stream when its thread ends, with no call that a hook could see. What the null stream was given
//! before waits for that stream, too. If it is still deferred then, and is launched meanwhile, ROCm 7.2 reads what belonged to the
//! stream after it has freed that: the program ends by a segmentation fault. So the thread waits here, as `hipStreamDestroy` does.
//!
//! Destructors of a thread's variables run from the last to the first. The runtime's variable, which owns the stream, is there before
//! this one.

use std::cell::Cell;
use std::process;
use std::sync::atomic::Ordering;

use xsched_xqueue::thread_id;

use crate::defer::deferral::DEFERRAL;
use crate::hip::real;
use crate::runtime::copies::{COPIES_MAX, RuntimeCopy};
use crate::thread;

/// More than the C library needs to note a destructor. It ends the process if it has no memory for that.
const NOTE_BYTES: usize = 1 << 10;

/// The runtime copies whose per-thread stream the thread has used.
struct OwnStreams([Cell<bool>; COPIES_MAX]);

thread_local! {
    static OWN_STREAMS: OwnStreams = const { OwnStreams([const { Cell::new(false) }; COPIES_MAX]) };
}

/// The calling thread is about to use its own stream of a copy.
#[inline]
pub(crate) fn own_stream_used(copy: &RuntimeCopy) {
    let noted = &thread::own().has_noted_own_stream[copy.index()];
    if !noted.load(Ordering::Relaxed) {
        noted.store(true, Ordering::Relaxed);
        note(copy);
    }
}

#[cold]
fn note(copy: &RuntimeCopy) {
    // The process ends with its first thread, and launches what is deferred by then (`exit.rs`).
    if thread_id() == process::id() || !c_library_can_allocate(NOTE_BYTES) {
        return;
    }
    // Has the runtime make its variables of this thread first.
    let _ = real::current_device(copy);
    let _ = OWN_STREAMS.try_with(|own| own.0[copy.index()].set(true));
}

/// Whether the C library can give this many bytes to itself now: the shim's own memory says nothing about that.
fn c_library_can_allocate(bytes: usize) -> bool {
    // SAFETY: memory that is given back at once.
    unsafe {
        let memory = libc::malloc(bytes);
        libc::free(std::hint::black_box(memory));
        !memory.is_null()
    }
}

impl Drop for OwnStreams {
    fn drop(&mut self) {
        let Some(deferral) = DEFERRAL.existing() else { return };
        for copy in (0..COPIES_MAX).filter(|&copy| self.0[copy].get()) {
            let null_streams = deferral.dependencies().null_streams(copy, &deferral.queues);
            deferral.queues.wait_launched(&null_streams);
        }
    }
}
