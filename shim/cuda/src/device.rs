//! libcuda as a [`Device`] of queues.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched_preload::gates::{GateState, Gates};
use xsched_preload::log;
use xsched_sched::{Limit, Nanos};
use xsched_xqueue::{Device, GatePage, RuntimeId, Tried};

use crate::api::Named;
use crate::command::{Command, fail_late, made};
use crate::counters::{Counter, count};
use crate::driver::{self, Context, SUCCESS};
use crate::gate::{CudaGate, CudaTrial};
use crate::marker::{CudaMarker, CudaStream, MarkerPool};
use crate::registration::{self, Registrations, Unregistered};
use crate::status::xsched_cuda_status;

/// The calls of this thread, which launches what was deferred, end no capture.
fn ignore_captures() {
    thread_local! {
        static IGNORES: Cell<bool> = const { Cell::new(false) };
    }
    if !IGNORES.replace(true) {
        driver::ignore_captures();
    }
}

/// The contexts of this process.
#[derive(Debug)]
pub(crate) struct Cuda {
    pub(crate) markers: MarkerPool,
    pub(crate) registrations: Registrations,
    pub(crate) gates: Gates<Context>,
}

impl Default for Cuda {
    fn default() -> Self {
        Self {
            markers: MarkerPool::default(),
            registrations: Registrations::default(),
            gates: Gates::new(&xsched_cuda_status.contexts),
        }
    }
}

impl Device for Cuda {
    type Command = Command;
    type Stream = CudaStream;
    type Marker = CudaMarker;
    type Gate = CudaGate;
    type Trial = CudaTrial;

    const GATE_MAPPINGS: usize = registration::CONTEXTS;

    /// A gate costs 2 us of the device and as much of the thread. The driver's own slices are 2 ms.
    const GATE_EVERY: Nanos = Nanos::from_micros(500);
    const GATE_EVERY_LEAST: Nanos = Nanos::from_micros(50);
    /// Preempted 10 times a second, a program of short kernels pays 0.5 % for gates; 40 times, 2 %.
    const GATES_FOR_PREEMPTION: u64 = 200;

    /// The host of a training is often milliseconds ahead of its device. The driver takes 1,000 launches behind a closed gate, gates and
    /// markers included.
    const GATED: Limit = Limit::Time { ahead: Nanos::from_millis(8), commands: 2, most: 384 };

    fn stream_number(&self, stream: CudaStream) -> u64 {
        stream.handle() as u64
    }

    fn orders_others(&self, stream: CudaStream) -> bool {
        stream.name == Named::Legacy
    }

    /// PyTorch's streams are not, so its work on the null stream is followed as that of others.
    fn is_ordered(&self, stream: CudaStream) -> bool {
        stream.is_blocking
    }

    /// Each context counts as a runtime of its own: registered memory, events and streams belong to it, and go with it. So does a
    /// green one, whose gate is in its primary context's mapping: it can be refused or go without the other's.
    fn runtime(&self, stream: CudaStream) -> RuntimeId {
        RuntimeId(stream.context.0)
    }

    fn launch(&self, command: Command) -> bool {
        let launched = catch_unwind(AssertUnwindSafe(|| {
            ignore_captures();
            command.launch()
        }));
        // What is put on other streams from now on comes after it.
        made();
        match launched {
            Ok(SUCCESS) => return true,
            Ok(code) => {
                count(Counter::LateFailure);
                log::write(&format!("xsched-cuda: the driver refused a deferred call with {code}\n"));
                fail_late(code);
            }
            Err(_) => count(Counter::Panic),
        }
        false
    }

    fn mark(&self, stream: CudaStream) -> Option<CudaMarker> {
        self.markers.record(stream)
    }

    fn is_done(&self, stream: CudaStream) -> Option<bool> {
        stream.is_done()
    }

    fn is_complete(&self, marker: CudaMarker) -> bool {
        marker.is_complete()
    }

    fn time_between(&self, earlier: CudaMarker, later: CudaMarker) -> Option<Nanos> {
        later.since(earlier)
    }

    fn retire(&self, marker: CudaMarker) {
        self.markers.retire(marker);
    }

    fn make_gate(&self, stream: CudaStream, page: Option<&'static GatePage>) -> Option<CudaTrial> {
        let made = CudaTrial::new(stream, page, &self.registrations);
        self.gates.note(
            stream.context,
            match made {
                Err(Unregistered::UsedUp) => GateState::Beyond,
                // Without a page, there was nothing else to try.
                Err(Unregistered::Refused) if page.is_none() => GateState::None,
                Ok(_) | Err(Unregistered::Refused) => GateState::Tried,
            },
        );
        made.ok()
    }

    fn look_at_trial(&self, trial: &mut CudaTrial) -> Tried<CudaGate> {
        let tried = trial.look();
        self.gates.note_trial(trial.owner(), &tried, trial.is_shared());
        tried
    }

    fn release_trial(&self, trial: &mut CudaTrial) {
        trial.release();
    }

    fn put_gate(&self, gate: CudaGate, stream: CudaStream) -> bool {
        gate.put_before(stream)
    }

    fn set_gate(&self, gate: CudaGate, is_open: bool) {
        gate.set(is_open);
    }
}
