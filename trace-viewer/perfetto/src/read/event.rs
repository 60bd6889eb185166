//! The events that readers return, and their parts.

use std::sync::Arc;

use crate::{
    clocks::Clocks,
    identity::{ProcessId, Scope, ThreadId, TrackId},
    stack::Stack,
};

/// An event of a trace, with slices complete.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceEvent {
    /// Readings of the clocks.
    Clocks(Clocks),
    /// A process was described, perhaps not for the first time.
    Process {
        /// The process.
        id: ProcessId,
        /// Its name, if given here.
        name: Option<String>,
        /// Its command line; empty if not given here.
        cmdline: Vec<String>,
    },
    /// A thread was described, perhaps not for the first time.
    Thread {
        /// The thread.
        id: ThreadId,
        /// Its name, if given here.
        name: Option<String>,
    },
    /// A track of neither a process, a thread nor a counter was described, perhaps not for the first time.
    Track {
        /// The track.
        id: TrackId,
        /// The parent below which it is shown.
        parent: Scope,
        /// Its name; empty if it has none.
        name: Arc<str>,
    },
    /// A slice ended, or the trace did.
    Slice(OwnedSlice),
    /// An event without a duration.
    Instant {
        /// The track.
        scope: Scope,
        /// The time, `CLOCK_BOOTTIME` nanoseconds.
        ts_ns: u64,
        /// Its category; empty if it has none.
        category: Arc<str>,
        /// Its name; empty if it has none.
        name: Arc<str>,
        /// Its annotations.
        annotations: Vec<OwnedAnnotation>,
    },
    /// A sample of a counter.
    Counter {
        /// Where the counter is shown.
        scope: Scope,
        /// The counter's name.
        name: Arc<str>,
        /// The time, `CLOCK_BOOTTIME` nanoseconds.
        ts_ns: u64,
        /// The value.
        value: i64,
    },
}

/// [`crate::Slice`] as read back.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedSlice {
    /// The track.
    pub scope: Scope,
    /// When it began, `CLOCK_BOOTTIME` nanoseconds.
    pub begin_ns: u64,
    /// When it ended; `None` if it had not ended at the end of the trace.
    pub end_ns: Option<u64>,
    /// Its category; empty if it has none.
    pub category: Arc<str>,
    /// Its name; empty if it has none.
    pub name: Arc<str>,
    /// Its annotations.
    pub annotations: Vec<OwnedAnnotation>,
    /// Flows that begin here or pass through.
    pub flows: Vec<u64>,
    /// Flows that end here.
    pub ended_flows: Vec<u64>,
    /// The call stack, if the trace has it.
    pub stack: Option<Stack>,
}

/// [`crate::Annotation`] as read back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnedAnnotation<T = Arc<str>> {
    /// Its name.
    pub name: T,
    /// Its value.
    pub value: OwnedValue<T>,
}

/// [`crate::Value`] as read back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OwnedValue<T = Arc<str>> {
    /// A text.
    Str(T),
    /// An unsigned number.
    U64(u64),
    /// A signed number.
    I64(i64),
    /// A floating-point number.
    F64(f64),
    /// An address or handle.
    Pointer(u64),
    /// A truth value.
    Bool(bool),
    /// A type of value that the writer does not write, such as a dictionary.
    Other,
}

/// An event as it is encoded in the trace. Times are `CLOCK_BOOTTIME` nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawEvent<T> {
    /// Readings of the clocks.
    Clocks(Clocks),
    /// A process was described, perhaps not for the first time.
    Process {
        /// The process.
        id: ProcessId,
        /// Its name, if given here.
        name: Option<String>,
        /// Its command line; empty if not given here.
        cmdline: Vec<String>,
    },
    /// A thread was described, perhaps not for the first time.
    Thread {
        /// The thread.
        id: ThreadId,
        /// Its name, if given here.
        name: Option<String>,
    },
    /// A track of neither a process, a thread nor a counter was described, perhaps not for the first time.
    Track {
        /// The track.
        id: TrackId,
        /// The parent below which it is shown.
        parent: Scope,
        /// Its name; empty if it has none.
        name: T,
    },
    /// A slice begins; see [`crate::RawEventReader::details`].
    Begin {
        /// The uuid of its track, which its end has, too.
        track: u64,
        /// The track.
        scope: Scope,
        /// The time.
        ts_ns: u64,
    },
    /// The slice ends that began last on a track and has not ended.
    End {
        /// The uuid of the track.
        track: u64,
        /// The time.
        ts_ns: u64,
    },
    /// A whole slice, of a queue of a GPU; see [`crate::RawEventReader::details`].
    Whole {
        /// The track.
        scope: Scope,
        /// When it began.
        begin_ns: u64,
        /// When it ended.
        end_ns: u64,
    },
    /// An event without a duration; see [`crate::RawEventReader::details`].
    Instant {
        /// The track.
        scope: Scope,
        /// The time.
        ts_ns: u64,
    },
    /// A sample of a counter.
    Counter {
        /// Where the counter is shown.
        scope: Scope,
        /// The counter's name.
        name: T,
        /// The time.
        ts_ns: u64,
        /// The value.
        value: i64,
    },
}

/// The details of a slice or an instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventDetails<T> {
    /// Its category; empty if it has none.
    pub category: T,
    /// Its name; empty if it has none.
    pub name: T,
    /// Its annotations.
    pub annotations: Vec<OwnedAnnotation<T>>,
    /// Flows that begin here or pass through.
    pub flows: Vec<u64>,
    /// Flows that end here.
    pub ended_flows: Vec<u64>,
    /// The call stack, if the trace has it.
    pub stack: Option<Stack<T>>,
}

impl<T: Default> EventDetails<T> {
    /// Clears everything; keeps the memory of the lists.
    pub(super) fn clear(&mut self) {
        (self.category, self.name) = Default::default();
        self.annotations.clear();
        self.flows.clear();
        self.ended_flows.clear();
        self.stack = None;
    }
}
