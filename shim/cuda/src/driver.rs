//! The process's libcuda: its real functions, and the questions and actions of the shim itself.
//!
//! A process has one libcuda, by its SONAME. The shim never opens one that is not mapped. Calls made here go to the real
//! functions and meet no hook.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use xsched_preload::dlsym;

use crate::api::{
    COPY_NODE, COUNT, FILL_NODE, FirstKernelNode, GRAPH_NODE, Handle, Id, KERNEL_NODE, KernelNode, NAMES,
};

/// A result code.
pub(crate) type Code = u32;

/// `CUDA_SUCCESS`, `CUDA_ERROR_INVALID_VALUE`, `CUDA_ERROR_INVALID_CONTEXT`, `CUDA_ERROR_NOT_FOUND`, `CUDA_ERROR_NOT_READY`, `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`
pub(crate) const SUCCESS: Code = 0;
const INVALID_VALUE: Code = 1;
pub(crate) const INVALID_CONTEXT: Code = 201;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
const ALREADY_REGISTERED: Code = 712;

const LIBRARY: &CStr = c"libcuda.so.1";

/// The real functions of the list; null until they are looked up.
static REAL: [AtomicPtr<c_void>; COUNT] = [const { AtomicPtr::new(ptr::null_mut()) }; COUNT];

/// The real function, if the process's libcuda has it.
#[inline]
pub(crate) fn real(id: Id) -> Option<NonNull<c_void>> {
    NonNull::new(REAL[id as usize].load(Ordering::Acquire)).or_else(|| find(id))
}

#[cold]
fn find(id: Id) -> Option<NonNull<c_void>> {
    find_at(id as usize)
}

fn find_at(index: usize) -> Option<NonNull<c_void>> {
    let found = dlsym::look_up(library()?, NAMES.get(index)?)?;
    REAL[index].store(found.as_ptr(), Ordering::Release);
    Some(found)
}

/// The real function with this number in the list.
pub(crate) fn real_at(index: usize) -> Option<NonNull<c_void>> {
    let known = NonNull::new(REAL.get(index)?.load(Ordering::Acquire));
    known.or_else(|| find_at(index))
}

/// The function of the list whose real function lies at an address.
pub(crate) fn id_of(address: *mut c_void) -> Option<usize> {
    static ALL_FOUND: AtomicBool = AtomicBool::new(false);
    // The driver gives no function for a name that it does not know, and may lack some of the list.
    if address.is_null() {
        return None;
    }
    if !ALL_FOUND.load(Ordering::Acquire) {
        let library = library()?;
        for (known, name) in REAL.iter().zip(NAMES) {
            if let Some(found) = dlsym::look_up(library, name) {
                known.store(found.as_ptr(), Ordering::Release);
            }
        }
        ALL_FOUND.store(true, Ordering::Release);
    }
    REAL.iter().position(|known| known.load(Ordering::Acquire) == address)
}

/// The release of CUDA whose functions the list knows.
const KNOWN_RELEASE: c_int = 13_000;

/// Whether the process was given functions of a newer release.
static IS_NEWER_GIVEN: AtomicBool = AtomicBool::new(false);

/// Notes that the process was given a function as of this release of CUDA.
pub(crate) fn note_given(release: c_int) {
    if release > KNOWN_RELEASE {
        IS_NEWER_GIVEN.store(true, Ordering::Release);
    }
}

/// Whether the process may call functions that the list does not know.
pub(crate) fn is_newer_given() -> bool {
    IS_NEWER_GIVEN.load(Ordering::Acquire)
}

/// The loader's handle of the process's libcuda, if it is mapped.
fn library() -> Option<*mut c_void> {
    static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let known = HANDLE.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(known);
    }
    // SAFETY: a C string; a library that is mapped already has run its constructors.
    let found = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    HANDLE.store(found, Ordering::Release);
    NonNull::new(found).map(NonNull::as_ptr)
}

