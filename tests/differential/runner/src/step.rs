//! One step of a program.

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use xsched_differential::observe::{self, Seen};
use xsched_differential::program::{
    CELL_WORDS, CaptureMode, Cell, EventKind, Gate, GateKind, Memory, Op, Stream, StreamKind,
};

use crate::hip::{self, Code, Handle};
use crate::world::{Latch, Shape, World};
use crate::{copy, graph, mistake, names, newer, work};

const DISABLE_TIMING: u32 = 2;
const BLOCKING_SYNC: u32 = 1;

/// Takes the step; returns its observation.
pub(crate) fn take(world: &World<'_>, op: &Op) -> Seen {
    if let Op::HostRead(cell) = op {
        return Seen { code: hip::SUCCESS, value: contents(world, *cell) };
    }
    Seen { code: call(world, op), value: 0 }
}

fn call(world: &World<'_>, op: &Op) -> Code {
    let stream = |stream: &Stream| world.stream(*stream);
    let event = |event: &xsched_differential::program::Event| world.events.get(event.0);
    // SAFETY: handles from HIP, used in an order that programs guarantee; local out-parameters.
    unsafe {
        match op {
            Op::SetDevice(device) => hip::hipSetDevice(device.0.into()),
            Op::Name(by) => without_code(|| names::choose(*by)),
            Op::Signal(token) => without_code(|| world.tokens[token.index()].open()),
            Op::Await(token) => without_code(|| world.tokens[token.index()].wait()),
            Op::MakeStream(number, kind) => make_stream(world, *number, *kind),
            Op::DestroyStream(number) => hip::hipStreamDestroy(world.streams.take(*number)),
            Op::MakeEvent(number, kind) => {
                let mut handle = ptr::null_mut();
                let flags = match kind {
                    EventKind::Timed => 0,
                    EventKind::Untimed => DISABLE_TIMING,
                    EventKind::Blocking => BLOCKING_SYNC,
                };
                let code = hip::hipEventCreateWithFlags(&raw mut handle, flags);
                world.events.set(number.0, handle);
                code
            }
            Op::DestroyEvent(number) => hip::hipEventDestroy(world.events.take(number.0)),
            Op::Allocate { buffer, memory, cells } => {
                allocate(world, buffer.0, Shape { memory: *memory, cells: *cells }, None)
            }
            Op::AllocateAsync { buffer, stream: on, cells, own_pool } => {
                let pool = (stream(on), *own_pool);
                allocate(world, buffer.0, Shape { memory: Memory::Pooled, cells: *cells }, Some(pool))
            }
            Op::Free(buffer) => free(world.shape(*buffer), world.buffers.take(buffer.0)),
            Op::FreeAsync(buffer, on) => hip::hipFreeAsync(world.buffers.take(buffer.0), stream(on)),
            Op::Submit(on, what) => work::submit(world, stream(on), what),
            Op::Timed(on, what, start, stop) => {
                let handle = |named: &Option<_>| named.as_ref().map_or(ptr::null_mut(), event);
                work::submit_timed(world, stream(on), what, (handle(start), handle(stop)))
            }
            // Frameworks use either name for an ordinary record.
            Op::Record(recorded, on) if recorded.0 % 2 == 1 && names::are_plain() => {
                newer::newer_record(event(recorded), stream(on))
            }
            Op::Record(recorded, on) => names::hipEventRecord(event(recorded), stream(on)),
            Op::Wait(on, awaited) => names::hipStreamWaitEvent(stream(on), event(awaited), 0),
            Op::SyncStream(on) => names::hipStreamSynchronize(stream(on)),
            Op::SyncEvent(awaited) => hip::hipEventSynchronize(event(awaited)),
            Op::SyncDevice => hip::hipDeviceSynchronize(),
            Op::QueryStream(on) => names::hipStreamQuery(stream(on)),
            Op::QueryEvent(asked) => hip::hipEventQuery(event(asked)),
            Op::Elapsed(from, to) => {
                let mut ms = 0.0;
                hip::hipEventElapsedTime(&raw mut ms, event(from), event(to))
            }
            Op::HostWrite(cell, value) => without_code(|| write(world, *cell, *value)),
            // `take` does this step.
            Op::HostRead(_) => hip::SUCCESS,
            Op::Hold(gate, on, kind) => hold(world, *gate, stream(on), *kind),
            Op::Release(gate) => without_code(|| release(world, *gate)),
            Op::BeginCapture(on, mode) => {
                let mode = match mode {
                    CaptureMode::Global => 0,
                    CaptureMode::ThreadLocal => 1,
                    CaptureMode::Relaxed => 2,
                };
                names::hipStreamBeginCapture(world.streams.get(*on), mode)
            }
            Op::EndCapture(on, number) => {
                let mut captured = ptr::null_mut();
                let code = names::hipStreamEndCapture(world.streams.get(*on), &raw mut captured);
                if code != hip::SUCCESS {
                    return code;
                }
                let (executable, code) = graph::instantiate(captured);
                world.graphs.set(number.0, executable);
                code
            }
            Op::BuildGraph(number, nodes) => {
                let (executable, code) = graph::build(world, nodes);
                world.graphs.set(number.0, executable);
                code
            }
            Op::LaunchGraph(number, on) => names::hipGraphLaunch(world.graphs.get(number.0), stream(on)),
            Op::UploadGraph(number, on) => hip::hipGraphUpload(world.graphs.get(number.0), stream(on)),
            Op::DestroyGraph(number) => hip::hipGraphExecDestroy(world.graphs.take(number.0)),
            Op::LastError => hip::hipGetLastError(),
            Op::PeekError => hip::hipPeekAtLastError(),
            Op::Fault(on) => work::fault(world, stream(on)),
            Op::Wrong(what, on) => mistake::make(world, *what, stream(on)),
        }
    }
}

