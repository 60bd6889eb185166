//! Streams: in-order queues with HIP's handles, and the functions that manage them.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use crate::abi::{hipDevice_t, hipError_t, hipEvent_t, hipStream_t};
use crate::boundary::{self, write};
use crate::engine::{Command, Completion, Queue};
use crate::error::HipError;
use crate::runtime::{self, Runtime};

/// The other handle of the null stream.
const LEGACY: usize = 1;
/// The calling thread's default stream.
const PER_THREAD: usize = 2;
const FLAG_NON_BLOCKING: u32 = 1;
/// Priorities from most to least urgent, which is from small to large.
pub(crate) const PRIORITIES: core::ops::RangeInclusive<i32> = -1..=1;

/// How a stream's commands relate to the null stream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordering {
    /// It is the null stream.
    Legacy,
    /// Waits for the null stream, and the null stream for it.
    Blocking,
    /// Unrelated.
    NonBlocking,
}

/// A stream; it lives until its handle is destroyed and its last command finished.
pub(crate) struct Stream {
    queue: Queue,
    ordering: Ordering,
    flags: u32,
    priority: i32,
}

impl Stream {
    pub(crate) fn new(queue: Queue, ordering: Ordering, flags: u32, priority: i32) -> Self {
        Self { queue, ordering, flags, priority }
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn ordering(&self) -> Ordering {
        self.ordering
    }

    /// Blocks until everything submitted so far is finished; on the null stream that includes blocking streams.
    pub(crate) fn synchronize(&self, runtime: &Runtime) {
        for completion in self.outstanding(runtime) {
            completion.wait();
        }
    }

    fn outstanding(&self, runtime: &Runtime) -> Vec<Arc<Completion>> {
        let mut all: Vec<_> = self.queue.unfinished().into_iter().collect();
        if self.ordering == Ordering::Legacy {
            all.extend(runtime.implicit_waits(self));
        }
        all
    }
}

/// The stream behind a handle; none if there is no such stream.
pub(crate) fn resolve(handle: hipStream_t) -> Option<Arc<Stream>> {
    let runtime = runtime::get();
    match handle as usize {
        0 | LEGACY => Some(Arc::clone(runtime.legacy_stream())),
        PER_THREAD => Some(per_thread(runtime)),
        _ => runtime.streams.get(handle),
    }
}

/// For the `_spt` functions, to which a null stream is the calling thread's own.
pub(crate) fn or_per_thread(handle: hipStream_t) -> hipStream_t {
    if handle.is_null() { ptr::without_provenance_mut(PER_THREAD) } else { handle }
}

/// This thread's default stream and its handle, which must go when the thread ends.
struct PerThread {
    stream: Arc<Stream>,
    handle: *mut c_void,
}

impl Drop for PerThread {
    /// Waits for the stream's work, as the genuine runtime does: nothing could wait for it afterwards.
    fn drop(&mut self) {
        let runtime = runtime::get();
        runtime.streams.remove(self.handle);
        self.stream.synchronize(runtime);
    }
}

thread_local! {
    static OF_THIS_THREAD: RefCell<Option<PerThread>> = const { RefCell::new(None) };
}

/// Made when first asked for. A thread that is past its locals' destruction gets the null stream.
fn per_thread(runtime: &Runtime) -> Arc<Stream> {
    let existing_or_new = OF_THIS_THREAD.try_with(|slot| {
        let mut slot = slot.borrow_mut();
        let per_thread = slot.get_or_insert_with(|| {
            let stream = Arc::new(Stream::new(runtime.new_queue(), Ordering::Blocking, 0, 0));
            PerThread { handle: runtime.streams.insert(&stream), stream }
        });
        Arc::clone(&per_thread.stream)
    });
    existing_or_new.unwrap_or_else(|_| Arc::clone(runtime.legacy_stream()))
}

/// `hipStreamCreate`
pub(crate) unsafe extern "C" fn create(stream: *mut hipStream_t) -> hipError_t {
    boundary::call(|| new_stream(stream, 0, 0))
}

/// `hipStreamCreateWithFlags`
pub(crate) unsafe extern "C" fn create_with_flags(stream: *mut hipStream_t, flags: u32) -> hipError_t {
    boundary::call(|| new_stream(stream, flags, 0))
}

/// `hipStreamCreateWithPriority`: a priority out of range becomes the nearest that is in it.
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
    let runtime = runtime::get();
    let stream = Arc::new(Stream::new(runtime.new_queue(), ordering, flags, priority));
    // SAFETY: an out-parameter of the caller.
    unsafe { write(out, runtime.streams.insert(&stream)) }
}

