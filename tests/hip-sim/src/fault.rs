//! Faults of the device. After one, every call that returns a code returns the fault's code, as on hardware.
//!
//! All devices of the process share one fault, and nothing clears it, `hipDeviceReset` included. The genuine
//! runtime (clr since it reports faults instead of aborting) keeps it in a static member of its device class
//! and checks it on entry to each function. So `hipDeviceReset` returns the fault before it has done
//! anything.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::abi::hipError_t;
use crate::error::SUCCESS;

static CODE: AtomicU32 = AtomicU32::new(SUCCESS);

/// Stores a fault; the first one stays.
pub(crate) fn raise(code: hipError_t) {
    let _ = CODE.compare_exchange(SUCCESS, code, Ordering::AcqRel, Ordering::Relaxed);
}

/// The fault's code for a call that succeeded otherwise.
pub(crate) fn or(code: hipError_t) -> hipError_t {
    if code == SUCCESS { CODE.load(Ordering::Acquire) } else { code }
}
