//! Devices: selection, identity, limits, synchronisation.

use core::ffi::{CStr, c_char};
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::{
    hipDevice_t, hipDeviceAttribute_t, hipDeviceProp_tR0000, hipDeviceProp_tR0600, hipError_t, hipLimit_t,
    hipUUID,
};
use crate::boundary::{self, write};
use crate::devices::{self, Device};
use crate::error::HipError;
use crate::{capture, memory, properties, stream};

const LIMIT_STACK_SIZE: u32 = 0;
const LIMIT_PRINTF_SIZE: u32 = 1;
const LIMIT_HEAP_SIZE: u32 = 2;
const FLAGS_SCHEDULE: u32 = 0x7;
/// Schedule bits, mapped host memory, keep local memory.
const FLAGS_ALL: u32 = FLAGS_SCHEDULE | 0x8 | 0x10;

/// The device of an ordinal.
pub(crate) fn check(device: hipDevice_t) -> Result<&'static Device, HipError> {
    let ordinal = usize::try_from(device).map_err(|_| HipError::InvalidDevice)?;
    devices::all().get(ordinal).ok_or(HipError::InvalidDevice)
}

/// The calling thread's device.
pub(crate) fn current_or_none() -> Result<&'static Device, HipError> {
    devices::of_this_thread().ok_or(HipError::NoDevice)
}

/// `hipInit`
pub(crate) unsafe extern "C" fn init(flags: u32) -> hipError_t {
    boundary::call(|| {
        if flags != 0 {
            return Err(HipError::InvalidValue);
        }
        devices::all();
        Ok(())
    })
}

/// `hipGetDeviceCount`
pub(crate) unsafe extern "C" fn count(count: *mut i32) -> hipError_t {
    boundary::call(|| {
        let devices = devices::all().len();
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(count, devices as i32)? };
        if devices == 0 { Err(HipError::NoDevice) } else { Ok(()) }
    })
}

/// `hipGetDevice`
pub(crate) unsafe extern "C" fn current(device: *mut i32) -> hipError_t {
    boundary::call(|| {
        current_or_none()?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(device, devices::current() as i32) }
    })
}

/// `hipSetDevice`
pub(crate) unsafe extern "C" fn set_current(device: i32) -> hipError_t {
    boundary::call(|| {
        check(device)?;
        devices::set_current(device as usize);
        Ok(())
    })
}

/// `hipDeviceGet`
pub(crate) unsafe extern "C" fn get(device: *mut hipDevice_t, ordinal: i32) -> hipError_t {
    boundary::call(|| {
        check(ordinal)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(device, ordinal) }
    })
}

/// `hipGetDeviceFlags`
pub(crate) unsafe extern "C" fn flags(flags: *mut u32) -> hipError_t {
    boundary::call(|| {
        let device = current_or_none()?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(flags, device.flags.load(Ordering::Relaxed)) }
    })
}

/// `hipSetDeviceFlags`
pub(crate) unsafe extern "C" fn set_flags(flags: u32) -> hipError_t {
    boundary::call(|| {
        let schedule = flags & FLAGS_SCHEDULE;
        if flags & !FLAGS_ALL != 0 || schedule.count_ones() > 1 {
            return Err(HipError::InvalidValue);
        }
        current_or_none()?.flags.store(schedule, Ordering::Relaxed);
        Ok(())
    })
}

/// `hipDeviceGetName`
pub(crate) unsafe extern "C" fn name(name: *mut c_char, len: i32, device: hipDevice_t) -> hipError_t {
    boundary::call(|| {
        check(device)?;
        // SAFETY: the caller passes null or a buffer of `len` bytes.
        unsafe { write_text(name, len, &properties::name()) }.map(drop)
    })
}

/// `hipDeviceGetPCIBusId`: needs a buffer of 13 bytes.
pub(crate) unsafe extern "C" fn pci_bus_id(text: *mut c_char, len: i32, device: i32) -> hipError_t {
    boundary::call(|| {
        let id = properties::pci_bus_id(check(device)?.physical);
        // SAFETY: the caller passes null or a buffer of `len` bytes.
        let fits = unsafe { write_text(text, len, &id) }?;
        if fits { Ok(()) } else { Err(HipError::InvalidValue) }
    })
}

