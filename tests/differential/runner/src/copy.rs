//! Copies, through every copy function of HIP.

use core::ffi::c_uint;
use core::ptr;

use xsched_differential::program::{CELL_BYTES, CELL_WORDS, CELLS_MAX, Cell, Copy, Memory};

use crate::boxes::{
    Box3d, BoxEnd, BoxOperand, BoxOperation, DriverBox, DriverBoxEnd, DriverRows, DriverRowsEnd,
    OPERAND_ARRAY, OPERAND_MEMORY, ORDER_OF_STREAM, PeerBox, Pitched,
};
use crate::hip::{self, Code, Handle};
use crate::world::World;
use crate::{names, newer};

/// Bytes of a row when cells are copied by rows.
const ROW: usize = 64;
/// Rows of a slice when cells are copied by slices.
const ROWS: usize = 2;

/// Creates an array with a row for each cell.
///
/// # Safety
///
/// `out` points to a writable handle.
pub(crate) unsafe fn make_array(out: *mut Handle, cells: u8) -> Code {
    let unsigned = 1;
    let channels = hip::Channels { bits: [32, 0, 0, 0], kind: unsigned };
    // SAFETY: the caller upholds this function's contract.
    unsafe { hip::hipMallocArray(out, &raw const channels, CELL_WORDS, cells.into(), 0) }
}

/// The `hipMemcpyKind` of a copy, which also selects the driver function.
pub(crate) fn direction(to: Memory, from: Memory) -> c_uint {
    match (is_host(from), is_host(to)) {
        (true, true) => hip::HOST_TO_HOST,
        (true, false) => hip::HOST_TO_DEVICE,
        (false, true) => hip::DEVICE_TO_HOST,
        (false, false) => hip::DEVICE_TO_DEVICE,
    }
}

fn is_host(memory: Memory) -> bool {
    matches!(memory, Memory::Pinned | Memory::Pageable)
}

/// One end of a copy.
#[derive(Clone, Copy)]
struct End {
    memory: Memory,
    /// Address of the buffer, or the array's handle.
    base: Handle,
    /// Address of the cell, or the array's handle.
    address: Handle,
    cell: usize,
    size: usize,
}

/// The layout of rows in both ends: if an array takes part, each cell is a row.
#[derive(Clone, Copy)]
struct Rows {
    has_array: bool,
    pitch: usize,
    /// Rows of a cell.
    of_cell: usize,
}

impl End {
    fn new(world: &World<'_>, cell: Cell) -> Self {
        let (address, size) = world.cell(cell);
        let memory = world.shape(cell.0).memory;
        Self { memory, base: world.buffers.get(cell.0.0), address, cell: cell.1.into(), size }
    }

    fn is_array(self) -> bool {
        self.memory == Memory::Array
    }

    /// As slices that start at the buffer's first byte.
    fn in_box(self, rows: Rows) -> BoxEnd {
        let none = ptr::null_mut();
        let no_memory = Pitched { address: none, pitch: 0, xsize: 0, ysize: 0 };
        if self.is_array() {
            return BoxEnd { array: self.base, position: [0, self.cell, 0], memory: no_memory };
        }
        let (position, ysize) = rows.position(self.cell);
        let memory = Pitched { address: self.base, pitch: rows.pitch, xsize: rows.pitch, ysize };
        BoxEnd { array: none, position, memory }
    }

    /// Where the given byte of each row is; lengths are in elements if an array takes part.
    fn in_batch(self, rows: Rows, byte: usize) -> BoxOperand {
        let element = rows.element();
        if self.is_array() {
            return BoxOperand {
                kind: OPERAND_ARRAY,
                base: self.base,
                lengths: [byte / element, self.cell, 0],
            };
        }
        let (_, slice) = rows.position(self.cell);
        let base = self.address.wrapping_byte_add(byte);
        BoxOperand { kind: OPERAND_MEMORY, base, lengths: [rows.pitch / element, slice, 0] }
    }

    fn in_driver_box(self, rows: Rows) -> DriverBoxEnd {
        let (position, height) = rows.position(self.cell);
        let DriverRowsEnd { kind, host, device, array, pitch, .. } = self.in_driver_rows(rows);
        DriverBoxEnd { position, level: 0, kind, host, device, array, pitch, height }
    }

