//! Streams' compute unit masks, numbers and attributes: stored for the application to read back, without
//! effect.

use super::object::{Stream, listed};
use super::{FLAG_NON_BLOCKING, new_stream, resolve};
use crate::abi::{hipError_t, hipStream_t, hipStreamAttrID, hipStreamAttrValue};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::properties::compute_units;

/// `hipLaunchAttributePriority`, the only stream attribute that is more than a hint.
const PRIORITY: u32 = 8;
/// A window of memory to keep in cache, and how host and device wait for each other.
const HINTS: [u32; 2] = [1, 3];

/// `hipExtStreamCreateWithCUMask`
pub(crate) unsafe extern "C" fn create_with_mask(
    out: *mut hipStream_t,
    words: u32,
    mask: *const u32,
) -> hipError_t {
    boundary::call(|| {
        if out.is_null() {
            return Err(HipError::InvalidHandle);
        }
        if words == 0 || mask.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes an array with that many words.
        let mask = unsafe { core::slice::from_raw_parts(mask, words as usize) }.to_vec();
        new_stream(out, 0, 0)?;
        // SAFETY: it was written above.
        let stream = resolve(unsafe { *out }).ok_or(HipError::Unknown)?;
        stream.extras.lock().expect("no holder panics").mask = mask;
        Ok(())
    })
}

/// All compute units, one bit each.
fn full_mask() -> Vec<u32> {
    let units = compute_units().unsigned_abs();
    (0..units.div_ceil(32)).map(|word| u32::MAX >> (32 - (units - word * 32).min(32))).collect()
}

/// `hipExtStreamGetCUMask`: all of the device's compute units if the stream has no mask.
pub(crate) unsafe extern "C" fn mask(stream: hipStream_t, words: u32, out: *mut u32) -> hipError_t {
    boundary::call(|| {
        let full = full_mask();
        if out.is_null() || (words as usize) < full.len() {
            return Err(HipError::InvalidValue);
        }
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        let extras = stream.extras.lock().expect("no holder panics");
        let own: Vec<u32> = full.iter().zip(&extras.mask).map(|(full, own)| full & own).collect();
        let given = if own.iter().all(|word| *word == 0) { &full } else { &own };
        for (index, word) in given.iter().enumerate() {
            // SAFETY: the caller's array was checked to have as many words as the device's mask.
            unsafe { out.add(index).write(*word) };
        }
        Ok(())
    })
}

/// `hipStreamGetId`
pub(crate) unsafe extern "C" fn id(stream: hipStream_t, out: *mut u64) -> hipError_t {
    boundary::call(|| {
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, stream.id) }
    })
}

fn attribute_of(stream: &Stream, attribute: u32) -> Result<hipStreamAttrValue, HipError> {
    let kept = stream.extras.lock().expect("no holder panics").attributes.get(&attribute).copied();
    match attribute {
        PRIORITY => {
            let mut value = hipStreamAttrValue::default();
            value.words[0] = u64::from(stream.priority.cast_unsigned());
            Ok(kept.unwrap_or(value))
        }
        _ if HINTS.contains(&attribute) => Ok(kept.unwrap_or_default()),
        _ => Err(HipError::InvalidValue),
    }
}

/// `hipStreamGetAttribute`
pub(crate) unsafe extern "C" fn attribute(
    stream: hipStream_t,
    attribute: hipStreamAttrID,
    out: *mut hipStreamAttrValue,
) -> hipError_t {
    boundary::call(|| {
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        let value = attribute_of(&stream, attribute)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, value) }
    })
}

/// `hipStreamSetAttribute`: a priority set here is stored and changes nothing.
pub(crate) unsafe extern "C" fn set_attribute(
    stream: hipStream_t,
    attribute: hipStreamAttrID,
    value: *const hipStreamAttrValue,
) -> hipError_t {
    boundary::call(|| {
        let stream = resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        // SAFETY: the caller passes null or a valid value.
        let value = unsafe { value.as_ref() }.ok_or(HipError::InvalidValue)?;
        attribute_of(&stream, attribute)?;
        stream.extras.lock().expect("no holder panics").attributes.insert(attribute, *value);
        Ok(())
    })
}

/// `hipStreamCopyAttributes`
pub(crate) unsafe extern "C" fn copy_attributes(to: hipStream_t, from: hipStream_t) -> hipError_t {
    boundary::call(|| {
        let from = resolve(from).ok_or(HipError::ContextIsDestroyed)?;
        let to = resolve(to).ok_or(HipError::ContextIsDestroyed)?;
        let attributes = from.extras.lock().expect("no holder panics").attributes.clone();
        to.extras.lock().expect("no holder panics").attributes = attributes;
        Ok(())
    })
}

/// Destroys every stream of a device after its remaining work.
pub(crate) fn destroy_all(device: usize) {
    for stream in listed().all().iter().filter(|stream| stream.device() == device) {
        let is_created = stream.flags & !FLAG_NON_BLOCKING == 0;
        if is_created {
            stream.abandon_capture();
            listed().remove(std::sync::Arc::as_ptr(stream).cast());
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    #[test]
    fn a_mask_is_returned_limited_to_the_device() {
        let mut stream = ptr::null_mut();
        let mut read = [0_u32; 10];
        let mask = [0x0f, 0, 0, 0, 0, 0, 0, 0, 0, u32::MAX];
        // SAFETY: local parameters.
        unsafe {
            assert_eq!(create_with_mask(&raw mut stream, 10, mask.as_ptr()), 0);
            assert_eq!(super::mask(stream, 10, read.as_mut_ptr()), 0);
            assert_eq!(super::mask(stream, 9, read.as_mut_ptr()), HipError::InvalidValue.code());
        }
        // 304 units end in the middle of the last word.
        assert_eq!(read, [0x0f, 0, 0, 0, 0, 0, 0, 0, 0, 0xffff]);
    }

    #[test]
    fn streams_have_different_numbers() {
        let (mut first, mut second) = (0, 0);
        // SAFETY: local out-parameters.
        unsafe {
            assert_eq!(id(ptr::null_mut(), &raw mut first), 0);
            assert_eq!(id(ptr::without_provenance_mut(2), &raw mut second), 0);
        }
        assert_ne!(first, second);
    }
}
