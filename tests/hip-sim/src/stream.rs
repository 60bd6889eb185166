//! Streams: in-order queues with HIP's handles, and the functions that manage them.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::abi::{hipDevice_t, hipError_t, hipEvent_t, hipStream_t};
use crate::boundary::{self, write};
use crate::engine::Command;
use crate::error::HipError;
use crate::operation::Operation;
use crate::{capture, devices, event};

mod extras;
mod object;

pub(crate) use extras::{attribute, copy_attributes, create_with_mask, destroy_all, id, mask, set_attribute};
pub(crate) use object::{
    Ordering, Stream, SubmissionGuard, legacy, listed, new_queue, submit_to, wait_for_all, wait_for_device,
};

/// The other handle of the null stream.
const LEGACY: usize = 1;
/// The calling thread's default stream.
const PER_THREAD: usize = 2;
const FLAG_NON_BLOCKING: u32 = 1;
/// In a capture: adds a node that waits, at launch, for the event's record at that time.
const FLAG_WAIT_EXTERNAL: u32 = 1;
/// Priorities from most to least urgent; smaller numbers are more urgent.
pub(crate) const PRIORITIES: core::ops::RangeInclusive<i32> = -1..=1;

/// The stream for a handle; none if the handle is invalid.
pub(crate) fn resolve(handle: hipStream_t) -> Option<Arc<Stream>> {
    match handle as usize {
        0 | LEGACY => devices::of_this_thread().map(|_| Arc::clone(legacy(devices::current()))),
        PER_THREAD => per_thread(),
        _ => listed().get(handle),
    }
}

/// For the `_spt` functions, in which both handles of the null stream mean the calling thread's default stream
/// (`PER_THREAD_DEFAULT_STREAM` in <https://github.com/ROCm/clr/blob/rocm-6.3.0/hipamd/src/hip_internal.hpp>).
pub(crate) fn or_per_thread(handle: hipStream_t) -> hipStream_t {
    if matches!(handle.addr(), 0 | LEGACY) { ptr::without_provenance_mut(PER_THREAD) } else { handle }
}

/// This thread's default stream and its handle, which is destroyed when the thread ends.
struct PerThread {
    stream: Arc<Stream>,
    handle: *mut c_void,
}

impl Drop for PerThread {
    /// Waits for the stream's work, as the genuine runtime does, because nothing could wait for it
    /// afterwards.
    fn drop(&mut self) {
        // While the stream is listed, a thread that waits for the device waits for it too.
        self.stream.synchronize();
        listed().remove(self.handle);
    }
}

thread_local! {
    /// By the device's ordinal.
    static OF_THIS_THREAD: RefCell<BTreeMap<usize, PerThread>> = const { RefCell::new(BTreeMap::new()) };
}

/// Created on first use, one for each device. A thread whose locals are already destroyed gets the null
/// stream.
fn per_thread() -> Option<Arc<Stream>> {
    devices::of_this_thread()?;
    let device = devices::current();
    let existing_or_new = OF_THIS_THREAD.try_with(|streams| {
        let mut streams = streams.borrow_mut();
        let per_thread = streams.entry(device).or_insert_with(|| {
            let stream = Arc::new(Stream::new(new_queue(device, 0), device, Ordering::Blocking, 0, 0));
            PerThread { handle: listed().insert(&stream), stream }
        });
        Arc::clone(&per_thread.stream)
    });
    Some(existing_or_new.unwrap_or_else(|_| Arc::clone(legacy(device))))
}

/// `hipStreamCreate`
pub(crate) unsafe extern "C" fn create(stream: *mut hipStream_t) -> hipError_t {
    boundary::call(|| new_stream(stream, 0, 0))
}

/// `hipStreamCreateWithFlags`
pub(crate) unsafe extern "C" fn create_with_flags(stream: *mut hipStream_t, flags: u32) -> hipError_t {
    boundary::call(|| new_stream(stream, flags, 0))
}

/// `hipStreamCreateWithPriority`: a priority out of range is clamped.
pub(crate) unsafe extern "C" fn create_with_priority(
    stream: *mut hipStream_t,
    flags: u32,
    priority: i32,
) -> hipError_t {
    boundary::call(|| new_stream(stream, flags, priority.clamp(*PRIORITIES.start(), *PRIORITIES.end())))
}

