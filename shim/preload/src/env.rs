//! Every `XSCHED_*` variable that the shim reads.
//!
//! | variable | effect |
//! | --- | --- |
//! | `XSCHED_DISABLE` | unless empty or `0`: calls are counted and forwarded, no hook runs |
//! | `XSCHED_LOG` | a file's path, or `stderr`: a summary goes there at exit; otherwise the shim is silent |
//! | `XSCHED_SOCKET_DIR` | the folder with the controller's socket; otherwise `/run/xsched`, then `$XDG_RUNTIME_DIR/xsched` |
//! | `XSCHED_TOKEN` | set by `xsched-ctl run`: the controller recognises its processes by it |
//! | `XSCHED_AUTO_XQUEUE_PRIORITY` | -255 to 255, larger is more urgent: a hint to the controller, which has the last word |
//! | `XSCHED_AUTO_XQUEUE_UTILIZATION` | percent of the device: a hint as well |
//! | `XSCHED_AUTO_XQUEUE_DEADLINE` | within how many microseconds each request is to be done: a hint as well |
//! | `XSCHED_SCHEDULER` | `LCL`: no controller, the process's own streams are scheduled among each other by their priorities, or as `XSCHED_POLICY` says; `APP`: neither; `GLB`: the controller says. Without it the controller does, unless there is `XSCHED_POLICY` |
//! | `XSCHED_AUTO_XQUEUE_TIMESLICE`, `_KDEADLINE` | with `LCL`: microseconds of a time slice; how many go side by side under `edf` |
//! | `XSCHED_AUTO_XQUEUE` | `ON`: `XQueueGet` finds a queue for each stream that `HipQueueCreate` was given |
//! | `XSCHED_AUTO_XQUEUE_THRESHOLD`, `_BATCH_SIZE` | commands launched ahead beside more urgent processes, and at once, instead of what the shim finds out; the controller's `in_flight` goes before |
//! | `XSCHED_AUTO_XQUEUE_LEVEL` | 1: nothing is gated on the device, see [`xsched_xqueue`] |
//! | `XSCHED_PASSTHROUGH_LIBS`, `XSCHED_CONFIG` | whose calls pass through, see `verdict.rs` |
//! | `XSCHED_VERBOSE` | `1` or `2`: on standard error, what passes through |
//! | `XSCHED_TEST_SUSPEND` | `random[:seed[:rate]]`, `held[:ms]`, `held-stream[:ms]`: what tests suspend, see `defer/test_suspension.rs` (only with the feature `test-switches`) |
//! | `XSCHED_TEST_VERDICTS` | `random[:seed]`: calls get all verdicts at random, see `verdict/random.rs` (only with the feature `test-switches`) |
//! | `XSCHED_TEST_MEMORY` | `every:N`, `after:N`: which allocations of the shim's own find no memory, see `memory/refusal.rs` (only with the feature `test-switches`) |
//! | `XSCHED_TEST_PANIC` | a function's name: its hook panics (builds with `test-switches` and debug assertions only) |
//!
//! The variables that choose a profiler are read where tables are handed on to one ([`of_profiler`]).
//!
//! In a set-user-id program the environment belongs to another user: there, no variable is read.

use std::ffi::{CStr, OsString};
use std::sync::atomic::{AtomicU8, Ordering};

const UNKNOWN: u8 = 0;
/// The value of [`DISABLED`] once it is known that hooks are not switched off.
pub const NO: u8 = 1;
const YES: u8 = 2;

/// Whether hooks are switched off, as far as that is known: code in assembly reads it. Not a `OnceLock`: in a forked child it could wait
/// for a thread that does not exist there.
pub static DISABLED: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether hooks are switched off. Read once, so that a change does not come between two calls that belong together.
#[inline]
pub fn disabled() -> bool {
    match DISABLED.load(Ordering::Relaxed) {
        UNKNOWN => find_disabled(),
        known => known == YES,
    }
}

#[cold]
fn find_disabled() -> bool {
    let disabled = read("XSCHED_DISABLE").is_some_and(|value| !value.is_empty() && value != "0");
    DISABLED.store(if disabled { YES } else { NO }, Ordering::Relaxed);
    disabled
}

