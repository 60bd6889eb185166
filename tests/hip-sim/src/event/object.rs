//! What an event is: what it was recorded for.

use std::sync::{Arc, Mutex};

use crate::capture::Moment;
use crate::engine::Completion;
use crate::error::HipError;
use crate::handles::Handles;
use crate::runtime::table;

pub(super) const FLAG_DISABLE_TIMING: u32 = 0x2;

/// An event.
pub(crate) struct Event {
    flags: u32,
    record: Mutex<Option<Record>>,
}

table! {
    /// All events.
    pub(crate) listed: Handles<Event> = Handles::default()
}

/// What an event refers to.
#[derive(Clone)]
enum Record {
    Submitted {
        completion: Arc<Completion>,
        /// Bound by a launch instead of `hipEventRecord`: two such events measure the kernel alone.
        by_launch: bool,
    },
    Captured(Moment),
}

impl Event {
    pub(super) fn new(flags: u32) -> Self {
        Self { flags, record: Mutex::new(None) }
    }

    /// Completion of the latest record; none if the event was never recorded or was recorded in a capture.
    pub(crate) fn completion(&self) -> Option<Arc<Completion>> {
        match self.record()? {
            Record::Submitted { completion, .. } => Some(completion),
            Record::Captured(_) => None,
        }
    }

    /// The captured work that it refers to, if the capture is still in progress.
    pub(crate) fn moment(&self) -> Option<Moment> {
        match self.record()? {
            Record::Captured(moment) if !moment.session.is_over() => Some(moment),
            _ => None,
        }
    }

    /// Binds the event to a marker.
    pub(crate) fn record_completion(&self, completion: Arc<Completion>) {
        self.set(Record::Submitted { completion, by_launch: false });
    }

    /// Binds the event to a kernel's own completion, or to a marker before the kernel.
    pub(crate) fn bind_to_launch(&self, completion: Arc<Completion>) {
        self.set(Record::Submitted { completion, by_launch: true });
    }

    fn record(&self) -> Option<Record> {
        self.record.lock().expect("no holder panics").clone()
    }

    /// Binds the event to captured work.
    pub(super) fn record_captured(&self, moment: Moment) {
        self.set(Record::Captured(moment));
    }

    fn set(&self, record: Record) {
        *self.record.lock().expect("no holder panics") = Some(record);
    }

    /// The record that has a time, and whether a launch made it.
    pub(super) fn submitted(&self) -> Result<(Arc<Completion>, bool), HipError> {
        match self.record() {
            Some(Record::Submitted { completion, by_launch }) => Ok((completion, by_launch)),
            _ => Err(HipError::InvalidHandle),
        }
    }

    pub(super) fn is_timed(&self) -> bool {
        self.flags & FLAG_DISABLE_TIMING == 0
    }
}
