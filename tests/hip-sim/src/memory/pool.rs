//! Memory pools: sources of stream-ordered allocations, with counters and settings.
//!
//! A pool retains no memory: freed memory returns to the device at once. It counts the memory allocated from
//! it.

use core::ffi::c_void;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::{Kind, allocate_from_pool};
use crate::abi::{
    hipError_t, hipMemAccessDesc, hipMemAccessFlags, hipMemLocation, hipMemPool_t, hipMemPoolAttr,
    hipMemPoolProps, hipStream_t,
};
use crate::boundary::{self, write};
use crate::device;
use crate::error::HipError;
use crate::handles::Handles;
use crate::runtime::table;

const PINNED: u32 = 1;
const ON_DEVICE: u32 = 1;
const READ_AND_WRITE: u32 = 3;

/// `hipMemPoolAttr`: the first three are switches, the others sizes.
const SWITCHES: core::ops::RangeInclusive<u32> = 1..=3;
const RELEASE_THRESHOLD: u32 = 4;
const RESERVED_NOW: u32 = 5;
const RESERVED_MOST: u32 = 6;
const USED_NOW: u32 = 7;
const USED_MOST: u32 = 8;

/// A pool.
pub(crate) struct Pool {
    device: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By `hipMemPoolAttr`; a setting that is absent has its initial value.
    settings: BTreeMap<u32, u64>,
    /// Access of other devices.
    access: BTreeMap<usize, u32>,
    used: u64,
    used_most: u64,
}

impl Pool {
    fn new(device: usize) -> Arc<Self> {
        Arc::new(Self { device, state: Mutex::default() })
    }
}

/// A device's default pool, and its current one.
type OfDevice = (Arc<Pool>, Arc<Pool>);

/// Pools, and what was allocated from them.
#[derive(Default)]
pub(super) struct Pools {
    handles: Handles<Pool>,
    /// By device.
    of_devices: Mutex<HashMap<usize, OfDevice>>,
    /// The pool and size of an allocation, by its address.
    owners: Mutex<HashMap<usize, (Arc<Pool>, u64)>>,
}

impl Pools {
    /// The device's default pool and its current one.
    fn of_device(&self, device: usize) -> OfDevice {
        let mut of_devices = self.of_devices.lock().expect("no holder panics");
        let made = || {
            let pool = Pool::new(device);
            self.handles.insert(&pool);
            (Arc::clone(&pool), pool)
        };
        of_devices.entry(device).or_insert_with(made).clone()
    }

    fn set_current(&self, device: usize, pool: &Arc<Pool>) {
        let (default, _) = self.of_device(device);
        let mut of_devices = self.of_devices.lock().expect("no holder panics");
        of_devices.insert(device, (default, Arc::clone(pool)));
    }

    /// Counts an allocation from a given pool, or from the device's current pool.
    pub(super) fn allocated(&self, pool: Option<Arc<Pool>>, device: usize, address: usize, size: usize) {
        let pool = pool.unwrap_or_else(|| self.of_device(device).1);
        let size = size as u64;
        let mut state = pool.state.lock().expect("no holder panics");
        state.used += size;
        state.used_most = state.used_most.max(state.used);
        drop(state);
        self.owners.lock().expect("no holder panics").insert(address, (pool, size));
    }

    /// Counts the end of an allocation, if it came from a pool.
    pub(super) fn freed(&self, address: usize) {
        let owner = self.owners.lock().expect("no holder panics").remove(&address);
        if let Some((pool, size)) = owner {
            pool.state.lock().expect("no holder panics").used -= size;
        }
    }
}

table! {
    /// The pools of this copy of the library.
    pub(super) pools: Pools = Pools::default()
}

fn resolve(pool: hipMemPool_t) -> Result<Arc<Pool>, HipError> {
    pools().handles.get(pool).ok_or(HipError::InvalidValue)
}

fn handle(pool: &Arc<Pool>) -> hipMemPool_t {
    Arc::as_ptr(pool).cast::<c_void>().cast_mut()
}

