//! Hints for one stream while the program runs. Those for the process are in [`xsched_preload::asked`], the header is
//! `shim/include/xsched_hints.h`.
#![cfg_attr(test, expect(dead_code, reason = "unexported, they are unused functions"))]

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched_preload::asked::{deadline_us_of, priority_of};
use xsched_preload::env;
use xsched_xqueue::QueueHints;

use crate::abi::{HipError, Stream};
use crate::counters::{self, Trouble};
use crate::defer::ProgramQueue;
use crate::entry;
use crate::runtime::copies::{COPIES_MAX, RuntimeCopy};
use crate::runtime::stopped::StreamName;

/// What [`xsched_hint_stream`] returns besides `hipSuccess` and `hipErrorInvalidValue`.
const TOO_MANY: c_int = 2;
const UNKNOWN_STREAM: c_int = 3;

/// What the program asks for a stream from now on: both null, nothing of its own. The caller may be an interpreter, so the stream says
/// which runtime copy is meant.
///
/// C: `int xsched_hint_stream(hipStream_t stream, const int *priority, const uint64_t *deadline_us)`.
///
/// # Safety
/// `priority` must be null or point to an `int`, `deadline_us` null or to a `uint64_t`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn xsched_hint_stream(
    stream: Stream,
    priority: *const c_int,
    deadline_us: *const u64,
) -> c_int {
    // SAFETY: the caller's promise.
    let (priority, deadline_us) = unsafe { (priority.as_ref(), deadline_us.as_ref()) };
    let (Ok(priority), Ok(deadline_us)) = (priority_of(priority), deadline_us_of(deadline_us)) else {
        return HipError::INVALID_VALUE.0 as c_int;
    };
    if env::disabled() {
        return UNKNOWN_STREAM;
    }
    entry::prepare();
    let hints = QueueHints { priority, deadline_us, ..QueueHints::NONE };
    let asked = catch_unwind(AssertUnwindSafe(|| {
        let queue = ProgramQueue::find(copy_of(stream)?, stream).ok()?;
        Some(queue.ask(hints))
    }));
    match asked {
        Ok(Some(true)) => HipError::SUCCESS.0 as c_int,
        Ok(Some(false)) => TOO_MANY,
        Ok(None) => UNKNOWN_STREAM,
        Err(_) => {
            counters::trouble(Trouble::Panic);
            UNKNOWN_STREAM
        }
    }
}

/// The runtime copy that has made a stream. A null stream is that of the only copy.
fn copy_of(stream: Stream) -> Option<&'static RuntimeCopy> {
    let mut used = (0..COPIES_MAX).map(RuntimeCopy::at).filter(|copy| copy.is_used());
    match StreamName::by_handle(stream) {
        // The runtime is not asked: a handle that is not a stream may be any address.
        StreamName::Created(_) => used.find(|copy| ProgramQueue::known(copy, stream).is_some()),
        StreamName::Legacy => used.next().filter(|_| used.next().is_none()),
        StreamName::PerThread => None,
    }
}
