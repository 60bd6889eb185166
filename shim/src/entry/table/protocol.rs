//! The two symbols by which a runtime learns that a profiler wants its tables, and hands them over.
//!
//! Both are needed: with `rocprofiler_configure` alone ROCm aborts the process, with the other alone no table comes.
//! Types and the callback's numbers are from rocprofiler-sdk's `registration.h`, `intercept_table.h` and `fwd.h`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::counters::{self, Trouble};
use crate::entry::table::{chain, patch};
use crate::runtime::copies::TableKind;

/// `ROCPROFILER_HIP_RUNTIME_TABLE`
const RUNTIME_TABLE: c_int = 1 << 1;
/// `ROCPROFILER_HIP_COMPILER_TABLE`
const COMPILER_TABLE: c_int = 1 << 2;

/// Takes a table from the runtime, replaces its entries and hands it on to a profiler.
///
/// # Safety
/// `tables` must be `count` tables that no other thread uses meanwhile, `name` a C string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rocprofiler_set_api_table(
    name: *const c_char,
    version: u64,
    instance: u64,
    tables: *mut *mut c_void,
    count: u64,
) -> c_int {
    if !name.is_null() && !tables.is_null() && count > 0 {
        // SAFETY: the caller's promise.
        let (kind, table) = unsafe { (TableKind::named(CStr::from_ptr(name)), *tables) };
        if let Some(kind) = kind {
            // SAFETY: the caller's promise.
            guarded(|| unsafe { patch(kind, table) });
        }
    }
    let next = catch_unwind(chain::next_receiver).unwrap_or_default();
    // SAFETY: a profiler's function of this name, with the arguments that the shim got.
    next.map_or(0, |next| unsafe { next(name, version, instance, tables, count) })
}

/// Called by rocprofiler-sdk where that gets the tables: the shim asks it to pass them on.
///
/// Null says that the shim is no tool of the profiler: it wants no events and no context.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rocprofiler_configure(
    _version: u32,
    _runtime_version: *const c_char,
    _priority: u32,
    _client: *mut c_void,
) -> *mut c_void {
    guarded(|| {
        if let Some(ask) = chain::table_notifier() {
            // SAFETY: the profiler's function of this name; the callback lives as long as the process, since the
            // shim is never unmapped (`build.rs`).
            unsafe { ask(on_table, RUNTIME_TABLE | COMPILER_TABLE, ptr::null_mut()) };
        }
    });
    ptr::null_mut()
}

/// rocprofiler-sdk's notice that it has replaced entries of a table.
unsafe extern "C" fn on_table(
    kind: c_int,
    _version: u64,
    _instance: u64,
    tables: *mut *mut c_void,
    count: u64,
    _data: *mut c_void,
) {
    let kind = match kind {
        RUNTIME_TABLE => TableKind::Runtime,
        COMPILER_TABLE => TableKind::Compiler,
        _ => return,
    };
    if !tables.is_null() && count > 0 {
        // SAFETY: the profiler passes the tables that it was given.
        guarded(|| unsafe { patch(kind, *tables) });
    }
}

/// A panic must not reach the runtime.
fn guarded(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        counters::trouble(Trouble::Panic);
    }
}
