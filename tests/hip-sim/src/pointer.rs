//! Single attributes of addresses: the driver API's form of `hipPointerGetAttributes`.

use core::ffi::c_void;

use crate::abi::{hipDeviceptr_t, hipError_t, hipPointer_attribute};
use crate::boundary;
use crate::error::HipError;
use crate::memory::{Kind, Range};
use crate::{memory, version};

/// `hipPointer_attribute`
const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const SYNC_MEMOPS: u32 = 6;
const BUFFER_ID: u32 = 7;
const IS_MANAGED: u32 = 8;
const DEVICE_ORDINAL: u32 = 9;
const RANGE_START: u32 = 11;
const RANGE_SIZE: u32 = 12;
const MAPPED: u32 = 13;
const ACCESS_FLAGS: u32 = 16;
const LAST: u32 = 17;

/// First release that answers for an unknown address. Earlier ones (seen: 5.2.3) take an address that they do
/// not know for an array's description, and follow pointers that they find there, wherever these lead.
const ARRAYS_KNOWN_SINCE: u32 = 6;

/// Read and write access.
const ACCESS: u64 = 3;

/// A value of 4 or 8 bytes.
#[derive(Clone, Copy)]
enum Value {
    Word(u32),
    Long(u64),
}

fn of(attribute: u32, range: &Range, address: usize) -> Result<Value, HipError> {
    Ok(match attribute {
        MEMORY_TYPE => Value::Word(range.kind.code(version::major())),
        HOST_POINTER if range.kind == Kind::Device => return Err(HipError::InvalidValue),
        DEVICE_POINTER | HOST_POINTER => Value::Long(address as u64),
        SYNC_MEMOPS => Value::Word(0),
        BUFFER_ID | RANGE_START => Value::Long(range.base as u64),
        IS_MANAGED => Value::Word(u32::from(range.kind == Kind::Managed)),
        DEVICE_ORDINAL => Value::Word(range.device as u32),
        // Four bytes in all releases so far; the upper half of the caller's value is unchanged.
        RANGE_SIZE => Value::Word(range.size as u32),
        MAPPED => Value::Word(1),
        ACCESS_FLAGS => Value::Long(ACCESS),
        CONTEXT..=LAST => return Err(HipError::NotSupported),
        _ => return Err(HipError::InvalidValue),
    })
}

/// `hipPointerGetAttribute`
pub(crate) unsafe extern "C" fn attribute(
    out: *mut c_void,
    attribute: hipPointer_attribute,
    address: hipDeviceptr_t,
) -> hipError_t {
    boundary::call(|| {
        if out.is_null() || address.is_null() {
            return Err(HipError::InvalidValue);
        }
        let range = memory::known().find(address as usize).ok_or(HipError::InvalidValue)?;
        // SAFETY: the caller passes null or a writable out-parameter of the attribute's type.
        unsafe { put(out, of(attribute, &range, address as usize)?) };
        Ok(())
    })
}

/// # Safety
///
/// `out` is valid for the value's size.
unsafe fn put(out: *mut c_void, value: Value) {
    // SAFETY: the caller upholds this function's contract.
    unsafe {
        match value {
            Value::Word(word) => out.cast::<u32>().write_unaligned(word),
            Value::Long(long) => out.cast::<u64>().write_unaligned(long),
        }
    }
}

/// `hipDrvPointerGetAttributes`: leaves attributes without a value unchanged, also for memory that HIP does
/// not know. In old releases the kind of unknown memory must not be queried.
pub(crate) unsafe extern "C" fn attributes(
    count: u32,
    attributes: *mut hipPointer_attribute,
    out: *mut *mut c_void,
    address: hipDeviceptr_t,
) -> hipError_t {
    boundary::call(|| {
        if attributes.is_null() || out.is_null() {
            return Err(HipError::InvalidValue);
        }
        let Some(range) = memory::known().find(address as usize) else {
            // SAFETY: the caller passes an array of `count` elements.
            let asked = unsafe { std::slice::from_raw_parts(attributes, count as usize) };
            if version::major() < ARRAYS_KNOWN_SINCE && asked.contains(&MEMORY_TYPE) {
                eprintln!("hip-sim: the kind of {address:p}, which HIP does not know, was queried");
                std::process::abort();
            }
            return Ok(());
        };
        for index in 0..count as usize {
            // SAFETY: the caller passes two arrays of `count` elements; each target has its attribute's size.
            unsafe {
                let target = *out.add(index);
                if let Ok(value) = of(*attributes.add(index), &range, address as usize)
                    && !target.is_null()
                {
                    put(target, value);
                }
            }
        }
        Ok(())
    })
}

/// `hipPointerSetAttribute`: only whether synchronous calls on the memory synchronise, which they always do.
pub(crate) unsafe extern "C" fn set(
    value: *const c_void,
    attribute: hipPointer_attribute,
    address: hipDeviceptr_t,
) -> hipError_t {
    boundary::call(|| {
        let is_known = memory::known().find(address as usize).is_some();
        if value.is_null() || attribute != SYNC_MEMOPS || !is_known {
            return Err(HipError::InvalidValue);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_found_from_any_of_its_addresses() {
        let memory = memory::known().allocate(64, Kind::Device, 0).unwrap();
        let inside = memory.wrapping_byte_add(60);
        let (mut start, mut size) = (0_u64, 0_u64);
        // SAFETY: local out-parameters.
        unsafe {
            assert_eq!(attribute((&raw mut start).cast(), RANGE_START, inside), 0);
            assert_eq!(attribute((&raw mut size).cast(), RANGE_SIZE, inside), 0);
            let code = attribute((&raw mut start).cast(), HOST_POINTER, inside);
            assert_eq!(code, HipError::InvalidValue.code());
        }
        assert_eq!((start, size), (memory as u64, 64));
    }
}
