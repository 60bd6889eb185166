//! Functions that a program looks up by name: where a copy's calls are seen by symbols, the program gets the shim's
//! export.

use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use xsched_preload::env;

use crate::counters::{self, Trouble};
use crate::runtime::copies::Way;
use crate::{api, runtime};

/// The exports' code, in the order of the list.
type Exports = [*const c_void; api::COUNT];

/// The process's [`Exports`]; null before its first call.
static EXPORTS: AtomicPtr<Exports> = AtomicPtr::new(ptr::null_mut());

/// Sets the process's exports.
pub(crate) fn set_exports(exports: &'static Exports) {
    EXPORTS.store(ptr::from_ref(exports).cast_mut(), Ordering::Release);
}

fn exports() -> Option<&'static Exports> {
    // SAFETY: null, or made of a reference for as long as the process lives.
    unsafe { EXPORTS.load(Ordering::Acquire).as_ref() }
}

/// Replaces an address that `hipGetProcAddress` or a similar function has returned, if an export must take its place.
///
/// # Safety
/// `answer` must be null or point to the answer.
pub(crate) unsafe fn replace_answer(answer: *mut *mut c_void) {
    // SAFETY: the caller's promise.
    let Some(answer) = (unsafe { answer.as_mut() }) else { return };
    let Some(exports) = exports() else { return };
    if let Some(export) = export_for(*answer, exports) {
        *answer = export;
    }
}

/// The export in place of a function of the runtime, if its calls are seen by symbols.
pub(crate) fn export_for(found: *mut c_void, exports: &Exports) -> Option<*mut c_void> {
    if found.is_null() || env::disabled() {
        return None;
    }
    let export = catch_unwind(AssertUnwindSafe(|| {
        let name = symbol_name(found)?;
        let id = api::find(&name)?;
        let copy = runtime::only_copy_at(found.addr())?;
        (copy.way_of(api::TABLE[id].slot) != Way::Table).then_some(exports[id].cast_mut())
    }));
    export.unwrap_or_else(|_| {
        counters::trouble(Trouble::Panic);
        None
    })
}

/// The name of the function at an address: a name that was asked for may be an alias.
fn symbol_name(address: *mut c_void) -> Option<std::ffi::CString> {
    // SAFETY: all of it may be zero.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: a variable for the answer, whose name is a C string of a mapped object.
    unsafe {
        let known: c_int = libc::dladdr(address, &raw mut info);
        (known != 0 && !info.dli_sname.is_null() && info.dli_saddr == address)
            .then(|| CStr::from_ptr(info.dli_sname).to_owned())
    }
}
