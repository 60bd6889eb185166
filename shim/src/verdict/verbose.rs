//! What users of whitelists see: `XSCHED_VERBOSE` has the shim say on standard error what passes through.
//!
//! | value | what is said |
//! | --- | --- |
//! | `1` | that the rules are in force, and each library once whose calls pass through |
//! | `2` | every call that passes through, too |

use std::collections::HashSet;
use std::ffi::CStr;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::ground::env;
use crate::ground::fork::Renewable;
use crate::verdict::caller;

const UNKNOWN: u8 = u8::MAX;
const ONCE: u8 = 1;
const ALWAYS: u8 = 2;

/// Libraries that were named.
static NAMED: Renewable<Mutex<HashSet<String>>> = Renewable::new();

/// How much is said.
fn verbosity() -> u8 {
    static VERBOSITY: AtomicU8 = AtomicU8::new(UNKNOWN);
    match VERBOSITY.load(Ordering::Relaxed) {
        UNKNOWN => {
            let verbosity = env::verbosity().min(ALWAYS);
            VERBOSITY.store(verbosity, Ordering::Relaxed);
            verbosity
        }
        known => known,
    }
}

/// Whether every call is to be looked at, because something is said of those that pass through.
pub(crate) fn is_asked() -> bool {
    verbosity() >= ONCE
}

/// Says that the rules are in force.
pub(crate) fn begin() {
    if is_asked() {
        say("Passthrough initialized");
    }
}

/// Says what keeps the user's settings from being followed.
pub(super) fn complain(error: &dyn std::error::Error) {
    crate::ground::log::write(&format!("xsched-shim: {error}\n"));
    if is_asked() {
        say(&error.to_string());
    }
}

/// Says that a call passes through.
pub(super) fn passes_through(return_address: u64, function: &CStr) {
    if !is_asked() {
        return;
    }
    let library = caller::library(return_address).unwrap_or_else(|| "[unknown]".to_owned());
    if verbosity() >= ALWAYS {
        say(&format!("Passthrough: {library} ({})", function.to_string_lossy()));
    } else if NAMED.get().lock().unwrap_or_else(PoisonError::into_inner).insert(library.clone()) {
        say(&format!("Passthrough: {library}"));
    }
}

/// In a forked child, which says for itself.
pub(super) fn begin_afresh() {
    NAMED.renew();
}

fn say(what: &str) {
    // In one piece, so that threads do not tear each other's lines. There is nobody to tell of a failure.
    let _ = io::stderr().write_all(format!("[XSched] {what}\n").as_bytes());
}
