//! HIP as a [`Device`]: launching a command means calling the real function with the arguments that the command owns.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched_preload::gates::{GateState, Gates};
use xsched_sched::Nanos;
use xsched_xqueue::{Device, GatePage, RuntimeId, Tried};

use crate::counters::{self, Trouble};
use crate::hip::failure::LateFailure;
use crate::hip::gate::{GateOwner, HipGate, HipTrial};
use crate::hip::marker::{HipMarker, HipStream, MarkerPool};
use crate::hip::owned::OwnedCall;
use crate::hip::program::ProgramCommand;
use crate::hip::real;
use crate::planted::{Bug, is_planted};
use crate::reentry::{as_application, stay_inside};
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::StreamName;
use crate::status::xsched_shim_status;

/// The HIP runtimes of this process.
#[derive(Debug)]
pub(crate) struct Hip {
    markers: MarkerPool,
    gates: Gates<GateOwner>,
}

impl Default for Hip {
    fn default() -> Self {
        Self { markers: MarkerPool::default(), gates: Gates::new(&xsched_shim_status.gates) }
    }
}

/// What a command does.
pub(crate) enum HipWork {
    /// A deferred call.
    Call(OwnedCall),
    /// Whatever the program's function does.
    Program(ProgramCommand),
}

/// A command.
pub(crate) struct HipCommand {
    pub(crate) work: HipWork,
    pub(crate) copy: &'static RuntimeCopy,
    /// Its caller's device.
    pub(crate) device: i32,
    /// Where its stream's next call finds the error.
    pub(crate) failure: &'static LateFailure,
}

thread_local! {
    /// Copy and device that this LaunchWorker has set last.
    static DEVICE: Cell<Option<(usize, i32)>> = const { Cell::new(None) };
}

impl Hip {
    /// A device was reset.
    pub(crate) fn forget(&self, copy: &RuntimeCopy, device: i32) {
        self.markers.forget(copy, device);
        self.gates.forget((copy.runtime(), device));
    }
}

impl Device for Hip {
    type Command = HipCommand;
    type Stream = HipStream;
    type Marker = HipMarker;
    type Gate = HipGate;
    type Trial = HipTrial;

    /// AMD's runtime does, inside `hipStreamDestroy`.
    const DESTROY_WAITS: bool = true;

    fn stream_number(&self, stream: HipStream) -> u64 {
        stream.handle().0.addr() as u64
    }

    fn orders_others(&self, stream: HipStream) -> bool {
        stream.name == StreamName::Legacy
    }

    fn runtime(&self, stream: HipStream) -> RuntimeId {
        stream.copy.runtime()
    }

    fn launch(&self, command: HipCommand) -> bool {
        let launched = catch_unwind(AssertUnwindSafe(|| {
            stay_inside();
            let target = (command.copy.index(), command.device);
            if DEVICE.get() != Some(target) && !is_planted(Bug::WrongDevice) {
                real::set_device(command.copy, command.device);
                DEVICE.set(Some(target));
            }
            match command.work {
                // SAFETY: the call owns its arguments, or they are handles and memory. The hooks of the functions that destroy
                // these wait until the commands that use them were launched.
                HipWork::Call(call) => unsafe { call.make() as u32 },
                HipWork::Program(command) => {
                    as_application(|| command.call());
                    // It may have set another one.
                    DEVICE.set(None);
                    // Even a function that fails may have put something on the device.
                    0
                }
            }
        }));
        match launched {
            Ok(0) => return true,
            Ok(code) => {
                counters::trouble(Trouble::LateFailure);
                command.failure.set(code);
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

    fn time_between(&self, earlier: HipMarker, later: HipMarker) -> Option<Nanos> {
        later.since(earlier)
    }

    fn retire(&self, marker: HipMarker) {
        self.markers.retire(marker);
    }

    fn make_gate(&self, stream: HipStream, page: Option<&'static GatePage>) -> Option<HipTrial> {
        let trial = HipTrial::new(stream, page);
        // Without a page, there was nothing else to try.
        let is_tried = trial.is_some() || page.is_some();
        let state = if is_tried { GateState::Tried } else { GateState::None };
        self.gates.note((self.runtime(stream), stream.device), state);
        trial
    }

    fn look_at_trial(&self, trial: &mut HipTrial) -> Tried<HipGate> {
        let tried = trial.look();
        self.gates.note_trial(trial.owner(), &tried, trial.is_shared());
        tried
    }

    fn release_trial(&self, trial: &mut HipTrial) {
        trial.release();
    }

    fn put_gate(&self, gate: HipGate, stream: HipStream) -> bool {
        let is_put = gate.put_before(stream);
        if is_put {
            counters::gate_put();
        } else {
            self.gates.note((self.runtime(stream), stream.device), GateState::None);
        }
        is_put
    }

    fn set_gate(&self, gate: HipGate, is_open: bool) {
        gate.set(is_open);
    }
}
