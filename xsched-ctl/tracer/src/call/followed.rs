//! The link between a call and the execution that it starts.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use super::RuntimeCall;

/// Whether a call is in the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Settled {
    #[default]
    NotYet,
    Written,
    /// A filter has left it out.
    LeftOut,
}

/// A call that is followed to the execution that it starts.
#[derive(Debug)]
pub(crate) struct Followed {
    /// Links it to the execution. Never reused.
    pub(crate) flow: u64,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) api: &'static str,
    pub(crate) kernel: Option<Arc<str>>,
    /// The library to which it belongs, once known.
    origin: OnceCell<Arc<str>>,
    settled: Cell<Settled>,
    /// From the call until its execution begins on the device, once known.
    queue_delay_ns: OnceCell<u64>,
}

impl Followed {
    pub(crate) fn new(flow: u64, call: &RuntimeCall, end_ns: u64) -> Self {
        Self {
            flow,
            begin_ns: call.begin_ns,
            end_ns,
            api: call.probe.name,
            kernel: call.kernel.clone(),
            origin: OnceCell::new(),
            settled: Cell::default(),
            queue_delay_ns: OnceCell::new(),
        }
    }

    /// Its execution began this long after it.
    pub(crate) fn begun(&self, queue_delay_ns: u64) {
        // A call that starts several executions keeps the first one's delay.
        let _ = self.queue_delay_ns.set(queue_delay_ns);
    }

    /// From the call until its execution began on the device, if known.
    pub(crate) fn queue_delay_ns(&self) -> Option<u64> {
        self.queue_delay_ns.get().copied()
    }

    /// It is in the timeline, or will not be; it belongs to this library.
    pub(crate) fn settle(&self, origin: &Arc<str>, is_written: bool) {
        // A second call gives the same values.
        let _ = self.origin.set(Arc::clone(origin));
        self.settled.set(if is_written { Settled::Written } else { Settled::LeftOut });
    }

    pub(crate) fn origin(&self) -> Option<Arc<str>> {
        self.origin.get().cloned()
    }

    pub(crate) fn settled(&self) -> Settled {
        self.settled.get()
    }
}
