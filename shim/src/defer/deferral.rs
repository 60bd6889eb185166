//! Everything that deferring needs to know, and what is done with all of it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::defer::books::Books;
use crate::defer::claims::Devices;
use crate::defer::controller;
use crate::defer::streams::Nulls;
use crate::ground::counters::{self, Trouble};
use crate::ground::fork::Renewable;
use crate::hip::device::Hip;
use crate::hip::real;
use crate::runtime::copies::RuntimeCopy;
use crate::{planted, verdict};
use xsched_xqueue::{ClaimId, Setup, XQueues};

/// Everything that deferring needs to know.
pub(crate) struct Deferral {
    pub(super) queues: Arc<XQueues<Hip>>,
    books: Mutex<Books>,
    pub(super) nulls: Nulls,
    /// Held while it is made known whether any stream captures. Whether any does, as it was made known last.
    pub(super) captures: Mutex<()>,
    pub(super) is_capturing: AtomicBool,
    devices: Devices,
    /// The process's first use of a device was noted.
    pub(super) is_used: AtomicBool,
}

impl Default for Deferral {
    fn default() -> Self {
        let setup = Setup { trouble: note_trouble, bugs: planted::of_queues() };
        let queues = XQueues::new(Hip::default(), setup);
        queues.await_first_use(true);
        if verdict::is_verbose() {
            queues.observe_all_calls();
        }
        Self {
            queues,
            books: Mutex::default(),
            nulls: Nulls::default(),
            captures: Mutex::default(),
            is_capturing: AtomicBool::new(false),
            devices: Devices::default(),
            is_used: AtomicBool::new(false),
        }
    }
}

pub(crate) static DEFERRAL: Renewable<Deferral> = Renewable::new();

/// Counts what goes wrong in the queues.
pub(super) fn note_trouble(trouble: xsched_xqueue::Trouble) {
    counters::trouble(match trouble {
        xsched_xqueue::Trouble::ControllerFull => Trouble::NoRoom,
        xsched_xqueue::Trouble::UnsentReport => Trouble::UnsentReport,
        xsched_xqueue::Trouble::NoEventRing => Trouble::NoJournal,
        xsched_xqueue::Trouble::Panic => Trouble::Panic,
    });
}

/// The process's queues.
pub(crate) fn deferral() -> &'static Deferral {
    DEFERRAL.get()
}

impl Deferral {
    /// Waits until everything that is deferred was launched.
    pub(crate) fn drain(&self) {
        self.queues.wait_all_launched();
    }

    /// Whether others use the device and nothing keeps this process from it, so that its calls go at once whatever is said
    /// about them.
    pub(super) fn is_urgent(&self) -> bool {
        self.queues.is_urgent()
    }

    /// Never held while waiting, or while calling the runtime.
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the device that the process uses first, and has somebody see to it from now on.
    pub(super) fn note_first_use(&self, copy: &'static RuntimeCopy) {
        if self.is_used.load(Ordering::Acquire) || self.is_used.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(device) = real::current_device(copy) {
            self.claim(copy, device, 0);
        }
        controller::start(&self.queues);
        self.queues.await_first_use(false);
    }

    pub(super) fn claim(&self, copy: &RuntimeCopy, device: i32, priority: i32) -> Option<ClaimId> {
        self.devices.claim(&self.queues, copy, device, priority)
    }
}
