//! HIP as a [`Device`]: launching a command means calling the real function with the arguments that it owns.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use xsched_sched::Nanos;

use crate::counters::{self, Trouble};
use crate::defer::gate::HipGate;
use crate::defer::marker::{HipMarker, HipStream, MarkerPool};
use crate::defer::owned::OwnedCall;
use crate::defer::real;
use crate::defer::streams::StreamEntry;
use crate::hooks;
use crate::instances::Instance;
use crate::planted::{Bug, is_planted};
use crate::xqueue::{Device, GatePage};

/// The HIP runtimes of this process.
#[derive(Debug, Default)]
pub(crate) struct Hip {
    markers: MarkerPool,
}

/// A call that was held back.
pub(crate) struct HipCommand {
    pub(super) call: OwnedCall,
    pub(super) copy: &'static Instance,
    /// The device that was its caller's.
    pub(super) device: i32,
    /// Its stream, whose next call tells its failure.
    pub(super) stream: &'static StreamEntry,
}

/// Streams with a failure that no call has told yet.
static UNTOLD_FAILURES: AtomicUsize = AtomicUsize::new(0);

/// Whether any stream's next call has a failure to tell.
pub(super) fn has_untold_failures() -> bool {
    UNTOLD_FAILURES.load(Ordering::Relaxed) != 0
}

/// A stream's next call is to tell this failure.
pub(super) fn note_failure(failure: &AtomicU32, code: u32) {
    if failure.swap(code, Ordering::AcqRel) == 0 {
        UNTOLD_FAILURES.fetch_add(1, Ordering::AcqRel);
    }
}

/// Takes a stream's failure, to tell it.
pub(super) fn take_failure(failure: &AtomicU32) -> Option<u32> {
    // There hardly ever is one, and looking is cheaper.
    let code = if failure.load(Ordering::Acquire) == 0 { 0 } else { failure.swap(0, Ordering::AcqRel) };
    (code != 0).then(|| {
        UNTOLD_FAILURES.fetch_sub(1, Ordering::AcqRel);
        code
    })
}

thread_local! {
    /// Copy and device that this LaunchWorker has set last.
    static DEVICE: Cell<Option<(usize, i32)>> = const { Cell::new(None) };
}

impl Hip {
    /// All devices of a copy may have been reset.
    pub(super) fn forget(&self, copy: &Instance) {
        self.markers.forget(copy);
    }
}

impl Device for Hip {
    type Command = HipCommand;
    type Stream = HipStream;
    type Marker = HipMarker;
    type Gate = HipGate;

    fn stream_number(&self, stream: HipStream) -> u64 {
        stream.handle as u64
    }

    fn orders_others(&self, stream: HipStream) -> bool {
        stream.handle == 0
    }

    fn launch(&self, command: HipCommand) -> bool {
        let launched = catch_unwind(AssertUnwindSafe(|| {
            hooks::stay_inside();
            let place = (command.copy.index(), command.device);
            if DEVICE.get() != Some(place) && !is_planted(Bug::WrongDevice) {
                real::set_device(command.copy, command.device);
                DEVICE.set(Some(place));
            }
            // SAFETY: it owns its arguments, or they are handles and memory that may not be destroyed before
            // what uses them was launched: the hooks of whatever destroys them wait for that.
            unsafe { command.call.make() as u32 }
        }));
        match launched {
            Ok(0) => return true,
            Ok(code) => {
                counters::trouble(Trouble::LateFailure);
                note_failure(&command.stream.failure, code);
            }
            Err(_) => counters::trouble(Trouble::Panic),
        }
        false
    }

    fn mark(&self, stream: HipStream) -> Option<HipMarker> {
        self.markers.record(stream)
    }

    fn is_done(&self, stream: HipStream) -> Option<bool> {
        stream.is_done()
    }

    fn is_complete(&self, marker: HipMarker) -> bool {
        marker.is_complete()
    }

    fn between(&self, earlier: HipMarker, later: HipMarker) -> Option<Nanos> {
        later.since(earlier)
    }

    fn retire(&self, marker: HipMarker) {
        self.markers.retire(marker);
    }

    fn make_gate(&self, stream: HipStream) -> Option<HipGate> {
        HipGate::new(stream)
    }

    fn share_gate(&self, stream: HipStream, page: &'static GatePage) -> Option<HipGate> {
        HipGate::shared(stream, page)
    }

    fn put_gate(&self, gate: HipGate, stream: HipStream) -> bool {
        gate.put_before(stream)
    }

    fn set_gate(&self, gate: HipGate, is_open: bool) {
        gate.set(is_open);
    }
}
