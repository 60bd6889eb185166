//! What the list says about one function.

use std::ffi::CStr;

use crate::abi::{Args as _, ArgumentLocation, Frame, Layout, Ret, Signature};
use crate::api::Id;

/// One function of the list.
pub(crate) struct ApiFunction {
    /// Its number.
    pub(crate) id: Id,
    /// The exported symbol.
    pub(crate) name: &'static CStr,
    pub(crate) family: Family,
    pub(crate) class: Class,
    /// Where a dispatch table has it.
    pub(crate) slot: Slot,
    /// Whether a null stream is the per-thread one: the functions that
    /// `-DHIP_API_PER_THREAD_DEFAULT_STREAM` renames calls to.
    pub(crate) null_stream_is_per_thread: bool,
    /// Where the stream lies that an argument names.
    pub(crate) stream: Option<ArgumentLocation>,
    /// Words of stack that its arguments take.
    pub(crate) stack_words: usize,
    missing: unsafe fn(&Frame) -> u64,
}

/// A function's entry in the dispatch tables that runtimes from ROCm 6.2 on hand to profilers: which table, and the
/// entry's index behind the table's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "the list names the table")]
pub(crate) enum Slot {
    /// `"hip_compiler"`
    compiler(usize),
    /// `"hip"`
    runtime(usize),
    /// In no table: exported by older runtimes only.
    symbol(),
}

/// The file under `hooks/` that a function belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "the list names the module")]
pub(crate) enum Family {
    registration,
    launch,
    copy,
    set,
    stream,
    event,
    synchronise,
    host,
    graph,
    module,
    memory,
    texture,
    external,
    device,
    occupancy,
    error,
    profiling,
}

/// How a call relates to the order of the streams.
///
/// The class is the most that may ever be done with a function; a hook may do less. A function whose order relative
/// to streams was not studied drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "the list names the hook")]
pub(crate) enum Class {
    /// Puts work on a stream and returns nothing that depends on it: may be deferred.
    deferrable,
    /// Waits for work, observes it, takes away what it uses, or changes how it would run: deferred work must be
    /// launched first.
    drains,
    /// Begins, ends or observes stream capture: nothing is deferred or injected meanwhile.
    captures,
    /// Has nothing to do with the order of streams; what it was given and returned is noted.
    observes,
    /// Has nothing to do with the order of streams: forwarded without a look.
    passes,
}

impl ApiFunction {
    /// `name` ends in a zero byte, the only one.
    pub(crate) const fn new<S: Signature>(
        id: Id,
        name: &'static str,
        family: Family,
        class: Class,
        slot: Slot,
    ) -> Self {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            panic!("a function's name must end in its only zero byte")
        };
        Self {
            id,
            name,
            family,
            class,
            slot,
            null_stream_is_per_thread: matches!(name.to_bytes(), [.., b'_', b's', b'p', b't']),
            stream: match S::Args::STREAM {
                Some(argument) => Some(Layout::of::<S>().location(argument)),
                None => None,
            },
            stack_words: Layout::of::<S>().stack_words,
            missing: S::Ret::missing,
        }
    }

    /// What the caller gets if its runtime lacks the function.
    ///
    /// # Safety
    /// `frame` must be of a call to this function.
    pub(crate) unsafe fn missing(&self, frame: &Frame) -> u64 {
        // SAFETY: the caller's promise, and `new` took both from one signature.
        unsafe { (self.missing)(frame) }
    }
}
