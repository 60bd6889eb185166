//! A launch's size, given in blocks or in threads, with the limits of either form.

use crate::abi::dim3;
use crate::error::HipError;
use crate::properties::lds_size;

/// `hipModuleLaunchKernel`'s limits for the grid in blocks.
const MODULE_GRID_MAX: [u32; 3] = [i32::MAX as u32, 65_536, 65_536];

/// Threads of the whole grid, and their division into blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    global: dim3,
    pub(super) block: dim3,
    /// Dynamic local data share, in bytes.
    pub(super) lds_size: usize,
}

impl Geometry {
    /// From sizes in threads. A block larger than the grid is reduced to it, as in the genuine runtime.
    pub(super) fn of_threads(global: dim3, block: dim3, lds_size: usize) -> Self {
        let cut = |block: u32, global: u32| if global == 0 { block } else { block.min(global) };
        let block = dim3 { x: cut(block.x, global.x), y: cut(block.y, global.y), z: cut(block.z, global.z) };
        Self { global, block, lds_size }
    }

    /// From sizes in blocks; the number of threads in each dimension must fit into 32 bits.
    pub(super) fn of_blocks(grid: dim3, block: dim3, lds_size: usize) -> Result<Self, HipError> {
        let threads = |blocks: u32, size: u32| blocks.checked_mul(size).ok_or(HipError::InvalidConfiguration);
        let global =
            dim3 { x: threads(grid.x, block.x)?, y: threads(grid.y, block.y)?, z: threads(grid.z, block.z)? };
        Ok(Self { global, block, lds_size })
    }

    /// From sizes in blocks, with the limits that only module launches have.
    pub(super) fn of_module_launch(grid: dim3, block: dim3, lds_size: usize) -> Result<Self, HipError> {
        if [grid.x, grid.y, grid.z].iter().zip(MODULE_GRID_MAX).any(|(size, max)| *size > max) {
            return Err(HipError::InvalidValue);
        }
        Self::of_blocks(grid, block, lds_size)
    }

    /// Checks that do not depend on the kernel.
    pub(super) fn check(&self) -> Result<(), HipError> {
        let dim3 { x, y, z } = self.global;
        if x == 0 || y == 0 || z == 0 {
            return Err(HipError::InvalidValue);
        }
        if self.threads_per_block() == 0 {
            return Err(HipError::InvalidConfiguration);
        }
        if self.lds_size > lds_size() {
            return Err(HipError::InvalidValue);
        }
        // Code compiled for HIP requires blocks of equal size.
        let block = self.block;
        if x % block.x != 0 || y % block.y != 0 || z % block.z != 0 {
            return Err(HipError::InvalidValue);
        }
        Ok(())
    }

    pub(super) fn threads_per_block(&self) -> u64 {
        u64::from(self.block.x) * u64::from(self.block.y) * u64::from(self.block.z)
    }

    /// Extent in blocks.
    pub(super) fn grid(&self) -> Result<dim3, HipError> {
        let blocks =
            |global: u32, block: u32| global.checked_div(block).ok_or(HipError::InvalidConfiguration);
        Ok(dim3 {
            x: blocks(self.global.x, self.block.x)?,
            y: blocks(self.global.y, self.block.y)?,
            z: blocks(self.global.z, self.block.z)?,
        })
    }

    /// Number of blocks in the whole grid.
    pub(super) fn blocks(&self) -> Result<u64, HipError> {
        let dim3 { x, y, z } = self.grid()?;
        u64::from(x)
            .checked_mul(u64::from(y))
            .and_then(|xy| xy.checked_mul(u64::from(z)))
            .ok_or(HipError::InvalidConfiguration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: dim3 = dim3 { x: 1, y: 1, z: 1 };

    #[test]
    fn zero_blocks_and_zero_threads_are_different_errors() {
        let none = dim3 { x: 0, ..ONE };
        let no_blocks = Geometry::of_blocks(none, ONE, 0).unwrap();
        assert_eq!(no_blocks.check(), Err(HipError::InvalidValue));
        let no_threads = Geometry::of_threads(ONE, none, 0);
        assert_eq!(no_threads.check(), Err(HipError::InvalidConfiguration));
    }

    #[test]
    fn threads_are_divided_into_equal_blocks() {
        let global = dim3 { x: 100, ..ONE };
        let uneven = Geometry::of_threads(global, dim3 { x: 64, ..ONE }, 0);
        assert_eq!(uneven.check(), Err(HipError::InvalidValue));
        let even = Geometry::of_threads(global, dim3 { x: 25, ..ONE }, 0);
        assert_eq!(even.check(), Ok(()));
        assert_eq!(even.grid(), Ok(dim3 { x: 4, ..ONE }));
    }

    #[test]
    fn a_block_larger_than_the_grid_is_reduced_to_it() {
        let geometry = Geometry::of_threads(dim3 { x: 8, ..ONE }, dim3 { x: 64, ..ONE }, 0);
        assert_eq!(geometry.block, dim3 { x: 8, ..ONE });
    }

    #[test]
    fn module_launches_have_limits_of_their_own() {
        let tall = dim3 { x: 1, y: 65_537, z: 1 };
        assert_eq!(Geometry::of_module_launch(tall, ONE, 0).map(drop), Err(HipError::InvalidValue));
        assert!(Geometry::of_blocks(tall, ONE, 0).is_ok());
    }
}
