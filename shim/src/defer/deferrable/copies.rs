//! Copies and fills of ranges and rows, and memory that is freed or moved in stream order.
//!
//! A copy returns before it is done if the runtime knows its memory and at least one side of it is on a device. Only
//! such a copy can be made later.

use crate::abi::boxes::Coordinates;
use crate::abi::{Enum, Extent, MemLocation, PitchedPtr};
use crate::api::Id;
use crate::defer::deferrable::boxes::{ArrayPart, in_array, in_memory};
use crate::hip::owned::Owner;
use crate::hip::real;
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::Stopped;

/// `hipMemcpyKind`
const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
pub(super) const DEVICE_TO_DEVICE: u32 = 3;
pub(super) const DEFAULT: u32 = 4;

/// `hipCpuDeviceId`
const HOST: i32 = -1;
/// `hipMemLocationTypeDevice`
const LOCATION_DEVICE: Enum = Enum(1);

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// So many bytes from an address on.
    Memory { address: usize, bytes: usize },
    /// An array that the copy fits into.
    Array,
    /// A part of a variable of the calling thread's device.
    Variable,
}

pub(super) fn own<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy) -> Option<O> {
    let memory = |argument, bytes| End::Memory { address: call.size(argument), bytes };
    let range = |bytes, kind| check_copy(copy, memory(0, bytes), memory(1, bytes), kind);
    let filled = |bytes| device_memory(copy, call.size(0), bytes);
    let size = |argument| call.size(argument);
    match call.id() {
        Id::hipMemcpyAsync | Id::hipMemcpyAsync_spt => range(size(2), call.int(3)),
        Id::hipMemcpyHtoDAsync => range(size(2), HOST_TO_DEVICE),
        Id::hipMemcpyDtoHAsync => range(size(2), DEVICE_TO_HOST),
        Id::hipMemcpyDtoDAsync => range(size(2), DEVICE_TO_DEVICE),
        Id::hipMemcpyToSymbolAsync | Id::hipMemcpyToSymbolAsync_spt => {
            let to = in_variable(copy, size(0), size(3), size(2))?;
            check_copy(copy, to, memory(1, size(2)), call.int(4))
        }
        Id::hipMemcpyFromSymbolAsync | Id::hipMemcpyFromSymbolAsync_spt => {
            let from = in_variable(copy, size(1), size(3), size(2))?;
            check_copy(copy, memory(0, size(2)), from, call.int(4))
        }
        Id::hipMemcpyPeerAsync => {
            let are_devices =
                [1, 3].iter().all(|&argument| real::is_device(copy, call.int(argument).cast_signed()));
            let ends = (memory(0, size(4)), memory(2, size(4)));
            are_devices.then(|| check_copy(copy, ends.0, ends.1, DEVICE_TO_DEVICE))?
        }
        Id::hipMemcpy2DAsync | Id::hipMemcpy2DAsync_spt => {
            let to = memory(0, rows(size(1), size(4), size(5))?);
            let from = memory(2, rows(size(3), size(4), size(5))?);
            check_copy(copy, to, from, call.int(6))
        }
        Id::hipMemcpy2DToArrayAsync | Id::hipMemcpy2DToArrayAsync_spt => {
            let part = ArrayPart::rows(size(0), (size(1), size(2)), (size(5), size(6)));
            let from = memory(3, rows(size(4), size(5), size(6))?);
            check_copy(copy, in_array(copy, part)?, from, call.int(7))
        }
        Id::hipMemcpy2DFromArrayAsync | Id::hipMemcpy2DFromArrayAsync_spt => {
            let part = ArrayPart::rows(size(2), (size(3), size(4)), (size(5), size(6)));
            let to = memory(0, rows(size(1), size(5), size(6))?);
            check_copy(copy, to, in_array(copy, part)?, call.int(7))
        }
        Id::hipMemcpyHtoAAsync => {
            let part = ArrayPart::rows(size(0), (size(1), 0), (size(3), 1));
            check_copy(copy, in_array(copy, part)?, memory(2, size(3)), HOST_TO_DEVICE)
        }
        Id::hipMemcpyAtoHAsync => {
            let part = ArrayPart::rows(size(1), (size(2), 0), (size(3), 1));
            check_copy(copy, memory(0, size(3)), in_array(copy, part)?, DEVICE_TO_HOST)
        }

        Id::hipMemsetAsync | Id::hipMemsetAsync_spt | Id::hipMemsetD8Async => filled(size(2)),
        Id::hipMemsetD16Async => filled(size(2).checked_mul(2)?),
        Id::hipMemsetD32Async => filled(size(2).checked_mul(4)?),
        Id::hipMemset2DAsync | Id::hipMemset2DAsync_spt | Id::hipMemsetD2D8Async => {
            filled(rows(size(1), size(3), size(4))?)
        }
        Id::hipMemset3DAsync | Id::hipMemset3DAsync_spt => {
            // SAFETY: the types of these arguments.
            let (to, extent) = unsafe { (call.structure::<PitchedPtr>(0), call.structure::<Extent>(2)) };
            let end = in_memory(to.address, Coordinates::default(), (to.pitch, to.ysize), extent)?;
            is_on_device(copy, end)?.then_some(())
        }
        Id::hipMemsetD2D16Async => filled(rows(size(1), size(3).checked_mul(2)?, size(4))?),
        Id::hipMemsetD2D32Async => filled(rows(size(1), size(3).checked_mul(4)?, size(4))?),
        Id::hipFreeAsync => filled(1),
        Id::hipMemPrefetchAsync => is_moved(copy, (size(0), size(1)), call.int(2).cast_signed()),
        Id::hipMemPrefetchAsync_v2 if call.int(3) == 0 => {
            // SAFETY: the type of this argument.
            let MemLocation { kind, id } = unsafe { call.structure(2) };
            (kind == LOCATION_DEVICE).then(|| is_moved(copy, (size(0), size(1)), id))?
        }
        _ => None,
    }?;
    O::of(call, 0)
}