fn new_stream(out: *mut hipStream_t, flags: u32, priority: i32) -> Result<(), HipError> {
    let ordering = match flags {
        0 => Ordering::Blocking,
        FLAG_NON_BLOCKING => Ordering::NonBlocking,
        _ => return Err(HipError::InvalidValue),
    };
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    devices::of_this_thread().ok_or(HipError::NoDevice)?;
    let device = devices::current();
    let stream = Arc::new(Stream::new(new_queue(device, priority), device, ordering, flags, priority));
    // SAFETY: the caller passes null or a writable out-parameter.
    unsafe { write(out, listed().insert(&stream)) }
}

/// `hipStreamDestroy`: waits for submitted work, as the genuine runtime does.
pub(crate) unsafe extern "C" fn destroy(stream: hipStream_t) -> hipError_t {
    boundary::call(|| {
        if matches!(stream as usize, 0 | PER_THREAD) {
            return Err(HipError::InvalidHandle);
        }
        let destroyed = listed().get(stream).ok_or(HipError::ContextIsDestroyed)?;
        destroyed.abandon_capture();
        // While the stream is listed, a thread that waits for the device waits for it too.
        destroyed.synchronize();
        listed().remove(stream).map(drop).ok_or(HipError::ContextIsDestroyed)
    })
}

/// `hipStreamQuery`
pub(crate) unsafe extern "C" fn query(stream: hipStream_t) -> hipError_t {
    boundary::call(|| {
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        if stream.ordering() != Ordering::Legacy {
            capture::check_waiting_for(&stream)?;
        }
        if stream.outstanding().is_empty() { Ok(()) } else { Err(HipError::NotReady) }
    })
}

/// `hipStreamQuery_spt`
pub(crate) unsafe extern "C" fn query_spt(stream: hipStream_t) -> hipError_t {
    // SAFETY: the function has no requirements beyond this one's.
    unsafe { query(or_per_thread(stream)) }
}

/// `hipStreamSynchronize`
pub(crate) unsafe extern "C" fn synchronize(stream: hipStream_t) -> hipError_t {
    boundary::call(|| {
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        if stream.ordering() != Ordering::Legacy {
            capture::check_waiting_for(&stream)?;
        }
        stream.synchronize();
        Ok(())
    })
}

/// `hipStreamSynchronize_spt`
pub(crate) unsafe extern "C" fn synchronize_spt(stream: hipStream_t) -> hipError_t {
    // SAFETY: as in `query_spt`.
    unsafe { synchronize(or_per_thread(stream)) }
}

/// `hipStreamGetFlags`: the null stream has no flags.
pub(crate) unsafe extern "C" fn flags(stream: hipStream_t, flags: *mut u32) -> hipError_t {
    boundary::call(|| {
        if matches!(stream as usize, 0 | LEGACY) {
            return Err(HipError::InvalidValue);
        }
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(flags, stream.flags) }
    })
}

/// `hipStreamGetFlags_spt`
pub(crate) unsafe extern "C" fn flags_spt(stream: hipStream_t, out: *mut u32) -> hipError_t {
    // SAFETY: as in `query_spt`.
    unsafe { flags(or_per_thread(stream), out) }
}

/// `hipStreamGetPriority`
pub(crate) unsafe extern "C" fn priority(stream: hipStream_t, priority: *mut i32) -> hipError_t {
    boundary::call(|| {
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(priority, stream.priority) }
    })
}

/// `hipStreamGetPriority_spt`
pub(crate) unsafe extern "C" fn priority_spt(stream: hipStream_t, out: *mut i32) -> hipError_t {
    // SAFETY: as in `query_spt`.
    unsafe { priority(or_per_thread(stream), out) }
}

/// `hipStreamGetDevice`
pub(crate) unsafe extern "C" fn device(stream: hipStream_t, device: *mut hipDevice_t) -> hipError_t {
    boundary::call(|| {
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(device, stream.device() as i32) }
    })
}

