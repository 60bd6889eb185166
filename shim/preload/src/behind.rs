//! Functions of a shim that is loaded behind this one: a process of a command that `xsched-ctl run` has started has two, and what a
//! program asks for by a C function reaches the first.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dlsym;

/// It was not looked for yet. No function is there.
const UNKNOWN: usize = 1;
const NONE: usize = 0;

/// The function of this name in a library behind this one.
pub struct Behind {
    name: &'static CStr,
    /// Looked up once. Two threads that do so at the same time find the same.
    address: AtomicUsize,
}

impl Behind {
    /// Looks for nothing yet.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicUsize::new(UNKNOWN) }
    }

    /// The function, if there is one.
    pub fn get(&self) -> Option<NonNull<c_void>> {
        let known = self.address.load(Ordering::Acquire);
        if known != UNKNOWN {
            return NonNull::new(std::ptr::with_exposed_provenance_mut(known));
        }
        let found = dlsym::look_up(libc::RTLD_NEXT, self.name);
        self.address.store(found.map_or(NONE, |found| found.expose_provenance().get()), Ordering::Release);
        found
    }
}
