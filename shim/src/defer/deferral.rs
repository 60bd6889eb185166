//! The state of deferring, and actions on all of it at once.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_preload::fork::Renewable;
use xsched_preload::programs::ANSWER_LIMIT;
use xsched_xqueue::{AdmissionMode, ClaimId, Setup, XQueues};

use crate::counters::{self, Trouble};
use crate::defer::claims::Devices;
use crate::defer::controller::Scheduler;
use crate::defer::dependencies::Dependencies;
use crate::defer::streams::StreamIndex;
use crate::hip::device::Hip;
use crate::hip::real;
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::Stopped;
use crate::{planted, verdict};

/// The state of deferring.
pub(crate) struct Deferral {
    pub(super) queues: Arc<XQueues<Hip>>,
    dependencies: Mutex<Dependencies>,
    pub(super) streams: StreamIndex,
    /// Held while the queues are informed whether any stream captures.
    pub(super) captures: Mutex<()>,
    /// Whether any did, when the queues were last informed.
    pub(super) is_capturing: AtomicBool,
    /// A capture has ended without a graph, and streams may be left over from it.
    pub(super) has_broken_captures: AtomicBool,
    pub(super) devices: Devices,
    scheduler: Mutex<Scheduler>,
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
            dependencies: Mutex::default(),
            streams: StreamIndex::default(),
            captures: Mutex::default(),
            is_capturing: AtomicBool::new(false),
            has_broken_captures: AtomicBool::new(false),
            devices: Devices::default(),
            scheduler: Mutex::default(),
            is_used: AtomicBool::new(false),
        }
    }
}

pub(crate) static DEFERRAL: Renewable<Deferral> = Renewable::new();

/// Counts errors of the queues.
pub(super) fn note_trouble(trouble: xsched_xqueue::Trouble) {
    counters::trouble(match trouble {
        xsched_xqueue::Trouble::ControllerFull => Trouble::ControllerFull,
        xsched_xqueue::Trouble::UnsentReport => Trouble::UnsentReport,
        xsched_xqueue::Trouble::LostConnection => Trouble::LostConnection,
        xsched_xqueue::Trouble::NoEventRing => Trouble::NoEventRing,
        xsched_xqueue::Trouble::RefusedGate => Trouble::RefusedGate,
        xsched_xqueue::Trouble::Panic => Trouble::Panic,
    });
}

/// The process's state.
pub(crate) fn deferral() -> &'static Deferral {
    let deferral = DEFERRAL.get();
    if ptr::eq(MODE.load(Ordering::Relaxed), &raw const NOT_YET) {
        MODE.store(ptr::from_ref(deferral.queues.admission_mode_word()).cast_mut(), Ordering::Release);
    }
    deferral
}

/// Where the admission mode is read. The code of exports and of tables' entries reads it, too.
pub(crate) static MODE: AtomicPtr<AtomicU8> = AtomicPtr::new((&raw const NOT_YET).cast_mut());

/// The mode until there is a state: every call is looked at.
static NOT_YET: AtomicU8 = AtomicU8::new(AdmissionMode::UnderLock as u8);

/// Whether launches may be made without a look at the state.
pub(super) fn is_open() -> bool {
    // SAFETY: a static, or part of a state, which is never freed. Acquire pairs with the queues' release.
    unsafe { (*MODE.load(Ordering::Acquire)).load(Ordering::Acquire) == AdmissionMode::Open as u8 }
}

/// In a forked child: deferred calls are its parent's.
pub(super) fn renew_after_fork() {
    MODE.store((&raw const NOT_YET).cast_mut(), Ordering::Relaxed);
    DEFERRAL.renew();
}

impl Deferral {
    /// Waits until everything that is deferred was launched.
    pub(crate) fn drain(&self) {
        self.queues.wait_all_launched();
    }

    /// Whether a call is not kept waiting for its verdict. Either any verdict would let it go at once, or a more urgent stream of
    /// its process is at work, whose thread may need what the caller holds.
    pub(super) fn needs_no_verdict(&self, call: &Stopped<'_>) -> bool {
        let is_behind_own = || {
            let stream = call.target.copy.and_then(|copy| self.known_stream(call, copy));
            stream.is_some_and(|stream| self.queues.is_behind_own(stream.queue(), ANSWER_LIMIT))
        };
        self.queues.is_urgent() || is_behind_own()
    }

    /// Never held while waiting, or while calling the runtime.
    pub(super) fn dependencies(&self) -> MutexGuard<'_, Dependencies> {
        self.dependencies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the device that the process uses first, and starts the client of the controller.
    pub(super) fn note_first_use(&self, copy: &'static RuntimeCopy) {
        if self.is_used.load(Ordering::Acquire) || self.is_used.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(device) = real::current_device(copy) {
            self.claim(copy, device, 0);
        }
        self.scheduler().start(&self.queues);
        self.queues.await_first_use(false);
    }

    pub(super) fn scheduler(&self) -> MutexGuard<'_, Scheduler> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn claim(&self, copy: &RuntimeCopy, device: i32, priority: i32) -> Option<ClaimId> {
        self.devices.claim(&self.queues, copy, device, priority)
    }
}
