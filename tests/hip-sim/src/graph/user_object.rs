//! Objects of the application that graphs keep alive: a destructor and a reference count.

use core::ffi::c_void;
use core::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;

use super::object::{UserObject, resolve};
use crate::abi::{hipError_t, hipGraph_t, hipHostFn_t, hipUserObject_t};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::handles::Handles;
use crate::operation::HostCall;
use crate::runtime::table;

/// The only supported destruction: without waiting for the device.
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// The caller's references move to the graph.
const MOVE: u32 = 1;

table! {
    /// Objects to which the application refers.
    listed: Handles<UserObject> = Handles::default()
}

fn find(object: hipUserObject_t) -> Result<Arc<UserObject>, HipError> {
    listed().get(object).ok_or(HipError::InvalidValue)
}

/// Releases references of the application, and the handle with the last one.
fn release_references(handle: hipUserObject_t, count: u32) -> Result<(), HipError> {
    let object = find(handle)?;
    if object.references.fetch_sub(i64::from(count), Ordering::AcqRel) <= i64::from(count) {
        listed().remove(handle);
    }
    Ok(())
}

fn check_count(count: u32) -> Result<(), HipError> {
    if count == 0 || count > i32::MAX as u32 { Err(HipError::InvalidValue) } else { Ok(()) }
}

/// `hipUserObjectCreate`
pub(crate) unsafe extern "C" fn create(
    object: *mut hipUserObject_t,
    user: *mut c_void,
    destructor: hipHostFn_t,
    count: u32,
    flags: u32,
) -> hipError_t {
    boundary::call(|| {
        check_count(count)?;
        if object.is_null() || destructor.is_none() || flags != NO_DESTRUCTOR_SYNC {
            return Err(HipError::InvalidValue);
        }
        let made = Arc::new(UserObject {
            destructor: HostCall { function: destructor, user },
            references: AtomicI64::new(i64::from(count)),
        });
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(object, listed().insert(&made)) }
    })
}

/// `hipUserObjectRetain`
pub(crate) unsafe extern "C" fn retain(object: hipUserObject_t, count: u32) -> hipError_t {
    boundary::call(|| {
        check_count(count)?;
        find(object)?.references.fetch_add(i64::from(count), Ordering::AcqRel);
        Ok(())
    })
}

/// `hipUserObjectRelease`
pub(crate) unsafe extern "C" fn release(object: hipUserObject_t, count: u32) -> hipError_t {
    boundary::call(|| {
        check_count(count)?;
        release_references(object, count)
    })
}

/// `hipGraphRetainUserObject`: several references of one graph count as one, which destroys no object early.
pub(crate) unsafe extern "C" fn retain_by_graph(
    graph: hipGraph_t,
    object: hipUserObject_t,
    count: u32,
    flags: u32,
) -> hipError_t {
    boundary::call(|| {
        check_count(count)?;
        if flags > MOVE {
            return Err(HipError::InvalidValue);
        }
        let (graph, kept) = (resolve(graph)?, find(object)?);
        graph.objects.lock().expect("no holder panics").push(kept);
        if flags == MOVE { release_references(object, count) } else { Ok(()) }
    })
}

/// `hipGraphReleaseUserObject`
pub(crate) unsafe extern "C" fn release_from_graph(
    graph: hipGraph_t,
    object: hipUserObject_t,
    count: u32,
) -> hipError_t {
    boundary::call(|| {
        check_count(count)?;
        let graph = resolve(graph)?;
        let mut objects = graph.objects.lock().expect("no holder panics");
        let position = objects.iter().position(|kept| Arc::as_ptr(kept).cast() == object.cast_const());
        let released = objects.remove(position.ok_or(HipError::InvalidValue)?);
        drop(objects);
        drop(released);
        Ok(())
    })
}
