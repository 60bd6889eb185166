//! Launches of the old interface, which takes three calls, and launches of several kernels in one call.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr;

use super::configuration::{Configuration, pop, push};
use super::{Events, Geometry, NO_EVENTS, Residency, is_null_mode, launch_function, launch_host_function};
use crate::abi::{
    HIP_LAUNCH_CONFIG, dim3, hipError_t, hipFunction_t, hipFunctionLaunchParams, hipLaunchParams, hipStream_t,
};
use crate::boundary;
use crate::error::HipError;
use crate::kernel::Passed;
use crate::{devices, fat_binary, stream};

thread_local! {
    /// Arguments from `hipSetupArgument` for this thread's next `hipLaunchByPtr`.
    static ARGUMENTS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// `hipConfigureCall`
pub(crate) unsafe extern "C" fn configure_call(
    grid: dim3,
    block: dim3,
    lds_size: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| push(Configuration { grid, block, lds_size, stream }))
}

/// `hipSetupArgument`
pub(crate) unsafe extern "C" fn setup_argument(
    from: *const c_void,
    size: usize,
    offset: usize,
) -> hipError_t {
    boundary::call(|| {
        let end = offset.checked_add(size).filter(|_| !from.is_null()).ok_or(HipError::InvalidValue)?;
        // SAFETY: the caller passes an argument of `size` bytes.
        let bytes = unsafe { core::slice::from_raw_parts(from.cast::<u8>(), size) };
        let gathered = ARGUMENTS.try_with(|arguments| {
            let mut arguments = arguments.borrow_mut();
            let longer = end.max(arguments.len());
            arguments.resize(longer, 0);
            arguments[offset..end].copy_from_slice(bytes);
        });
        gathered.map_err(|_| HipError::Deinitialized)
    })
}

/// `hipLaunchByPtr`
pub(crate) unsafe extern "C" fn by_pointer(host: *const c_void) -> hipError_t {
    boundary::call(|| {
        let configuration = pop()?;
        let mut arguments = ARGUMENTS.try_with(RefCell::take).map_err(|_| HipError::Deinitialized)?;
        if is_null_mode() {
            return Ok(());
        }
        let stream = stream::resolve(configuration.stream).ok_or(HipError::InvalidValue)?;
        let kernel = fat_binary::registered().kernel(host)?;
        let Configuration { grid, block, lds_size, .. } = configuration;
        let geometry = Geometry::of_blocks(grid, block, lds_size)?;
        let mut size = arguments.len();
        let tag = ptr::without_provenance_mut;
        let mut extra = [tag(1), arguments.as_mut_ptr().cast(), tag(2), (&raw mut size).cast(), tag(3)];
        let passed = Passed::Extra(extra.as_mut_ptr());
        // SAFETY: the array was built above in the required form.
        unsafe { super::submit(&kernel, &geometry, passed, &stream, &NO_EVENTS, Residency::Any) }
    })
}

/// Checks that the kernels of a list are for different devices.
fn check_devices(streams: impl Iterator<Item = hipStream_t>) -> Result<(), HipError> {
    let mut seen = Vec::new();
    for handle in streams {
        if handle.is_null() {
            return Err(HipError::InvalidValue);
        }
        let device = stream::resolve(handle).ok_or(HipError::InvalidValue)?.device();
        if seen.contains(&device) {
            return Err(HipError::InvalidDevice);
        }
        seen.push(device);
    }
    Ok(())
}

/// # Safety
///
/// `list` is null or has `count` elements, each as `hipLaunchKernel` requires.
unsafe fn launch_all(list: *const hipLaunchParams, count: i32, residency: Residency) -> Result<(), HipError> {
    let length = usize::try_from(count).ok().filter(|length| *length > 0).ok_or(HipError::InvalidValue)?;
    if list.is_null() || length > devices::all().len() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller upholds this function's contract.
    let list = unsafe { core::slice::from_raw_parts(list, length) };
    check_devices(list.iter().map(|one| one.stream))?;
    for one in list {
        let size = (one.gridDim, one.blockDim, one.sharedMem);
        // SAFETY: the caller upholds this function's contract.
        unsafe { launch_host_function(one.func, size, one.args, one.stream, &NO_EVENTS, residency)? };
    }
    Ok(())
}

