//! The runtime copies in this process, and how the shim sees the calls of each.
//!
//! A copy's calls come either by its dispatch table or by symbols, never by both. Its first call decides: a runtime
//! that has tables hands them out then. So before an export decides, it makes sure that a copy's first call has
//! happened, by a call that does nothing ([`RuntimeCopy::settle`]).
//!
//! ```text
//!   UNDECIDED --- the runtime hands its table over ----> TABLE     exports jump, the table's entries run hooks
//!            \--- its first call returned, no table ---> SYMBOLS   exports run hooks, a late table is left alone
//! ```
//!
//! Four copies are supported. More are forwarded and counted, and none of their calls is ever deferred.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use xsched_protocol::shim_status::SHIM_COPY_COUNT;
use xsched_xqueue::RuntimeId;

use crate::api::{COUNT, Id, Slot, TABLE};
use crate::counters::{self, Trouble};
use crate::runtime::objects::{Handle, MappedObject};
use crate::status::{CopyStatus, xsched_shim_status};

/// The most copies that are distinguished. Entries of a table carry no context, so each copy has code of its own.
pub(crate) const COPIES_MAX: usize = SHIM_COPY_COUNT;

/// Functions of a copy: those of the list, and behind them numbers for entries of newer tables.
pub(crate) const IDS: usize = 1024;
const _: () = assert!(COUNT < IDS);

/// The real functions behind the tables' entries, by copy and function. The entries' code jumps through it.
pub(crate) static ORIGINALS: [[AtomicPtr<c_void>; IDS]; COPIES_MAX] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; IDS] }; COPIES_MAX];

/// Where tables have the functions, by copy and function.
static ENTRIES: [[TableEntry; COUNT]; COPIES_MAX] =
    [const { [const { TableEntry::new() }; COUNT] }; COPIES_MAX];

/// Where a table has a function, and what the shim has put there.
struct TableEntry {
    at: AtomicPtr<AtomicPtr<c_void>>,
    code: AtomicPtr<c_void>,
}

impl TableEntry {
    const fn new() -> Self {
        Self { at: AtomicPtr::new(ptr::null_mut()), code: AtomicPtr::new(ptr::null_mut()) }
    }
}

static ALL: [RuntimeCopy; COPIES_MAX] = [const { RuntimeCopy::new() }; COPIES_MAX];

/// How the shim sees a copy's calls. With [`Way::Symbols`] the exports run the hooks; with [`Way::Table`] the
/// table's entries do, and exports only jump.
pub(crate) use xsched_protocol::shim_status::ShimWay as Way;

/// The way with this number.
pub(crate) fn way_numbered(number: u32) -> Way {
    const SYMBOLS: u32 = Way::Symbols as u32;
    const TABLE: u32 = Way::Table as u32;
    match number {
        SYMBOLS => Way::Symbols,
        TABLE => Way::Table,
        _ => Way::Undecided,
    }
}

/// Which of a runtime's two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// `"hip_compiler"`
    Compiler = 0,
    /// `"hip"`
    Runtime = 1,
}

impl TableKind {
    /// The table of a slot.
    pub(crate) fn of(slot: Slot) -> Option<Self> {
        match slot {
            Slot::runtime(_) => Some(Self::Runtime),
            Slot::compiler(_) => Some(Self::Compiler),
            Slot::symbol() => None,
        }
    }
}

/// One copy of the runtime.
#[derive(Debug)]
pub(crate) struct RuntimeCopy {
    /// A reference to it that is never released.
    handle: AtomicPtr<c_void>,
    /// Compiled code has called it.
    compiler_called: AtomicBool,
}

/// The real function of one call.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// Its code.
    pub(crate) address: *mut c_void,
    /// The copy that it belongs to; None if it is not known, or there are too many copies.
    pub(crate) copy: Option<&'static RuntimeCopy>,
}

impl RuntimeCopy {
    const fn new() -> Self {
        Self { handle: AtomicPtr::new(ptr::null_mut()), compiler_called: AtomicBool::new(false) }
    }