/// `hipDeviceGetByPCIBusId`
pub(crate) unsafe extern "C" fn by_pci_bus_id(device: *mut i32, text: *const c_char) -> hipError_t {
    boundary::call(|| {
        if text.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes a terminated string.
        let text = unsafe { CStr::from_ptr(text) };
        let is_meant = |device: &Device| {
            properties::pci_bus_id(device.physical).as_bytes().eq_ignore_ascii_case(text.to_bytes())
        };
        let ordinal = devices::all().iter().position(is_meant).ok_or(HipError::InvalidValue)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(device, ordinal as i32) }
    })
}

/// Copies as much of the text and its terminator as fits; returns whether all of it did.
///
/// # Safety
///
/// `out` is null or points to `len` bytes.
unsafe fn write_text(out: *mut c_char, len: i32, text: &str) -> Result<bool, HipError> {
    let room = usize::try_from(len).ok().and_then(NonZeroUsize::new).ok_or(HipError::InvalidValue)?.get();
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    let copied = text.len().min(room - 1);
    // SAFETY: `copied` and the terminating zero fit into `room` bytes, which the caller guarantees.
    unsafe {
        out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), copied);
        out.add(copied).write(0);
    }
    Ok(copied == text.len())
}

/// `hipDeviceTotalMem`
pub(crate) unsafe extern "C" fn total_memory(bytes: *mut usize, device: hipDevice_t) -> hipError_t {
    boundary::call(|| {
        check(device)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(bytes, memory::known().total_size()) }
    })
}

/// `hipDeviceComputeCapability`
pub(crate) unsafe extern "C" fn compute_capability(
    major: *mut i32,
    minor: *mut i32,
    device: hipDevice_t,
) -> hipError_t {
    boundary::call(|| {
        check(device)?;
        let (major_value, minor_value) = properties::compute_capability();
        // SAFETY: the caller passes null or writable out-parameters.
        unsafe {
            write(major, major_value)?;
            write(minor, minor_value)
        }
    })
}

/// `hipDeviceGetAttribute`
pub(crate) unsafe extern "C" fn attribute(
    value: *mut i32,
    attribute: hipDeviceAttribute_t,
    device: i32,
) -> hipError_t {
    boundary::call(|| {
        let known = properties::attribute(attribute, check(device)?).ok_or(HipError::InvalidValue)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(value, known) }
    })
}

/// `hipGetDeviceProperties` since 6.0
pub(crate) unsafe extern "C" fn properties(out: *mut hipDeviceProp_tR0600, device: i32) -> hipError_t {
    boundary::call(|| {
        let device = check(device)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, properties::r0600(device)) }
    })
}

/// `hipGetDeviceProperties` before 6.0
pub(crate) unsafe extern "C" fn properties_before_6(
    out: *mut hipDeviceProp_tR0000,
    device: i32,
) -> hipError_t {
    boundary::call(|| {
        let device = check(device)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, properties::r0000(device)) }
    })
}

/// `hipDeviceSynchronize`
pub(crate) unsafe extern "C" fn synchronize() -> hipError_t {
    boundary::call(|| {
        capture::check_device_wide()?;
        stream::wait_for_device(devices::current());
        Ok(())
    })
}

/// `hipDeviceReset`: waits for the device's work and destroys its streams and peer settings. Memory and
/// loaded code stay, and so does a fault (`crate::fault`).
pub(crate) unsafe extern "C" fn reset() -> hipError_t {
    boundary::call(|| {
        let device = current_or_none()?;
        stream::wait_for_device(devices::current());
        stream::destroy_all(devices::current());
        device.peers.lock().expect("no holder panics").clear();
        device.flags.store(0, Ordering::Relaxed);
        Ok(())
    })
}

/// `hipDeviceGetUuid`
pub(crate) unsafe extern "C" fn uuid(out: *mut hipUUID, device: hipDevice_t) -> hipError_t {
    boundary::call(|| {
        let bytes = properties::uuid(check(device)?.physical);
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, hipUUID { bytes }) }
    })
}