/// Whether managed memory can be moved to a device, or to the host. The runtime refuses to move other memory.
fn is_moved(copy: &RuntimeCopy, (address, bytes): (usize, usize), device: i32) -> Option<()> {
    let is_target = device == HOST || real::is_device(copy, device);
    let range = real::memory(copy, address).filter(|_| is_target)?;
    let is_within = bytes > 0 && range.bytes_left >= bytes;
    (is_within && real::is_managed(copy, address)).then_some(())
}

/// A part of the variable that a symbol names, if it lies within.
fn in_variable(copy: &RuntimeCopy, symbol: usize, offset: usize, bytes: usize) -> Option<End> {
    let available = real::variable_bytes(copy, symbol)?;
    let is_within = bytes > 0 && offset.checked_add(bytes).is_some_and(|end| end <= available);
    is_within.then_some(End::Variable)
}

/// Bytes from the first to the last byte of these rows.
fn rows(pitch: usize, width: usize, height: usize) -> Option<usize> {
    (width <= pitch && width > 0 && height > 0).then_some(())?;
    pitch.checked_mul(height - 1)?.checked_add(width)
}

/// Checks that a copy returns before it is done: it is between known memory, at least one side is on a device, and
/// its kind says so.
pub(super) fn check_copy(copy: &RuntimeCopy, to: End, from: End, kind: u32) -> Option<()> {
    if is_planted(Bug::PageableDeferred) {
        return Some(());
    }
    let is_of_kind = match (is_on_device(copy, from)?, is_on_device(copy, to)?) {
        (true, true) => kind == DEVICE_TO_DEVICE,
        (true, false) => kind == DEVICE_TO_HOST,
        (false, true) => kind == HOST_TO_DEVICE,
        // From host to host: the runtime copies at once, on the calling thread.
        (false, false) => return None,
    };
    (is_of_kind || kind == DEFAULT).then_some(())
}

/// Whether known memory that the copy fits into is on a device.
pub(super) fn is_on_device(copy: &RuntimeCopy, end: End) -> Option<bool> {
    match end {
        End::Memory { address, bytes } => {
            let range = real::memory(copy, address)?;
            (bytes > 0 && range.bytes_left >= bytes).then_some(range.is_device)
        }
        End::Array | End::Variable => Some(true),
    }
}

fn device_memory(copy: &RuntimeCopy, address: usize, bytes: usize) -> Option<()> {
    is_on_device(copy, End::Memory { address, bytes })?.then_some(())
}
