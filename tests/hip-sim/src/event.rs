//! Events: handles for the completion of the work that a stream held when the event was recorded.

use std::sync::Arc;

use crate::abi::{hipError_t, hipEvent_t, hipStream_t};
use crate::boundary::{self, write};
use crate::engine::Command;
use crate::error::HipError;
use crate::operation::Operation;
use crate::{capture, stream};

mod object;

use object::FLAG_DISABLE_TIMING;
pub(crate) use object::{Event, listed};

const FLAG_INTERPROCESS: u32 = 0x4;
/// For `hipEventRecordWithFlags`: a capture adds a node that records the event.
const FLAG_RECORD_EXTERNAL: u32 = 0x1;
/// Release to device, release to system, no system fence; at most one may be set.
const FLAGS_RELEASE: u32 = 0x4000_0000 | 0x8000_0000 | 0x2000_0000;
const FLAGS_ALL: u32 = 0x1 | FLAG_DISABLE_TIMING | FLAG_INTERPROCESS | FLAGS_RELEASE;

/// The event for a call's handle; null and destroyed events are invalid handles.
fn resolve(event: hipEvent_t) -> Result<Arc<Event>, HipError> {
    listed().get(event).ok_or(HipError::InvalidHandle)
}

/// The event for a launch's handle; null means none.
pub(crate) fn resolve_optional(event: hipEvent_t) -> Result<Option<Arc<Event>>, HipError> {
    if event.is_null() {
        return Ok(None);
    }
    listed().get(event).map(Some).ok_or(HipError::InvalidValue)
}

/// `hipEventCreate`
pub(crate) unsafe extern "C" fn create(event: *mut hipEvent_t) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { create_with_flags(event, 0) }
}

/// `hipEventCreateWithFlags`
pub(crate) unsafe extern "C" fn create_with_flags(event: *mut hipEvent_t, flags: u32) -> hipError_t {
    boundary::call(|| {
        let is_valid = flags & !FLAGS_ALL == 0
            && (flags & FLAGS_RELEASE).count_ones() <= 1
            && (flags & FLAG_INTERPROCESS == 0 || flags & FLAG_DISABLE_TIMING != 0);
        if !is_valid || event.is_null() {
            return Err(HipError::InvalidValue);
        }
        let object = Arc::new(Event::new(flags));
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(event, listed().insert(&object)) }
    })
}

/// `hipEventDestroy`
pub(crate) unsafe extern "C" fn destroy(event: hipEvent_t) -> hipError_t {
    boundary::call(|| {
        if event.is_null() {
            return Err(HipError::InvalidHandle);
        }
        listed().remove(event).map(drop).ok_or(HipError::ContextIsDestroyed)
    })
}

fn record_on(event: hipEvent_t, stream: hipStream_t, flags: u32) -> Result<(), HipError> {
    let event = resolve(event)?;
    let stream = stream::resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
    if flags & !FLAG_RECORD_EXTERNAL != 0 {
        return Err(HipError::InvalidValue);
    }
    if let Some(moment) = stream.captured_moment() {
        if flags == FLAG_RECORD_EXTERNAL {
            return capture::add(&stream, Operation::Record(event));
        }
        event.record_captured(moment);
        return Ok(());
    }
    event.record_completion(stream.submit(Command::marker()));
    Ok(())
}

/// `hipEventRecord`
pub(crate) unsafe extern "C" fn record(event: hipEvent_t, stream: hipStream_t) -> hipError_t {
    boundary::call(|| record_on(event, stream, 0))
}

/// `hipEventRecordWithFlags`
pub(crate) unsafe extern "C" fn record_with_flags(
    event: hipEvent_t,
    stream: hipStream_t,
    flags: u32,
) -> hipError_t {
    boundary::call(|| record_on(event, stream, flags))
}

/// `hipEventRecord_spt`
pub(crate) unsafe extern "C" fn record_spt(event: hipEvent_t, stream: hipStream_t) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { record(event, stream::or_per_thread(stream)) }
}

