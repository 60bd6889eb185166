//! Scheduling domains: the C functions by which a program or library says how its own calls are to be treated.
//!
//! A library speaks for the calls that go through it, a program for the calling thread. An explicit domain takes
//! precedence over the rules. Where both a library and the thread have one, calls are never suspended if either says
//! so. The header is `shim/include/xsched_domain.h`.
#![cfg_attr(test, expect(non_snake_case, dead_code, reason = "unexported, they are unused functions"))]

use std::arch::naked_asm;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched_preload::told;
use xsched_protocol::wire::SchedulingDomain;

use crate::abi::HipError;
use crate::counters::{self, Trouble};
use crate::entry;
use crate::verdict;
use crate::verdict::domain::{of_library, of_thread, set_of_library, set_of_thread};

/// C: `hipError_t hipSetSchedulingDomain(hipSchedulingDomain_t domain)`.
///
/// # Safety
/// None of its own: an unknown number is refused.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn hipSetSchedulingDomain(domain: c_int) -> u32 {
    naked_asm!(".cfi_startproc", "mov rsi, [rsp]", "jmp {set}", ".cfi_endproc", set = sym set)
}

/// C: `hipError_t hipGetSchedulingDomain(hipSchedulingDomain_t *domain)`.
///
/// # Safety
/// `domain` must be null or point to where an `int` can be written.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn hipGetSchedulingDomain(domain: *mut c_int) -> u32 {
    naked_asm!(".cfi_startproc", "mov rsi, [rsp]", "jmp {get}", ".cfi_endproc", get = sym get)
}

/// The calling thread's domain from now on, whichever library the caller is in: an interpreter calls through one that says nothing
/// of its own. Null changes nothing; the domain until now goes to `before`, unless that is null.
///
/// C: `int xsched_thread_domain(const int *domain, int *before)`.
///
/// # Safety
/// `domain` must be null or point to an `int`, `before` null or to where an `int` can be written.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn xsched_thread_domain(domain: *const c_int, before: *mut c_int) -> u32 {
    // SAFETY: the caller's promise.
    let domain = unsafe { domain.as_ref() };
    let wanted = domain.map(|domain| u32::try_from(*domain).ok().and_then(SchedulingDomain::from_number));
    if wanted == Some(None) {
        return HipError::INVALID_VALUE.0;
    }
    if !before.is_null() {
        // SAFETY: the caller's promise.
        unsafe { before.write(of_thread() as c_int) };
    }
    if let Some(Some(wanted)) = wanted {
        set_of_thread(wanted);
    }
    HipError::SUCCESS.0
}

/// Sets the caller's domain, from now on.
extern "C" fn set(domain: c_int, return_address: u64) -> u32 {
    let Some(domain) = u32::try_from(domain).ok().and_then(SchedulingDomain::from_number) else {
        return HipError::INVALID_VALUE.0;
    };
    entry::prepare();
    guarded(|| match verdict::calling_library(return_address) {
        Some(path) => {
            set_of_library(&path, domain);
            verdict::invalidate();
            // The domain must hold for the caller's very next call.
            verdict::wait_for_invalidation(|| {
                if told::domain(&path, domain).is_err() {
                    counters::trouble(Trouble::UnsentReport);
                }
            });
        }
        None => set_of_thread(domain),
    });
    HipError::SUCCESS.0
}

/// # Safety
/// As for [`hipGetSchedulingDomain`].
unsafe extern "C" fn get(domain: *mut c_int, return_address: u64) -> u32 {
    if domain.is_null() {
        return HipError::INVALID_VALUE.0;
    }
    let mut found = SchedulingDomain::Auto;
    guarded(|| {
        found = match verdict::calling_library(return_address) {
            Some(path) => of_library(&path),
            None => of_thread(),
        }
    });
    // SAFETY: the caller's promise.
    unsafe { domain.write(found as c_int) };
    HipError::SUCCESS.0
}

/// A panic in the shim never reaches an application.
fn guarded(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        counters::trouble(Trouble::Panic);
    }
}