/// Defines a question to libcuda by its exported name and C type. The function is looked up at the first call. The result is
/// `Err(NOT_FOUND)` if the process's libcuda lacks it.
macro_rules! ask {
    ($name:ident($($argument:ident: $type:ty),*)) => {{
        static FOUND: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let mut found = FOUND.load(std::sync::atomic::Ordering::Acquire);
        if found.is_null() {
            let name = concat!(stringify!($name), "\0");
            let name = std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
            found = library()
                .and_then(|library| xsched_preload::dlsym::look_up(library, name))
                .map_or(std::ptr::null_mut(), std::ptr::NonNull::as_ptr);
            FOUND.store(found, std::sync::atomic::Ordering::Release);
        }
        if found.is_null() {
            NOT_FOUND
        } else {
            use xsched_preload::added_calls::{Word as _, added_call};
            // An argument has the type that `cuda.h` declares.
            let words = [$({
                let word: $type = $argument;
                word.word()
            }),*];
            // SAFETY: libcuda's function of this name. Out-parameters are local, and handles are the driver's own.
            unsafe { added_call(found, words) as Code }
        }
    }};
}

mod launch;

pub(crate) use launch::{
    Parameter, copy, fill, launch, launch_configured, launch_cooperative, launch_graph, parameters_of,
};

/// What an out-parameter holds if the call has succeeded.
fn given<T>(initial: T, call: impl FnOnce(*mut T) -> Code) -> Option<T> {
    let mut out = initial;
    (call(&raw mut out) == SUCCESS).then_some(out)
}

/// A context, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Context(pub(crate) usize);

/// An event of the shim's, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event(usize);

fn handle(address: usize) -> Handle {
    ptr::with_exposed_provenance_mut(address)
}

/// The calling thread's context; None if it has none.
pub(crate) fn current_context() -> Option<Context> {
    let current = given(ptr::null_mut(), |out| ask!(cuCtxGetCurrent(out: *mut Handle)))?;
    (!current.is_null()).then(|| Context(current.expose_provenance()))
}

/// Runs `act` with a context as the calling thread's, then restores the former one. None if the driver refuses.
pub(crate) fn within<R>(context: Context, act: impl FnOnce() -> Option<R>) -> Option<R> {
    if current_context() == Some(context) {
        return act();
    }
    let wanted = handle(context.0);
    if ask!(cuCtxPushCurrent_v2(wanted: Handle)) != SUCCESS {
        return None;
    }
    let done = act();
    given(ptr::null_mut(), |out| ask!(cuCtxPopCurrent_v2(out: *mut Handle)));
    done
}

/// The device of the calling thread's context.
pub(crate) fn current_device() -> Option<c_int> {
    given(0, |out| ask!(cuCtxGetDevice(out: *mut c_int)))
}

/// Whether a device's primary context exists.
pub(crate) fn is_primary_active(device: c_int) -> bool {
    let mut flags = 0_u32;
    let flags = &raw mut flags;
    given(0, |out| ask!(cuDevicePrimaryCtxGetState(device: c_int, flags: *mut u32, out: *mut c_int)))
        == Some(1)
}

/// A device's primary context. Something must hold it: this only retains it for a moment.
pub(crate) fn primary(device: c_int) -> Option<Context> {
    let primary =
        given(ptr::null_mut(), |out| ask!(cuDevicePrimaryCtxRetain(out: *mut Handle, device: c_int)))?;
    ask!(cuDevicePrimaryCtxRelease_v2(device: c_int));
    Some(Context(primary.expose_provenance()))
}

/// A device's PCI address, as the driver prints it.
pub(crate) fn pci_address(device: c_int) -> Option<String> {
    let mut text = [0 as c_char; 32];
    let (start, len) = (text.as_mut_ptr(), text.len() as c_int);
    if ask!(cuDeviceGetPCIBusId(start: *mut c_char, len: c_int, device: c_int)) != SUCCESS {
        return None;
    }
    text[text.len() - 1] = 0;
    // SAFETY: terminated by the line above, if not by the driver.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().ok().map(str::to_owned)
}

/// The identity of a device, and that of the part that the process has. They differ for a MIG instance.
pub(crate) fn identities(device: c_int) -> Option<[[u8; 16]; 2]> {
    let whole = given([0; 16], |out| ask!(cuDeviceGetUuid(out: *mut [u8; 16], device: c_int)))?;
    let part = given([0; 16], |out| ask!(cuDeviceGetUuid_v2(out: *mut [u8; 16], device: c_int)))?;
    Some([whole, part])
}

