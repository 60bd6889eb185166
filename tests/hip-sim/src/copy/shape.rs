//! The shape of a copy: a box of rows and slices between two ends, in the simplest case a plain range.

use core::ffi::c_void;
use core::ptr;

use crate::abi::{hipMemcpyKind, memcpy_kind};
use crate::engine::Work;
use crate::error::HipError;
use crate::memory::Kind;
use crate::{config, memory};

/// The type of memory at one end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryType {
    Device,
    Pinned,
    Pageable,
}

/// Size of the box: bytes in a row, rows in a slice, slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

impl Extent {
    pub(crate) fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// None if the size overflows.
    pub(crate) fn size(&self) -> Option<usize> {
        self.width.checked_mul(self.height)?.checked_mul(self.depth)
    }
}

/// One end: memory in rows of `pitch` bytes and slices of `rows` rows, and the start of the box in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) base: usize,
    pub(crate) pitch: usize,
    pub(crate) rows: usize,
    /// In bytes.
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    /// Handle of the array at this end, 0 if none.
    pub(crate) array: usize,
}

impl End {
    /// A plain range.
    pub(crate) fn linear(base: *const c_void, size: usize) -> Self {
        Self::pitched(base, size)
    }

    /// Rows of `pitch` bytes.
    pub(crate) fn pitched(base: *const c_void, pitch: usize) -> Self {
        Self { base: base.expose_provenance(), pitch, rows: 0, x: 0, y: 0, z: 0, array: 0 }
    }

    fn row(&self, y: usize, z: usize) -> usize {
        self.base + ((self.z + z) * self.rows + self.y + y) * self.pitch + self.x
    }

    /// First byte, and number of bytes up to the end of the last one; none if that overflows.
    fn span(&self, extent: &Extent) -> Option<(usize, usize)> {
        let rows = self.z.checked_add(extent.depth)?.checked_mul(self.rows.max(extent.height))?;
        rows.checked_add(self.y)?.checked_mul(self.pitch)?.checked_add(self.x)?.checked_add(self.base)?;
        let first = self.row(0, 0);
        let last = self.row(extent.height - 1, extent.depth - 1);
        Some((first, last.checked_sub(first)?.checked_add(extent.width)?))
    }

    /// The memory type of this end. Checks that a known allocation contains the whole box.
    fn memory_type(&self, extent: &Extent) -> Result<MemoryType, HipError> {
        let (first, size) = self.span(extent).ok_or(HipError::InvalidValue)?;
        match memory::known().find(first) {
            None => Ok(MemoryType::Pageable),
            Some(range) if range.size_from(first) < size => Err(HipError::InvalidValue),
            Some(range) if range.kind == Kind::Host => Ok(MemoryType::Pinned),
            Some(_) => Ok(MemoryType::Device),
        }
    }
}

/// A copy, which can run any number of times. The application keeps its addresses valid until the copy is
/// done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) to: End,
    pub(crate) from: End,
    pub(crate) extent: Extent,
    pub(crate) kind: hipMemcpyKind,
}

impl Copy {
    /// A copy of a plain range.
    pub(crate) fn linear(to: *mut c_void, from: *const c_void, size: usize, kind: hipMemcpyKind) -> Self {
        let extent = Extent { width: size, height: 1, depth: 1 };
        Self { to: End::linear(to, size), from: End::linear(from, size), extent, kind }
    }

    /// A copy of rows.
    pub(crate) fn pitched(
        (to, to_pitch): (*mut c_void, usize),
        (from, from_pitch): (*const c_void, usize),
        (width, height): (usize, usize),
        kind: hipMemcpyKind,
    ) -> Self {
        let extent = Extent { width, height, depth: 1 };
        Self { to: End::pitched(to, to_pitch), from: End::pitched(from, from_pitch), extent, kind }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.extent.is_empty()
    }

    /// Checks both ends; returns the memory types of source and target. The box must not be empty.
    pub(crate) fn memory_types(&self) -> Result<(MemoryType, MemoryType), HipError> {
        if self.to.base == 0 || self.from.base == 0 {
            return Err(HipError::InvalidValue);
        }
        if self.kind > memcpy_kind::DEFAULT && self.kind != memcpy_kind::DEVICE_TO_DEVICE_NO_CU {
            return Err(HipError::InvalidMemcpyDirection);
        }
        let memory_types = (self.from.memory_type(&self.extent)?, self.to.memory_type(&self.extent)?);
        let is_of_host = matches!(self.kind, memcpy_kind::HOST_TO_HOST | memcpy_kind::DEFAULT);
        if memory_types == (MemoryType::Pageable, MemoryType::Pageable) && !is_of_host {
            return Err(HipError::InvalidValue);
        }
        Ok(memory_types)
    }

    /// The part of the device that the copy occupies, from the memory types of its ends.
    pub(crate) fn work(&self, memory_types: (MemoryType, MemoryType)) -> Work {
        let (time, size) = (config::get().copy_time, self.extent.size().unwrap_or(usize::MAX));
        match memory_types {
            (MemoryType::Device, MemoryType::Device) => time.on_device(size),
            (from, _) => time.over_link(size, from == MemoryType::Device),
        }
    }

    /// Copies the source into the returned buffer, which becomes the copy's source.
    pub(crate) fn stage(&mut self) -> Vec<u8> {
        let extent = self.extent;
        let mut bytes = vec![0_u8; extent.width * extent.height * extent.depth];
        let mut aside = End::pitched(bytes.as_mut_ptr().cast(), extent.width);
        aside.rows = extent.height;
        Self { to: aside, ..self.clone() }.run();
        self.from = aside;
        bytes
    }

    /// Copies the bytes.
    pub(crate) fn run(&self) {
        for z in 0..self.extent.depth {
            for y in 0..self.extent.height {
                let from = ptr::with_exposed_provenance::<u8>(self.from.row(y, z));
                let to = ptr::with_exposed_provenance_mut(self.to.row(y, z));
                // SAFETY: both ends were checked against the allocations, or the application guarantees them.
                // Overlap is undefined in HIP; `copy` gives it a defined result, so that this runtime adds no
                // error of its own.
                unsafe { ptr::copy(from, to, self.extent.width) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_copied_and_its_surroundings_are_not() {
        let from: Vec<u8> = (0..60).collect();
        let mut to = vec![0xff_u8; 24];
        let mut copy = Copy::pitched((to.as_mut_ptr().cast(), 4), (from.as_ptr().cast(), 5), (2, 2), 0);
        copy.extent.depth = 2;
        (copy.from.rows, copy.to.rows) = (4, 3);
        (copy.from.x, copy.from.y, copy.from.z) = (1, 1, 1);
        copy.run();
        let mut expected = vec![0xff; 24];
        for (at, value) in [(0, 26), (1, 27), (4, 31), (5, 32), (12, 46), (13, 47), (16, 51), (17, 52)] {
            expected[at] = value;
        }
        assert_eq!(to, expected);
    }

    #[test]
    fn the_last_row_needs_no_padding() {
        let extent = Extent { width: 3, height: 4, depth: 1 };
        let end = End::pitched(ptr::without_provenance(0x1000), 16);
        assert_eq!(end.span(&extent), Some((0x1000, 3 * 16 + 3)));
        let end = End { pitch: usize::MAX / 2, ..end };
        assert_eq!(end.span(&extent), None);
    }
}
