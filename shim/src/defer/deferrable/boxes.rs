//! Copies of boxes, which HIP describes by structures; copies to and from arrays.
//!
//! The call owns the structure. Its contents are checked as the runtime does, or more strictly.

use std::slice;

use crate::abi::boxes::{
    Box3d, BoxEnd, BoxOperand, BoxOperation, Coordinates, DriverBox, DriverBoxEnd, DriverRows, PeerBox,
};
use crate::abi::{Extent, PitchedPtr};
use crate::api::Id;
use crate::defer::deferrable::copies::{DEFAULT, DEVICE_TO_DEVICE, End, check_copy, is_on_device};
use crate::hip::owned::Owner;
use crate::hip::real::{self, MemoryType};
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::Stopped;

/// The largest pitch that the runtime takes.
const PITCH_MAX: usize = i32::MAX as usize - 1;

pub(super) fn own<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy) -> Option<O> {
    // SAFETY: the application gives the structure that the function asks for.
    unsafe {
        match call.id() {
            Id::hipMemcpy3DAsync | Id::hipMemcpy3DAsync_spt => {
                owned(call, |given: &Box3d| check_box(copy, given.src, given.dst, given.extent, given.kind))
            }
            Id::hipMemcpy3DPeerAsync => owned(call, |given: &PeerBox| {
                let are_devices =
                    [given.src_device, given.dst_device].iter().all(|&device| real::is_device(copy, device));
                are_devices.then(|| check_box(copy, given.src, given.dst, given.extent, DEVICE_TO_DEVICE))?
            }),
            Id::hipDrvMemcpy3DAsync => owned(call, |given: &DriverBox| check_driver_box(copy, given)),
            Id::hipMemcpyParam2DAsync => {
                owned(call, |given: &DriverRows| check_driver_box(copy, &given.as_box()))
            }
            _ => None,
        }
    }
}

/// The call with the structure of its first argument, if `check` finds that the runtime will take it.
///
/// # Safety
/// The first argument must be null or point to a `T`, which is made of words.
unsafe fn owned<O: Owner, T: Copy>(call: &Stopped<'_>, check: impl FnOnce(&T) -> Option<()>) -> Option<O> {
    let given = call.size(0) as *const T;
    if given.is_null() {
        return None;
    }
    let words = size_of::<T>() / size_of::<u64>();
    // SAFETY: the caller's promise. The check reads what the call owns, in case another thread changes the original.
    unsafe {
        let mut owned = O::of(call, words)?;
        let own = owned.own_words(0, slice::from_raw_parts(given.cast(), words))?;
        check(&*(own as *const T))?;
        if is_planted(Bug::ShallowStructure) {
            return O::of(call, 0);
        }
        Some(owned)
    }
}

fn check_box(copy: &RuntimeCopy, from: BoxEnd, to: BoxEnd, extent: Extent, kind: u32) -> Option<()> {
    let array = |end: &BoxEnd| (end.array != 0).then(|| real::array(copy, end.array));
    let (from_array, to_array) = (array(&from), array(&to));
    // The runtime reports a handle that is no array.
    let elements = [from_array, to_array].into_iter().flatten().collect::<Option<Vec<_>>>()?;
    let element_bytes = elements.first().map_or(1, |array| array.element_bytes);
    if elements.iter().any(|array| array.element_bytes != element_bytes) {
        return None;
    }
    // With an array in it, the extent counts its elements.
    let extent = Extent { width: extent.width.checked_mul(element_bytes)?, ..extent };
    let end = |end: BoxEnd| {
        let BoxEnd { array, position, memory } = end;
        if array != 0 && memory.address == 0 && memory.pitch == 0 {
            let position = Coordinates { x: position.x.checked_mul(element_bytes)?, ..position };
            return in_array(copy, ArrayPart { array, position, extent });
        }
        let is_whole = memory.xsize == 0
            || memory.ysize == 0
            || position.x.checked_add(extent.width)? <= memory.xsize
                && position.y.checked_add(extent.height)? <= memory.ysize;
        let is_formed = array == 0 && memory.xsize <= memory.pitch && memory.pitch <= PITCH_MAX && is_whole;
        let pitched = (memory.pitch, memory.ysize);
        is_formed.then(|| in_taken_memory(copy, memory.address, position, pitched, extent))?
    };
    check_copy(copy, end(to)?, end(from)?, kind)
}

/// `hipMemcpyOperandTypePointer`, `hipMemcpyOperandTypeArray`
const POINTER: u32 = 1;
const ARRAY: u32 = 2;

/// One box of a batch.
pub(super) fn check_operation(copy: &RuntimeCopy, given: &BoxOperation) -> Option<()> {
    let element_bytes = |operand: &BoxOperand| {
        (operand.kind == ARRAY).then(|| real::array(copy, operand.handle).map(|array| array.element_bytes))
    };
    // The runtime reports a handle that is no array.
    let elements = [element_bytes(&given.src), element_bytes(&given.dst)].into_iter().flatten();
    let elements = elements.collect::<Option<Vec<_>>>()?;
    let element_bytes = elements.first().copied().unwrap_or(1);
    let end = |operand: &BoxOperand| operand_end(operand, given.extent, element_bytes);
    check_box(copy, end(&given.src)?, end(&given.dst)?, given.extent, DEFAULT)
}