/// The context of a created stream.
pub(crate) fn context_of(stream: usize) -> Option<Context> {
    let stream = handle(stream);
    let context = given(ptr::null_mut(), |out| ask!(cuStreamGetCtx(stream: Handle, out: *mut Handle)))?;
    (!context.is_null()).then(|| Context(context.expose_provenance()))
}

/// A green context in the form in which it can be current.
pub(crate) fn of_green(green: Handle) -> Option<Context> {
    let context = given(ptr::null_mut(), |out| ask!(cuCtxFromGreenCtx(out: *mut Handle, green: Handle)))?;
    (!context.is_null()).then(|| Context(context.expose_provenance()))
}

/// A stream's priority: smaller is more urgent.
pub(crate) fn priority(stream: usize) -> c_int {
    let stream = handle(stream);
    given(0, |out| ask!(cuStreamGetPriority(stream: Handle, out: *mut c_int))).unwrap_or(0)
}

/// Whether a stream waits for the null stream, and the null stream for it.
pub(crate) fn is_blocking(stream: usize) -> bool {
    let stream = handle(stream);
    // CU_STREAM_NON_BLOCKING
    given(0_u32, |out| ask!(cuStreamGetFlags(stream: Handle, out: *mut u32)))
        .is_none_or(|flags| flags & 1 == 0)
}

/// Whether a stream captures, or is left over from a capture.
pub(crate) fn is_capturing(stream: usize) -> bool {
    let stream = handle(stream);
    given(0_u32, |out| ask!(cuStreamIsCapturing(stream: Handle, out: *mut u32))) != Some(0)
}

/// Whether a stream of the current context is done; None if the driver does not say.
pub(crate) fn is_stream_done(stream: usize) -> Option<bool> {
    let stream = handle(stream);
    match ask!(cuStreamQuery(stream: Handle)) {
        SUCCESS => Some(true),
        NOT_READY => Some(false),
        _ => None,
    }
}

/// A new event with times, in the current context.
pub(crate) fn create_event() -> Option<Event> {
    let flags = 0;
    let event = given(ptr::null_mut(), |out| ask!(cuEventCreate(out: *mut Handle, flags: u32)))?;
    Some(Event(event.expose_provenance()))
}

/// Records an event on a stream of the current context.
pub(crate) fn record(event: Event, stream: usize) -> bool {
    let (event, stream) = (handle(event.0), handle(stream));
    ask!(cuEventRecord(event: Handle, stream: Handle)) == SUCCESS
}

/// Whether an event is certainly incomplete.
pub(crate) fn is_pending(event: Event) -> bool {
    let event = handle(event.0);
    ask!(cuEventQuery(event: Handle)) == NOT_READY
}

/// The device's time from one complete event to another, in milliseconds.
pub(crate) fn milliseconds(earlier: Event, later: Event) -> Option<f32> {
    let (earlier, later) = (handle(earlier.0), handle(later.0));
    given(0.0_f32, |out| ask!(cuEventElapsedTime(out: *mut f32, earlier: Handle, later: Handle)))
}

/// Destroys an event.
pub(crate) fn destroy_event(event: Event) {
    let event = handle(event.0);
    ask!(cuEventDestroy_v2(event: Handle));
}

/// A new stream of the current context, which is not ordered with the null stream.
pub(crate) fn create_stream() -> Option<usize> {
    let flags = 1;
    let stream = given(ptr::null_mut(), |out| ask!(cuStreamCreate(out: *mut Handle, flags: u32)))?;
    Some(stream.expose_provenance())
}

/// Destroys a stream that is done.
pub(crate) fn destroy_stream(stream: usize) {
    let stream = handle(stream);
    ask!(cuStreamDestroy_v2(stream: Handle));
}

/// Makes a stream of the current context wait until the word at a device address is at least 1, as a signed number.
pub(crate) fn wait_value(stream: usize, word: u64) -> bool {
    let (stream, value, at_least) = (handle(stream), 1, 0);
    let code = ask!(cuStreamWaitValue32_v2(stream: Handle, word: u64, value: u32, at_least: u32));
    code == SUCCESS
        || code == NOT_FOUND
            && ask!(cuStreamWaitValue32(stream: Handle, word: u64, value: u32, at_least: u32)) == SUCCESS
}

