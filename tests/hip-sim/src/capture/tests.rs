//! Captures affect every thread of a process, so each of these tests runs in a process of its own.

use core::ffi::c_void;
use core::ptr;
use std::thread;

use super::*;
use crate::abi::hipStream_t;
use crate::memory::Kind;
use crate::{copy, device, event, graph, host_function, isolated, memory, set, stream};

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

fn new_stream() -> hipStream_t {
    let mut handle = ptr::null_mut();
    // SAFETY: a local out-parameter.
    assert_eq!(unsafe { stream::create_with_flags(&raw mut handle, 1) }, 0);
    handle
}

fn new_event() -> *mut c_void {
    let mut handle = ptr::null_mut();
    // SAFETY: a local out-parameter.
    assert_eq!(unsafe { event::create_with_flags(&raw mut handle, 0) }, 0);
    handle
}

fn begun(mode: u32) -> hipStream_t {
    let handle = new_stream();
    // SAFETY: handles are looked up, not dereferenced.
    assert_eq!(unsafe { begin(handle, mode) }, 0);
    handle
}

fn ended(stream: hipStream_t) -> Result<*mut c_void, u32> {
    let mut graph = ptr::null_mut();
    // SAFETY: a local out-parameter.
    match unsafe { end(stream, &raw mut graph) } {
        0 => Ok(graph),
        code => Err(code),
    }
}

fn device_memory(size: usize) -> *mut c_void {
    memory::known().allocate(size, Kind::Device, 0).unwrap()
}

fn node_count(graph: *mut c_void) -> usize {
    let mut count = 0;
    // SAFETY: a local out-parameter.
    assert_eq!(unsafe { graph::nodes(graph, ptr::null_mut(), &raw mut count) }, 0);
    count
}

unsafe extern "C" fn add_one(counter: *mut c_void) {
    // SAFETY: the tests pass a counter that outlives the stream's work.
    unsafe { *counter.cast::<u32>() += 1 };
}

#[test]
fn captured_work_does_not_run_until_the_graph_is_launched() {
    isolated::run(&[], || {
        let memory = device_memory(4);
        let stream = begun(GLOBAL);
        let mut counter = 0_u32;
        let (mut exec, mut back) = (ptr::null_mut(), 0_u32);
        // SAFETY: live handles, local memory that outlives the work.
        unsafe {
            assert_eq!(set::memset_d32_async(memory, 7, 1, stream), 0);
            assert_eq!(host_function::launch(stream, Some(add_one), (&raw mut counter).cast()), 0);
            let graph = ended(stream).unwrap();
            assert_eq!(counter, 0);
            assert_eq!(node_count(graph), 2);
            assert_eq!(graph::instantiate(&raw mut exec, graph, ptr::null_mut(), ptr::null_mut(), 0), 0);
            for _ in 0..3 {
                assert_eq!(graph::launch(exec, stream), 0);
            }
            assert_eq!(stream::synchronize(stream), 0);
            assert_eq!(counter, 3);
            assert_eq!(copy::device_to_host((&raw mut back).cast(), memory, 4), 0);
        }
        assert_eq!(back, 7);
    });
}

#[test]
fn a_stream_joins_through_an_event_and_must_be_joined_back() {
    isolated::run(&[], || {
        let (origin, branch) = (begun(GLOBAL), new_stream());
        let (fork, join) = (new_event(), new_event());
        let memory = device_memory(16);
        let mut status = 9;
        // SAFETY: live handles and local out-parameters.
        unsafe {
            assert_eq!(set::memset_async(memory, 1, 16, origin), 0);
            assert_eq!(event::record(fork, origin), 0);
            assert_eq!(stream::wait_event(branch, fork, 0), 0);
            assert_eq!(is_capturing(branch, &raw mut status), 0);
            assert_eq!(status, 1);
            assert_eq!(set::memset_async(memory, 2, 8, branch), 0);
            assert_eq!(ended(branch), Err(HipError::StreamCaptureUnmatched.code()));
            assert_eq!(event::record(join, branch), 0);
            assert_eq!(stream::wait_event(origin, join, 0), 0);
            assert_eq!(node_count(ended(origin).unwrap()), 2);
            assert_eq!(is_capturing(branch, &raw mut status), 0);
            assert_eq!(status, 0, "the capture is over for every stream");

            assert_eq!(begin(origin, GLOBAL), 0);
            assert_eq!(event::record(fork, origin), 0);
            assert_eq!(stream::wait_event(branch, fork, 0), 0);
            assert_eq!(set::memset_async(memory, 2, 8, branch), 0);
            assert_eq!(ended(origin), Err(HipError::StreamCaptureUnjoined.code()));
        }
    });
}

