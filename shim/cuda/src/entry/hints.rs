//! Hints for one stream while the program runs, as `shim/include/xsched_hints.h` declares them. Those for the process are in
//! `xsched_preload::asked`.
#![cfg_attr(test, expect(dead_code, reason = "unexported, they are unused functions"))]

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched_preload::asked::{deadline_us_of, priority_of};
use xsched_preload::behind::Behind;
use xsched_xqueue::QueueHints;

use crate::api::{Handle, Named, stream};
use crate::counters::{Counter, count};
use crate::driver;
use crate::process;
use crate::scheduling::{Hinted, SCHEDULING};

/// What [`xsched_hint_stream`] returns.
const DONE: c_int = 0;
const INVALID: c_int = 1;
const TOO_MANY: c_int = 2;
const UNKNOWN_STREAM: c_int = 3;

type HintStream = unsafe extern "C" fn(*mut c_void, *const c_int, *const u64) -> c_int;

/// That of a shim behind this one.
static BEHIND: Behind = Behind::new(c"xsched_hint_stream");

/// What the program asks for a stream from now on: both null, nothing of its own. A stream that is none of CUDA's may be one of HIP's,
/// whose shim comes behind this one. So may a null stream in a thread without a context of CUDA's.
///
/// C: `int xsched_hint_stream(void *stream, const int *priority, const uint64_t *deadline_us)`.
///
/// # Safety
/// `priority` must be null or point to an `int`, `deadline_us` null or to a `uint64_t`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn xsched_hint_stream(
    handle: Handle,
    priority: *const c_int,
    deadline_us: *const u64,
) -> c_int {
    // SAFETY: the caller's promise.
    let asked = unsafe { (priority.as_ref(), deadline_us.as_ref()) };
    let (Ok(of_priority), Ok(of_deadline)) = (priority_of(asked.0), deadline_us_of(asked.1)) else {
        return INVALID;
    };
    let hints = QueueHints { priority: of_priority, deadline_us: of_deadline, ..QueueHints::NONE };
    match ask(stream(handle), hints) {
        UNKNOWN_STREAM => match BEHIND.get() {
            // SAFETY: the function of that name in another shim, with the caller's arguments.
            Some(function) => unsafe {
                transmute::<*mut c_void, HintStream>(function.as_ptr())(handle, priority, deadline_us)
            },
            None => UNKNOWN_STREAM,
        },
        code => code,
    }
}

fn ask(named: Named, hints: QueueHints) -> c_int {
    if !process::prepare() {
        return UNKNOWN_STREAM;
    }
    let hinted = catch_unwind(AssertUnwindSafe(|| {
        // A process without this state has created no stream, but each context has a null stream.
        let has_null_stream = || named == Named::Legacy && driver::current_context().is_some();
        let made = || has_null_stream().then(|| SCHEDULING.get());
        Some(SCHEDULING.existing().or_else(made)?.hint_stream(named, hints))
    }));
    match hinted {
        Ok(Some(Hinted::Done)) => DONE,
        Ok(Some(Hinted::TooMany)) => TOO_MANY,
        Ok(Some(Hinted::Unknown) | None) => UNKNOWN_STREAM,
        Err(_) => {
            count(Counter::Panic);
            UNKNOWN_STREAM
        }
    }
}
