//! The scheduling domain of a thread: a program says of its own calls that they are never suspended, or always scheduled. The header is
//! `shim/include/xsched_hints.h`.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use xsched_preload::behind::Behind;
use xsched_protocol::wire::SchedulingDomain;

use crate::rules::{domain_of_thread, set_domain_of_thread};

/// `CUDA_ERROR_INVALID_VALUE`
const INVALID_VALUE: u32 = 1;

type ThreadDomain = unsafe extern "C" fn(*const c_int, *mut c_int) -> u32;

/// That of a shim behind this one.
static BEHIND: Behind = Behind::new(c"xsched_thread_domain");

/// The calling thread's domain from now on, in all shims of the process. Null changes nothing; the domain until now goes to `before`,
/// unless that is null.
///
/// C: `int xsched_thread_domain(const int *domain, int *before)`.
///
/// # Safety
/// `domain` must be null or point to an `int`, `before` null or to where an `int` can be written.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, expect(dead_code, reason = "unexported, it is an unused function"))]
unsafe extern "C" fn xsched_thread_domain(domain: *const c_int, before: *mut c_int) -> u32 {
    // SAFETY: the caller's promise.
    let asked = unsafe { domain.as_ref() };
    let wanted = asked.map(|domain| u32::try_from(*domain).ok().and_then(SchedulingDomain::from_number));
    if wanted == Some(None) {
        return INVALID_VALUE;
    }
    if let Some(function) = BEHIND.get() {
        // SAFETY: a shim's function of this name, which has this type; the rest is the caller's promise.
        unsafe { transmute::<*mut c_void, ThreadDomain>(function.as_ptr())(domain, before) };
    }
    if !before.is_null() {
        // SAFETY: the caller's promise.
        unsafe { before.write(domain_of_thread() as c_int) };
    }
    if let Some(Some(wanted)) = wanted {
        set_domain_of_thread(wanted);
    }
    0
}
