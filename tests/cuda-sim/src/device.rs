//! Devices and versions.

use core::ffi::{c_char, c_int};

use crate::context::{check_device, check_initialized};
use crate::export::exports;
use crate::hip;
use crate::result::{INVALID_VALUE, of_hip, write};

/// The version of CUDA that the library claims to be: 12.8.
pub(crate) const VERSION: c_int = 12_080;

/// HIP's number for the attribute of the same meaning: `hipDeviceAttributeMultiprocessorCount`.
const HIP_MULTIPROCESSOR_COUNT: u32 = 63;

/// Domain, bus and device.
fn pci_address(device: c_int) -> [c_int; 3] {
    let mut text = [0_u8; 16];
    // SAFETY: a buffer with its length.
    unsafe { hip::hipDeviceGetPCIBusId(text.as_mut_ptr().cast(), 16, device) };
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut fields = text.split([':', '.']).map(|field| c_int::from_str_radix(field, 16).unwrap_or(0));
    [(); 3].map(|()| fields.next().unwrap_or(0))
}

/// How many multiprocessors a device has.
pub(crate) fn multiprocessors(device: c_int) -> u32 {
    let mut units = 0;
    // SAFETY: a local out-parameter.
    unsafe { hip::hipDeviceGetAttribute(&raw mut units, HIP_MULTIPROCESSOR_COUNT, device) };
    u32::try_from(units).unwrap_or(0)
}

/// An attribute by CUDA's number; none if the simulator does not know it.
fn attribute(number: u32, device: c_int) -> Option<c_int> {
    let [domain, bus, slot] = pci_address(device);
    Some(match number {
        1..=3 => 1024,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65_535,
        8 | 97 => 65_536,
        10 => 32,
        16 => multiprocessors(device) as c_int,
        33 => bus,
        34 => slot,
        50 => domain,
        75 => 9,
        // Unified addressing, mapped host memory, cooperative launches, stream memory operations and priorities.
        19 | 41 | 78 | 92 | 93 | 94 | 95 | 122 => 1,
        76 => 0,
        _ => return None,
    })
}

exports! {
    @2020 cuDriverGetVersion(out: *mut c_int) { write(out, VERSION) }
    @6000 cuGetErrorName(error: u32, text: *mut *const c_char) { of_hip(hip::hipDrvGetErrorName(error, text)) }
    @6000 cuGetErrorString(error: u32, text: *mut *const c_char) { of_hip(hip::hipDrvGetErrorString(error, text)) }
    @2000 cuDeviceGet(out: *mut c_int, ordinal: c_int) { check_device(ordinal)?; write(out, ordinal) }
    @2000 cuDeviceGetCount(out: *mut c_int) { check_initialized()?; of_hip(hip::hipGetDeviceCount(out)) }
    @2000 cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        check_device(device)?;
        of_hip(hip::hipDeviceGetName(name, len, device))
    }
    @11040 cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        check_device(device)?;
        of_hip(hip::hipDeviceGetUuid(uuid, device))?;
        // An instance has an identity of its own, which the older function does not know.
        if std::env::var_os("CUDA_SIM_MIG").is_some() {
            (*uuid)[15] ^= 1;
        }
        Ok(())
    }
    @9020 cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) {
        check_device(device)?;
        of_hip(hip::hipDeviceGetUuid(uuid, device))
    }
    @3020 cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        check_device(device)?;
        of_hip(hip::hipDeviceTotalMem(bytes, device))
    }
    @2000 cuDeviceGetAttribute(value: *mut c_int, number: u32, device: c_int) {
        check_device(device)?;
        if number == 0 {
            return Err(INVALID_VALUE);
        }
        write(value, attribute(number, device).unwrap_or(0))
    }
    @4010 cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: c_int) {
        check_device(device)?;
        of_hip(hip::hipDeviceGetPCIBusId(text, len, device))
    }
    @4010 cuDeviceGetByPCIBusId(device: *mut c_int, text: *const c_char) {
        check_initialized()?;
        of_hip(hip::hipDeviceGetByPCIBusId(device, text))
    }
}