/// One end of a batch's box, described as that of a single box.
fn operand_end(operand: &BoxOperand, extent: Extent, element_bytes: usize) -> Option<BoxEnd> {
    let BoxOperand { kind, handle, lengths: [first, second, third] } = *operand;
    match kind {
        POINTER => {
            let or = |given, extent| if given == 0 { extent } else { given };
            let (length, rows) = (or(first, extent.width), or(second, extent.height));
            let pitch = length.checked_mul(element_bytes)?;
            let memory = PitchedPtr { address: handle, pitch, xsize: pitch, ysize: rows };
            let is_within = extent.width <= length && extent.height <= rows;
            is_within.then_some(BoxEnd { array: 0, position: Coordinates::default(), memory })
        }
        ARRAY if handle != 0 => {
            let position = Coordinates { x: first, y: second, z: third };
            Some(BoxEnd { array: handle, position, memory: PitchedPtr::default() })
        }
        _ => None,
    }
}

fn check_driver_box(copy: &RuntimeCopy, given: &DriverBox) -> Option<()> {
    let end = |end: &DriverBoxEnd| {
        let memory =
            |address| in_taken_memory(copy, address, end.position, (end.pitch, end.height), given.extent);
        let (end, is_device) = match MemoryType::of(copy, end.kind).filter(|_| end.level == 0)? {
            MemoryType::Host => (memory(end.host)?, Some(false)),
            MemoryType::Device => (memory(end.device)?, Some(true)),
            MemoryType::Unified => (memory(end.device)?, None),
            MemoryType::Array => {
                let part = ArrayPart { array: end.array, position: end.position, extent: given.extent };
                (in_array(copy, part)?, Some(true))
            }
        };
        let is_of_its_kind = is_device.is_none_or(|expected| is_on_device(copy, end) == Some(expected));
        is_of_its_kind.then_some(end)
    };
    let is_host = MemoryType::of(copy, given.dst.kind) == Some(MemoryType::Host);
    if is_host && !real::copies_boxes_to_host(copy) {
        return None;
    }
    check_copy(copy, end(&given.dst)?, end(&given.src)?, DEFAULT)
}

/// A box in memory, if the runtime does not refuse it for where it begins.
fn in_taken_memory(
    copy: &RuntimeCopy,
    address: usize,
    at: Coordinates,
    pitched: (usize, usize),
    extent: Extent,
) -> Option<End> {
    let end = in_memory(address, at, pitched, extent)?;
    (!seems_empty(address, end) || real::measures_boxes(copy)).then_some(end)
}

/// Whether the box begins as many bytes behind its memory's address as it has.
fn seems_empty(address: usize, end: End) -> bool {
    matches!(end, End::Memory { address: first, bytes } if first - address == bytes)
}

/// A box in memory with rows of `pitch` bytes and slices of `rows` rows.
pub(super) fn in_memory(
    address: usize,
    at: Coordinates,
    (pitch, rows): (usize, usize),
    extent: Extent,
) -> Option<End> {
    let (last_row, last_slice) = (extent.height.checked_sub(1)?, extent.depth.checked_sub(1)?);
    let is_within = |begin: usize, size: usize, limit: usize| {
        size > 0 && begin.checked_add(size).is_some_and(|end| end <= limit)
    };
    let has_slices = at.z > 0 || last_slice > 0;
    if !is_within(at.x, extent.width, pitch) || has_slices && !is_within(at.y, extent.height, rows) {
        return None;
    }
    let offset = |z: usize, y: usize, x: usize| {
        z.checked_mul(rows)?.checked_add(y)?.checked_mul(pitch)?.checked_add(x)
    };
    let first = offset(at.z, at.y, at.x)?;
    let last = offset(at.z.checked_add(last_slice)?, at.y.checked_add(last_row)?, at.x)?;
    let bytes = (last - first).checked_add(extent.width)?;
    // The runtime checks the memory from its address on; the box begins further behind.
    Some(End::Memory { address: address.checked_add(first)?, bytes })
}

/// A box in an array; `x` and width in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrayPart {
    pub(super) array: usize,
    pub(super) position: Coordinates,
    pub(super) extent: Extent,
}

impl ArrayPart {
    /// Rows of the first slice.
    pub(super) fn rows(array: usize, (x, y): (usize, usize), (width, height): (usize, usize)) -> Self {
        let extent = Extent { width, height, depth: 1 };
        Self { array, position: Coordinates { x, y, z: 0 }, extent }
    }
}