/// `hipEventQuery`: an event that was never recorded is ready.
pub(crate) unsafe extern "C" fn query(event: hipEvent_t) -> hipError_t {
    boundary::call(|| {
        let event = resolve(event)?;
        event.moment().map_or(Ok(()), |moment| capture::check_event(&moment))?;
        let is_pending = event.completion().is_some_and(|c| c.poll().is_none());
        if is_pending { Err(HipError::NotReady) } else { Ok(()) }
    })
}

/// `hipEventSynchronize`
pub(crate) unsafe extern "C" fn synchronize(event: hipEvent_t) -> hipError_t {
    boundary::call(|| {
        let event = resolve(event)?;
        event.moment().map_or(Ok(()), |moment| capture::check_event(&moment))?;
        if let Some(completion) = event.completion() {
            completion.wait();
        }
        Ok(())
    })
}

/// `hipEventElapsedTime`: milliseconds on the simulated timeline.
pub(crate) unsafe extern "C" fn elapsed_time(
    ms: *mut f32,
    start: hipEvent_t,
    stop: hipEvent_t,
) -> hipError_t {
    boundary::call(|| {
        if ms.is_null() {
            return Err(HipError::InvalidValue);
        }
        let (start, stop) = (resolve(start)?, resolve(stop)?);
        let elapsed_ns = elapsed_ns(&start, &stop)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(ms, elapsed_ns as f32 / 1e6) }
    })
}

fn elapsed_ns(start: &Event, stop: &Event) -> Result<i64, HipError> {
    if !start.is_timed() || !stop.is_timed() {
        return Err(HipError::InvalidHandle);
    }
    let (started, begin_by_launch) = start.submitted()?;
    let (stopped, end_by_launch) = stop.submitted()?;
    let begin = started.poll().ok_or(HipError::NotReady)?;
    let end = stopped.poll().ok_or(HipError::NotReady)?;
    // The two events of a launch bracket the kernel, not the markers.
    let begin_ns = if begin_by_launch && end_by_launch { end.start_ns } else { begin.end_ns };
    Ok(end.end_ns.cast_signed() - begin_ns.cast_signed())
}

#[cfg(test)]
mod tests {
    use core::ffi::c_void;
    use core::ptr;

    use super::*;

    fn created(flags: u32) -> *mut c_void {
        let mut event = ptr::null_mut();
        // SAFETY: a local out-parameter.
        assert_eq!(unsafe { create_with_flags(&raw mut event, flags) }, 0);
        event
    }

    #[test]
    fn elapsed_time_is_measured_on_the_timeline() {
        let stream = stream::resolve(ptr::without_provenance_mut(2)).unwrap();
        let (start, stop) = (created(0), created(0));
        let mut ms = 0.0;
        // SAFETY: live handles and a local out-parameter.
        unsafe {
            let handle = ptr::without_provenance_mut(2);
            let (gate, open) = Command::gate();
            stream.submit(gate);
            assert_eq!(record(start, handle), 0);
            for _ in 0..10 {
                stream.submit(Command::kernel(1_000_000, || ()));
            }
            assert_eq!(record(stop, handle), 0);
            assert_eq!(elapsed_time(&raw mut ms, start, stop), HipError::NotReady.code());
            drop(open);
            assert_eq!(synchronize(stop), 0);
            assert_eq!(query(stop), 0);
            assert_eq!(elapsed_time(&raw mut ms, start, stop), 0);
        }
        assert!(ms >= 10.0, "ten kernels of a millisecond took {ms} ms");
    }

    #[test]
    fn flags_are_checked_as_the_genuine_runtime_does() {
        let mut event = ptr::null_mut();
        for flags in [FLAG_INTERPROCESS, 0x8, 0x6000_0000] {
            // SAFETY: a local out-parameter.
            let code = unsafe { create_with_flags(&raw mut event, flags) };
            assert_eq!(code, HipError::InvalidValue.code(), "flags {flags:#x}");
        }
    }

    #[test]
    fn an_event_without_timing_has_no_elapsed_time() {
        let (start, stop) = (created(FLAG_DISABLE_TIMING), created(0));
        let mut ms = 0.0;
        // SAFETY: live handles and a local out-parameter.
        let code = unsafe { elapsed_time(&raw mut ms, start, stop) };
        assert_eq!(code, HipError::InvalidHandle.code());
    }
}