/// `hipDeviceGetDefaultMemPool`
pub(crate) unsafe extern "C" fn device_default(out: *mut hipMemPool_t, device: i32) -> hipError_t {
    boundary::call(|| {
        device::check(device)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, handle(&pools().of_device(device as usize).0)) }
    })
}

/// `hipDeviceGetMemPool`
pub(crate) unsafe extern "C" fn device_current(out: *mut hipMemPool_t, device: i32) -> hipError_t {
    boundary::call(|| {
        device::check(device).map_err(|_| HipError::InvalidValue)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, handle(&pools().of_device(device as usize).1)) }
    })
}

/// `hipDeviceSetMemPool`
pub(crate) unsafe extern "C" fn set_device_current(device: i32, pool: hipMemPool_t) -> hipError_t {
    boundary::call(|| {
        device::check(device).map_err(|_| HipError::InvalidValue)?;
        let pool = resolve(pool)?;
        if pool.device != device as usize {
            return Err(HipError::InvalidDevice);
        }
        pools().set_current(pool.device, &pool);
        Ok(())
    })
}

/// `hipMemPoolCreate`: only pinned memory of a device is supported.
pub(crate) unsafe extern "C" fn create(out: *mut hipMemPool_t, props: *const hipMemPoolProps) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes null or valid properties.
        let props = unsafe { props.as_ref() }.ok_or(HipError::InvalidValue)?;
        let is_supported = props.allocType == PINNED && props.location.r#type == ON_DEVICE;
        if out.is_null() || !is_supported || device::check(props.location.id).is_err() {
            return Err(HipError::InvalidValue);
        }
        let pool = Pool::new(props.location.id as usize);
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, pools().handles.insert(&pool)) }
    })
}

/// `hipMemPoolDestroy`: a device's default pool cannot be destroyed; allocations from other pools stay valid.
pub(crate) unsafe extern "C" fn destroy(pool: hipMemPool_t) -> hipError_t {
    boundary::call(|| {
        let pool = resolve(pool)?;
        let (default, current) = pools().of_device(pool.device);
        if Arc::ptr_eq(&pool, &default) {
            return Err(HipError::InvalidValue);
        }
        if Arc::ptr_eq(&pool, &current) {
            pools().set_current(pool.device, &default);
        }
        pools().handles.remove(handle(&pool));
        Ok(())
    })
}

/// `hipMemPoolTrimTo`: does nothing, because pools retain no memory.
pub(crate) unsafe extern "C" fn trim(pool: hipMemPool_t, _keep: usize) -> hipError_t {
    boundary::call(|| resolve(pool).map(drop))
}

/// `hipMemPoolGetAttribute`: switches are 32 bits, sizes 64.
pub(crate) unsafe extern "C" fn attribute(
    pool: hipMemPool_t,
    attribute: hipMemPoolAttr,
    out: *mut c_void,
) -> hipError_t {
    boundary::call(|| {
        let pool = resolve(pool)?;
        let state = pool.state.lock().expect("no holder panics");
        let setting = |first| state.settings.get(&attribute).copied().unwrap_or(first);
        let value = match attribute {
            // SAFETY: the caller passes null or a writable out-parameter of the attribute's type.
            _ if SWITCHES.contains(&attribute) => return unsafe { write(out.cast(), setting(1) as i32) },
            RELEASE_THRESHOLD => setting(0),
            RESERVED_NOW | USED_NOW => state.used,
            RESERVED_MOST | USED_MOST => state.used_most,
            _ => return Err(HipError::InvalidValue),
        };
        // SAFETY: the caller passes null or a writable out-parameter of the attribute's type.
        unsafe { write(out.cast(), value) }
    })
}

/// `hipMemPoolSetAttribute`: high-water marks can only be reset to zero.
pub(crate) unsafe extern "C" fn set_attribute(
    pool: hipMemPool_t,
    attribute: hipMemPoolAttr,
    value: *mut c_void,
) -> hipError_t {
    boundary::call(|| {
        let pool = resolve(pool)?;
        if value.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes null or a valid value of the attribute's type.
        let value = unsafe {
            if SWITCHES.contains(&attribute) { u64::from(*value.cast::<u32>()) } else { *value.cast::<u64>() }
        };
        let mut state = pool.state.lock().expect("no holder panics");
        match attribute {
            RESERVED_MOST | USED_MOST if value == 0 => state.used_most = state.used,
            _ if SWITCHES.contains(&attribute) || attribute == RELEASE_THRESHOLD => {
                state.settings.insert(attribute, value);
            }
            _ => return Err(HipError::InvalidValue),
        }
        Ok(())
    })
}

