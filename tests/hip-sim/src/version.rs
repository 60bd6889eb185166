//! The HIP release that this library claims to be.

use crate::abi::hipError_t;
use crate::boundary;

// Weak, so that the object with which each library is linked overrides it (`release.N.c` of the build
// script).
core::arch::global_asm!(
    ".section .rodata.hip_sim_release, \"a\", @progbits",
    ".weak hip_sim_release",
    ".hidden hip_sim_release",
    ".type hip_sim_release, @object",
    ".p2align 2",
    "hip_sim_release: .long 60500000",
    ".size hip_sim_release, 4",
    ".text",
);

unsafe extern "C" {
    #[link_name = "hip_sim_release"]
    static RELEASE: i32;
}

/// Release in HIP's encoding: major * 10,000,000 + minor * 100,000 + patch.
pub(crate) fn release() -> i32 {
    // SAFETY: a constant, defined above or in the object that overrides it.
    unsafe { RELEASE }
}

/// HIP major, the number in the SONAME.
pub(crate) fn major() -> u32 {
    release().unsigned_abs() / 10_000_000
}

/// `hipRuntimeGetVersion`
pub(crate) unsafe extern "C" fn runtime(version: *mut i32) -> hipError_t {
    // SAFETY: the caller passes null or a writable out-parameter.
    boundary::call(|| unsafe { boundary::write(version, release()) })
}

/// `hipDriverGetVersion`: the same number, as in the genuine runtime.
pub(crate) unsafe extern "C" fn driver(version: *mut i32) -> hipError_t {
    // SAFETY: the caller passes null or a writable out-parameter.
    boundary::call(|| unsafe { boundary::write(version, release()) })
}
