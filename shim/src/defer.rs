//! Deferring: which HIP calls are held back in XQueues, which wait in place, and which pass.
//!
//! ```text
//!   is anything suspended or held back? -- no ---> the real function, at once
//!            | yes
//!   must this call wait? ----------------- no ---> the real function, at once
//!            | yes
//!   can it be made later? ---------------- yes --> held back, success returned
//!            | no
//!   wait until it is its turn -------------------> the real function
//! ```
//!
//! Two questions come from the hooks. Calls that put work on a stream ask [submission]; calls that observe work, wait for
//! it or take something away that it uses ask [ordering]. Both find the call's stream by [finding], learn from [books]
//! what the call comes after, leave the waiting to [`crate::xqueue`], and answer with a [`Decision`]. What a call must own
//! to be made later is in [own] and [owned]; while a stream captures, [capturing] decides.
//!
//! That is so for calls that are scheduled. Others go at once, behind what they come after, see [`crate::verdict`].
//!
//! The first call that concerns a stream also begins what has to do with other processes: the device is claimed, and the
//! [watcher](crate::arbiter) started.

mod books;
mod capturing;
mod claims;
mod decision;
mod device;
mod finding;
mod gate;
mod load;
mod marker;
mod ordering;
mod own;
mod owned;
mod real;
mod stopped;
mod streams;
mod submission;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::controller;
use crate::instances::Instance;
use crate::process::Renewable;
use crate::xqueue::{ClaimId, Setup, Usage, XQueues};
use crate::{counters, planted, verdict};
use books::Books;
use claims::Devices;
use device::Hip;
use streams::Nulls;

pub(crate) use capturing::{capture_begins, capture_ended};
pub(crate) use claims::device_set;
pub(crate) use decision::Decision;
#[cfg(test)]
pub(crate) use finding::tests as finding_tests;
pub(crate) use finding::{device_reset, stream_created, stream_destroyed};
pub(crate) use ordering::order;
pub(crate) use stopped::{Stopped, StreamName};
pub(crate) use submission::{goes_by, submit};

/// How long an ending process waits for what it has held back.
const EXIT_LIMIT: Duration = Duration::from_secs(5);
/// Everything that deferring needs to know.
pub(crate) struct Deferral {
    queues: Arc<XQueues<Hip>>,
    books: Mutex<Books>,
    nulls: Nulls,
    /// Held while it is made known whether any stream captures. Whether any does, as it was made known last.
    captures: Mutex<()>,
    is_capturing: AtomicBool,
    devices: Devices,
    /// The process's first use of a device was noted.
    is_used: AtomicBool,
}

impl Default for Deferral {
    fn default() -> Self {
        let setup = Setup { trouble: counters::trouble_of_queues, bugs: planted::of_queues() };
        let queues = XQueues::new(Hip::default(), setup);
        queues.await_first_use(true);
        if verdict::is_verbose() {
            queues.look_at_all();
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

static DEFERRAL: Renewable<Deferral> = Renewable::new();

/// Whether any call may have to wait, or others want to know of it. So it is until the first use of a device; a process that
/// has its devices for itself pays two loads for it.
pub(crate) fn is_engaged() -> bool {
    DEFERRAL.existing().is_none_or(|deferral| deferral.queues.is_engaged() || device::has_untold_failures())
}

/// Whether others use the device and nothing keeps this process from it, so that its calls go at once whatever is said
/// about them.
pub(crate) fn is_urgent() -> bool {
    DEFERRAL.existing().is_some_and(|deferral| deferral.queues.is_urgent())
}

/// In a forked child: what is held back is its parent's.
pub(crate) fn begin_afresh() {
    DEFERRAL.renew();
    streams::renew();
    claims::renew();
}

/// The process ends: lets everything go.
pub(crate) fn close() {
    if let Some(deferral) = DEFERRAL.existing() {
        deferral.queues.close(Instant::now() + EXIT_LIMIT);
    }
}

/// What the process has used beside others; nothing if it was always alone.
pub(crate) fn usage() -> Option<Usage> {
    DEFERRAL.existing()?.queues.total_usage().filter(|usage| *usage != Usage::default())
}

/// The process's queues.
pub(crate) fn deferral() -> &'static Deferral {
    DEFERRAL.get()
}
/// A call that nobody knows anything about.
pub(crate) fn drain() {
    deferral().queues.wait_all_launched();
}

impl Deferral {
    /// Holds everything back from now on; false lets it go again.
    pub(crate) fn suspend_process(&self, suspended: bool) {
        self.queues.suspend_all(suspended);
    }

    /// Holds one of the queues back, whichever this number means; `suspended` false lets it go again.
    ///
    /// False if there is no queue yet.
    pub(crate) fn suspend_one(&self, number: usize, suspended: bool) -> bool {
        let queue = self.books().nth_queue(number);
        if let Some(queue) = queue {
            self.queues.suspend(queue, suspended);
        }
        queue.is_some()
    }

    /// Whether anything is held back, or anybody waits.
    pub(crate) fn is_holding(&self) -> bool {
        self.queues.is_holding()
    }

    /// Lets everything go.
    pub(crate) fn resume(&self) {
        let queues = self.books().queues();
        for queue in queues {
            self.queues.suspend(queue, false);
        }
        self.queues.suspend_all(false);
    }

    /// Never held while waiting, or while calling the runtime.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the device that the process uses first, and has somebody see to it from now on.
    fn note_first_use(&self, copy: &'static Instance) {
        if self.is_used.load(Ordering::Acquire) || self.is_used.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(device) = real::current_device(copy) {
            self.claim(copy, device, 0);
        }
        controller::start(&self.queues);
        self.queues.await_first_use(false);
    }

    fn claim(&self, copy: &Instance, device: i32, priority: i32) -> Option<ClaimId> {
        self.devices.claim(&self.queues, copy, device, priority)
    }
}
