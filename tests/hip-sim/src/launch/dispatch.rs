//! One kernel on its way to the device: what a twin gets.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::dim3;
use crate::durations::Launched;
use crate::engine::Work;
use crate::error::HipError;
use crate::kernel::{ArgumentBuffer, Kernel};
use crate::twin;
use crate::{boundary, config, fault, memory};

/// One kernel to run: its twin's arguments, in a form that can be sent to the stream's thread.
pub(super) struct Dispatch {
    pub(super) kernel: Arc<Kernel>,
    pub(super) grid: dim3,
    pub(super) block: dim3,
    pub(super) dynamic_lds_size: usize,
    pub(super) arguments: ArgumentBuffer,
}

impl Dispatch {
    /// The part of the device that the launch occupies, by `HIP_SIM_DURATIONS`.
    pub(super) fn work(&self, compute_units: u64) -> Work {
        let argument = |index: usize| self.arguments.integer(*self.kernel.arguments.get(index)?);
        let product = |extent: dim3| u64::from(extent.x) * u64::from(extent.y) * u64::from(extent.z);
        let cost = config::get().durations.of(&Launched {
            kernel: self.kernel.name(),
            blocks: product(self.grid),
            threads_per_block: product(self.block),
            compute_units,
            argument: &argument,
        });
        Work::Kernel { units: cost.units, duration_ns: cost.duration_ns }
    }

    /// Lets the executor or the twin do the work, or counts that there is neither.
    pub(super) fn run(&self) {
        let launch = twin::Launch {
            name: self.kernel.name.as_ptr(),
            grid: [self.grid.x, self.grid.y, self.grid.z],
            block: [self.block.x, self.block.y, self.block.z],
            dynamic_lds_size: self.dynamic_lds_size,
            kernarg: self.arguments.as_ptr().cast(),
            kernarg_size: self.arguments.size(),
            check_access,
        };
        self.kernel.twin.run(self.kernel.name(), self.kernel.lds_size, &launch);
    }
}

/// Checks whether one allocation contains the whole range. If not, that is a device fault.
extern "C" fn check_access(address: *const c_void, size: usize) -> c_int {
    boundary::value(-1, || {
        let range = memory::known().find(address as usize);
        if range.is_some_and(|range| range.size_from(address as usize) >= size) {
            return 0;
        }
        fault::raise(HipError::IllegalAddress.code());
        HipError::IllegalAddress.code() as c_int
    })
}
