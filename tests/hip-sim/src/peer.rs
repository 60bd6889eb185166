//! Devices' access to each other's memory. All memory is the host's, so access is only recorded.

use crate::abi::{hipDeviceP2PAttr, hipError_t};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::{device, devices};

/// xGMI, one hop between any two devices.
const LINK_TYPE: u32 = 4;
const HOP_COUNT: u32 = 1;

/// Every device reaches every other one, and none is its own peer.
fn can_reach(device: i32, peer: i32) -> Result<bool, HipError> {
    if device == peer {
        return Ok(false);
    }
    device::check(device)?;
    device::check(peer)?;
    Ok(true)
}

/// The peer of the calling thread's device, by ordinal.
fn peer_of_current(peer: i32) -> Result<usize, HipError> {
    match can_reach(devices::current() as i32, peer) {
        Ok(true) => Ok(peer as usize),
        _ => Err(HipError::InvalidDevice),
    }
}

/// `hipDeviceCanAccessPeer`
pub(crate) unsafe extern "C" fn can_access(out: *mut i32, device: i32, peer: i32) -> hipError_t {
    // SAFETY: the caller passes null or a writable out-parameter.
    boundary::call(|| unsafe { write(out, i32::from(can_reach(device, peer)?)) })
}

/// `hipDeviceEnablePeerAccess`
pub(crate) unsafe extern "C" fn enable(peer: i32, flags: u32) -> hipError_t {
    boundary::call(|| {
        if flags != 0 {
            return Err(HipError::InvalidValue);
        }
        let peer = peer_of_current(peer)?;
        let is_new = device::current_or_none()?.peers.lock().expect("no holder panics").insert(peer);
        if is_new { Ok(()) } else { Err(HipError::PeerAccessAlreadyEnabled) }
    })
}

/// `hipDeviceDisablePeerAccess`
pub(crate) unsafe extern "C" fn disable(peer: i32) -> hipError_t {
    boundary::call(|| {
        let peer = peer_of_current(peer)?;
        let was_enabled = device::current_or_none()?.peers.lock().expect("no holder panics").remove(&peer);
        if was_enabled { Ok(()) } else { Err(HipError::PeerAccessNotEnabled) }
    })
}

/// `hipDeviceGetP2PAttribute`: rank of the link, access, atomics, access to arrays.
pub(crate) unsafe extern "C" fn attribute(
    out: *mut i32,
    attribute: hipDeviceP2PAttr,
    device: i32,
    peer: i32,
) -> hipError_t {
    boundary::call(|| {
        if out.is_null() {
            return Err(HipError::InvalidValue);
        }
        if !can_reach(device, peer)? {
            return Err(HipError::InvalidDevice);
        }
        let value = match attribute {
            0 => LINK_TYPE as i32,
            1..=3 => 1,
            _ => return Err(HipError::InvalidValue),
        };
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, value) }
    })
}

/// `hipExtGetLinkTypeAndHopCount`
pub(crate) unsafe extern "C" fn link(device: i32, peer: i32, kind: *mut u32, hops: *mut u32) -> hipError_t {
    boundary::call(|| {
        if !can_reach(device, peer)? {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes null or writable out-parameters.
        unsafe {
            write(kind, LINK_TYPE)?;
            write(hops, HOP_COUNT)
        }
    })
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;
    use crate::memory::Kind;
    use crate::{copy, isolated, memory, stream};

    const DEVICES: [(&str, &str); 1] = [("HIP_SIM_DEVICES", "2")];

    #[test]
    fn access_is_enabled_once_and_only_to_another_device() {
        isolated::run(&DEVICES, || {
            let mut can = 9;
            // SAFETY: a local out-parameter.
            unsafe {
                assert_eq!(can_access(&raw mut can, 0, 1), 0);
                assert_eq!(can, 1);
                assert_eq!(can_access(&raw mut can, 1, 1), 0);
                assert_eq!(can, 0);
                assert_eq!(can_access(&raw mut can, 0, 2), HipError::InvalidDevice.code());
                assert_eq!(disable(1), HipError::PeerAccessNotEnabled.code());
                assert_eq!(enable(1, 0), 0);
                assert_eq!(enable(1, 0), HipError::PeerAccessAlreadyEnabled.code());
                assert_eq!(enable(0, 0), HipError::InvalidDevice.code());
                assert_eq!(disable(1), 0);
            }
        });
    }

    #[test]
    fn each_thread_has_a_device_and_each_device_streams_and_memory_of_its_own() {
        isolated::run(&DEVICES, || {
            let (mut handle, mut device) = (ptr::null_mut(), 9);
            let null_stream = stream::resolve(ptr::null_mut()).unwrap();
            let free = memory::known().free_size(1);
            // SAFETY: local out-parameters.
            unsafe {
                assert_eq!(device::set_current(1), 0);
                assert_eq!(stream::create_with_flags(&raw mut handle, 0), 0);
                assert_eq!(stream::device(handle, &raw mut device), 0);
            }
            assert_eq!(device, 1);
            assert!(!std::sync::Arc::ptr_eq(&null_stream, &stream::resolve(ptr::null_mut()).unwrap()));
            let there = memory::known().allocate(4096, Kind::Device, 0).unwrap();
            assert_eq!(memory::known().free_size(1), free - 4096);
            assert_eq!(memory::known().free_size(0), free);
            let elsewhere = std::thread::spawn(devices::current).join().unwrap();
            assert_eq!(elsewhere, 0);

            let (from, mut back) = ([7_u8; 4], [0_u8; 4]);
            // SAFETY: an allocation and local buffers.
            unsafe {
                assert_eq!(copy::host_to_device(there, from.as_ptr().cast(), 4), 0);
                assert_eq!(device::set_current(0), 0);
                let here = memory::known().allocate(4096, Kind::Device, 0).unwrap();
                assert_eq!(copy::peer(here, 0, there, 1, 4), 0);
                assert_eq!(copy::peer(here, 0, there, 2, 4), HipError::InvalidDevice.code());
                assert_eq!(copy::device_to_host(back.as_mut_ptr().cast(), here, 4), 0);
            }
            assert_eq!(back, from);
        });
    }

    #[test]
    fn identities_belong_to_the_physical_device() {
        let environment =
            [("HIP_SIM_DEVICES", "4"), ("ROCR_VISIBLE_DEVICES", "2,3"), ("HIP_VISIBLE_DEVICES", "1")];
        isolated::run(&environment, || {
            let mut text = [0; 16];
            let mut count = 0;
            // SAFETY: local out-parameters.
            unsafe {
                assert_eq!(device::count(&raw mut count), 0);
                assert_eq!(device::pci_bus_id(text.as_mut_ptr(), 16, 0), 0);
                assert_eq!(core::ffi::CStr::from_ptr(text.as_ptr()), c"0000:c4:00.0");
            }
            assert_eq!(count, 1);
        });
    }

    #[test]
    fn without_a_visible_device_queries_fail() {
        isolated::run(&[("HIP_VISIBLE_DEVICES", "-1")], || {
            let (mut count, mut memory) = (9, ptr::null_mut());
            // SAFETY: local out-parameters.
            unsafe {
                assert_eq!(device::count(&raw mut count), HipError::NoDevice.code());
                assert_eq!(count, 0);
                assert_eq!(device::set_current(0), HipError::InvalidDevice.code());
                assert_eq!(memory::malloc(&raw mut memory, 8), HipError::NoDevice.code());
            }
        });
    }
}
