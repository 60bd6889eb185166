//! Queries and settings of kernels: attributes and parameters, all from the code object's metadata.

use core::ffi::c_void;
use std::sync::Arc;

use crate::abi::{
    function_attribute, hipDevice_t, hipError_t, hipFuncAttribute, hipFuncAttributes, hipFuncCache_t,
    hipFunction_attribute, hipFunction_t, hipKernel_t, hipSharedMemConfig,
};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::kernel::Kernel;
use crate::properties::{self, lds_size};
use crate::{fat_binary, kernel};

/// No preference, shared, L1, equal.
const CACHE_CONFIGS: core::ops::RangeInclusive<hipFuncCache_t> = 0..=3;
/// Default, four bytes, eight bytes.
const BANK_SIZES: core::ops::RangeInclusive<hipSharedMemConfig> = 0..=2;
/// Default, or a percentage.
const CARVEOUTS: core::ops::RangeInclusive<i32> = -1..=100;

fn resolve(function: hipFunction_t) -> Result<Arc<Kernel>, HipError> {
    kernel::listed().get(function).ok_or(HipError::InvalidHandle)
}

/// Generation of the device's instruction set, counted as in CUDA: 94 for gfx942.
fn binary_version() -> i32 {
    let (major, minor) = properties::compute_capability();
    10 * major + minor
}

/// Dynamic local data share that a launch may use in addition to the kernel's static one.
fn dynamic_lds_max(kernel: &Kernel) -> i32 {
    lds_size().saturating_sub(kernel.lds_size) as i32
}

fn value_of(kernel: &Kernel, attribute: hipFunction_attribute) -> Result<i32, HipError> {
    Ok(match attribute {
        function_attribute::MAX_THREADS_PER_BLOCK => kernel.max_threads_per_block.cast_signed(),
        function_attribute::SHARED_SIZE => kernel.lds_size as i32,
        function_attribute::LOCAL_SIZE => kernel.resources.scratch_size as i32,
        function_attribute::REGISTERS => kernel.resources.vector_registers.cast_signed(),
        function_attribute::PTX_VERSION | function_attribute::BINARY_VERSION => binary_version(),
        function_attribute::CONST_SIZE
        | function_attribute::CACHE_MODE
        | function_attribute::SHARED_CARVEOUT => 0,
        function_attribute::MAX_DYNAMIC_SHARED_SIZE => dynamic_lds_max(kernel),
        _ => return Err(HipError::InvalidValue),
    })
}

/// Settings are checked and have no effect: launches are checked against the device's limits.
fn check_setting(kernel: &Kernel, attribute: hipFunction_attribute, value: i32) -> Result<(), HipError> {
    let is_valid = match attribute {
        function_attribute::MAX_DYNAMIC_SHARED_SIZE => (0..=dynamic_lds_max(kernel)).contains(&value),
        function_attribute::SHARED_CARVEOUT => CARVEOUTS.contains(&value),
        _ => true,
    };
    if is_valid { Ok(()) } else { Err(HipError::InvalidValue) }
}

/// `hipFuncGetAttributes`
pub(crate) unsafe extern "C" fn attributes(out: *mut hipFuncAttributes, host: *const c_void) -> hipError_t {
    boundary::call(|| {
        let kernel = fat_binary::registered().kernel(host).map_err(|error| match error {
            HipError::InvalidDeviceFunction => HipError::InvalidSymbol,
            other => other,
        })?;
        let version = binary_version();
        let attributes = hipFuncAttributes {
            binaryVersion: version,
            cacheModeCA: 0,
            constSizeBytes: 0,
            localSizeBytes: kernel.resources.scratch_size,
            maxDynamicSharedSizeBytes: dynamic_lds_max(&kernel),
            maxThreadsPerBlock: kernel.max_threads_per_block.cast_signed(),
            numRegs: kernel.resources.vector_registers.cast_signed(),
            preferredShmemCarveout: 0,
            ptxVersion: version,
            sharedSizeBytes: kernel.lds_size,
        };
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, attributes) }
    })
}

/// `hipFuncGetAttribute`
pub(crate) unsafe extern "C" fn attribute(
    value: *mut i32,
    attribute: hipFunction_attribute,
    function: hipFunction_t,
) -> hipError_t {
    boundary::call(|| {
        if value.is_null() {
            return Err(HipError::InvalidValue);
        }
        let known = value_of(&*resolve(function)?, attribute)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(value, known) }
    })
}

/// `hipFuncSetAttribute`
pub(crate) unsafe extern "C" fn set_attribute(
    host: *const c_void,
    attribute: hipFuncAttribute,
    value: i32,
) -> hipError_t {
    boundary::call(|| {
        if host.is_null() {
            return Err(HipError::InvalidDeviceFunction);
        }
        if attribute > function_attribute::MAX {
            return Err(HipError::InvalidValue);
        }
        check_setting(&*fat_binary::registered().kernel(host)?, attribute, value)
    })
}

/// `hipFuncSetCacheConfig`: checked, without effect, as in the genuine runtime.
pub(crate) unsafe extern "C" fn set_cache_config(host: *const c_void, config: hipFuncCache_t) -> hipError_t {
    boundary::call(|| check_preference(host, CACHE_CONFIGS.contains(&config)))
}

