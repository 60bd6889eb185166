//! Queries and actions of the shim's own on a runtime copy.
//!
//! All of them but [`synchronize`] return without waiting for the device. On an application's thread they leave the thread's last error as
//! it was: see [`taken`] and [`quietly`]. Up to ROCm 6 a successful call overwrites it, as the application's own call
//! does, so none is made after one that has failed.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use xsched_sched::Nanos;

use crate::abi::{ChannelFormatDesc, Event, Extent, Stream};
use crate::api::Id;
use crate::reentry::is_shims_thread;
use crate::runtime::copies::RuntimeCopy;

/// `hipStreamNonBlocking`
const NON_BLOCKING: u32 = 1;
/// `hipDeviceAttributeCooperativeLaunch`, `hipDeviceAttributeMultiprocessorCount`,
/// `hipDeviceAttributeMaxSharedMemoryPerBlock`
const COOPERATIVE_LAUNCH: u32 = 10;
const COMPUTE_UNITS: u32 = 63;
const SHARED_BYTES_OF_BLOCK: u32 = 74;
/// `HIP_POINTER_ATTRIBUTE_MEMORY_TYPE`
const MEMORY_TYPE: u32 = 2;
/// `HIP_POINTER_ATTRIBUTE_IS_MANAGED`
const IS_MANAGED: u32 = 8;
/// `HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR`
const RANGE_START: u32 = 11;
/// The first release whose `hipMemoryType` has a value for unregistered memory.
const UNREGISTERED_SINCE: i32 = 60_000_000;
/// See [`measures_boxes`].
const BOXES_SINCE: i32 = 60_000_000;
/// See [`copies_boxes_to_host`].
const HOST_BOXES_SINCE: i32 = 50_500_000;

/// Memory that the runtime knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Bytes from the given address to the end.
    pub(crate) bytes_left: usize,
    /// On a device, and nowhere else.
    pub(crate) is_device: bool,
}

/// A real function with its C type, if the copy has it.
macro_rules! real {
    ($copy:expr, $id:ident: fn($($ty:ty),*)) => {
        $copy.original(Id::$id).map(|address| {
            // SAFETY: HIP's signature of this function.
            unsafe {
                std::mem::transmute::<std::ptr::NonNull<c_void>, unsafe extern "C" fn($($ty),*) -> u32>(address)
            }
        })
    };
}

/// The calling thread's device.
pub(crate) fn current_device(copy: &RuntimeCopy) -> Option<i32> {
    let mut device = 0;
    let ask = real!(copy, hipGetDevice: fn(*mut i32))?;
    // SAFETY: a variable for the answer.
    (unsafe { ask(&raw mut device) } == 0).then_some(device)
}

/// Changes the calling thread's device.
pub(crate) fn set_device(copy: &RuntimeCopy, device: i32) {
    if let Some(set) = real!(copy, hipSetDevice: fn(i32)) {
        // SAFETY: no pointers.
        taken(copy, || unsafe { set(device) });
    }
}

/// Whether a created stream waits for the null stream and vice versa; None if it is no stream.
pub(crate) fn is_blocking(copy: &RuntimeCopy, stream: Stream) -> Option<bool> {
    let mut flags = 0;
    let ask = real!(copy, hipStreamGetFlags: fn(Stream, *mut u32))?;
    // SAFETY: a stream that the application uses, and a variable for the answer.
    taken(copy, || unsafe { ask(stream, &raw mut flags) }).then_some(flags & NON_BLOCKING == 0)
}

/// The device of a created stream, where the runtime can tell.
pub(crate) fn device_of(copy: &RuntimeCopy, stream: Stream) -> Option<i32> {
    let mut device = 0;
    let ask = real!(copy, hipStreamGetDevice: fn(Stream, *mut i32))?;
    // SAFETY: as above.
    taken(copy, || unsafe { ask(stream, &raw mut device) }).then_some(device)
}