#[test]
fn a_global_capture_forbids_allocation_to_every_thread() {
    isolated::run(&[], || {
        let stream = begun(GLOBAL);
        let allocate = || {
            let mut memory = ptr::null_mut();
            // SAFETY: a local out-parameter.
            unsafe { memory::malloc(&raw mut memory, 64) }
        };
        let elsewhere = thread::spawn(allocate).join().unwrap();
        assert_eq!(elsewhere, HipError::StreamCaptureUnsupported.code());
        // SAFETY: a live handle.
        let code = unsafe { set::memset_async(device_memory(4), 0, 4, stream) };
        assert_eq!(code, HipError::StreamCaptureInvalidated.code());
        assert_eq!(ended(stream), Err(HipError::StreamCaptureInvalidated.code()));
        assert_eq!(allocate(), 0);
    });
}

#[test]
fn a_thread_local_capture_forbids_allocation_to_its_own_thread_and_a_relaxed_one_to_no_thread() {
    isolated::run(&[], || {
        let allocate = || {
            let mut memory = ptr::null_mut();
            // SAFETY: a local out-parameter.
            unsafe { memory::malloc(&raw mut memory, 64) }
        };
        let local = begun(THREAD_LOCAL);
        assert_eq!(thread::spawn(allocate).join().unwrap(), 0);
        assert_eq!(allocate(), HipError::StreamCaptureUnsupported.code());
        assert_eq!(ended(local), Err(HipError::StreamCaptureInvalidated.code()));

        let relaxed = begun(RELAXED);
        assert_eq!(allocate(), 0);
        assert!(ended(relaxed).is_ok());
    });
}

#[test]
fn an_exchanged_mode_lets_a_thread_allocate_during_a_capture() {
    isolated::run(&[], || {
        let stream = begun(THREAD_LOCAL);
        let (mut mode, mut memory) = (RELAXED, ptr::null_mut());
        // SAFETY: local parameters.
        unsafe {
            assert_eq!(exchange_mode(&raw mut mode), 0);
            assert_eq!(mode, GLOBAL, "threads begin in global mode");
            assert_eq!(memory::malloc(&raw mut memory, 64), 0);
        }
        assert!(ended(stream).is_ok());
    });
}

#[test]
fn calls_that_wait_for_the_device_invalidate_captures_of_every_mode() {
    isolated::run(&[], || {
        for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
            let stream = begun(mode);
            let mut word = 0_u32;
            // SAFETY: local memory.
            let code = unsafe { copy::device_to_host((&raw mut word).cast(), device_memory(4), 4) };
            assert_eq!(code, HipError::StreamCaptureImplicit.code());
            assert_eq!(ended(stream), Err(HipError::StreamCaptureInvalidated.code()));

            let stream = begun(mode);
            // SAFETY: no parameters.
            assert_eq!(unsafe { device::synchronize() }, HipError::StreamCaptureUnsupported.code());
            assert_eq!(ended(stream), Err(HipError::StreamCaptureInvalidated.code()));
        }
    });
}

#[test]
fn a_captured_stream_or_event_cannot_be_awaited() {
    isolated::run(&[], || {
        let (stream, event) = (begun(RELAXED), new_event());
        // SAFETY: live handles.
        unsafe {
            assert_eq!(event::record(event, stream), 0);
            assert_eq!(event::synchronize(event), HipError::CapturedEvent.code());
            assert_eq!(ended(stream), Err(HipError::StreamCaptureInvalidated.code()));
            assert_eq!(begin(stream, RELAXED), 0);
            assert_eq!(stream::synchronize(stream), HipError::StreamCaptureUnsupported.code());
            assert_eq!(ended(stream), Err(HipError::StreamCaptureInvalidated.code()));
        }
    });
}