/// A step without a call of HIP.
fn without_code(step: impl FnOnce()) -> Code {
    step();
    hip::SUCCESS
}

fn make_stream(world: &World<'_>, number: u8, kind: StreamKind) -> Code {
    let mut handle = ptr::null_mut();
    // SAFETY: a local out-parameter.
    let code = unsafe {
        match kind {
            StreamKind::Blocking => hip::hipStreamCreate(&raw mut handle),
            StreamKind::NonBlocking => hip::hipStreamCreateWithFlags(&raw mut handle, hip::NON_BLOCKING),
            StreamKind::Priority(priority) => {
                hip::hipStreamCreateWithPriority(&raw mut handle, hip::NON_BLOCKING, priority.into())
            }
        }
    };
    world.streams.set(number, handle);
    code
}

/// `pool` is the stream of a stream-ordered allocation, and whether it uses a pool of the program's.
fn allocate(world: &World<'_>, number: u8, shape: Shape, pool: Option<(Handle, bool)>) -> Code {
    let (mut address, size) = (ptr::null_mut(), shape.bytes());
    // SAFETY: a local out-parameter.
    let code = unsafe {
        match shape.memory {
            Memory::Device => hip::hipMalloc(&raw mut address, size),
            Memory::Pooled => match pool.unwrap_or((ptr::null_mut(), false)) {
                (stream, false) => hip::hipMallocAsync(&raw mut address, size, stream),
                (stream, true) => {
                    let mut device = 0;
                    hip::hipGetDevice(&raw mut device);
                    let pool = world.process.pools[device as usize];
                    hip::hipMallocFromPoolAsync(&raw mut address, size, pool, stream)
                }
            },
            Memory::Array => copy::make_array(&raw mut address, shape.cells),
            Memory::Pinned => hip::hipHostMalloc(&raw mut address, size, 0),
            Memory::Managed => hip::hipMallocManaged(&raw mut address, size, hip::ATTACH_GLOBAL),
            Memory::Pageable => {
                address = Box::into_raw(vec![0_u64; size / 8].into_boxed_slice()).cast();
                hip::SUCCESS
            }
        }
    };
    if shape.memory.is_host() && !address.is_null() {
        // SAFETY: allocated above with this size, and writable by the host.
        unsafe { ptr::write_bytes(address.cast::<u8>(), number, size) };
    }
    world.set_shape(xsched_differential::program::Buffer(number), shape);
    world.buffers.set(number, address);
    code
}

/// Frees a buffer with the function for its memory.
pub(crate) fn free(shape: Shape, address: Handle) -> Code {
    // SAFETY: `allocate` created it, and programs free it once.
    unsafe {
        match shape.memory {
            Memory::Device | Memory::Pooled | Memory::Managed => hip::hipFree(address),
            Memory::Pinned => hip::hipHostFree(address),
            Memory::Array => hip::hipFreeArray(address),
            Memory::Pageable => {
                let words = ptr::slice_from_raw_parts_mut(address.cast::<u64>(), shape.bytes() / 8);
                drop(Box::from_raw(words));
                hip::SUCCESS
            }
        }
    }
}

fn write(world: &World<'_>, cell: Cell, value: u32) {
    let (address, _) = world.cell(cell);
    for index in 0..CELL_WORDS {
        // SAFETY: a cell of host memory that no other thread accesses now.
        unsafe { address.cast::<u32>().add(index).write(value.rotate_left(index as u32)) };
    }
}

/// Hash of the part of a cell that the host can read.
pub(crate) fn contents(world: &World<'_>, cell: Cell) -> u64 {
    let (address, size) = world.cell(cell);
    // SAFETY: a cell of host memory that no other thread writes now.
    observe::hash(unsafe { core::slice::from_raw_parts(address.cast::<u8>(), size) })
}

fn hold(world: &World<'_>, gate: Gate, stream: Handle, kind: GateKind) -> Code {
    let word = world.gate_word(gate.0);
    // SAFETY: gates are never freed, words live as long as the process; no stream waits for this one yet.
    unsafe {
        AtomicU64::from_ptr(word).store(0, Ordering::SeqCst);
        match kind {
            GateKind::Function => {
                let latch: *const Latch = &raw const world.gates[gate.index()];
                names::hipLaunchHostFunc(stream, Some(wait_at), latch.cast_mut().cast())
            }
            GateKind::Value => {
                hip::hipStreamWaitValue32(stream, word.cast(), 1, hip::WAIT_AT_LEAST, u32::MAX)
            }
            GateKind::Wide => hip::hipStreamWaitValue64(stream, word.cast(), 1, hip::WAIT_AT_LEAST, u64::MAX),
            GateKind::Batch => newer::wait_for_word(stream, word.cast(), 1),
        }
    }
}

unsafe extern "C" fn wait_at(latch: Handle) {
    // SAFETY: passed together with this function, and never freed.
    unsafe { &*latch.cast::<Latch>() }.wait();
}

/// Opens a gate of either kind.
fn release(world: &World<'_>, gate: Gate) {
    world.gates[gate.index()].open();
    // SAFETY: a word that lives as long as the process.
    unsafe { AtomicU64::from_ptr(world.gate_word(gate.0)) }.store(1, Ordering::SeqCst);
}