/// `hipGetStreamDeviceId`: -1 for an invalid stream.
pub(crate) unsafe extern "C" fn device_id(stream: hipStream_t) -> i32 {
    boundary::value(-1, || resolve(stream).map_or(-1, |stream| stream.device() as i32))
}

/// `hipStreamWaitEvent`: an event recorded in a capture makes the stream join it.
pub(crate) unsafe extern "C" fn wait_event(stream: hipStream_t, event: hipEvent_t, flags: u32) -> hipError_t {
    boundary::call(|| {
        let event = event::listed().get(event).ok_or(HipError::InvalidHandle)?;
        let stream = resolve(stream).ok_or(HipError::InvalidHandle)?;
        if flags & !FLAG_WAIT_EXTERNAL != 0 {
            return Err(HipError::InvalidValue);
        }
        if flags == FLAG_WAIT_EXTERNAL && stream.is_captured()? {
            return capture::add(&stream, Operation::Wait(event));
        }
        if let Some(moment) = event.moment() {
            if stream.ordering() == Ordering::Legacy {
                return Err(HipError::InvalidHandle);
            }
            return stream.join(&moment);
        }
        if let Some(unfinished) = event.completion().filter(|c| c.poll().is_none()) {
            stream.submit(Command { waits: vec![unfinished], ..Command::marker() });
        }
        Ok(())
    })
}

/// `hipStreamWaitEvent_spt`
pub(crate) unsafe extern "C" fn wait_event_spt(
    stream: hipStream_t,
    event: hipEvent_t,
    flags: u32,
) -> hipError_t {
    // SAFETY: as in `query_spt`.
    unsafe { wait_event(or_per_thread(stream), event, flags) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated;

    fn created(flags: u32) -> hipStream_t {
        let mut stream = ptr::null_mut();
        // SAFETY: a local out-parameter.
        assert_eq!(unsafe { create_with_flags(&raw mut stream, flags) }, 0);
        stream
    }

    #[test]
    fn a_destroyed_stream_is_no_longer_valid() {
        let stream = created(0);
        // SAFETY: handles are looked up, not dereferenced.
        unsafe {
            assert_eq!(query(stream), 0);
            assert_eq!(destroy(stream), 0);
            assert_eq!(query(stream), HipError::ContextIsDestroyed.code());
            assert_eq!(destroy(stream), HipError::ContextIsDestroyed.code());
            assert_eq!(destroy(ptr::null_mut()), HipError::InvalidHandle.code());
        }
    }

    /// Isolated, because with other tests' streams it might share its hardware queue with the command that
    /// blocks its neighbour.
    #[test]
    fn the_null_stream_waits_for_blocking_streams_and_not_for_others() {
        isolated::run(&[], || {
            let [blocking, other] = [0, FLAG_NON_BLOCKING].map(|flags| resolve(created(flags)).unwrap());
            let slow = blocking.submit(Command::kernel(20_000_000, || ()));
            let (gate, open) = Command::gate();
            let unrelated = other.submit(gate);
            let null = legacy(0).submit(Command::marker()).wait();
            assert!(null.end_ns >= slow.poll().expect("awaited").end_ns);
            assert!(unrelated.poll().is_none());
            drop(open);
        });
    }

    #[test]
    fn a_blocking_stream_waits_for_the_null_stream() {
        let blocking = resolve(created(0)).unwrap();
        let null = legacy(0).submit(Command::kernel(5_000_000, || ()));
        blocking.submit(Command::marker()).wait();
        assert!(null.poll().is_some());
    }

    #[test]
    fn each_thread_has_a_default_stream_of_its_own() {
        let handle = ptr::without_provenance_mut(PER_THREAD);
        let mine = Arc::as_ptr(&resolve(handle).unwrap()) as usize;
        let again = Arc::as_ptr(&resolve(handle).unwrap()) as usize;
        assert_eq!(mine, again);
        let theirs = std::thread::spawn(|| {
            Arc::as_ptr(&resolve(ptr::without_provenance_mut(PER_THREAD)).unwrap()) as usize
        });
        assert_ne!(mine, theirs.join().unwrap());
    }
}