#[test]
fn captures_begin_and_end_only_on_streams_that_allow_it() {
    isolated::run(&[], || {
        // SAFETY: handles are looked up, not dereferenced.
        unsafe {
            assert_eq!(begin(ptr::null_mut(), GLOBAL), HipError::StreamCaptureUnsupported.code());
            assert_eq!(begin(new_stream(), 3), HipError::InvalidValue.code());
        }
        let stream = begun(GLOBAL);
        // SAFETY: a live handle.
        assert_eq!(unsafe { begin(stream, GLOBAL) }, HipError::IllegalState.code());
        let address = stream as usize;
        let elsewhere = thread::spawn(move || ended(ptr::with_exposed_provenance_mut(address)).map(drop));
        let elsewhere = elsewhere.join().unwrap();
        assert_eq!(elsewhere, Err(HipError::StreamCaptureWrongThread.code()));
        assert!(ended(stream).is_ok());
        assert_eq!(ended(stream), Err(HipError::IllegalState.code()));
    });
}

#[test]
fn two_captures_do_not_merge() {
    isolated::run(&[], || {
        let (first, second, event) = (begun(RELAXED), begun(RELAXED), new_event());
        // SAFETY: live handles.
        unsafe {
            assert_eq!(event::record(event, first), 0);
            assert_eq!(stream::wait_event(second, event, 0), HipError::StreamCaptureMerge.code());
        }
        assert_eq!(ended(first), Err(HipError::StreamCaptureInvalidated.code()));
        assert_eq!(ended(second), Err(HipError::StreamCaptureInvalidated.code()));
    });
}

#[test]
fn the_state_of_a_capture_can_be_read_and_its_dependencies_replaced() {
    isolated::run(&[], || {
        let stream = begun(GLOBAL);
        let (mut status, mut id, mut graph, mut count) = (0, 0, ptr::null_mut(), 9);
        let mut nodes = ptr::null();
        // SAFETY: live handles and local out-parameters.
        unsafe {
            assert_eq!(set::memset_async(device_memory(4), 0, 4, stream), 0);
            let read =
                info_v2(stream, &raw mut status, &raw mut id, &raw mut graph, &raw mut nodes, &raw mut count);
            assert_eq!((read, status, count), (0, 1, 1));
            assert!(id != 0);
            let mut added = ptr::null_mut();
            assert_eq!(graph::add_empty(&raw mut added, graph, nodes, count), 0);
            assert_eq!(update_dependencies(stream, &raw mut added, 1, 1), 0);
        }
        assert_eq!(ended(stream), Ok(graph));
        assert_eq!(node_count(graph), 2);
    });
}

#[test]
fn a_broken_capture_leaves_its_stream_without_work_until_the_next() {
    isolated::run(&[], || {
        let (stream, other, memory) = (begun(GLOBAL), new_stream(), device_memory(16));
        let mut status = 9;
        // SAFETY: live handles and local out-parameters.
        unsafe {
            assert_eq!(stream::query(stream), HipError::StreamCaptureUnsupported.code());
            assert_eq!(ended(stream), Err(HipError::StreamCaptureInvalidated.code()));
            assert_eq!(ended(stream), Err(HipError::StreamCaptureWrongThread.code()));
            assert_eq!(is_capturing(stream, &raw mut status), 0);
            assert_eq!(status, 2);
            let refused = HipError::StreamCaptureInvalidated.code();
            assert_eq!(set::memset_async(memory, 1, 16, stream), refused);
            assert_eq!(set::memset_async(memory, 1, 16, other), 0);
            assert_eq!(stream::synchronize(other), 0, "nothing else is forbidden any more");
            assert_eq!(stream::synchronize(stream), 0);
            assert_eq!(begin(stream, GLOBAL), 0);
            assert_eq!(set::memset_async(memory, 1, 16, stream), 0);
            assert_eq!(node_count(ended(stream).unwrap()), 1);

            assert_eq!(begin(stream, RELAXED), 0);
            assert_eq!(stream::query(stream), HipError::StreamCaptureUnsupported.code());
            for _ in 0..2 {
                assert_eq!(ended(stream), Err(refused), "no thread is wrong");
            }
            assert_eq!(stream::destroy(stream), 0);
        }
        assert!(sessions().is_empty());
    });
}