    /// The slot of a mapped copy, a new one if need be.
    pub(crate) fn of(object: &MappedObject) -> Option<&'static Self> {
        let base = object.start()? as u64;
        for copy in &ALL {
            match copy.status().base.compare_exchange(0, base, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(copy),
                Err(taken) if taken == base => return Some(copy),
                Err(_) => {}
            }
        }
        counters::trouble(Trouble::TooManyCopies);
        None
    }

    /// Its index among the copies.
    pub(crate) fn index(&self) -> usize {
        (ptr::from_ref(self).addr() - ptr::from_ref(&ALL).addr()) / size_of::<Self>()
    }

    /// Its name among the runtimes of queues.
    pub(crate) fn runtime(&self) -> RuntimeId {
        RuntimeId(self.index())
    }

    /// The copy with this index.
    pub(crate) fn at(index: usize) -> &'static Self {
        &ALL[index]
    }

    /// Whether any call has reached it.
    pub(crate) fn is_used(&self) -> bool {
        self.status().base.load(Ordering::Relaxed) != 0
    }

    /// Its part of the status that other processes read.
    pub(crate) fn status(&self) -> &'static CopyStatus {
        &xsched_shim_status.copies[self.index()]
    }

    pub(crate) fn way(&self, kind: TableKind) -> Way {
        way_numbered(self.status().ways[kind as usize].load(Ordering::Acquire))
    }

    /// The way of calls of the function with this slot.
    pub(crate) fn way_of(&self, slot: Slot) -> Way {
        TableKind::of(slot).map_or(Way::Symbols, |kind| self.way(kind))
    }

    /// Chooses the way, once. True if it now is `way`.
    pub(crate) fn choose(&self, kind: TableKind, way: Way) -> bool {
        let chosen = self.status().ways[kind as usize].compare_exchange(
            Way::Undecided as u32,
            way as u32,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        chosen.map_or_else(|before| before == way as u32, |_| true)
    }

    /// The way of calls of the function with this slot, decided as far as that is possible by now.
    ///
    /// The runtime is made to hand out its table by naming an error, which neither opens a device nor changes the
    /// last error. No function of the other table is as harmless. Its way stays undecided during compiled code's
    /// first call, and hooks of that table may run by both ways at once.
    pub(crate) fn settle(&self, slot: Slot) -> Way {
        let Some(kind) = TableKind::of(slot) else { return Way::Symbols };
        if self.way(kind) == Way::Undecided {
            let called = match kind {
                TableKind::Runtime => self.call_once(),
                TableKind::Compiler => self.compiler_called.swap(true, Ordering::AcqRel),
            };
            if called {
                self.choose(kind, Way::Symbols);
            }
        }
        self.way(kind)
    }

    /// Makes a call that does nothing. Afterwards the runtime has handed its table out, if it has one. False if it
    /// cannot be called yet.
    fn call_once(&self) -> bool {
        type GetErrorName = unsafe extern "C" fn(u32) -> *const c_void;
        let Some(handle) = self.handle() else { return false };
        let Some(name) = Handle::borrow(handle).definition(c"hipGetErrorName") else { return true };
        // SAFETY: the symbol's type in every release; 0 is success.
        unsafe { std::mem::transmute::<NonNull<c_void>, GetErrorName>(name)(0) };
        if self.way(TableKind::Runtime) == Way::Table {
            // Its entry has counted the call.
            counters::uncalled(Id::hipGetErrorName as usize);
        }
        true
    }

    /// The shim's code was put into this entry of the copy's table.
    pub(crate) fn has_entry(&self, id: usize, at: &AtomicPtr<c_void>, code: *mut c_void) {
        let Some(entry) = ENTRIES[self.index()].get(id) else { return };
        entry.code.store(code, Ordering::Relaxed);
        entry.at.store(ptr::from_ref(at).cast_mut(), Ordering::Release);
    }

    /// Where calls of this function go that come through the copy's table. None if the copy has no table, or another library has
    /// taken the entry since the shim did.
    #[inline]
    pub(crate) fn behind_table(&self, id: Id) -> Option<*mut c_void> {
        let entry = &ENTRIES[self.index()][id as usize];
        // SAFETY: null, or in a copy's table. A copy that was called stays mapped.
        let at = unsafe { entry.at.load(Ordering::Acquire).as_ref() }?;
        let is_shims = at.load(Ordering::Acquire) == entry.code.load(Ordering::Relaxed);
        let original = ORIGINALS[self.index()][id as usize].load(Ordering::Acquire);
        (is_shims && !original.is_null()).then_some(original)
    }

    fn handle(&self) -> Option<NonNull<c_void>> {
        NonNull::new(self.handle.load(Ordering::Acquire))
    }

    /// Keeps the copy mapped for good: addresses in it that the shim keeps must not dangle.
    pub(crate) fn keep_mapped(&self, object: &MappedObject) {
        if self.handle().is_none()
            && let Some(handle) = Handle::of_mapped(object)
        {
            self.handle.store(handle.keep_mapped().as_ptr(), Ordering::Release);
        }
    }

    /// What its file defines under this name.
    pub(crate) fn definition(&self, name: &CStr) -> Option<NonNull<c_void>> {
        Handle::borrow(self.handle()?).definition(name)
    }

    /// The real function with this number, if this copy has it.
    pub(crate) fn original(&self, id: Id) -> Option<NonNull<c_void>> {
        let original = &ORIGINALS[self.index()][id as usize];
        NonNull::new(original.load(Ordering::Acquire)).or_else(|| {
            let found = self.definition(TABLE[id as usize].name)?;
            original.store(found.as_ptr(), Ordering::Release);
            Some(found)
        })
    }
}