    fn in_driver_rows(self, rows: Rows) -> DriverRowsEnd {
        let none = ptr::null_mut();
        let (host, device, array) = match self.memory {
            Memory::Array => (none, none, self.base),
            memory if is_host(memory) => (self.base, none, none),
            _ => (none, self.base, none),
        };
        let kind = newer::memory_type(is_host(self.memory), self.is_array());
        let pitch = if self.is_array() { 0 } else { rows.pitch };
        DriverRowsEnd { position: [0, self.cell * rows.of_cell], kind, host, device, array, pitch }
    }
}

impl Rows {
    fn of(to: End, from: End) -> Self {
        if to.is_array() || from.is_array() {
            Self { has_array: true, pitch: CELL_BYTES, of_cell: 1 }
        } else {
            Self { has_array: false, pitch: ROW, of_cell: CELL_BYTES / ROW }
        }
    }

    /// Bytes of the unit in which batches count lengths.
    fn element(self) -> usize {
        if self.has_array { 4 } else { 1 }
    }

    /// A cell's position in rows and slices, and the number of rows in a slice.
    fn position(self, cell: usize) -> ([usize; 3], usize) {
        if self.has_array { ([0, cell, 0], CELLS_MAX) } else { ([0, 0, cell * self.of_cell / ROWS], ROWS) }
    }

    /// Bytes of a row, rows and slices of a cell of this size.
    fn extent(self, size: usize) -> [usize; 3] {
        if self.has_array { [size, 1, 1] } else { [self.pitch, ROWS, size / self.pitch / ROWS] }
    }
}

/// Submits a copy of a cell.
pub(crate) fn submit(world: &World<'_>, stream: Handle, by: Copy, to: Cell, from: Cell) -> Code {
    let (to, from) = (End::new(world, to), End::new(world, from));
    let (kind, size) = (direction(to.memory, from.memory), to.size);
    // SAFETY: cells of existing buffers, both of this size.
    unsafe {
        match by {
            Copy::Async => names::hipMemcpyAsync(to.address, from.address, size, kind, stream),
            Copy::Spt => match names::of_thread(stream) {
                Some(stream) => names::hipMemcpyAsync_spt(to.address, from.address, size, kind, stream),
                None => names::hipMemcpyAsync(to.address, from.address, size, kind, stream),
            },
            Copy::Driver => match kind {
                hip::HOST_TO_DEVICE => hip::hipMemcpyHtoDAsync(to.address, from.address, size, stream),
                hip::DEVICE_TO_HOST => hip::hipMemcpyDtoHAsync(to.address, from.address, size, stream),
                _ => hip::hipMemcpyDtoDAsync(to.address, from.address, size, stream),
            },
            // The copy begins in the first row.
            Copy::DriverArray if to.is_array() && to.cell == 0 => {
                newer::copy_to_array(to.base, from.address, size, stream)
            }
            Copy::DriverArray if from.is_array() && from.cell == 0 => {
                newer::copy_from_array(to.address, from.base, size, stream)
            }
            Copy::Rows | Copy::DriverArray if to.is_array() => {
                let (array, row) = (to.base, to.cell);
                names::hipMemcpy2DToArrayAsync(array, 0, row, from.address, size, size, 1, kind, stream)
            }
            Copy::Rows | Copy::DriverArray if from.is_array() => {
                let (array, row) = (from.base, from.cell);
                names::hipMemcpy2DFromArrayAsync(to.address, size, array, 0, row, size, 1, kind, stream)
            }
            Copy::Rows | Copy::DriverArray => {
                let height = size / ROW;
                names::hipMemcpy2DAsync(to.address, ROW, from.address, ROW, ROW, height, kind, stream)
            }
            Copy::Box | Copy::DriverBox | Copy::DriverRows => by_rows(stream, by, to, from),
            // Both ends are memory of this process; the named devices do not affect their location.
            Copy::Peer => hip::hipMemcpyPeerAsync(to.address, 1, from.address, 0, size, stream),
            Copy::PeerBox => {
                let rows = Rows::of(to, from);
                let (from, to) = (from.in_box(rows), to.in_box(rows));
                let given = PeerBox { from, from_device: 0, to, to_device: 1, extent: rows.extent(size) };
                gone_after(given, |given| newer::copy_peer_box(given, stream))
            }
            Copy::Symbol => match world.row_of(stream) {
                Some(row) => through_symbol(stream, to, from, row * CELL_BYTES),
                None => names::hipMemcpyAsync(to.address, from.address, size, kind, stream),
            },
            // The batch function refuses the null stream.
            Copy::Batch if stream.is_null() => {
                names::hipMemcpyAsync(to.address, from.address, size, kind, stream)
            }
            Copy::Batch => newer::copy_halves(to.address, from.address, size, stream),
            Copy::BatchBox => by_halves_of_rows(stream, to, from),
            Copy::WithStream => {
                hip::hipMemcpyWithStream(to.address, from.address, size, hip::COPY_DEFAULT, stream)
            }
            Copy::Sync => hip::hipMemcpy(to.address, from.address, size, hip::COPY_DEFAULT),
        }
    }
}