/// Whether a created stream captures.
pub(crate) fn is_capturing(copy: &RuntimeCopy, stream: Stream) -> bool {
    let mut status = 0_u32;
    let Some(ask) = real!(copy, hipStreamIsCapturing: fn(Stream, *mut u32)) else { return false };
    // SAFETY: as above.
    let answered = taken(copy, || unsafe { ask(stream, &raw mut status) });
    // Without an answer the stream may capture: then nothing is done to it.
    !answered || status != 0
}

/// A created stream's priority: smaller is more urgent, 0 is the default.
pub(crate) fn priority(copy: &RuntimeCopy, stream: Stream) -> i32 {
    let mut priority = 0;
    let Some(ask) = real!(copy, hipStreamGetPriority: fn(Stream, *mut i32)) else { return 0 };
    // SAFETY: as above.
    if taken(copy, || unsafe { ask(stream, &raw mut priority) }) { priority } else { 0 }
}

/// A device's PCI address as text: domain, bus, device, function.
pub(crate) fn pci_address(copy: &RuntimeCopy, device: i32) -> Option<String> {
    let mut text = [0_u8; 32];
    let ask = real!(copy, hipDeviceGetPCIBusId: fn(*mut u8, i32, i32))?;
    // SAFETY: a buffer of the given size.
    taken(copy, || unsafe { ask(text.as_mut_ptr(), text.len() as i32, device) }).then_some(())?;
    CStr::from_bytes_until_nul(&text).ok()?.to_str().ok().map(str::to_owned)
}

/// `hipEventDisableSystemFence`: no reader depends on it for the visibility of memory.
const NO_FENCE: u32 = 0x2000_0000;

/// A new event of the calling thread's device, with timing.
pub(crate) fn create_event(copy: &RuntimeCopy) -> Option<Event> {
    let create = real!(copy, hipEventCreateWithFlags: fn(*mut Event, u32))?;
    let mut event = Event(std::ptr::null_mut());
    // SAFETY: a variable for the answer. Releases that do not know the flag refuse it.
    let created = |flags| taken(copy, || unsafe { create(&raw mut event, flags) });
    [NO_FENCE, 0].into_iter().any(created).then_some(event)
}

/// Records an event. False if the runtime refuses.
pub(crate) fn record_event(copy: &RuntimeCopy, event: Event, stream: Stream) -> bool {
    let Some(record) = real!(copy, hipEventRecord: fn(Event, Stream)) else { return false };
    // SAFETY: an event of the shim's own, and a stream that its user keeps.
    taken(copy, || unsafe { record(event, stream) })
}

/// `hipErrorNotReady`
const NOT_READY: u32 = 600;

/// Whether the work before a recorded event has yet to complete, or this thread cannot ask.
pub(crate) fn is_event_pending(copy: &RuntimeCopy, event: Event) -> bool {
    let Some(query) = real!(copy, hipEventQuery: fn(Event)) else { return false };
    // SAFETY: an event of the shim's own.
    quietly(copy, || unsafe { query(event) }).is_none_or(|code| code == NOT_READY)
}

/// Whether a stream has nothing left to do; None if this thread cannot ask.
pub(crate) fn is_stream_done(copy: &RuntimeCopy, stream: Stream) -> Option<bool> {
    let query = real!(copy, hipStreamQuery: fn(Stream))?;
    // SAFETY: a stream that its user keeps.
    match quietly(copy, || unsafe { query(stream) })? {
        0 => Some(true),
        NOT_READY => Some(false),
        _ => None,
    }
}

/// Waits for a stream, on a thread that may wait. False if the runtime refuses.
pub(crate) fn synchronize(copy: &RuntimeCopy, stream: Stream) -> bool {
    let Some(wait) = real!(copy, hipStreamSynchronize: fn(Stream)) else { return false };
    // SAFETY: a stream that its user keeps.
    taken(copy, || unsafe { wait(stream) })
}

/// Whether there is an event with this handle; None if this thread cannot ask.
pub(crate) fn is_event(copy: &RuntimeCopy, handle: usize) -> Option<bool> {
    let query = real!(copy, hipEventQuery: fn(Event))?;
    let event = Event(std::ptr::without_provenance_mut(handle));
    // SAFETY: the application is about to use it as an event.
    let code = quietly(copy, || unsafe { query(event) })?;
    Some(matches!(code, 0 | NOT_READY))
}

