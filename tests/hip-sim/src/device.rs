//! The one device: selection, identity, limits, synchronisation.

use core::ffi::{CStr, c_char};
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::abi::{hipDevice_t, hipDeviceAttribute_t, hipDeviceProp_tR0000, hipDeviceProp_tR0600, hipError_t};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::{properties, runtime, stream};

/// Spin, yield or block while waiting: kept for the application to read back.
static FLAGS: AtomicU32 = AtomicU32::new(0);
const FLAGS_SCHEDULE: u32 = 0x7;
/// Schedule bits, mapped host memory, keep local memory.
const FLAGS_ALL: u32 = FLAGS_SCHEDULE | 0x8 | 0x10;

/// Zero is the only device.
fn check(device: hipDevice_t) -> Result<(), HipError> {
    if device == 0 { Ok(()) } else { Err(HipError::InvalidDevice) }
}

/// `hipInit`
pub(crate) unsafe extern "C" fn init(flags: u32) -> hipError_t {
    boundary::call(|| {
        if flags != 0 {
            return Err(HipError::InvalidValue);
        }
        runtime::get();
        Ok(())
    })
}

/// `hipGetDeviceCount`
pub(crate) unsafe extern "C" fn count(count: *mut i32) -> hipError_t {
    // SAFETY: an out-parameter of the caller.
    boundary::call(|| unsafe { write(count, 1) })
}

/// `hipGetDevice`
pub(crate) unsafe extern "C" fn current(device: *mut i32) -> hipError_t {
    // SAFETY: an out-parameter of the caller.
    boundary::call(|| unsafe { write(device, 0) })
}

/// `hipSetDevice`
pub(crate) unsafe extern "C" fn set_current(device: i32) -> hipError_t {
    boundary::call(|| check(device))
}

/// `hipDeviceGet`
pub(crate) unsafe extern "C" fn get(device: *mut hipDevice_t, ordinal: i32) -> hipError_t {
    boundary::call(|| {
        check(ordinal)?;
        // SAFETY: an out-parameter of the caller.
        unsafe { write(device, ordinal) }
    })
}

/// `hipGetDeviceFlags`
pub(crate) unsafe extern "C" fn flags(flags: *mut u32) -> hipError_t {
    // SAFETY: an out-parameter of the caller.
    boundary::call(|| unsafe { write(flags, FLAGS.load(Ordering::Relaxed)) })
}

/// `hipSetDeviceFlags`
pub(crate) unsafe extern "C" fn set_flags(flags: u32) -> hipError_t {
    boundary::call(|| {
        let schedule = flags & FLAGS_SCHEDULE;
        if flags & !FLAGS_ALL != 0 || schedule.count_ones() > 1 {
            return Err(HipError::InvalidValue);
        }
        FLAGS.store(schedule, Ordering::Relaxed);
        Ok(())
    })
}

/// `hipDeviceGetName`
pub(crate) unsafe extern "C" fn name(name: *mut c_char, len: i32, device: hipDevice_t) -> hipError_t {
    boundary::call(|| {
        check(device)?;
        // SAFETY: the caller's buffer of `len` bytes.
        unsafe { write_text(name, len, &properties::name()) }.map(drop)
    })
}

/// `hipDeviceGetPCIBusId`: needs room for 13 bytes.
pub(crate) unsafe extern "C" fn pci_bus_id(text: *mut c_char, len: i32, device: i32) -> hipError_t {
    boundary::call(|| {
        check(device)?;
        // SAFETY: the caller's buffer of `len` bytes.
        let fits = unsafe { write_text(text, len, properties::PCI_BUS_ID) }?;
        if fits { Ok(()) } else { Err(HipError::InvalidValue) }
    })
}

/// `hipDeviceGetByPCIBusId`
pub(crate) unsafe extern "C" fn by_pci_bus_id(device: *mut i32, text: *const c_char) -> hipError_t {
    boundary::call(|| {
        if text.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: a string of the caller.
        let text = unsafe { CStr::from_ptr(text) };
        if text.to_bytes().eq_ignore_ascii_case(properties::PCI_BUS_ID.as_bytes()) {
            // SAFETY: an out-parameter of the caller.
            unsafe { write(device, 0) }
        } else {
            Err(HipError::InvalidValue)
        }
    })
}

/// Copies text and its end as far as they fit; whether all of it did.
///
/// # Safety
///
/// `out` is null or has room for `len` bytes.
unsafe fn write_text(out: *mut c_char, len: i32, text: &str) -> Result<bool, HipError> {
    let room = usize::try_from(len).ok().and_then(NonZeroUsize::new).ok_or(HipError::InvalidValue)?.get();
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    let copied = text.len().min(room - 1);
    // SAFETY: `copied` and the terminating zero fit into `room`, which the caller promises.
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
        // SAFETY: an out-parameter of the caller.
        unsafe { write(bytes, runtime::get().memory.total_size()) }
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
        // SAFETY: out-parameters of the caller.
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
        check(device)?;
        let known = properties::attribute(attribute).ok_or(HipError::InvalidValue)?;
        // SAFETY: an out-parameter of the caller.
        unsafe { write(value, known) }
    })
}

/// `hipGetDeviceProperties` since 6.0
pub(crate) unsafe extern "C" fn properties(out: *mut hipDeviceProp_tR0600, device: i32) -> hipError_t {
    boundary::call(|| {
        check(device)?;
        // SAFETY: an out-parameter of the caller.
        unsafe { write(out, properties::r0600()) }
    })
}

/// `hipGetDeviceProperties` before 6.0
pub(crate) unsafe extern "C" fn properties_before_6(
    out: *mut hipDeviceProp_tR0000,
    device: i32,
) -> hipError_t {
    boundary::call(|| {
        check(device)?;
        // SAFETY: an out-parameter of the caller.
        unsafe { write(out, properties::r0000()) }
    })
}

/// `hipDeviceSynchronize`
pub(crate) unsafe extern "C" fn synchronize() -> hipError_t {
    boundary::call(|| {
        runtime::get().synchronize();
        Ok(())
    })
}

/// `hipDeviceGetStreamPriorityRange`
pub(crate) unsafe extern "C" fn stream_priority_range(least: *mut i32, greatest: *mut i32) -> hipError_t {
    boundary::call(|| {
        for (out, value) in [(least, *stream::PRIORITIES.end()), (greatest, *stream::PRIORITIES.start())] {
            if !out.is_null() {
                // SAFETY: an out-parameter of the caller.
                unsafe { write(out, value)? };
            }
        }
        Ok(())
    })
}

/// `hipDeviceCanAccessPeer`: there is no peer, and a device is not its own.
pub(crate) unsafe extern "C" fn can_access_peer(can_access: *mut i32, device: i32, peer: i32) -> hipError_t {
    boundary::call(|| {
        check(device)?;
        check(peer)?;
        // SAFETY: an out-parameter of the caller.
        unsafe { write(can_access, 0) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(CStr::from_ptr(buffer.as_ptr()).to_bytes(), properties::PCI_BUS_ID.as_bytes());
            assert_eq!(pci_bus_id(buffer.as_mut_ptr(), 5, 0), HipError::InvalidValue.code());
            assert_eq!(CStr::from_ptr(buffer.as_ptr()), c"0000");
        }
    }
}
