//! Streams. The handles 0, 1 and 2 mean what they mean in HIP: the null stream, by both names, and the thread's own.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::context::enter;
use crate::export::exports;
use crate::hip;
use crate::memory::check_known;
use crate::result::{Handle, INVALID_HANDLE, INVALID_VALUE, of_hip, write};

type Callback = Option<unsafe extern "C" fn(stream: Handle, status: u32, user: *mut c_void)>;

/// From the most urgent to the least urgent, as a current GPU has them.
pub(crate) const PRIORITIES: core::ops::RangeInclusive<c_int> = -5..=0;

/// What HIP does not know of a stream: its context, and its priority, since HIP has fewer.
struct Known {
    context: usize,
    priority: c_int,
}

static STREAMS: Mutex<BTreeMap<usize, Known>> = Mutex::new(BTreeMap::new());

fn streams() -> std::sync::MutexGuard<'static, BTreeMap<usize, Known>> {
    STREAMS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A created stream's context and priority; the current context and no priority for the three others.
fn known(stream: Handle) -> Result<(Handle, c_int), u32> {
    if stream as usize <= 2 {
        return Ok((enter()?.0, 0));
    }
    let streams = streams();
    let known = streams.get(&(stream as usize)).ok_or(INVALID_HANDLE)?;
    Ok((ptr::with_exposed_provenance_mut(known.context), known.priority))
}

fn create(out: *mut Handle, flags: u32, priority: c_int) -> Result<(), u32> {
    let (context, _) = enter()?;
    create_in(context as usize, out, flags, priority)
}

/// Creates a stream of a context, whose device is HIP's current one.
pub(crate) fn create_in(context: usize, out: *mut Handle, flags: u32, priority: c_int) -> Result<(), u32> {
    let priority = priority.clamp(*PRIORITIES.start(), *PRIORITIES.end());
    // SAFETY: the caller of the export passes null or a writable out-parameter.
    unsafe {
        of_hip(hip::hipStreamCreateWithPriority(out, flags, priority.max(-1)))?;
        streams().insert(*out as usize, Known { context, priority });
    }
    Ok(())
}

fn word(address: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

exports! {
    @2000 cuStreamCreate(stream: *mut Handle, flags: u32) { create(stream, flags, 0) }
    @5050 cuStreamCreateWithPriority(stream: *mut Handle, flags: u32, priority: c_int) { create(stream, flags, priority) }
    @4000 cuStreamDestroy_v2(stream: Handle) {
        if stream as usize <= 2 {
            return Err(INVALID_HANDLE);
        }
        streams().remove(&(stream as usize)).ok_or(INVALID_HANDLE)?;
        of_hip(hip::hipStreamDestroy(stream))
    }
    @2000 [stream: cuStreamQuery_ptsz] cuStreamQuery(stream: Handle) { enter()?; of_hip(hip::hipStreamQuery(stream)) }
    @2000 [stream: cuStreamSynchronize_ptsz] cuStreamSynchronize(stream: Handle) {
        enter()?;
        of_hip(hip::hipStreamSynchronize(stream))
    }
    @3020 [stream: cuStreamWaitEvent_ptsz] cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) {
        enter()?;
        of_hip(hip::hipStreamWaitEvent(stream, event, flags))
    }
    @5050 [stream: cuStreamGetFlags_ptsz] cuStreamGetFlags(stream: Handle, flags: *mut u32) {
        enter()?;
        if stream as usize <= 1 { write(flags, 0) } else { of_hip(hip::hipStreamGetFlags(stream, flags)) }
    }
    @5050 [stream: cuStreamGetPriority_ptsz] cuStreamGetPriority(stream: Handle, priority: *mut c_int) {
        write(priority, known(stream)?.1)
    }
    @9020 [stream: cuStreamGetCtx_ptsz] cuStreamGetCtx(stream: Handle, context: *mut Handle) {
        write(context, known(stream)?.0)
    }
    @12000 [stream: cuStreamGetId_ptsz] cuStreamGetId(stream: Handle, id: *mut u64) {
        known(stream)?;
        write(id, stream as u64)
    }
    @5000 [stream: cuStreamAddCallback_ptsz] cuStreamAddCallback(
        stream: Handle, function: Callback, user: *mut c_void, flags: u32,
    ) {
        enter()?;
        of_hip(hip::hipStreamAddCallback(stream, function, user, flags))
    }
    @11070 [stream: cuStreamWaitValue32_v2_ptsz] cuStreamWaitValue32_v2(stream: Handle, address: u64, value: u32, flags: u32) {
        enter()?;
        check_known(address, known(stream)?.0 as usize)?;
        of_hip(hip::hipStreamWaitValue32(stream, word(address), value, flags, u32::MAX))
    }
    @11070 [stream: cuStreamWaitValue64_v2_ptsz] cuStreamWaitValue64_v2(stream: Handle, address: u64, value: u64, flags: u32) {
        enter()?;
        check_known(address, known(stream)?.0 as usize)?;
        of_hip(hip::hipStreamWaitValue64(stream, word(address), value, flags, u64::MAX))
    }
    @11070 [stream: cuStreamWriteValue32_v2_ptsz] cuStreamWriteValue32_v2(
        stream: Handle, address: u64, value: u32, flags: u32,
    ) {
        enter()?;
        of_hip(hip::hipStreamWriteValue32(stream, word(address), value, flags))
    }
    @11070 [stream: cuStreamWriteValue64_v2_ptsz] cuStreamWriteValue64_v2(
        stream: Handle, address: u64, value: u64, flags: u32,
    ) {
        enter()?;
        of_hip(hip::hipStreamWriteValue64(stream, word(address), value, flags))
    }
    @10010 [stream: cuStreamBeginCapture_v2_ptsz] cuStreamBeginCapture_v2(stream: Handle, mode: u32) {
        enter()?;
        of_hip(hip::hipStreamBeginCapture(stream, mode))
    }
    @10000 [stream: cuStreamEndCapture_ptsz] cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        enter()?;
        of_hip(hip::hipStreamEndCapture(stream, graph))
    }
    @10000 [stream: cuStreamIsCapturing_ptsz] cuStreamIsCapturing(stream: Handle, status: *mut u32) {
        enter()?;
        of_hip(hip::hipStreamIsCapturing(stream, status))
    }
    @11030 [stream: cuStreamGetCaptureInfo_v2_ptsz] cuStreamGetCaptureInfo_v2(
        stream: Handle, status: *mut u32, id: *mut u64, graph: *mut Handle, dependencies: *mut *const Handle, count: *mut usize,
    ) {
        enter()?;
        of_hip(hip::hipStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count))
    }
    @10010 cuThreadExchangeStreamCaptureMode(mode: *mut u32) {
        if mode.is_null() {
            return Err(INVALID_VALUE);
        }
        of_hip(hip::hipThreadExchangeStreamCaptureMode(mode))
    }
}