/// Kinds of a graph's nodes (`hipGraphNodeType`): a graph within; a wait for an event, the record of one, a semaphore's signal, and
/// a wait for one.
const GRAPH_WITHIN: u32 = 4;
const REACH_OUT: std::ops::RangeInclusive<u32> = 6..=9;

/// Whether a graph concerns more streams than the one that it is launched on, by HIP events or semaphores, or may do so.
pub(crate) fn reaches_out(copy: &RuntimeCopy, graph: usize) -> bool {
    let mut graphs = vec![graph];
    while let Some(graph) = graphs.pop() {
        let Some(nodes) = nodes(copy, graph) else { return true };
        for node in nodes {
            match node_kind(copy, node) {
                Some(GRAPH_WITHIN) => match graph_within(copy, node) {
                    Some(graph) => graphs.push(graph),
                    None => return true,
                },
                Some(kind) if !REACH_OUT.contains(&kind) => {}
                _ => return true,
            }
        }
    }
    false
}

fn nodes(copy: &RuntimeCopy, graph: usize) -> Option<Vec<usize>> {
    let ask = real!(copy, hipGraphGetNodes: fn(usize, *mut usize, *mut usize))?;
    let mut count = 0;
    // SAFETY: a graph that the application has just used, and a variable for the answer.
    (quietly(copy, || unsafe { ask(graph, std::ptr::null_mut(), &raw mut count) })? == 0).then_some(())?;
    let mut nodes = vec![0; count];
    if count > 0 {
        // SAFETY: as above, and the runtime writes as many nodes as it is told.
        let code = quietly(copy, || unsafe { ask(graph, nodes.as_mut_ptr(), &raw mut count) })?;
        (code == 0 && count == nodes.len()).then_some(())?;
    }
    Some(nodes)
}

fn node_kind(copy: &RuntimeCopy, node: usize) -> Option<u32> {
    let ask = real!(copy, hipGraphNodeGetType: fn(usize, *mut u32))?;
    let mut kind = 0;
    // SAFETY: a node of a graph that is there, and a variable for the answer.
    (quietly(copy, || unsafe { ask(node, &raw mut kind) })? == 0).then_some(kind)
}

fn graph_within(copy: &RuntimeCopy, node: usize) -> Option<usize> {
    let ask = real!(copy, hipGraphChildGraphNodeGetGraph: fn(usize, *mut usize))?;
    let mut graph = 0;
    // SAFETY: as above.
    (quietly(copy, || unsafe { ask(node, &raw mut graph) })? == 0).then_some(graph)
}

/// Makes a call of the shim's own, and says whether the runtime took it. Its error is hidden from the application. An error that the
/// application has not read yet, which ROCm 7 keeps, stays.
pub(crate) fn taken(copy: &RuntimeCopy, call: impl FnOnce() -> u32) -> bool {
    // SAFETY: it takes nothing.
    let has_error = || real!(copy, hipPeekAtLastError: fn()).is_some_and(|peek| unsafe { peek() } != 0);
    let is_unwatched = is_shims_thread() || has_error();
    let is_taken = call() == 0;
    if !is_taken
        && !is_unwatched
        && let Some(forget) = real!(copy, hipGetLastError: fn())
    {
        // SAFETY: it takes nothing.
        unsafe { forget() };
    }
    is_taken
}

/// The result of a query that may fail. Its failure would be the thread's last error, which the application could
/// read. So the error is taken back, and no query is made while the application has an error of its own. Threads of
/// the shim have none; errors that they leave, such as those of refused gates, do not prevent queries.
fn quietly(copy: &RuntimeCopy, ask: impl FnOnce() -> u32) -> Option<u32> {
    let peek = real!(copy, hipPeekAtLastError: fn())?;
    let forget = real!(copy, hipGetLastError: fn())?;
    // SAFETY: they take nothing.
    if !is_shims_thread() && unsafe { peek() } != 0 {
        return None;
    }
    let code = ask();
    if code != 0 {
        // SAFETY: as above.
        unsafe { forget() };
    }
    Some(code)
}

