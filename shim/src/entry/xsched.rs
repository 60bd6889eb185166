//! XSched's C functions. The headers are `shim/include/xsched`; what the functions do is in [`crate::explicit`].
#![cfg_attr(test, expect(non_snake_case, dead_code, reason = "unexported, they are unused functions"))]

use std::arch::naked_asm;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched_preload::env;

use crate::abi::Stream;
use crate::counters::{self, Trouble};
use crate::entry;
use crate::explicit::{self, Handle, Refusal, XResult, refuse};
use crate::hip::program::LaunchCallback;
use crate::runtime;

/// Answers a call. A panic in the shim never reaches an application.
fn answer(act: impl FnOnce() -> Result<(), XResult>) -> XResult {
    entry::prepare();
    if env::disabled() {
        return refuse(Refusal::Disabled);
    }
    let answered = catch_unwind(AssertUnwindSafe(act));
    answered.map_or_else(
        |_| {
            counters::trouble(Trouble::Panic);
            XResult::UNKNOWN
        },
        XResult::from,
    )
}

/// The same for a function that returns something where its caller says.
///
/// # Safety
/// `place` must be null or point to where a `T` can be written.
unsafe fn answer_at<T>(place: *mut T, act: impl FnOnce() -> Result<T, XResult>) -> XResult {
    if place.is_null() {
        return XResult::INVALID_VALUE;
    }
    // SAFETY: the caller's promise.
    answer(|| act().map(|value| unsafe { place.write(value) }))
}

/// Declares functions whose arguments are numbers and handles: for these, any bits are a value.
macro_rules! exported {
    ($($name:ident($($argument:ident: $ty:ty),*) => $act:expr;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        extern "C" fn $name($($argument: $ty),*) -> XResult {
            answer(|| $act)
        }
    )*};
}

// A level is an `XPreemptLevel` for some releases and an `int64_t` for others: the lower half is the same.
exported! {
    XQueueDestroy(xq: Handle) => explicit::destroy(xq);
    XQueueSetPreemptLevel(xq: Handle, level: i32) => explicit::set_level(xq, level.into());
    XQueueSetLaunchConfig(xq: Handle, threshold: i64, batch_size: i64) =>
        explicit::set_launch_config(xq, threshold, batch_size);
    XQueueSubmit(xq: Handle, hw_cmd: Handle) => explicit::submit(xq, hw_cmd);
    XQueueWait(xq: Handle, hw_cmd: Handle) => explicit::wait(xq, hw_cmd);
    XQueueWaitAll(xq: Handle) => explicit::wait_all(xq);
    XQueueSuspend(xq: Handle, flags: i64) => explicit::suspend(xq, flags);
    XQueueResume(xq: Handle, flags: i64) => explicit::resume(xq, flags);
    HwQueueDestroy(hwq: Handle) => explicit::destroy_hw_queue(hwq);
    HwQueueLaunch(hwq: Handle, hw_cmd: Handle) => match explicit::launch(hwq, hw_cmd)? {
        XResult::SUCCESS => Ok(()),
        code => Err(code),
    };
    HwQueueSynchronize(hwq: Handle) => explicit::synchronize(hwq);
    HwCommandDestroy(hw_cmd: Handle) => explicit::destroy_command(hw_cmd);
    XHintSetScheduler(scheduler: i32, policy: i32) => explicit::set_scheduler(scheduler, policy);
    XHintPriority(xq: Handle, prio: i32) => explicit::priority(xq, prio);
    XHintUtilization(xq: Handle, util: i32) => explicit::utilization(xq, util);
    XHintTimeslice(ts_us: i64) => explicit::time_slice(ts_us);
    XHintLaxity(xq: Handle, _lax_us: i64, _lax_prio: i32, _crit_prio: i32) => explicit::laxity(xq);
    XHintDeadline(xq: Handle, ddl_us: i64) => explicit::deadline(xq, ddl_us);
    XHintKDeadline(k: usize) => explicit::k_deadline(k);
}

/// # Safety
/// `xq` must be null or point to where a handle can be written.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn XQueueCreate(xq: *mut Handle, hwq: Handle, level: i64, flags: i64) -> XResult {
    // SAFETY: the caller's promise.
    unsafe { answer_at(xq, || explicit::create(hwq, level, flags)) }
}

/// # Safety
/// As for [`XQueueCreate`].
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn XQueueGet(xq: *mut Handle, hwq: Handle) -> XResult {
    // SAFETY: the caller's promise.
    unsafe { answer_at(xq, || explicit::of_hw_queue(hwq)) }
}

/// # Safety
/// `state` must be null or point to where an `XQueueState` can be written.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn XQueueQuery(xq: Handle, state: *mut u32) -> XResult {
    // SAFETY: the caller's promise.
    unsafe { answer_at(state, || explicit::query(xq)) }
}

/// # Safety
/// `count` must be null or point to where an `int64_t` can be written.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn XQueueProfileHwCommandCount(xq: Handle, count: *mut i64) -> XResult {
    // SAFETY: the caller's promise.
    unsafe { answer_at(count, || explicit::count(xq)) }
}

/// # Safety
/// `hw_cmd` as for [`XQueueCreate`]; `launch` must be null or a function that may be called once, on any thread, with a queue's
/// handle and `data`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn HwCommandCreateCallback(
    hw_cmd: *mut Handle,
    launch: Option<LaunchCallback>,
    data: *mut c_void,
) -> XResult {
    // SAFETY: the caller's promise.
    unsafe { answer_at(hw_cmd, || explicit::create_callback(launch, data)) }
}

/// C: `XResult HipQueueCreate(HwQueueHandle *hwq, hipStream_t stream)`.
///
/// # Safety
/// As for [`XQueueCreate`]; `stream` must be a stream of the runtime copy that the caller uses.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn HipQueueCreate(hwq: *mut Handle, stream: Stream) -> XResult {
    naked_asm!(".cfi_startproc", "mov rdx, [rsp]", "jmp {create}", ".cfi_endproc", create = sym create_hip_queue)
}

/// # Safety
/// As for [`HipQueueCreate`].
unsafe extern "C" fn create_hip_queue(hwq: *mut Handle, stream: Stream, return_address: usize) -> XResult {
    let create = || {
        let copy = runtime::copy_of_caller(return_address);
        explicit::create_for_stream(copy, runtime::reaches_shim(copy), stream)
    };
    // SAFETY: the caller's promise.
    unsafe { answer_at(hwq, create) }
}
