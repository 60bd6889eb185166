//! A checked launch that can run any number of times, for streams and for kernel nodes.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use super::checks::{Residency, check};
use super::dispatch::Dispatch;
use super::geometry::Geometry;
use crate::abi::hipKernelNodeParams;
use crate::engine::Command;
use crate::error::HipError;
use crate::kernel::{self, ArgumentBuffer, Kernel, Passed};
use crate::{counters, devices, execution_log, fat_binary};

/// A checked launch with a copy of its arguments.
pub(crate) struct Launch {
    dispatch: Arc<Dispatch>,
    /// The application's name for the kernel: a host address, or a `hipFunction_t`.
    function: *const c_void,
    /// Addresses of the arguments in the buffer, for the application to read back.
    arguments: Box<[*mut c_void]>,
}

// SAFETY: nothing is read or written through these pointers here; they are only returned to the application.
unsafe impl Send for Launch {}
// SAFETY: as above.
unsafe impl Sync for Launch {}

impl Launch {
    /// Copies the arguments.
    ///
    /// # Safety
    ///
    /// `passed` is as HIP's launch functions require.
    pub(super) unsafe fn new(
        kernel: &Arc<Kernel>,
        geometry: &Geometry,
        passed: Passed,
    ) -> Result<Self, HipError> {
        // SAFETY: the caller upholds this function's contract.
        let arguments = unsafe { ArgumentBuffer::marshal(kernel, passed) }?;
        let buffer = arguments.as_ptr().cast_mut();
        let addresses = kernel.arguments.iter().map(|a| buffer.wrapping_add(a.offset).cast()).collect();
        let dispatch = Dispatch {
            kernel: Arc::clone(kernel),
            grid: geometry.grid()?,
            block: geometry.block,
            dynamic_lds_size: geometry.lds_size,
            arguments,
        };
        let function = kernel::listed().insert(kernel);
        Ok(Self { dispatch: Arc::new(dispatch), function, arguments: addresses })
    }

    /// From a kernel node's parameters, with the checks of a launch.
    ///
    /// # Safety
    ///
    /// Arguments are passed as HIP's launch functions require.
    pub(crate) unsafe fn of_node(params: &hipKernelNodeParams) -> Result<Self, HipError> {
        if params.func.is_null() {
            return Err(HipError::InvalidValue);
        }
        let registered = fat_binary::registered().kernel(params.func);
        let kernel = registered
            .or_else(|_| kernel::listed().get(params.func).ok_or(HipError::InvalidDeviceFunction))?;
        let geometry = Geometry::of_blocks(params.gridDim, params.blockDim, params.sharedMemBytes as usize)?;
        let passed = Passed::from_module_launch(&kernel, params.kernelParams, params.extra)?;
        check(&kernel, &geometry, passed, Residency::Any)?;
        // SAFETY: the caller upholds this function's contract.
        let launch = unsafe { Self::new(&kernel, &geometry, passed) }?;
        Ok(Self { function: params.func, ..launch })
    }

    /// The parameters that [`Launch::of_node`] reads, with arguments that live as long as `self`.
    pub(crate) fn node_params(&self) -> hipKernelNodeParams {
        hipKernelNodeParams {
            blockDim: self.dispatch.block,
            extra: ptr::null_mut(),
            func: self.function.cast_mut(),
            gridDim: self.dispatch.grid,
            kernelParams: self.arguments.as_ptr().cast_mut(),
            sharedMemBytes: self.dispatch.dynamic_lds_size as u32,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.dispatch.kernel.name()
    }

    /// The kernel and the part of a device that it occupies, to be submitted once. It counts as launched.
    pub(crate) fn command(&self, device: usize) -> Command {
        counters::launched(self.name());
        let work = self.dispatch.work(devices::all()[device].engine.compute_units());
        let dispatch = Arc::clone(&self.dispatch);
        let label = execution_log::is_enabled().then(|| self.name().into());
        Command { label, ..Command::on_device(work, move || dispatch.run()) }
    }
}