/// What became of registering memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// It is registered with the current context.
    New,
    /// The range was registered before with some context; a range can be registered only once.
    Already,
    Refused,
}

/// Registers host memory with the current context, until that context goes.
pub(crate) fn register(start: NonNull<c_void>, size: usize) -> Registration {
    // CU_MEMHOSTREGISTER_DEVICEMAP
    let (start, flags) = (start.as_ptr(), 2);
    match ask!(cuMemHostRegister_v2(start: *mut c_void, size: usize, flags: u32)) {
        SUCCESS => Registration::New,
        ALREADY_REGISTERED => Registration::Already,
        _ => Registration::Refused,
    }
}

/// The address on the device of registered memory.
pub(crate) fn device_address(host: NonNull<c_void>) -> Option<u64> {
    let (host, flags) = (host.as_ptr(), 0);
    given(0, |out| ask!(cuMemHostGetDevicePointer_v2(out: *mut u64, host: *mut c_void, flags: u32)))
}

/// What a node of a graph is, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Kernel,
    /// A copy or a fill.
    Memory,
    Graph,
    Other,
}

/// The nodes of a graph; none if the driver does not tell.
pub(crate) fn nodes_of(graph: usize) -> Vec<usize> {
    let graph = handle(graph);
    let none = ptr::null_mut::<Handle>();
    let count =
        given(0_usize, |out| ask!(cuGraphGetNodes(graph: Handle, none: *mut Handle, out: *mut usize)));
    let mut nodes = vec![ptr::null_mut(); count.unwrap_or(0)];
    let (start, mut len) = (nodes.as_mut_ptr(), nodes.len());
    let len_at = &raw mut len;
    if nodes.is_empty()
        || ask!(cuGraphGetNodes(graph: Handle, start: *mut Handle, len_at: *mut usize)) != SUCCESS
    {
        return Vec::new();
    }
    nodes.into_iter().take(len).map(|node: Handle| node.expose_provenance()).collect()
}

/// What a node is.
pub(crate) fn node_kind(node: usize) -> Option<NodeKind> {
    let node = handle(node);
    let kind = given(0_u32, |out| ask!(cuGraphNodeGetType(node: Handle, out: *mut u32)))?;
    Some(match kind {
        KERNEL_NODE => NodeKind::Kernel,
        COPY_NODE | FILL_NODE => NodeKind::Memory,
        GRAPH_NODE => NodeKind::Graph,
        _ => NodeKind::Other,
    })
}

/// What a kernel node launches.
pub(crate) fn kernel_of(node: usize) -> Option<usize> {
    let node = handle(node);
    let mut out = MaybeUninit::<KernelNode>::zeroed();
    let (at, first) = (out.as_mut_ptr(), out.as_mut_ptr().cast());
    let code = ask!(cuGraphKernelNodeGetParams_v2(node: Handle, at: *mut KernelNode));
    let code = match code {
        NOT_FOUND => ask!(cuGraphKernelNodeGetParams(node: Handle, first: *mut FirstKernelNode)),
        code => code,
    };
    // SAFETY: numbers and pointers, for which zeros are valid.
    (code == SUCCESS).then(|| unsafe { out.assume_init() }.launched())
}

/// The graph within a node.
pub(crate) fn graph_within(node: usize) -> Option<usize> {
    let node = handle(node);
    let graph =
        given(ptr::null_mut(), |out| ask!(cuGraphChildGraphNodeGetGraph(node: Handle, out: *mut Handle)))?;
    Some(graph.expose_provenance())
}

/// From now on, calls of this thread end no other thread's capture.
pub(crate) fn ignore_captures() {
    // CU_STREAM_CAPTURE_MODE_RELAXED
    let mut mode = 2_u32;
    let mode = &raw mut mode;
    ask!(cuThreadExchangeStreamCaptureMode(mode: *mut u32));
}

/// The name of a function, or of a library's kernel.
pub(crate) fn name_of(function: usize) -> Option<String> {
    let function = handle(function);
    let name = given(ptr::null(), |out| ask!(cuFuncGetName(out: *mut *const c_char, function: Handle)))
        .or_else(|| {
            given(ptr::null(), |out| ask!(cuKernelGetName(out: *mut *const c_char, function: Handle)))
        })?;
    // SAFETY: the driver's string, which lives as long as the function.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}
