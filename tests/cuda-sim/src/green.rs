//! Green contexts: parts of a device. Here each has the whole device, and is told apart by its handles.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::context::{check_device, create_green, destroy_green};
use crate::device::multiprocessors;
use crate::export::exports;
use crate::hip;
use crate::result::{CUresult, Handle, INVALID_HANDLE, INVALID_VALUE, of_hip, write};
use crate::stream;

/// `CUdevResource`: its type, padding, and a union that begins with the number of multiprocessors.
#[repr(C)]
pub(crate) struct Resource {
    kind: u32,
    padding: [u32; 23],
    multiprocessors: u32,
    rest: [u32; 11],
}

const _: () = assert!(size_of::<Resource>() == 144);

/// `CU_DEV_RESOURCE_TYPE_SM`
const MULTIPROCESSORS: u32 = 1;

/// Context and device of each green context.
static GREEN: Mutex<BTreeMap<usize, (usize, c_int)>> = Mutex::new(BTreeMap::new());

fn green() -> MutexGuard<'static, BTreeMap<usize, (usize, c_int)>> {
    GREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Green contexts and contexts have different handles: this bit, which no address of a context has, tells them apart.
const GREEN_BIT: usize = 1;

fn find(handle: Handle) -> Result<(usize, c_int), CUresult> {
    green().get(&(handle as usize)).copied().ok_or(INVALID_HANDLE)
}

fn of_multiprocessors(count: u32) -> Resource {
    Resource { kind: MULTIPROCESSORS, padding: [0; 23], multiprocessors: count, rest: [0; 11] }
}

exports! {
    @12040 cuDeviceGetDevResource(device: c_int, out: *mut Resource, kind: u32) {
        check_device(device)?;
        if kind != MULTIPROCESSORS {
            return Err(INVALID_VALUE);
        }
        write(out, of_multiprocessors(multiprocessors(device)))
    }
    @12040 cuDevSmResourceSplitByCount(
        groups: *mut Resource, count: *mut u32, input: *const Resource, rest: *mut Resource, _flags: u32, least: u32,
    ) {
        let (Some(input), Some(count)) = (input.as_ref(), count.as_mut()) else { return Err(INVALID_VALUE) };
        let most = input.multiprocessors.checked_div(least.max(1)).unwrap_or(0);
        *count = (*count).min(most);
        for index in 0..*count as usize {
            write(groups.add(index), of_multiprocessors(least.max(1)))?;
        }
        if rest.is_null() { Ok(()) } else { write(rest, of_multiprocessors(input.multiprocessors - *count * least.max(1))) }
    }
    @12040 cuDevResourceGenerateDesc(out: *mut Handle, resources: *const Resource, count: u32) {
        if resources.is_null() || count == 0 {
            return Err(INVALID_VALUE);
        }
        write(out, ptr::without_provenance_mut::<c_void>(1))
    }
    @12040 cuGreenCtxCreate(out: *mut Handle, description: Handle, device: c_int, _flags: u32) {
        if description.is_null() {
            return Err(INVALID_VALUE);
        }
        let context = create_green(device)?;
        green().insert(context | GREEN_BIT, (context, device));
        write(out, ptr::without_provenance_mut(context | GREEN_BIT))
    }
    @12040 cuGreenCtxDestroy(handle: Handle) {
        let (context, _) = find(handle)?;
        green().remove(&(handle as usize));
        destroy_green(context)
    }
    @12040 cuCtxFromGreenCtx(out: *mut Handle, handle: Handle) {
        let (context, _) = find(handle)?;
        write(out, ptr::with_exposed_provenance_mut(context))
    }
    @12050 cuGreenCtxStreamCreate(out: *mut Handle, handle: Handle, flags: u32, priority: c_int) {
        let (context, device) = find(handle)?;
        of_hip(hip::hipSetDevice(device))?;
        stream::create_in(context, out, flags, priority)
    }
}
