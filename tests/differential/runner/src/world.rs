//! The objects of a running program, which its threads share.
//!
//! Programs are in order: the use of an object follows its creation, in the same thread or by a token. The
//! words here are atomic only because Rust requires it.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use xsched_differential::program::{Buffer, CELL_BYTES, Cell, LARGE_BYTES, Memory, STREAMS_MAX, Stream};

use crate::hip::Handle;
use crate::process::{GATES, Process};

const NUMBERS: usize = 256;

/// Handles by number.
pub(crate) struct Handles(Box<[AtomicPtr<core::ffi::c_void>]>);

impl Handles {
    fn new() -> Self {
        Self((0..NUMBERS).map(|_| AtomicPtr::new(ptr::null_mut())).collect())
    }

    pub(crate) fn get(&self, number: u8) -> Handle {
        self.0[usize::from(number)].load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, number: u8, handle: Handle) {
        self.0[usize::from(number)].store(handle, Ordering::Release);
    }

    /// Removes a handle.
    pub(crate) fn take(&self, number: u8) -> Handle {
        self.0[usize::from(number)].swap(ptr::null_mut(), Ordering::AcqRel)
    }

    /// Removes and returns all handles.
    pub(crate) fn drain(&self) -> impl Iterator<Item = (u8, Handle)> + '_ {
        (0..=u8::MAX).map(|number| (number, self.take(number))).filter(|(_, handle)| !handle.is_null())
    }
}

/// Blocks a thread or a stream until it is opened.
#[derive(Default)]
pub(crate) struct Latch {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Latch {
    pub(crate) fn open(&self) {
        *self.is_open.lock().expect("no holder panics") = true;
        self.opened.notify_all();
    }

    pub(crate) fn wait(&self) {
        let guard = self.is_open.lock().expect("no holder panics");
        drop(self.opened.wait_while(guard, |is_open| !*is_open).expect("no holder panics"));
    }
}

/// The objects of one running program.
pub(crate) struct World<'a> {
    pub(crate) process: &'a Process,
    pub(crate) streams: Handles,
    pub(crate) events: Handles,
    pub(crate) graphs: Handles,
    /// Addresses of buffers.
    pub(crate) buffers: Handles,
    /// Kind of memory and size of each buffer: see `Shape`.
    shapes: Box<[AtomicUsize]>,
    pub(crate) tokens: Box<[Latch]>,
    /// Never freed, because a host function may still be returning from one.
    pub(crate) gates: &'static [Latch],
}

/// The properties of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) memory: Memory,
    /// 0 for a large buffer, which has one cell.
    pub(crate) cells: u8,
}

const MEMORIES: [Memory; 6] =
    [Memory::Device, Memory::Pooled, Memory::Pinned, Memory::Managed, Memory::Pageable, Memory::Array];

impl Shape {
    pub(crate) fn bytes(self) -> usize {
        if self.cells == 0 { LARGE_BYTES } else { usize::from(self.cells) * CELL_BYTES }
    }

    pub(crate) fn cell_bytes(self) -> usize {
        if self.cells == 0 { LARGE_BYTES } else { CELL_BYTES }
    }
}

impl<'a> World<'a> {
    pub(crate) fn new(process: &'a Process) -> Self {
        let latches = |count: usize| (0..count).map(|_| Latch::default()).collect::<Box<[_]>>();
        Self {
            process,
            streams: Handles::new(),
            events: Handles::new(),
            graphs: Handles::new(),
            buffers: Handles::new(),
            shapes: (0..NUMBERS).map(|_| AtomicUsize::new(0)).collect(),
            tokens: latches(NUMBERS),
            gates: Box::leak(latches(GATES)),
        }
    }

    pub(crate) fn stream(&self, stream: Stream) -> Handle {
        match stream {
            Stream::Null => ptr::null_mut(),
            Stream::Legacy => ptr::without_provenance_mut(1),
            Stream::PerThread => ptr::without_provenance_mut(2),
            Stream::Made(number) => self.streams.get(number),
        }
    }

    /// The stream's own row in the kernels' variable; none for streams that the program has not created.
    pub(crate) fn row_of(&self, stream: Handle) -> Option<usize> {
        let is_made = stream.addr() > 2;
        (0..STREAMS_MAX).find(|&number| is_made && self.streams.get(number as u8) == stream)
    }

    pub(crate) fn set_shape(&self, buffer: Buffer, shape: Shape) {
        let memory = MEMORIES.iter().position(|memory| *memory == shape.memory).unwrap_or_default();
        self.shapes[buffer.index()].store(memory << 8 | usize::from(shape.cells), Ordering::Release);
    }

    pub(crate) fn shape(&self, buffer: Buffer) -> Shape {
        let word = self.shapes[buffer.index()].load(Ordering::Acquire);
        Shape { memory: MEMORIES[word >> 8], cells: word as u8 }
    }

    /// Address and size of a cell. For an array it is a handle instead, the same for all of its cells.
    pub(crate) fn cell(&self, Cell(buffer, cell): Cell) -> (Handle, usize) {
        let base = self.buffers.get(buffer.0);
        let shape = self.shape(buffer);
        let offset = if shape.memory == Memory::Array { 0 } else { usize::from(cell) * CELL_BYTES };
        (base.wrapping_byte_add(offset), shape.cell_bytes())
    }

    /// The word that a stream waits for at a gate.
    pub(crate) fn gate_word(&self, gate: u8) -> *mut u64 {
        self.process.words.cast::<u64>().wrapping_add(usize::from(gate))
    }
}