/// `hipStreamDestroy`: waits for what is submitted, as the genuine runtime does.
pub(crate) unsafe extern "C" fn destroy(stream: hipStream_t) -> hipError_t {
    boundary::call(|| {
        if matches!(stream as usize, 0 | PER_THREAD) {
            return Err(HipError::InvalidHandle);
        }
        let runtime = runtime::get();
        let stream = runtime.streams.remove(stream).ok_or(HipError::ContextIsDestroyed)?;
        stream.synchronize(runtime);
        Ok(())
    })
}

/// `hipStreamQuery`
pub(crate) unsafe extern "C" fn query(stream: hipStream_t) -> hipError_t {
    boundary::call(|| {
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        if stream.outstanding(runtime::get()).is_empty() { Ok(()) } else { Err(HipError::NotReady) }
    })
}

/// `hipStreamQuery_spt`
pub(crate) unsafe extern "C" fn query_spt(stream: hipStream_t) -> hipError_t {
    // SAFETY: the function asks nothing of its caller beyond what this one was promised.
    unsafe { query(or_per_thread(stream)) }
}

/// `hipStreamSynchronize`
pub(crate) unsafe extern "C" fn synchronize(stream: hipStream_t) -> hipError_t {
    boundary::call(|| {
        resolve(stream).ok_or(HipError::ContextIsDestroyed)?.synchronize(runtime::get());
        Ok(())
    })
}

/// `hipStreamSynchronize_spt`
pub(crate) unsafe extern "C" fn synchronize_spt(stream: hipStream_t) -> hipError_t {
    // SAFETY: as in `query_spt`.
    unsafe { synchronize(or_per_thread(stream)) }
}

/// `hipStreamGetFlags`: the null stream has none to give.
pub(crate) unsafe extern "C" fn flags(stream: hipStream_t, flags: *mut u32) -> hipError_t {
    boundary::call(|| {
        if matches!(stream as usize, 0 | LEGACY) {
            return Err(HipError::InvalidValue);
        }
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        // SAFETY: an out-parameter of the caller.
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
        // SAFETY: an out-parameter of the caller.
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
        resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        // SAFETY: an out-parameter of the caller.
        unsafe { write(device, 0) }
    })
}

/// `hipGetStreamDeviceId`: -1 for no stream.
pub(crate) unsafe extern "C" fn device_id(stream: hipStream_t) -> i32 {
    boundary::value(-1, || resolve(stream).map_or(-1, |_| 0))
}

/// `hipStreamWaitEvent`
pub(crate) unsafe extern "C" fn wait_event(stream: hipStream_t, event: hipEvent_t, flags: u32) -> hipError_t {
    boundary::call(|| {
        let runtime = runtime::get();
        let event = runtime.events.get(event).ok_or(HipError::InvalidHandle)?;
        let stream = resolve(stream).ok_or(HipError::InvalidHandle)?;
        if flags != 0 {
            return Err(HipError::InvalidValue);
        }
        if let Some(unfinished) = event.completion().filter(|c| c.poll().is_none()) {
            runtime.submit(&stream, Command { waits: vec![unfinished], ..Command::marker() });
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

    fn created(flags: u32) -> hipStream_t {
        let mut stream = ptr::null_mut();
        // SAFETY: a local out-parameter.
        assert_eq!(unsafe { create_with_flags(&raw mut stream, flags) }, 0);
        stream
    }

    #[test]
    fn a_destroyed_stream_is_no_longer_valid() {
        let stream = created(0);
        // SAFETY: handles are checked, not followed.
        unsafe {
            assert_eq!(query(stream), 0);
            assert_eq!(destroy(stream), 0);
            assert_eq!(query(stream), HipError::ContextIsDestroyed.code());
            assert_eq!(destroy(stream), HipError::ContextIsDestroyed.code());
            assert_eq!(destroy(ptr::null_mut()), HipError::InvalidHandle.code());
        }
    }

    #[test]
    fn the_null_stream_waits_for_blocking_streams_and_not_for_others() {
        let runtime = runtime::get();
        let (blocking, other) = (resolve(created(0)).unwrap(), resolve(created(FLAG_NON_BLOCKING)).unwrap());
        let slow = runtime.submit(&blocking, Command::kernel(20_000_000, || ()));
        let (gate, open) = Command::gate();
        let unrelated = runtime.submit(&other, gate);
        let null = runtime.submit(runtime.legacy_stream(), Command::marker()).wait();
        assert!(null.end_ns >= slow.poll().expect("awaited").end_ns);
        assert!(unrelated.poll().is_none());
        drop(open);
    }

    #[test]
    fn a_blocking_stream_waits_for_the_null_stream() {
        let runtime = runtime::get();
        let blocking = resolve(created(0)).unwrap();
        let null = runtime.submit(runtime.legacy_stream(), Command::kernel(5_000_000, || ()));
        runtime.submit(&blocking, Command::marker()).wait();
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
