//! Contexts. As in the [genuine runtime](https://github.com/ROCm/clr/blob/fe70c0d6b08e/hipamd/src/hip_context.cpp), a
//! context is another name for a device; each thread has a stack of them.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering;

use crate::abi::{hipCtx_t, hipDevice_t, hipError_t, hipFuncCache_t, hipSharedMemConfig};
use crate::boundary::{self, write};
use crate::device;
use crate::devices::{self, Device};
use crate::error::HipError;

/// `hipSharedMemBankSizeFourByte`, the only size.
const FOUR_BYTE_BANKS: u32 = 1;
/// No preference between local data share and cache.
const NO_PREFERENCE: u32 = 0;

thread_local! {
    /// Ordinals, the current context last.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The context of a device: the address of the device's state.
fn of_device(device: &'static Device) -> hipCtx_t {
    ptr::from_ref(device).cast::<c_void>().cast_mut()
}

/// The ordinal of a context's device.
fn ordinal(context: hipCtx_t) -> Result<usize, HipError> {
    let is_meant = |device: &Device| ptr::from_ref(device).cast() == context.cast_const();
    devices::all().iter().position(is_meant).ok_or(HipError::InvalidContext)
}

fn with_stack<T>(work: impl FnOnce(&mut Vec<usize>) -> T) -> Result<T, HipError> {
    STACK.try_with(|stack| work(&mut stack.borrow_mut())).map_err(|_| HipError::Deinitialized)
}

/// `hipCtxCreate`: the new context becomes the thread's current one, but its device does not.
pub(crate) unsafe extern "C" fn create(out: *mut hipCtx_t, flags: u32, device: hipDevice_t) -> hipError_t {
    boundary::call(|| {
        let found = device::check(device).map_err(|_| HipError::InvalidValue)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, of_device(found))? };
        found.flags.store(flags, Ordering::Relaxed);
        with_stack(|stack| stack.push(device as usize))
    })
}

/// `hipCtxDestroy`: does not change the device.
pub(crate) unsafe extern "C" fn destroy(context: hipCtx_t) -> hipError_t {
    boundary::call(|| {
        let ordinal = ordinal(context).map_err(|_| HipError::InvalidValue)?;
        with_stack(|stack| stack.pop_if(|top| *top == ordinal)).map(|_| ())
    })
}

/// `hipCtxPushCurrent`
pub(crate) unsafe extern "C" fn push(context: hipCtx_t) -> hipError_t {
    boundary::call(|| {
        let ordinal = ordinal(context)?;
        devices::set_current(ordinal);
        with_stack(|stack| stack.push(ordinal))
    })
}

/// `hipCtxPopCurrent`: the device stays current, as in the genuine runtime.
pub(crate) unsafe extern "C" fn pop(out: *mut hipCtx_t) -> hipError_t {
    boundary::call(|| {
        let popped = with_stack(Vec::pop)?.ok_or(HipError::InvalidContext)?;
        if out.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, of_device(&devices::all()[popped])) }
    })
}

/// `hipCtxSetCurrent`: null removes the top of the stack.
pub(crate) unsafe extern "C" fn set_current(context: hipCtx_t) -> hipError_t {
    boundary::call(|| {
        let new = if context.is_null() { None } else { Some(ordinal(context)?) };
        new.into_iter().for_each(devices::set_current);
        with_stack(|stack| {
            stack.pop();
            stack.extend(new);
        })
    })
}

/// `hipCtxGetCurrent`
pub(crate) unsafe extern "C" fn current(out: *mut hipCtx_t) -> hipError_t {
    boundary::call(|| {
        let device = device::current_or_none()?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, of_device(device)) }
    })
}

/// `hipCtxGetFlags`
pub(crate) unsafe extern "C" fn flags(out: *mut u32) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { device::flags(out) }
}

