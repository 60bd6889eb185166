//! Occupancy: how many blocks of a kernel fit, by threads of a compute unit and by local data share.
//! Registers impose no limit.

use core::ffi::c_void;
use std::sync::Arc;

use crate::abi::{hipError_t, hipFunction_t};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::kernel::Kernel;
use crate::properties::{MAX_THREADS_PER_BLOCK, MAX_THREADS_PER_COMPUTE_UNIT, compute_units, lds_size};
use crate::{fat_binary, kernel};

/// Number of blocks of this size that one compute unit runs at once; 0 for a size that the device does not
/// support.
fn blocks(kernel: &Kernel, threads: u32, dynamic_lds_size: usize) -> u32 {
    if threads > MAX_THREADS_PER_BLOCK {
        return 0;
    }
    let by_threads = MAX_THREADS_PER_COMPUTE_UNIT.unsigned_abs() / threads;
    let of_block = kernel.lds_size + dynamic_lds_size;
    let by_lds = lds_size().checked_div(of_block).map_or(u32::MAX, |blocks| blocks as u32);
    by_threads.min(by_lds)
}

fn of_symbol(host: *const c_void) -> Result<Arc<Kernel>, HipError> {
    fat_binary::registered().kernel(host).map_err(|_| HipError::InvalidDeviceFunction)
}

fn of_function(function: hipFunction_t) -> Result<Arc<Kernel>, HipError> {
    kernel::listed().get(function).ok_or(HipError::InvalidValue)
}

fn give_blocks(
    out: *mut i32,
    kernel: Result<Arc<Kernel>, HipError>,
    threads: i32,
    dynamic_lds_size: usize,
) -> Result<(), HipError> {
    if out.is_null() || threads <= 0 {
        return Err(HipError::InvalidValue);
    }
    let count = blocks(&*kernel?, threads.unsigned_abs(), dynamic_lds_size);
    // SAFETY: the caller passes null or a writable out-parameter.
    unsafe { write(out, count as i32) }
}

/// The largest block that the kernel allows, and the number of them that fit on the device.
fn give_best(
    grid: *mut i32,
    block: *mut i32,
    kernel: Result<Arc<Kernel>, HipError>,
    dynamic_lds_size: usize,
    limit: i32,
) -> Result<(), HipError> {
    if grid.is_null() || block.is_null() {
        return Err(HipError::InvalidValue);
    }
    let kernel = kernel?;
    let most = kernel.max_threads_per_block.min(MAX_THREADS_PER_BLOCK);
    let best = if limit > 0 { most.min(limit.unsigned_abs()) } else { most };
    let fitting = blocks(&kernel, best, dynamic_lds_size) * compute_units().unsigned_abs();
    // SAFETY: the caller passes null or writable out-parameters.
    unsafe {
        write(grid, fitting as i32)?;
        write(block, best as i32)
    }
}

/// `hipOccupancyMaxActiveBlocksPerMultiprocessor`
pub(crate) unsafe extern "C" fn max_blocks(
    out: *mut i32,
    host: *const c_void,
    threads: i32,
    dynamic_lds_size: usize,
) -> hipError_t {
    boundary::call(|| give_blocks(out, of_symbol(host), threads, dynamic_lds_size))
}

/// `hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags`
pub(crate) unsafe extern "C" fn max_blocks_with_flags(
    out: *mut i32,
    host: *const c_void,
    threads: i32,
    dynamic_lds_size: usize,
    _flags: u32,
) -> hipError_t {
    boundary::call(|| give_blocks(out, of_symbol(host), threads, dynamic_lds_size))
}

/// `hipModuleOccupancyMaxActiveBlocksPerMultiprocessor`
pub(crate) unsafe extern "C" fn max_blocks_of_function(
    out: *mut i32,
    function: hipFunction_t,
    threads: i32,
    dynamic_lds_size: usize,
) -> hipError_t {
    boundary::call(|| give_blocks(out, of_function(function), threads, dynamic_lds_size))
}

/// `hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags`
pub(crate) unsafe extern "C" fn max_blocks_of_function_with_flags(
    out: *mut i32,
    function: hipFunction_t,
    threads: i32,
    dynamic_lds_size: usize,
    _flags: u32,
) -> hipError_t {
    boundary::call(|| give_blocks(out, of_function(function), threads, dynamic_lds_size))
}

/// `hipOccupancyMaxPotentialBlockSize`
pub(crate) unsafe extern "C" fn best_block(
    grid: *mut i32,
    block: *mut i32,
    host: *const c_void,
    dynamic_lds_size: usize,
    limit: i32,
) -> hipError_t {
    boundary::call(|| give_best(grid, block, of_symbol(host), dynamic_lds_size, limit))
}

/// `hipModuleOccupancyMaxPotentialBlockSize`
pub(crate) unsafe extern "C" fn best_block_of_function(
    grid: *mut i32,
    block: *mut i32,
    function: hipFunction_t,
    dynamic_lds_size: usize,
    limit: i32,
) -> hipError_t {
    boundary::call(|| give_best(grid, block, of_function(function), dynamic_lds_size, limit))
}

/// `hipModuleOccupancyMaxPotentialBlockSizeWithFlags`
pub(crate) unsafe extern "C" fn best_block_of_function_with_flags(
    grid: *mut i32,
    block: *mut i32,
    function: hipFunction_t,
    dynamic_lds_size: usize,
    limit: i32,
    _flags: u32,
) -> hipError_t {
    boundary::call(|| give_best(grid, block, of_function(function), dynamic_lds_size, limit))
}

/// `hipOccupancyAvailableDynamicSMemPerBlock`
pub(crate) unsafe extern "C" fn available_lds(
    out: *mut usize,
    host: *const c_void,
    blocks: i32,
    _threads: i32,
) -> hipError_t {
    boundary::call(|| {
        let blocks = usize::try_from(blocks).ok().filter(|blocks| *blocks > 0);
        let share = lds_size() / blocks.ok_or(HipError::InvalidValue)?;
        let available = share.saturating_sub(of_symbol(host)?.lds_size);
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, available) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::kernel;

    #[test]
    fn threads_and_local_data_share_limit() {
        let kernel = Kernel { lds_size: 16 << 10, ..kernel() };
        assert_eq!(blocks(&kernel, 1024, 0), 2);
        assert_eq!(blocks(&kernel, 64, 0), 4);
        assert_eq!(blocks(&kernel, 64, 16 << 10), 2);
        assert_eq!(blocks(&kernel, 2048, 0), 0);
    }
}