/// Device time between two complete events.
pub(crate) fn device_time(copy: &RuntimeCopy, earlier: Event, later: Event) -> Option<Nanos> {
    let elapsed = real!(copy, hipEventElapsedTime: fn(*mut f32, Event, Event))?;
    let mut milliseconds = 0.0_f32;
    // SAFETY: a variable for the answer, and events of the shim's own.
    let code = quietly(copy, || unsafe { elapsed(&raw mut milliseconds, earlier, later) })?;
    (code == 0 && milliseconds >= 0.0).then(|| Nanos((f64::from(milliseconds) * 1e6) as u64))
}

/// `hipDeviceAttributeCanUseStreamWaitValue`
const CAN_WAIT_VALUE: u32 = 10_013;
/// `hipMallocSignalMemory`
const SIGNAL_MEMORY: u32 = 2;
/// `hipStreamWaitValueGte`
const AT_LEAST: u32 = 0;

/// Whether streams of a device can wait for a word of memory, by the runtime's word.
pub(crate) fn has_wait_value(copy: &RuntimeCopy, device: i32) -> bool {
    let mut value = 0;
    let Some(ask) = real!(copy, hipDeviceGetAttribute: fn(*mut i32, u32, i32)) else { return false };
    // SAFETY: a variable for the answer.
    unsafe { ask(&raw mut value, CAN_WAIT_VALUE, device) == 0 && value != 0 }
}

/// A word of signal memory, which waiting streams poll without a kernel, and the host can change.
pub(crate) fn signal_memory(copy: &RuntimeCopy) -> Option<NonNull<AtomicU64>> {
    let mut word = std::ptr::null_mut();
    let allocate = real!(copy, hipExtMallocWithFlags: fn(*mut *mut AtomicU64, usize, u32))?;
    // SAFETY: a variable for the answer.
    let code = unsafe { allocate(&raw mut word, size_of::<AtomicU64>(), SIGNAL_MEMORY) };
    NonNull::new(word).filter(|_| code == 0)
}

/// `hipErrorHostMemoryAlreadyRegistered`
const ALREADY_REGISTERED: u32 = 712;
/// `hipHostRegisterPortable | hipHostRegisterMapped`
const FOR_ALL_DEVICES: u32 = 1 | 2;

/// Makes memory of the host accessible to devices, for good; its address there.
pub(crate) fn register(copy: &RuntimeCopy, start: NonNull<c_void>, bytes: usize) -> Option<NonNull<c_void>> {
    let register = real!(copy, hipHostRegister: fn(*mut c_void, usize, u32))?;
    let ask = real!(copy, hipHostGetDevicePointer: fn(*mut *mut c_void, *mut c_void, u32))?;
    let mut on_device = std::ptr::null_mut();
    // SAFETY: memory that stays mapped, and a variable for the answer.
    let code = unsafe {
        match register(start.as_ptr(), bytes, FOR_ALL_DEVICES) {
            0 | ALREADY_REGISTERED => ask(&raw mut on_device, start.as_ptr(), 0),
            code => code,
        }
    };
    NonNull::new(on_device).filter(|_| code == 0)
}

/// Makes a stream wait until a word has at least this value. False if the runtime refuses.
pub(crate) fn wait_value(copy: &RuntimeCopy, stream: Stream, word: NonNull<c_void>, value: u64) -> bool {
    let wait = real!(copy, hipStreamWaitValue64: fn(Stream, *mut c_void, u64, u32, u64));
    // SAFETY: a stream that its user keeps, and a word that is never freed.
    wait.is_some_and(|wait| taken(copy, || unsafe { wait(stream, word.as_ptr(), value, AT_LEAST, u64::MAX) }))
}

/// A new stream of the calling thread's device that is not ordered with the null stream.
pub(crate) fn create_stream(copy: &RuntimeCopy) -> Option<Stream> {
    let mut stream = Stream(std::ptr::null_mut());
    let create = real!(copy, hipStreamCreateWithFlags: fn(*mut Stream, u32))?;
    // SAFETY: a variable for the answer.
    (unsafe { create(&raw mut stream, NON_BLOCKING) } == 0).then_some(stream)
}