/// Where the shim writes its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// The process's standard error.
    Stderr,
    /// A file, created if need be and appended to.
    File(OsString),
}

/// Where to write; None keeps the shim silent.
pub fn log_target() -> Option<LogTarget> {
    let value = read("XSCHED_LOG").filter(|value| !value.is_empty())?;
    Some(if value == "stderr" { LogTarget::Stderr } else { LogTarget::File(value) })
}

/// What `XSCHED_TEST_SUSPEND` says.
#[cfg(feature = "test-switches")]
pub fn test_suspend() -> Option<String> {
    read("XSCHED_TEST_SUSPEND")?.into_string().ok()
}

/// Libraries whose calls pass through.
pub fn passthrough_libraries() -> Option<String> {
    read("XSCHED_PASSTHROUGH_LIBS")?.into_string().ok()
}

/// The file that configures which calls pass through.
pub fn config() -> Option<OsString> {
    read("XSCHED_CONFIG").filter(|value| !value.is_empty())
}

/// How much is printed about calls that pass through.
pub fn verbosity() -> u8 {
    read("XSCHED_VERBOSE").and_then(|value| value.to_str()?.trim().parse().ok()).unwrap_or(0)
}

/// What `XSCHED_TEST_VERDICTS` says.
#[cfg(feature = "test-switches")]
pub fn test_verdicts() -> Option<String> {
    read("XSCHED_TEST_VERDICTS")?.into_string().ok()
}

/// The controller's folder, if it is not in the usual location.
pub fn socket_folder() -> Option<OsString> {
    read("XSCHED_SOCKET_DIR").filter(|value| !value.is_empty())
}

/// The folder for this user's sockets.
pub fn user_folder() -> Option<OsString> {
    read("XDG_RUNTIME_DIR").filter(|value| !value.is_empty())
}

/// The token that the controller has given to this process and its children.
pub fn token() -> Option<String> {
    read("XSCHED_TOKEN")?.into_string().ok()
}

/// A hint that is a word.
pub fn word(variable: &str) -> Option<String> {
    Some(read(variable)?.to_str()?.trim().to_owned())
}

/// A hint that is a number.
pub fn hint(variable: &str) -> Option<i64> {
    read(variable)?.to_str()?.trim().parse().ok()
}

/// The devices that the runtime has, among those that HSA has.
pub fn visible_devices() -> Option<String> {
    let of = |variable| read(variable).filter(|value| !value.is_empty());
    of("HIP_VISIBLE_DEVICES").or_else(|| of("CUDA_VISIBLE_DEVICES"))?.into_string().ok()
}

/// A variable of rocprofiler-register, unless it is empty.
pub fn of_profiler(variable: &str) -> Option<OsString> {
    read(variable).filter(|value| !value.is_empty())
}

/// What `XSCHED_TEST_MEMORY` says. It allocates nothing, since the allocator asks.
#[cfg(feature = "test-switches")]
pub fn test_memory() -> Option<&'static str> {
    if is_privileged() {
        return None;
    }
    // SAFETY: a C string. Programs that tests run so do not change it.
    unsafe {
        let value = libc::getenv(c"XSCHED_TEST_MEMORY".as_ptr());
        if value.is_null() { None } else { CStr::from_ptr(value).to_str().ok() }
    }
}

/// For tests of what a panic does.
///
/// # Panics
///
/// If `XSCHED_TEST_PANIC` names the function.
#[cfg(all(feature = "test-switches", debug_assertions))]
pub fn panic_if_asked(function: &CStr) {
    let asked = read("XSCHED_TEST_PANIC").is_some_and(|name| name.as_encoded_bytes() == function.to_bytes());
    assert!(!asked, "asked to panic in {}", function.to_string_lossy());
}

/// A build for users has no way to ask for a panic.
#[cfg(not(all(feature = "test-switches", debug_assertions)))]
pub fn panic_if_asked(_: &CStr) {}

fn read(variable: &str) -> Option<OsString> {
    if is_privileged() { None } else { std::env::var_os(variable) }
}

fn is_privileged() -> bool {
    // SAFETY: the call reads one word of the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