/// `hipDevicePrimaryCtxRetain`
pub(crate) unsafe extern "C" fn retain_primary(out: *mut hipCtx_t, device: hipDevice_t) -> hipError_t {
    boundary::call(|| {
        let device = device::check(device)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, of_device(device)) }
    })
}

/// `hipDevicePrimaryCtxRelease`, `hipDevicePrimaryCtxReset`: nothing happens, as in the genuine runtime.
pub(crate) unsafe extern "C" fn release_primary(device: hipDevice_t) -> hipError_t {
    boundary::call(|| device::check(device).map(drop))
}

/// `hipDevicePrimaryCtxSetFlags`: fails, because the primary context is always in use.
pub(crate) unsafe extern "C" fn set_primary_flags(device: hipDevice_t, _flags: u32) -> hipError_t {
    boundary::call(|| {
        device::check(device)?;
        Err(HipError::ContextAlreadyInUse)
    })
}

/// `hipDevicePrimaryCtxGetState`
pub(crate) unsafe extern "C" fn primary_state(
    device: hipDevice_t,
    flags: *mut u32,
    is_active: *mut i32,
) -> hipError_t {
    boundary::call(|| {
        device::check(device)?;
        // SAFETY: the caller passes writable out-parameters, or null for values that it does not want.
        unsafe {
            if !flags.is_null() {
                write(flags, 0)?;
            }
            if !is_active.is_null() {
                write(is_active, 1)?;
            }
        }
        Ok(())
    })
}

/// `hipDeviceSetCacheConfig`, `hipCtxSetCacheConfig`: no effect.
pub(crate) unsafe extern "C" fn set_cache_config(config: hipFuncCache_t) -> hipError_t {
    boundary::call(|| if config > 3 { Err(HipError::InvalidValue) } else { Ok(()) })
}

/// `hipDeviceGetCacheConfig`, `hipCtxGetCacheConfig`
pub(crate) unsafe extern "C" fn cache_config(out: *mut hipFuncCache_t) -> hipError_t {
    // SAFETY: the caller passes null or a writable out-parameter.
    boundary::call(|| unsafe { write(out, NO_PREFERENCE) })
}

/// `hipDeviceSetSharedMemConfig`, `hipCtxSetSharedMemConfig`: no effect.
pub(crate) unsafe extern "C" fn set_bank_size(config: hipSharedMemConfig) -> hipError_t {
    boundary::call(|| if config > 2 { Err(HipError::InvalidValue) } else { Ok(()) })
}

/// `hipDeviceGetSharedMemConfig`, `hipCtxGetSharedMemConfig`
pub(crate) unsafe extern "C" fn bank_size(out: *mut hipSharedMemConfig) -> hipError_t {
    // SAFETY: the caller passes null or a writable out-parameter.
    boundary::call(|| unsafe { write(out, FOUR_BYTE_BANKS) })
}

/// `hipCtxEnablePeerAccess`: no effect, as in the genuine runtime.
pub(crate) unsafe extern "C" fn enable_peer(_context: hipCtx_t, _flags: u32) -> hipError_t {
    boundary::call(|| Ok(()))
}

/// `hipCtxDisablePeerAccess`
pub(crate) unsafe extern "C" fn disable_peer(_context: hipCtx_t) -> hipError_t {
    boundary::call(|| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated;

    #[test]
    fn a_pushed_context_makes_its_device_current() {
        isolated::run(&[("HIP_SIM_DEVICES", "2")], || {
            let (mut second, mut now) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: local out-parameters; handles are looked up, not dereferenced.
            unsafe {
                assert_eq!(pop(&raw mut now), HipError::InvalidContext.code());
                assert_eq!(retain_primary(&raw mut second, 1), 0);
                assert_eq!(push(second), 0);
                assert_eq!(devices::current(), 1);
                assert_eq!(current(&raw mut now), 0);
                assert_eq!(now, second);
                assert_eq!(pop(&raw mut now), 0);
                assert_eq!(now, second);
                assert_eq!(push(ptr::null_mut()), HipError::InvalidContext.code());
            }
        });
    }
}