/// Destroys objects of the shim's own that have nothing left to do.
pub(crate) fn destroy(copy: &RuntimeCopy, event: Option<Event>, stream: Stream) {
    if let (Some(destroy), Some(event)) = (real!(copy, hipEventDestroy: fn(Event)), event) {
        // SAFETY: the shim's own, and not used any more.
        unsafe { destroy(event) };
    }
    if let Some(destroy) = real!(copy, hipStreamDestroy: fn(Stream)) {
        // SAFETY: as above.
        unsafe { destroy(stream) };
    }
}

/// The memory that contains an address; None for memory that HIP does not know, such as pageable memory.
///
/// The query for a range's start succeeds for any address but null, so it leaves no error behind. All other queries are made only
/// for memory that HIP knows. ROCm 5.2, asked for the kind of any other address, takes that for an array's description and
/// follows pointers that it finds there. The attribute for a range's size has 32 bits in all releases so far.
pub(crate) fn memory(copy: &RuntimeCopy, address: usize) -> Option<Range> {
    if address == 0 {
        return None;
    }
    let attribute = real!(copy, hipDrvPointerGetAttributes: fn(u32, *mut u32, *mut *mut c_void, usize))?;
    let ask = |mut name: u32, mut answer: *mut c_void| {
        // SAFETY: one attribute, with a variable of the right size for it.
        taken(copy, || unsafe { attribute(1, &raw mut name, &raw mut answer, address) }).then_some(())
    };
    let mut start = 0_usize;
    ask(RANGE_START, (&raw mut start).cast())?;
    if start == 0 {
        return None;
    }
    let mut kind = u32::MAX;
    ask(MEMORY_TYPE, (&raw mut kind).cast())?;
    let (mut base, mut size) = (0_usize, 0_usize);
    let ask = real!(copy, hipMemGetAddressRange: fn(*mut usize, *mut usize, usize))?;
    // SAFETY: variables for the answers.
    taken(copy, || unsafe { ask(&raw mut base, &raw mut size, address) }).then_some(())?;
    let end = start.checked_add(size)?;
    let device_kind = if version(copy)? >= UNREGISTERED_SINCE { 2 } else { 1 };
    let range = Range { bytes_left: end.checked_sub(address)?, is_device: kind == device_kind };
    (start <= address && range.bytes_left > 0).then_some(range)
}

/// Whether memory that the runtime knows is managed: it moves between host and devices automatically.
pub(crate) fn is_managed(copy: &RuntimeCopy, address: usize) -> bool {
    let (mut name, mut is_managed) = (IS_MANAGED, 0_u64);
    let mut answer: *mut c_void = (&raw mut is_managed).cast();
    let ask = real!(copy, hipDrvPointerGetAttributes: fn(u32, *mut u32, *mut *mut c_void, usize));
    // SAFETY: one attribute, with a variable that the answer fits into, a byte or a word.
    let is_answered = |ask: unsafe extern "C" fn(_, _, _, _) -> u32| {
        // SAFETY: as above.
        taken(copy, || unsafe { ask(1, &raw mut name, &raw mut answer, address) })
    };
    ask.is_some_and(is_answered) && is_managed != 0
}

/// The size of the variable that a symbol names on the calling thread's device; None if there is none.
pub(crate) fn variable_bytes(copy: &RuntimeCopy, symbol: usize) -> Option<usize> {
    let (mut address, mut bytes) = (0_usize, 0_usize);
    let ask_address = real!(copy, hipGetSymbolAddress: fn(*mut usize, usize))?;
    let ask_size = real!(copy, hipGetSymbolSize: fn(*mut usize, usize))?;
    // SAFETY: variables for the answers; an unknown symbol is looked up and not found.
    let is_known = taken(copy, || unsafe { ask_address(&raw mut address, symbol) })
        && taken(copy, || unsafe { ask_size(&raw mut bytes, symbol) });
    (is_known && address != 0).then_some(bytes)
}

/// How a launch names its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelRef {
    /// By the handle that compiled code has registered.
    Handle(usize),
    /// By a module's or library's function.
    Function(usize),
}