/// Copies through a part of the variable that only this stream uses.
///
/// # Safety
///
/// The ends must be in existing buffers.
unsafe fn through_symbol(stream: Handle, to: End, from: End, offset: usize) -> Code {
    let kind_of_first = direction(Memory::Device, from.memory);
    let kind_of_second = direction(to.memory, Memory::Device);
    // SAFETY: the caller upholds this function's contract; a row is as long as a cell.
    unsafe {
        let variable = hip::diff_variable();
        let code =
            names::hipMemcpyToSymbolAsync(variable, from.address, from.size, offset, kind_of_first, stream);
        if code != hip::SUCCESS {
            return code;
        }
        names::hipMemcpyFromSymbolAsync(to.address, variable, to.size, offset, kind_of_second, stream)
    }
}

/// Copies both halves of each row, in one call if the runtime can.
///
/// # Safety
///
/// The ends must be in existing buffers.
unsafe fn by_halves_of_rows(stream: Handle, to: End, from: End) -> Code {
    let rows = Rows::of(to, from);
    let [width, height, depth] = rows.extent(to.size);
    let halves = [0, width / 2].map(|byte| BoxOperation {
        from: from.in_batch(rows, byte),
        to: to.in_batch(rows, byte),
        extent: [width / 2 / rows.element(), height, depth],
        order: ORDER_OF_STREAM,
        flags: 0,
    });
    let mut missing = false;
    // SAFETY: the caller upholds this function's contract.
    unsafe {
        let code = gone_after(halves, |halves| {
            newer::copy_boxes(halves, stream).unwrap_or_else(|| {
                missing = true;
                hip::SUCCESS
            })
        });
        if missing { by_rows(stream, Copy::Box, to, from) } else { code }
    }
}

/// # Safety
///
/// The ends must be in existing buffers.
unsafe fn by_rows(stream: Handle, by: Copy, to: End, from: End) -> Code {
    let (rows, size) = (Rows::of(to, from), to.size);
    let [width, height, depth] = rows.extent(size);
    // SAFETY: the caller upholds this function's contract.
    unsafe {
        match by {
            Copy::Box => {
                // If an array takes part, the extent counts its elements.
                let width = if rows.has_array { width / 4 } else { width };
                let kind = direction(to.memory, from.memory);
                let (from, to) = (from.in_box(rows), to.in_box(rows));
                let given = Box3d { from, to, extent: [width, height, depth], kind };
                gone_after(given, |given| names::hipMemcpy3DAsync(given, stream))
            }
            Copy::DriverBox => {
                let (from, to) = (from.in_driver_box(rows), to.in_driver_box(rows));
                let given = DriverBox { from, to, extent: [width, height, depth] };
                gone_after(given, |given| hip::hipDrvMemcpy3DAsync(given, stream))
            }
            _ => {
                let (from, to) = (from.in_driver_rows(rows), to.in_driver_rows(rows));
                let given = DriverRows { from, to, width, height: height * depth };
                gone_after(given, |given| hip::hipMemcpyParam2DAsync(given, stream))
            }
        }
    }
}

/// Calls with a structure that is overwritten when the call returns.
fn gone_after<T>(given: T, call: impl FnOnce(*const T) -> Code) -> Code {
    let mut given = Box::new(given);
    let code = call(&raw const *given);
    let bytes: *mut u8 = std::hint::black_box(&raw mut *given).cast();
    // SAFETY: the box owns `size_of::<T>()` bytes; it has no destructor, and is not read again.
    unsafe { ptr::write_bytes(bytes, 0x5a, size_of::<T>()) };
    std::hint::black_box(bytes);
    code
}
