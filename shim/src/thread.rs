//! What each thread has of the shim's in the part of its memory that is there from its start: the code of exports and of tables'
//! entries reads it in assembly, and a call of the C library's for each access would be a tenth of what a launch costs.
//!
//! ```text
//!   0                        8              9               10            11            15
//!   +------------------------+--------------+---------------+-------------+-------------+
//!   | set of counters, null  | inside a     | the shim's    | has asked   | own streams |
//!   | before the first count | hook         | own thread    | for a set   | are noted   |
//!   +------------------------+--------------+---------------+-------------+-------------+
//! ```

use std::arch::{asm, global_asm};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr};

use xsched_protocol::shim_status::SHIM_COPY_COUNT;

global_asm!(
    ".pushsection .tbss.xsched_hip_thread,\"awT\",@nobits",
    ".globl xsched_hip_thread",
    ".hidden xsched_hip_thread",
    ".type xsched_hip_thread, @object",
    ".size xsched_hip_thread, {size}",
    ".p2align 3",
    "xsched_hip_thread:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<ThreadWords>(),
);

/// What a thread has. Only its own thread and that thread's signal handlers access it, so nothing is ordered.
#[repr(C)]
pub(crate) struct ThreadWords {
    /// Its set of counters; null if it has none. First: the assembly reads it.
    pub(crate) counters: AtomicPtr<c_void>,
    /// Whether it is inside a hook.
    pub(crate) is_inside_hook: AtomicBool,
    /// Whether it is the shim's own.
    pub(crate) is_shims: AtomicBool,
    /// Whether it has asked for a set of counters before, whatever has become of that.
    pub(crate) has_asked_for_counters: AtomicBool,
    /// By runtime copy: whether its own stream there was noted, for its end.
    pub(crate) has_noted_own_stream: [AtomicBool; SHIM_COPY_COUNT],
}

const _: () = assert!(std::mem::offset_of!(ThreadWords, counters) == 0);

/// Where the assembly finds the other words.
pub(crate) const INSIDE_HOOK: usize = std::mem::offset_of!(ThreadWords, is_inside_hook);
/// As above.
pub(crate) const NOTED_OWN_STREAM: usize = std::mem::offset_of!(ThreadWords, has_noted_own_stream);

/// The calling thread's. They must not be used by another one.
#[inline]
pub(crate) fn own() -> &'static ThreadWords {
    let words: *const ThreadWords;
    // SAFETY: the loader has put the place of the words in a thread's memory there, and the ABI the address of that memory. Both stay
    // the same while the thread runs. Zeroes are words without anything.
    unsafe {
        asm!(
            "mov {words}, qword ptr [rip + xsched_hip_thread@GOTTPOFF]",
            "add {words}, fs:[0]",
            words = out(reg) words,
            options(pure, nomem, nostack)
        );
        &*words
    }
}
