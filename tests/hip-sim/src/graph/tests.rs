//! Graphs built by hand, through HIP's functions.

use core::ffi::c_void;
use core::ptr;
use std::sync::Mutex;

use super::*;
use crate::abi::{hipGraph_t, hipGraphNode_t, hipHostNodeParams, hipMemcpy3DParms, hipMemsetParams};
use crate::error::HipError;
use crate::memory::{self, Kind};
use crate::stream;

fn new_graph() -> hipGraph_t {
    let mut graph = ptr::null_mut();
    // SAFETY: a local out-parameter.
    assert_eq!(unsafe { create(&raw mut graph, 0) }, 0);
    graph
}

fn new_stream() -> *mut c_void {
    let mut handle = ptr::null_mut();
    // SAFETY: a local out-parameter.
    assert_eq!(unsafe { stream::create_with_flags(&raw mut handle, 1) }, 0);
    handle
}

fn executable(graph: hipGraph_t) -> *mut c_void {
    let mut exec = ptr::null_mut();
    // SAFETY: a local out-parameter.
    assert_eq!(unsafe { instantiate_with_flags(&raw mut exec, graph, 0) }, 0);
    exec
}

fn host_node(
    graph: hipGraph_t,
    after: &[hipGraphNode_t],
    log: &Mutex<Vec<u32>>,
    name: u32,
) -> hipGraphNode_t {
    let user = Box::into_raw(Box::new((ptr::from_ref(log), name)));
    let params = hipHostNodeParams { r#fn: Some(write_down), userData: user.cast() };
    let mut node = ptr::null_mut();
    // SAFETY: local parameters.
    let code = unsafe { add_host(&raw mut node, graph, after.as_ptr(), after.len(), &raw const params) };
    assert_eq!(code, 0);
    node
}

unsafe extern "C" fn write_down(user: *mut c_void) {
    // SAFETY: the tests pass such a pair, whose log outlives the launch.
    unsafe {
        let (log, name) = *user.cast::<(*const Mutex<Vec<u32>>, u32)>();
        (*log).lock().unwrap().push(name);
    }
}

fn launched(exec: *mut c_void) {
    let stream = new_stream();
    // SAFETY: live handles.
    unsafe {
        assert_eq!(launch(exec, stream), 0);
        assert_eq!(stream::synchronize(stream), 0);
    }
}

#[test]
fn nodes_run_after_their_dependencies() {
    let log = Mutex::new(Vec::new());
    let graph = new_graph();
    let last = host_node(graph, &[], &log, 3);
    let first = host_node(graph, &[], &log, 1);
    let middle = host_node(graph, &[first], &log, 2);
    // SAFETY: arrays of one element.
    unsafe {
        assert_eq!(add_dependencies(graph, &raw const middle, &raw const last, 1), 0);
        let again = add_dependencies(graph, &raw const middle, &raw const last, 1);
        assert_eq!(again, HipError::InvalidValue.code());
        let circle = add_dependencies(graph, &raw const last, &raw const first, 1);
        assert_eq!(circle, 0);
        let mut exec = ptr::null_mut();
        let code = instantiate_with_flags(&raw mut exec, graph, 0);
        assert_eq!(code, HipError::InvalidValue.code(), "a cycle cannot be launched");
        assert_eq!(remove_dependencies(graph, &raw const last, &raw const first, 1), 0);
    }
    launched(executable(graph));
    assert_eq!(*log.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn a_launch_runs_between_earlier_and_later_work_of_the_stream() {
    let log = Mutex::new(Vec::new());
    let graph = new_graph();
    let root = host_node(graph, &[], &log, 2);
    let branches: Vec<_> = (0..6).map(|_| host_node(graph, &[root], &log, 3)).collect();
    host_node(graph, &branches, &log, 4);
    let (exec, stream) = (executable(graph), new_stream());
    let note = |name| {
        let user = Box::into_raw(Box::new((ptr::from_ref(&log), name)));
        // SAFETY: as in `host_node`.
        assert_eq!(unsafe { crate::host_function::launch(stream, Some(write_down), user.cast()) }, 0);
    };
    note(1);
    // SAFETY: live handles.
    unsafe {
        assert_eq!(launch(exec, stream), 0);
        note(5);
        assert_eq!(launch(exec, stream), 0);
        assert_eq!(stream::synchronize(stream), 0);
    }
    assert_eq!(*log.lock().unwrap(), [1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 2, 3, 3, 3, 3, 3, 3, 4]);
}

#[test]
fn an_executable_is_a_copy_and_takes_new_parameters() {
    let memory = memory::known().allocate(8, Kind::Device, 0).unwrap();
    let graph = new_graph();
    let (mut node, mut error_node, mut result) = (ptr::null_mut(), ptr::null_mut(), 9);
    let mut params = hipMemsetParams { dst: memory, elementSize: 4, height: 1, pitch: 0, value: 7, width: 2 };
    let words = || {
        // SAFETY: eight bytes, and no launch is in progress.
        unsafe { memory.cast::<[u32; 2]>().read() }
    };
    // SAFETY: live handles and local parameters.
    unsafe {
        assert_eq!(add_memset(&raw mut node, graph, ptr::null(), 0, &raw const params), 0);
        let exec = executable(graph);
        params.value = 8;
        assert_eq!(set_memset(node, &raw const params), 0);
        launched(exec);
        assert_eq!(words(), [7, 7]);
        assert_eq!(update(exec, graph, &raw mut error_node, &raw mut result), 0);
        launched(exec);
        assert_eq!((words(), result), ([8, 8], 0));
        params.value = 9;
        assert_eq!(set_exec_memset(exec, node, &raw const params), 0);
        launched(exec);
        assert_eq!(words(), [9, 9]);
        assert_eq!(set_enabled(exec, node, 0), 0);
        params.value = 1;
        assert_eq!(set_exec_memset(exec, node, &raw const params), 0);
        launched(exec);
        assert_eq!(words(), [9, 9], "the node is disabled");

        let mut empty = ptr::null_mut();
        assert_eq!(add_empty(&raw mut empty, graph, ptr::null(), 0), 0);
        let code = update(exec, graph, &raw mut error_node, &raw mut result);
        assert_eq!((code, result), (HipError::GraphExecUpdateFailure.code(), 2));
        assert_eq!(exec_destroy(exec), 0);
        assert_eq!(exec_destroy(exec), HipError::InvalidValue.code());
    }
}

#[test]
fn a_child_graph_is_copied_and_launched_with_its_parent() {
    let log = Mutex::new(Vec::new());
    let (outer, inner) = (new_graph(), new_graph());
    host_node(inner, &[], &log, 2);
    let before = host_node(outer, &[], &log, 1);
    let mut child = ptr::null_mut();
    // SAFETY: live handles and local parameters.
    unsafe {
        assert_eq!(add_child(&raw mut child, outer, &raw const before, 1, inner), 0);
        host_node(outer, &[child], &log, 4);
        host_node(inner, &[], &log, 3);
        let mut copied = ptr::null_mut();
        assert_eq!(child_graph(child, &raw mut copied), 0);
        assert_ne!(copied, inner);
    }
    launched(executable(outer));
    assert_eq!(*log.lock().unwrap(), [1, 2, 4]);
}

#[test]
fn handles_are_invalid_after_their_graph_is_destroyed() {
    let graph = new_graph();
    let (mut node, mut duplicate, mut copied, mut kind) =
        (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 99);
    // SAFETY: handles are looked up, not dereferenced.
    unsafe {
        assert_eq!(add_empty(&raw mut node, graph, ptr::null(), 0), 0);
        assert_eq!(clone(&raw mut copied, graph), 0);
        assert_eq!(find_in_clone(&raw mut duplicate, node, copied), 0);
        assert_eq!(node_type(duplicate, &raw mut kind), 0);
        assert_eq!(kind, 5);
        assert_eq!(destroy(graph), 0);
        assert_eq!(node_type(node, &raw mut kind), HipError::InvalidValue.code());
        assert_eq!(node_type(duplicate, &raw mut kind), 0);
        assert_eq!(destroy(graph), HipError::InvalidValue.code());
    }
}

#[test]
fn copies_are_checked_when_the_node_is_created() {
    let memory = memory::known().allocate(8, Kind::Device, 0).unwrap();
    let (graph, mut node, from) = (new_graph(), ptr::null_mut(), [1_u8; 16]);
    let from = from.as_ptr().cast();
    // SAFETY: local parameters.
    unsafe {
        let too_long = add_memcpy_1d(&raw mut node, graph, ptr::null(), 0, memory, from, 16, 1);
        assert_eq!(too_long, HipError::InvalidValue.code());
        assert_eq!(add_memcpy_1d(&raw mut node, graph, ptr::null(), 0, memory, from, 8, 1), 0);
        let mut params = core::mem::MaybeUninit::<hipMemcpy3DParms>::uninit();
        assert_eq!(get_memcpy(node, params.as_mut_ptr()), 0);
        let params = params.assume_init();
        assert_eq!((params.extent.width, params.extent.height, params.kind), (8, 1, 1));
        assert_eq!(params.dstPtr.ptr, memory.addr());
    }
}

#[test]
fn a_graphs_memory_exists_until_its_last_copy_is_destroyed() {
    let graph = new_graph();
    let mut node = ptr::null_mut();
    let mut params = crate::abi::hipMemAllocNodeParams {
        poolProps: [0; 11],
        accessDescs: ptr::null(),
        accessDescCount: 0,
        bytesize: 64,
        dptr: ptr::null_mut(),
    };
    // SAFETY: live handles and local parameters.
    let exec = unsafe {
        assert_eq!(add_mem_alloc(&raw mut node, graph, ptr::null(), 0, &raw mut params), 0);
        let exec = executable(graph);
        assert_eq!(destroy(graph), 0);
        exec
    };
    let known = || memory::known().find(params.dptr.addr()).is_some();
    assert!(known());
    launched(exec);
    // SAFETY: a live handle.
    assert_eq!(unsafe { exec_destroy(exec) }, 0);
    assert!(!known());
}

#[test]
fn a_user_object_is_destroyed_with_its_last_reference() {
    let log: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    let graph = new_graph();
    let user = Box::into_raw(Box::new((ptr::from_ref(&log), 1_u32)));
    let mut object = ptr::null_mut();
    // SAFETY: live handles and local parameters.
    unsafe {
        assert_eq!(create_user_object(&raw mut object, user.cast(), Some(write_down), 1, 1), 0);
        assert_eq!(retain_user_object_by_graph(graph, object, 1, 1), 0);
        assert!(log.lock().unwrap().is_empty());
        assert_eq!(destroy(graph), 0);
    }
    assert_eq!(*log.lock().unwrap(), [1]);
}
