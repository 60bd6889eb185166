//! The dispatch tables of runtimes from ROCm 6.2 on: received, patched, and handed on.
//!
//! Every function that such a runtime exports jumps through a table. At its first call the runtime offers the table
//! to a profiler, by `rocprofiler_set_api_table`, which rocprofiler-register calls. The shim takes the profiler's
//! part: it replaces entries by code of its own, and hands the table on to a real profiler if there is one. This
//! shows calls that symbols cannot: of functions found by `dlsym` or `hipGetProcAddress`, and of runtimes that were
//! loaded with `RTLD_LOCAL`.
//!
//! ```text
//!   size_t size | entry 0 | entry 1 | ..          append-only: `size` bounds what may be read
//! ```
//!
//! All entries are replaced, also those that only count. Entries behind those that the list knows belong to newer
//! releases. They drain: what they do is unknown.

mod chain;
mod entries;
mod protocol;

use std::ffi::{CStr, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

use xsched_preload::env;

use crate::api::{COUNT, KNOWN_ENTRIES, Slot, TABLE};
use crate::counters::{self, Trouble};
use crate::entry::table::entries::Code;
use crate::runtime::copies::{IDS, ORIGINALS, RuntimeCopy, TableKind, Way};
use crate::{entry, runtime};

/// No table has so many entries, nor will soon; a larger size is no table.
const ENTRIES_MAX: usize = 4096;

impl TableKind {
    /// The kind of a table with this name.
    fn named(name: &CStr) -> Option<Self> {
        match name.to_bytes() {
            b"hip_compiler" => Some(Self::Compiler),
            b"hip" => Some(Self::Runtime),
            // HSA's, RCCL's and others'
            _ => None,
        }
    }

    /// The index of a slot in this table.
    fn entry(self, slot: Slot) -> Option<usize> {
        match (self, slot) {
            (Self::Compiler, Slot::compiler(entry)) | (Self::Runtime, Slot::runtime(entry)) => Some(entry),
            _ => None,
        }
    }
}

/// Replaces the entries of a runtime's table.
///
/// # Safety
/// `table` must point to a dispatch table that no other thread reads or writes meanwhile.
unsafe fn patch(kind: TableKind, table: *mut c_void) {
    if env::disabled() {
        return;
    }
    entry::prepare();
    let Some(first) = ptr::NonNull::new(table) else { return };
    // SAFETY: a table begins with its size, by the caller's promise.
    let count = (unsafe { first.cast::<usize>().read() } / size_of::<usize>()).saturating_sub(1);
    if count > ENTRIES_MAX {
        return;
    }
    // SAFETY: the size says how many entries follow. They are only accessed atomically from now on, since the
    // runtime reads them without a lock.
    let entries = unsafe { slice::from_raw_parts(first.cast::<AtomicPtr<c_void>>().as_ptr().add(1), count) };

    // A profiler may have replaced entries before, but is unlikely to have moved the table.
    let in_entries = entries.iter().map(|entry| entry.load(Ordering::Relaxed).addr());
    let Some(copy) = runtime::copy_of([table.addr()].into_iter().chain(in_entries)) else { return };
    if copy.way(kind) == Way::Table {
        // The same table again, on another path.
        return;
    }
    if !copy.choose(kind, Way::Table) {
        counters::trouble(Trouble::LateTable);
        return;
    }
    replace(copy, kind, entries);
}

fn replace(copy: &RuntimeCopy, kind: TableKind, entries: &[AtomicPtr<c_void>]) {
    let known = TABLE
        .iter()
        .enumerate()
        .filter_map(|(id, function)| Some((id, kind.entry(function.slot)?, Code::of(function))));
    let known_entries = KNOWN_ENTRIES[kind as usize];
    // Only the runtime's table grows; newer entries of the other are left alone.
    let newer = (known_entries..entries.len()).take(IDS - COUNT).filter(|_| kind == TableKind::Runtime);
    let newer = newer.map(|entry| (COUNT + entry - known_entries, entry, Code::Hooked));
    for (id, entry, code) in known.chain(newer) {
        let Some(entry) = entries.get(entry) else { continue };
        let original = entry.load(Ordering::Relaxed);
        if original.is_null() {
            continue;
        }
        let status = copy.status();
        status.entries.fetch_add(1, Ordering::Relaxed);
        status.newer_entries.fetch_add(u32::from(id >= COUNT), Ordering::Relaxed);
        ORIGINALS[copy.index()][id].store(original, Ordering::Release);
        let code = code.of_copy(copy.index(), id);
        entry.store(code, Ordering::Release);
        copy.has_entry(id, entry, code);
    }
}

#[cfg(test)]
mod tests;