/// The most blocks of a kernel that run on one compute unit at once.
pub(crate) fn blocks_of_unit(
    copy: &RuntimeCopy,
    kernel: KernelRef,
    threads: i32,
    shared_bytes: usize,
) -> Option<u32> {
    let (ask, kernel) = match kernel {
        KernelRef::Handle(handle) => {
            let ask =
                real!(copy, hipOccupancyMaxActiveBlocksPerMultiprocessor: fn(*mut i32, usize, i32, usize));
            (ask?, handle)
        }
        KernelRef::Function(function) => {
            let ask = real!(copy, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor: fn(*mut i32, usize, i32, usize));
            (ask?, function)
        }
    };
    let mut blocks = 0;
    // SAFETY: a variable for the answer; the handle is a registered one, the function one that the runtime has given.
    let answered = taken(copy, || unsafe { ask(&raw mut blocks, kernel, threads, shared_bytes) });
    u32::try_from(blocks).ok().filter(|_| answered)
}

/// The compute units of a device that supports cooperative launches.
pub(crate) fn compute_units_for_cooperation(copy: &RuntimeCopy, device: i32) -> Option<u32> {
    attribute(copy, device, COOPERATIVE_LAUNCH).filter(|&is_supported| is_supported != 0)?;
    attribute(copy, device, COMPUTE_UNITS)
}

/// The most shared memory that a block may have on this device. The runtime compares launches with it.
pub(crate) fn shared_bytes_of_block(copy: &RuntimeCopy, device: i32) -> Option<u32> {
    attribute(copy, device, SHARED_BYTES_OF_BLOCK)
}

fn attribute(copy: &RuntimeCopy, device: i32, number: u32) -> Option<u32> {
    let mut value = 0;
    let ask = real!(copy, hipDeviceGetAttribute: fn(*mut i32, u32, i32))?;
    // SAFETY: a variable for the answer.
    let answered = taken(copy, || unsafe { ask(&raw mut value, number, device) });
    u32::try_from(value).ok().filter(|_| answered)
}

/// Whether there is a device with this ordinal.
pub(crate) fn is_device(copy: &RuntimeCopy, device: i32) -> bool {
    device_count(copy).is_some_and(|count| (0..count).contains(&device))
}

pub(super) fn device_count(copy: &RuntimeCopy) -> Option<i32> {
    let mut count = 0;
    let ask = real!(copy, hipGetDeviceCount: fn(*mut i32))?;
    // SAFETY: a variable for the answer.
    taken(copy, || unsafe { ask(&raw mut count) }).then_some(count)
}

/// The size of an array: elements in a row, rows, slices; 0 for a dimension that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) size: Extent,
    pub(crate) element_bytes: usize,
}

/// An array; None if there is none with this handle.
pub(crate) fn array(copy: &RuntimeCopy, handle: usize) -> Option<Array> {
    let (mut channels, mut size) = (ChannelFormatDesc::default(), Extent::default());
    let none = std::ptr::null_mut();
    let ask = real!(copy, hipArrayGetInfo: fn(*mut ChannelFormatDesc, *mut Extent, *mut u32, usize))?;
    // SAFETY: variables for the answers; the application names the array.
    let answered = taken(copy, || unsafe { ask(&raw mut channels, &raw mut size, none, handle) });
    let bits = [channels.x, channels.y, channels.z, channels.w].iter().sum::<i32>();
    let element_bytes = usize::try_from(bits).ok()? / 8;
    (answered && element_bytes > 0).then_some(Array { size, element_bytes })
}

/// A `hipMemoryType`, whose numbers changed with ROCm 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryType {
    Host,
    Device,
    Array,
    Unified,
}

impl MemoryType {
    /// None for an unknown number.
    pub(crate) fn of(copy: &RuntimeCopy, number: u32) -> Option<Self> {
        let is_new = version(copy)? >= UNREGISTERED_SINCE;
        match (is_new, number) {
            (true, 1) | (false, 0) => Some(Self::Host),
            (true, 2) | (false, 1) => Some(Self::Device),
            (true, 10) | (false, 2) => Some(Self::Array),
            (true, 11) | (false, 3) => Some(Self::Unified),
            _ => None,
        }
    }
}