/// `hipExtLaunchMultiKernelMultiDevice`
pub(crate) unsafe extern "C" fn on_devices(
    list: *mut hipLaunchParams,
    count: i32,
    _flags: u32,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe { launch_all(list, count, Residency::Any) })
}

/// `hipLaunchCooperativeKernelMultiDevice`
pub(crate) unsafe extern "C" fn cooperative_on_devices(
    list: *mut hipLaunchParams,
    count: i32,
    _flags: u32,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe { launch_all(list, count, Residency::Cooperative) })
}

/// `hipModuleLaunchCooperativeKernelMultiDevice`
pub(crate) unsafe extern "C" fn cooperative_functions_on_devices(
    list: *mut hipFunctionLaunchParams,
    count: u32,
    _flags: u32,
) -> hipError_t {
    boundary::call(|| {
        if list.is_null() || count == 0 || count as usize > devices::all().len() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes an array of `count` elements.
        let list = unsafe { core::slice::from_raw_parts(list, count as usize) };
        check_devices(list.iter().map(|one| one.hStream))?;
        for one in list {
            let geometry = || Geometry::of_blocks(one.grid, one.block, one.sharedMemBytes as usize);
            let (passed, stream) = ((one.kernelParams, ptr::null_mut()), one.hStream);
            let residency = Residency::Cooperative;
            // SAFETY: the caller upholds this function's contract.
            unsafe { launch_function(one.function, geometry, passed, stream, &NO_EVENTS, residency)? };
        }
        Ok(())
    })
}

/// `hipDrvLaunchKernelEx`: as in clr, only its cooperative attribute counts, and `extra` is not read.
pub(crate) unsafe extern "C" fn by_driver_config(
    config: *const HIP_LAUNCH_CONFIG,
    function: hipFunction_t,
    pointers: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes null or a valid configuration.
        let config = unsafe { config.as_ref() }.ok_or(HipError::InvalidValue)?;
        let geometry =
            || Geometry::of_module_launch(config.grid, config.block, config.sharedMemBytes as usize);
        let events: &Events = &NO_EVENTS;
        let passed = (pointers, ptr::null_mut());
        // SAFETY: the caller upholds this function's contract.
        unsafe {
            let residency = Residency::from_attributes(config.attrs, config.numAttrs)?;
            launch_function(function, geometry, passed, config.hStream, events, residency)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::hipLaunchAttribute;

    #[test]
    fn a_launch_in_three_calls_requires_the_first() {
        // SAFETY: the address is looked up, not dereferenced.
        let code = unsafe { by_pointer(ptr::without_provenance(0x1234)) };
        assert_eq!(code, HipError::MissingConfiguration.code());
        let one = dim3 { x: 1, y: 1, z: 1 };
        // SAFETY: as above, and a local argument.
        unsafe {
            assert_eq!(configure_call(one, one, 0, ptr::null_mut()), 0);
            assert_eq!(setup_argument((&raw const one).cast(), 12, 8), 0);
            let code = by_pointer(ptr::without_provenance(0x1234));
            assert_eq!(code, HipError::InvalidDeviceFunction.code());
            assert!(ARGUMENTS.with_borrow(Vec::is_empty), "the next launch starts without arguments");
        }
    }

    #[test]
    fn no_device_is_launched_on_twice() {
        let handle = ptr::without_provenance_mut(2);
        assert_eq!(check_devices([handle].into_iter()), Ok(()));
        assert_eq!(check_devices([handle, handle].into_iter()), Err(HipError::InvalidDevice));
        assert_eq!(check_devices([ptr::null_mut()].into_iter()), Err(HipError::InvalidValue));
    }

    #[test]
    fn attributes_without_one_that_makes_it_cooperative_are_refused() {
        const PRIORITY: u32 = 8;
        let attribute = |id, value| hipLaunchAttribute { id, pad: 0, value, rest: [0; 15] };
        let residency = |attributes: &[hipLaunchAttribute]| {
            // SAFETY: the array has that many elements.
            unsafe { Residency::from_attributes(attributes.as_ptr(), attributes.len() as u32) }
        };
        let (cooperative, not, priority) = (attribute(2, 1), attribute(2, 0), attribute(PRIORITY, 1));
        assert!(matches!(residency(&[]), Ok(Residency::Any)));
        assert!(matches!(residency(&[priority, not, cooperative]), Ok(Residency::Cooperative)));
        assert!(matches!(residency(&[priority, not]), Err(HipError::InvalidConfiguration)));
    }
}
