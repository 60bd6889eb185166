//! What a fill is: what it writes, and where.

use core::ffi::c_void;
use core::ptr;

use crate::abi::hipMemsetParams;
use crate::copy::Extent;
use crate::engine::Command;
use crate::error::HipError;
use crate::memory::Range;
use crate::{config, memory};

/// Writes a value repeatedly: into rows of `width` elements, slices of `rows` rows. It can run any number of
/// times.
///
/// The application keeps the addresses valid until the fill is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(super) to: usize,
    /// The element's bytes: the first `element_size` of these.
    value: [u8; 4],
    /// 1, 2 or 4.
    element_size: usize,
    pub(super) extent: Extent,
    /// Bytes from one row to the next.
    pitch: usize,
    /// Rows from one slice to the next.
    pub(super) rows: usize,
}

impl Fill {
    pub(super) fn new(
        to: *mut c_void,
        value: u32,
        element_size: usize,
        extent: Extent,
        pitch: usize,
    ) -> Self {
        let to = to.expose_provenance();
        Self { to, value: value.to_le_bytes(), element_size, extent, pitch, rows: extent.height }
    }

    /// A plain range of elements.
    pub(super) fn linear(to: *mut c_void, value: u32, element_size: usize, count: usize) -> Self {
        Self::new(to, value, element_size, Extent { width: count, height: 1, depth: 1 }, 0)
    }

    /// From a graph node's parameters, checked.
    pub(crate) fn of_node(params: &hipMemsetParams) -> Result<Self, HipError> {
        let size = params.elementSize as usize;
        let is_narrow = params.height > 1 && params.width.checked_mul(size).is_none_or(|w| params.pitch < w);
        if !matches!(size, 1 | 2 | 4) || params.height == 0 || params.width == 0 || is_narrow {
            return Err(HipError::InvalidValue);
        }
        let extent = Extent { width: params.width, height: params.height, depth: 1 };
        let fill = Self::new(params.dst, params.value, size, extent, params.pitch);
        fill.range()?;
        Ok(fill)
    }

    /// The parameters that [`Fill::of_node`] reads.
    pub(crate) fn node_params(&self) -> hipMemsetParams {
        hipMemsetParams {
            dst: ptr::with_exposed_provenance_mut(self.to),
            elementSize: self.element_size as u32,
            height: self.extent.height,
            pitch: self.pitch,
            value: u32::from_le_bytes(self.value),
            width: self.extent.width,
        }
    }

    /// The allocation that contains the whole fill.
    pub(super) fn range(&self) -> Result<Range, HipError> {
        let Extent { width, height, depth } = self.extent;
        let size = width.checked_mul(self.element_size).and_then(|row| {
            let rows = (depth - 1).checked_mul(self.rows)?.checked_add(height - 1)?;
            rows.checked_mul(self.pitch)?.checked_add(row)
        });
        let range = memory::known().find(self.to).ok_or(HipError::InvalidValue)?;
        if size.is_none_or(|size| range.size_from(self.to) < size) {
            return Err(HipError::InvalidValue);
        }
        Ok(range)
    }

    /// The command to submit.
    pub(crate) fn command(self) -> Command {
        let Extent { width, height, depth } = self.extent;
        let work = config::get().copy_time.on_device(width * height * depth * self.element_size);
        Command::on_device(work, move || self.run())
    }

    fn run(&self) {
        let element = &self.value[..self.element_size];
        for slice in 0..self.extent.depth {
            for row in 0..self.extent.height {
                let start = self.to + (slice * self.rows + row) * self.pitch;
                let start = ptr::with_exposed_provenance_mut::<u8>(start);
                let size = self.extent.width * self.element_size;
                // SAFETY: inside the range that was checked; nothing else in this process holds a reference
                // to it.
                let bytes = unsafe { core::slice::from_raw_parts_mut(start, size) };
                if self.element_size == 1 {
                    bytes.fill(element[0]);
                } else {
                    bytes.chunks_exact_mut(element.len()).for_each(|chunk| chunk.copy_from_slice(element));
                }
            }
        }
    }
}
