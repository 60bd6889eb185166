//! `XSCHED_VERBOSE`: the shim prints on standard error which calls pass through.
//!
//! | value | what is printed |
//! | --- | --- |
//! | `1` | that the rules are in force, and once each library whose calls pass through |
//! | `2` | every call that passes through, too |

use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use xsched_preload::caller;
use xsched_preload::fork::Renewable;
use xsched_preload::{env, log};

const UNKNOWN: u8 = u8::MAX;
const ONCE: u8 = 1;
const ALWAYS: u8 = 2;

/// Libraries that were printed.
static NAMED: Renewable<Mutex<HashSet<String>>> = Renewable::new();

/// How much is printed.
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

/// Whether every call needs a verdict, because calls that pass through are printed.
pub(crate) fn is_verbose() -> bool {
    verbosity() >= ONCE
}

/// Prints that the rules are in force.
pub(crate) fn announce() {
    if is_verbose() {
        print("Passthrough initialized");
    }
}

/// Reports an error in the user's settings.
pub(super) fn report_error(error: &dyn std::error::Error) {
    log::write(&format!("xsched-shim: {error}\n"));
    if is_verbose() {
        print(&error.to_string());
    }
}

/// Reports that a call passes through.
pub(super) fn report_pass(return_address: u64, function: &CStr) {
    if !is_verbose() {
        return;
    }
    let library = caller::library(return_address).unwrap_or_else(|| "[unknown]".to_owned());
    if verbosity() >= ALWAYS {
        print(&format!("Passthrough: {library} ({})", function.to_string_lossy()));
    } else if NAMED.get().lock().unwrap_or_else(PoisonError::into_inner).insert(library.clone()) {
        print(&format!("Passthrough: {library}"));
    }
}

/// In a forked child, which prints for itself.
pub(super) fn renew_after_fork() {
    NAMED.renew();
}

fn print(what: &str) {
    // In one piece, so that the lines of threads do not mix. There is no other place for an error.
    let _ = log::write_to_stderr(&format!("[XSched] {what}\n"));
}