/// `hipFuncSetSharedMemConfig`: the same.
pub(crate) unsafe extern "C" fn set_bank_size(host: *const c_void, config: hipSharedMemConfig) -> hipError_t {
    boundary::call(|| check_preference(host, BANK_SIZES.contains(&config)))
}

fn check_preference(host: *const c_void, is_valid: bool) -> Result<(), HipError> {
    if host.is_null() {
        return Err(HipError::InvalidDeviceFunction);
    }
    if is_valid { Ok(()) } else { Err(HipError::InvalidValue) }
}

/// `hipKernelGetParamInfo`: an argument's offset in the buffer that the kernel reads. `size` may be null.
pub(crate) unsafe extern "C" fn parameter(
    kernel: hipKernel_t,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> hipError_t {
    boundary::call(|| {
        if kernel.is_null() || offset.is_null() {
            return Err(HipError::InvalidValue);
        }
        let kernel = resolve(kernel).map_err(|_| HipError::InvalidDeviceFunction)?;
        let argument = kernel.arguments.get(index).ok_or(HipError::InvalidValue)?;
        // SAFETY: the caller passes writable out-parameters; the second may be null.
        unsafe {
            write(offset, argument.offset)?;
            if size.is_null() { Ok(()) } else { write(size, argument.size) }
        }
    })
}

/// `hipKernelGetAttribute`
pub(crate) unsafe extern "C" fn kernel_attribute(
    value: *mut i32,
    number: hipFunction_attribute,
    kernel: hipKernel_t,
    _device: hipDevice_t,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { attribute(value, number, kernel) }
}

/// `hipKernelSetAttribute`: two attributes can be set, the others are fixed by the compiler.
pub(crate) unsafe extern "C" fn set_kernel_attribute(
    attribute: hipFunction_attribute,
    value: i32,
    kernel: hipKernel_t,
    _device: hipDevice_t,
) -> hipError_t {
    boundary::call(|| {
        if kernel.is_null() {
            return Err(HipError::InvalidValue);
        }
        let kernel = resolve(kernel).map_err(|_| HipError::InvalidDeviceFunction)?;
        match attribute {
            function_attribute::MAX_DYNAMIC_SHARED_SIZE => check_setting(&kernel, attribute, value),
            function_attribute::SHARED_CARVEOUT => Ok(()),
            _ => Err(HipError::InvalidValue),
        }
    })
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;
    use crate::kernel::{Argument, Resources};
    use crate::twin::Twin;

    fn kernel() -> Arc<Kernel> {
        Arc::new(Kernel {
            name: c"asked".to_owned(),
            arguments: vec![Argument { offset: 0, size: 4 }, Argument { offset: 8, size: 24 }],
            max_threads_per_block: 256,
            lds_size: 1024,
            resources: Resources { scratch_size: 16, vector_registers: 40 },
            twin: Twin::default(),
        })
    }

    #[test]
    fn attributes_come_from_the_metadata() {
        let function = kernel::listed().insert(&kernel());
        let ask = |number| {
            let mut value = -7;
            // SAFETY: a local out-parameter.
            let code = unsafe { attribute(&raw mut value, number, function) };
            (code, value)
        };
        assert_eq!(ask(function_attribute::MAX_THREADS_PER_BLOCK), (0, 256));
        assert_eq!(ask(function_attribute::SHARED_SIZE), (0, 1024));
        assert_eq!(ask(function_attribute::LOCAL_SIZE), (0, 16));
        assert_eq!(ask(function_attribute::REGISTERS), (0, 40));
        assert_eq!(ask(function_attribute::MAX_DYNAMIC_SHARED_SIZE), (0, (64 << 10) - 1024));
        assert_eq!(ask(function_attribute::MAX), (HipError::InvalidValue.code(), -7));
    }

    #[test]
    fn parameters_are_found_by_index() {
        let function = kernel::listed().insert(&kernel());
        let (mut offset, mut size) = (0, 0);
        // SAFETY: local out-parameters.
        unsafe {
            assert_eq!(parameter(function, 1, &raw mut offset, &raw mut size), 0);
            assert_eq!((offset, size), (8, 24));
            assert_eq!(parameter(function, 0, &raw mut offset, ptr::null_mut()), 0);
            let none = HipError::InvalidValue.code();
            assert_eq!(parameter(function, 2, &raw mut offset, &raw mut size), none);
            assert_eq!(parameter(function, 0, ptr::null_mut(), &raw mut size), none);
            assert_eq!(parameter(ptr::null_mut(), 0, &raw mut offset, &raw mut size), none);
        }
    }

    #[test]
    fn settings_are_checked() {
        let kernel = kernel();
        let check = |value| check_setting(&kernel, function_attribute::MAX_DYNAMIC_SHARED_SIZE, value);
        assert_eq!(check(1024), Ok(()));
        assert_eq!(check(64 << 10), Err(HipError::InvalidValue));
        assert_eq!(check(-1), Err(HipError::InvalidValue));
    }

    #[test]
    fn an_unregistered_kernel_has_no_attributes() {
        let host = ptr::without_provenance(0x1234);
        // SAFETY: the address is looked up, not dereferenced.
        unsafe {
            let code = attributes(ptr::null_mut(), host);
            assert_eq!(code, HipError::InvalidSymbol.code());
            assert_eq!(set_attribute(host, 8, 0), HipError::InvalidDeviceFunction.code());
            assert_eq!(set_cache_config(host, 9), HipError::InvalidValue.code());
        }
    }
}