/// Whether the runtime knows how many bytes a box has. Before 6.0 it takes the difference of its end behind its beginning and of its
/// beginning behind the memory's address, and refuses a box for which that is 0:
/// <https://github.com/ROCm/hipamd/blob/rocm-5.2.3/src/hip_memory.cpp>, `ihipMemcpyDtoDValidate`.
pub(crate) fn measures_boxes(copy: &RuntimeCopy) -> bool {
    version(copy).is_some_and(|version| version >= BOXES_SINCE)
}

/// Whether `hipDrvMemcpy3DAsync` and the like copy to pinned memory that the call gives as the host's. Before 5.5 they copy to the
/// address that it gives as the device's: `ihipGetMemcpyParam3DCommand` there.
pub(crate) fn copies_boxes_to_host(copy: &RuntimeCopy) -> bool {
    version(copy).is_some_and(|version| version >= HOST_BOXES_SINCE)
}

pub(super) fn version(copy: &RuntimeCopy) -> Option<i32> {
    let mut version = 0;
    let ask = real!(copy, hipRuntimeGetVersion: fn(*mut i32))?;
    // SAFETY: a variable for the answer.
    (unsafe { ask(&raw mut version) } == 0).then_some(version)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;
    use crate::reentry::stay_inside;
    use crate::runtime::copies::{COPIES_MAX, ORIGINALS};

    thread_local! {
        static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
    }

    extern "C" fn peek() -> u32 {
        LAST_ERROR.get()
    }

    extern "C" fn forget() -> u32 {
        LAST_ERROR.replace(0)
    }

    extern "C" fn is_not_ready(_: usize) -> u32 {
        LAST_ERROR.set(NOT_READY);
        NOT_READY
    }

    /// A runtime on which nothing ever completes. No other test uses this copy.
    fn busy_runtime() -> &'static RuntimeCopy {
        const COPY: usize = COPIES_MAX - 1;
        let functions = [
            (Id::hipPeekAtLastError, peek as *mut c_void),
            (Id::hipGetLastError, forget as *mut c_void),
            (Id::hipEventQuery, is_not_ready as *mut c_void),
            (Id::hipStreamQuery, is_not_ready as *mut c_void),
        ];
        for (id, function) in functions {
            ORIGINALS[COPY][id as usize].store(function, Ordering::Release);
        }
        RuntimeCopy::at(COPY)
    }

    fn answers(copy: &RuntimeCopy) -> (bool, Option<bool>) {
        let none = std::ptr::null_mut();
        (is_event_pending(copy, Event(none)), is_stream_done(copy, Stream(none)))
    }

    #[test]
    fn queries_leave_no_error_and_take_none_of_the_applications() {
        let copy = busy_runtime();
        assert_eq!(answers(copy), (true, Some(false)));
        assert_eq!(peek(), 0, "the application has asked for nothing");
        LAST_ERROR.set(1);
        assert_eq!((answers(copy), peek()), ((true, None), 1), "it is not asked");
    }

    extern "C" fn is_refused(_: usize, _: usize) -> u32 {
        LAST_ERROR.set(1);
        1
    }

    #[test]
    fn a_refused_marker_leaves_no_error_and_takes_none_of_the_applications() {
        let copy = busy_runtime();
        ORIGINALS[COPIES_MAX - 1][Id::hipEventRecord as usize]
            .store(is_refused as *mut c_void, Ordering::Release);
        let none = std::ptr::null_mut();
        let refused = || !record_event(copy, Event(none), Stream(none));
        assert!(refused());
        assert_eq!(peek(), 0, "the application has recorded nothing");
        LAST_ERROR.set(2);
        assert!(refused());
        assert_ne!(peek(), 0, "it has an error to read");
    }

    #[test]
    fn errors_left_by_the_shims_own_threads_do_not_prevent_queries() {
        let copy = busy_runtime();
        let asked = thread::spawn(move || {
            stay_inside();
            // As a refused gate does.
            LAST_ERROR.set(1);
            answers(copy)
        });
        assert_eq!(asked.join().unwrap(), (true, Some(false)));
    }
}