/// The stored value of a limit, which the application can read back.
fn limit_of(device: &Device, limit: hipLimit_t) -> Result<&AtomicUsize, HipError> {
    match limit {
        LIMIT_STACK_SIZE => Ok(&device.stack_size),
        LIMIT_HEAP_SIZE => Ok(&device.heap_size),
        LIMIT_PRINTF_SIZE => Err(HipError::UnsupportedLimit),
        _ => Err(HipError::InvalidValue),
    }
}

/// `hipDeviceGetLimit`
pub(crate) unsafe extern "C" fn limit(out: *mut usize, limit: hipLimit_t) -> hipError_t {
    boundary::call(|| {
        let value = limit_of(current_or_none()?, limit)?.load(Ordering::Relaxed);
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, value) }
    })
}

/// `hipDeviceSetLimit`: stores the value, which has no effect.
pub(crate) unsafe extern "C" fn set_limit(limit: hipLimit_t, value: usize) -> hipError_t {
    boundary::call(|| {
        limit_of(current_or_none()?, limit)?.store(value, Ordering::Relaxed);
        Ok(())
    })
}

/// `hipChooseDevice`: the devices are all alike, so it gives the first.
pub(crate) unsafe extern "C" fn choose(out: *mut i32, prop: *const hipDeviceProp_tR0600) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { choose_first(out, prop.is_null()) }
}

/// `hipChooseDevice` before 6.0
pub(crate) unsafe extern "C" fn choose_before_6(
    out: *mut i32,
    prop: *const hipDeviceProp_tR0000,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { choose_first(out, prop.is_null()) }
}

/// # Safety
///
/// `out` is null or an out-parameter.
unsafe fn choose_first(out: *mut i32, has_no_properties: bool) -> hipError_t {
    boundary::call(|| {
        if has_no_properties {
            return Err(HipError::InvalidValue);
        }
        current_or_none()?;
        // SAFETY: the caller upholds this function's contract.
        unsafe { write(out, 0) }
    })
}

/// `hipProfilerStart`, `hipProfilerStop`: there is no profiler.
pub(crate) unsafe extern "C" fn profiler() -> hipError_t {
    boundary::call(|| Err(HipError::NotSupported))
}

/// `hipDeviceGetStreamPriorityRange`
pub(crate) unsafe extern "C" fn stream_priority_range(least: *mut i32, greatest: *mut i32) -> hipError_t {
    boundary::call(|| {
        for (out, value) in [(least, *stream::PRIORITIES.end()), (greatest, *stream::PRIORITIES.start())] {
            if !out.is_null() {
                // SAFETY: the caller passes null or a writable out-parameter.
                unsafe { write(out, value)? };
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fault, isolated};

    #[test]
    fn a_reset_leaves_a_fault() {
        isolated::run(&[], || {
            // SAFETY: a local out-parameter.
            unsafe {
                assert_eq!(reset(), 0);
                fault::raise(HipError::IllegalAddress.code());
                assert_eq!(reset(), HipError::IllegalAddress.code());
                let mut count = 0;
                assert_eq!(self::count(&raw mut count), HipError::IllegalAddress.code());
            }
        });
    }

    #[test]
    fn there_is_one_device() {
        // SAFETY: no pointer is passed.
        unsafe {
            assert_eq!(set_current(0), 0);
            assert_eq!(set_current(1), HipError::InvalidDevice.code());
            assert_eq!(set_current(-1), HipError::InvalidDevice.code());
        }
    }

    #[test]
    fn text_is_cut_to_the_buffer() {
        let mut buffer = [0x7f; 13];
        // SAFETY: a buffer of thirteen bytes.
        unsafe {
            assert_eq!(pci_bus_id(buffer.as_mut_ptr(), 13, 0), 0);
            assert_eq!(CStr::from_ptr(buffer.as_ptr()).to_bytes(), properties::pci_bus_id(0).as_bytes());
            assert_eq!(pci_bus_id(buffer.as_mut_ptr(), 5, 0), HipError::InvalidValue.code());
            assert_eq!(CStr::from_ptr(buffer.as_ptr()), c"0000");
        }
    }
}