/// `hipMemPoolSetAccess`: stored for the application to read back.
pub(crate) unsafe extern "C" fn set_access(
    pool: hipMemPool_t,
    list: *const hipMemAccessDesc,
    count: usize,
) -> hipError_t {
    boundary::call(|| {
        let pool = resolve(pool)?;
        if list.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes an array of `count` elements.
        for one in unsafe { core::slice::from_raw_parts(list, count) } {
            if one.location.r#type != ON_DEVICE || one.flags > READ_AND_WRITE {
                return Err(HipError::InvalidValue);
            }
            device::check(one.location.id)?;
            if one.flags == 0 {
                return Err(HipError::InvalidDevice);
            }
            pool.state.lock().expect("no holder panics").access.insert(one.location.id as usize, one.flags);
        }
        Ok(())
    })
}

/// `hipMemPoolGetAccess`: the pool's own device has full access.
pub(crate) unsafe extern "C" fn access(
    out: *mut hipMemAccessFlags,
    pool: hipMemPool_t,
    location: *mut hipMemLocation,
) -> hipError_t {
    boundary::call(|| {
        let pool = resolve(pool)?;
        // SAFETY: the caller passes null or a valid location.
        let location = unsafe { location.as_ref() }.ok_or(HipError::InvalidValue)?;
        if location.r#type != ON_DEVICE || device::check(location.id).is_err() {
            return Err(HipError::InvalidValue);
        }
        let ordinal = location.id as usize;
        let granted = pool.state.lock().expect("no holder panics").access.get(&ordinal).copied();
        let own = if ordinal == pool.device { READ_AND_WRITE } else { 0 };
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, granted.unwrap_or(own)) }
    })
}

/// `hipMallocFromPoolAsync`
pub(crate) unsafe extern "C" fn malloc(
    out: *mut *mut c_void,
    size: usize,
    pool: hipMemPool_t,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| allocate_from_pool(out, size, Some(resolve(pool)?), stream))
}

/// The kind of memory in pools.
pub(super) const KIND: Kind = Kind::Device;

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;
    use crate::{memory, stream};

    fn used(pool: hipMemPool_t) -> u64 {
        let mut value = 0_u64;
        // SAFETY: a local out-parameter.
        assert_eq!(unsafe { attribute(pool, USED_NOW, (&raw mut value).cast()) }, 0);
        value
    }

    #[test]
    fn a_pool_counts_its_allocations() {
        let location = hipMemLocation { r#type: ON_DEVICE, id: 0 };
        let mut props = hipMemPoolProps::default();
        (props.allocType, props.location) = (PINNED, location);
        let (mut pool, mut address) = (ptr::null_mut(), ptr::null_mut());
        let stream = ptr::without_provenance_mut(2);
        // SAFETY: local parameters and live handles.
        unsafe {
            assert_eq!(create(&raw mut pool, &raw const props), 0);
            assert_eq!(malloc(&raw mut address, 100, pool, stream), 0);
            assert_eq!(used(pool), 100);
            assert_eq!(memory::free_async(address, stream), 0);
            assert_eq!(stream::synchronize(stream), 0);
            assert_eq!(used(pool), 0);
            assert_eq!(destroy(pool), 0);
            assert_eq!(destroy(pool), HipError::InvalidValue.code());
        }
    }

    #[test]
    fn the_default_pool_cannot_be_destroyed() {
        let mut pool = ptr::null_mut();
        // SAFETY: a local out-parameter.
        unsafe {
            assert_eq!(device_default(&raw mut pool, 0), 0);
            assert_eq!(destroy(pool), HipError::InvalidValue.code());
            assert_eq!(device_default(&raw mut pool, 7), HipError::InvalidDevice.code());
        }
    }
}