/// A part of an array that lies within it, in whole elements.
pub(super) fn in_array(copy: &RuntimeCopy, part: ArrayPart) -> Option<End> {
    if part.array == 0 {
        return None;
    }
    let real::Array { size, element_bytes } = real::array(copy, part.array)?;
    fits(&part, size, element_bytes).then_some(End::Array)
}

fn fits(part: &ArrayPart, size: Extent, element_bytes: usize) -> bool {
    let ArrayPart { position, extent, .. } = part;
    let is_within = |begin: usize, length: usize, limit: usize| {
        length > 0 && begin.checked_add(length).is_some_and(|end| end <= limit.max(1))
    };
    let is_whole = |bytes: usize| bytes.is_multiple_of(element_bytes);
    is_whole(position.x)
        && is_whole(extent.width)
        && is_within(position.x / element_bytes, extent.width / element_bytes, size.width)
        && is_within(position.y, extent.height, size.height)
        && is_within(position.z, extent.depth, size.depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Coordinates = Coordinates { x: 0, y: 0, z: 0 };

    fn memory(at: Coordinates, pitched: (usize, usize), extent: (usize, usize, usize)) -> Option<End> {
        let (width, height, depth) = extent;
        in_memory(0x1000, at, pitched, Extent { width, height, depth })
    }

    #[test]
    fn a_box_in_memory_ends_with_its_last_row() {
        let box_of_six_rows = memory(ORIGIN, (16, 4), (3, 3, 2));
        let bytes = (4 + 2) * 16 + 3;
        assert_eq!(box_of_six_rows, Some(End::Memory { address: 0x1000, bytes }));
        let within = memory(Coordinates { x: 1, y: 2, z: 3 }, (16, 4), (3, 1, 1));
        assert_eq!(within, Some(End::Memory { address: 0x1000 + (3 * 4 + 2) * 16 + 1, bytes: 3 }));
    }

    /// ROCm 5 refuses the second of these, and takes the others: seen with 5.2.
    #[test]
    fn a_box_seems_empty_that_begins_as_many_bytes_behind_as_it_has() {
        let four_rows_at = |y| memory(Coordinates { x: 0, y, z: 0 }, (64, 0), (64, 4, 1)).unwrap();
        let seem_empty = [0, 4, 8].map(|y| seems_empty(0x1000, four_rows_at(y)));
        assert_eq!(seem_empty, [false, true, false]);
    }

    #[test]
    fn a_box_that_exceeds_its_rows_or_slices_is_not_deferred() {
        assert_eq!(memory(Coordinates { x: 14, y: 0, z: 0 }, (16, 4), (3, 1, 1)), None);
        assert_eq!(memory(ORIGIN, (16, 4), (3, 5, 2)), None);
        assert!(memory(ORIGIN, (16, 0), (3, 5, 1)).is_some(), "one slice needs no number of rows");
        assert_eq!(memory(ORIGIN, (16, 4), (0, 1, 1)), None);
        assert_eq!(memory(ORIGIN, (16, 4), (1, 0, 1)), None);
        assert_eq!(memory(Coordinates { x: 0, y: usize::MAX, z: 1 }, (16, 4), (1, 1, 1)), None);
    }

    #[test]
    fn rows_of_a_batch_have_its_length_or_that_of_the_extent() {
        let extent = Extent { width: 4, height: 3, depth: 2 };
        let end = |first, second| {
            operand_end(&BoxOperand { kind: POINTER, handle: 0x1000, lengths: [first, second, 0] }, extent, 4)
        };
        let pitched = |pitch, ysize| PitchedPtr { address: 0x1000, pitch, xsize: pitch, ysize };
        assert_eq!(end(0, 0).unwrap().memory, pitched(16, 3));
        assert_eq!(end(8, 5).unwrap().memory, pitched(32, 5));
        assert!(end(3, 0).is_none() && end(0, 2).is_none(), "shorter than what is copied");
        assert!(end(usize::MAX, 0).is_none(), "a length that overflows");
        let in_array = BoxOperand { kind: ARRAY, handle: 0x2000, lengths: [1, 2, 3] };
        let position = Coordinates { x: 1, y: 2, z: 3 };
        let expected = BoxEnd { array: 0x2000, position, memory: PitchedPtr::default() };
        assert_eq!(operand_end(&in_array, extent, 4), Some(expected));
        assert!(operand_end(&BoxOperand { kind: 3, ..in_array }, extent, 4).is_none());
    }

    #[test]
    fn a_part_of_an_array_has_whole_elements_and_lies_within() {
        let flat = Extent { width: 8, height: 3, depth: 0 };
        let fits = |at, size| fits(&ArrayPart::rows(1, at, size), flat, 4);
        assert!(fits((0, 0), (32, 3)));
        assert!(fits((28, 2), (4, 1)));
        assert!(!fits((28, 2), (8, 1)), "past the row's end");
        assert!(!fits((0, 1), (32, 3)), "past the last row");
        assert!(!fits((2, 0), (4, 1)), "within an element");
        assert!(!fits((0, 0), (0, 1)), "nothing");
    }
}
