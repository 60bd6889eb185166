//! What the shim knows of the process: its queues, its streams, and which of them capture. What is deferred: `scheduling/deferring.rs`.

mod captures;
mod deferring;
mod streams;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use xsched_preload::fork::Renewable;
use xsched_protocol::verdict::{Action, Judgement};
use xsched_xqueue::{
    Admission, AdmissionAtOnce, AdmissionMode, Bugs, ClaimId, Demand, DurationClass, JournalledLaunch,
    KnownEnd, Load, PendingLaunch, QueueHints, QueueId, RuntimeId, Setup, Treatment, XQueues,
};

use crate::api::{Change, DeviceCopy, Handle, Launch, Named, Work};
use crate::claims::{Devices, TooManyHints};
use crate::collectives::is_collective;
use crate::command::or_late_failure;
use crate::controller;
use crate::counters::{Counter, count};
use crate::device::Cuda;
use crate::driver::{self, Code, Context, SUCCESS};
use crate::graphs::Graphs;
use crate::green;
use crate::kernels::{CallKind, Kernels};
use crate::marker::CudaStream;
use crate::process;
use crate::rules::{self, CallSite};
use crate::scheduling::captures::{Reasons, is_in_capture};
use crate::scheduling::streams::{KnownStream, Streams};
use crate::seen::Seen;
#[cfg(feature = "test-switches")]
use crate::test_suspension;

/// The state of scheduling.
pub(crate) struct Scheduling {
    pub(crate) queues: Arc<XQueues<Cuda>>,
    streams: Streams,
    devices: Devices,
    /// The process's first use of a device was noted.
    is_used: AtomicBool,
    reasons: Mutex<Reasons>,
    /// Whether any stream captures.
    is_capturing: AtomicBool,
    /// Treatments of functions, by address.
    treatments: Mutex<HashMap<usize, Treatment, FixedState>>,
    /// Functions that are scheduled, of `treatments` and changed under its lock.
    scheduled: Seen,
    pub(crate) graphs: Graphs,
    pub(crate) kernels: Kernels,
}

/// What becomes of a call that puts work on a stream.
#[derive(Debug, Default)]
pub(crate) enum Decision {
    /// The call is made now, and its completion is not followed.
    #[default]
    Pass,
    /// The call is made now. None: its completion is not followed. If the driver takes the call, it also takes later ones of that
    /// kind.
    Make(Option<Begun>, Option<CallKind>),
    /// The call is deferred. Its caller gets this answer.
    Answer(Code),
}

/// Work that may go now.
#[derive(Debug)]
pub(crate) enum Begun {
    /// The launch took no lock of the queues.
    AtOnce(JournalledLaunch),
    /// It is large, and decisions are moved.
    Pending(Box<PendingLaunch<Cuda>>),
}

/// What became of a hint for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hinted {
    Done,
    TooMany,
    Unknown,
}

pub(crate) static SCHEDULING: Renewable<Scheduling> = Renewable::new();

impl Default for Scheduling {
    fn default() -> Self {
        let setup = Setup { trouble: |_| count(Counter::Trouble), bugs: Bugs::NONE };
        let queues = XQueues::new(Cuda::default(), setup);
        queues.await_first_use(true);
        Self {
            queues,
            streams: Streams::default(),
            devices: Devices::default(),
            is_used: AtomicBool::new(false),
            reasons: Mutex::default(),
            is_capturing: AtomicBool::new(false),
            treatments: Mutex::default(),
            scheduled: Seen::default(),
            graphs: Graphs::default(),
            kernels: Kernels::default(),
        }
    }
}

/// Not held while calling the driver, nor, but for [`Reasons`], while waiting.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scheduling {
    /// Work is about to be put on a stream: it is deferred, within a call that `announce` makes, or waits until it may go.
    pub(crate) fn submit(&self, named: Named, work: &Work, site: CallSite, announce: &dyn Fn()) -> Decision {
        self.note_first_use();
        if self.is_capturing.load(Ordering::Acquire) {
            // A thread that begins a capture may still wait for what is deferred. This call must not overtake that.
            self.drain();
            if is_in_capture(named) {
                count(Counter::Captured);
                return Decision::Pass;
            }
        }
        let demand = self.demand(work, site);
        match named {
            Named::PerThread => self.admit_unqueued(work, demand),
            Named::Legacy | Named::Created(_) => self.submit_queued(named, work, demand, announce),
        }
    }

    /// Work that was admitted has returned; the driver took it, or did not.
    pub(crate) fn finish(&self, begun: Begun, on_device: bool) {
        match begun {
            Begun::AtOnce(begun) => self.queues.finish_at_once(begun, on_device),
            Begun::Pending(begun) => self.queues.finish(*begun, on_device),
        }
    }

    fn submit_queued(&self, named: Named, work: &Work, demand: Demand, announce: &dyn Fn()) -> Decision {
        let Some(known) = self.stream(named) else {
            count(Counter::Unknown);
            self.drain();
            return Decision::Pass;
        };
        let now = |begun| Decision::Make(begun, self.new_kind(known, work));
        match self.queues.admit_at_once(&known.status, &demand) {
            Some(AdmissionAtOnce::Free) => return now(None),
            Some(AdmissionAtOnce::Followed(begun)) => {
                return now(Some(Begun::AtOnce(begun)));
            }
            None => {}
        }
        let queue = known.queue();
        let is_kept = self.queues.admission_mode() == AdmissionMode::Suspended || !known.status.is_clear();
        if !is_kept || demand.treatment.is_forced() {
            match self.queues.admit(queue, &self.before_work(known, work), demand) {
                Admission::Free => return now(None),
                Admission::Now(begun) => {
                    return now(Some(self.prepared(begun, work)));
                }
                Admission::Wait => {}
            }
        }
        if self.defer(known, demand, work, announce) {
            return Decision::Answer(or_late_failure(SUCCESS));
        }
        count(Counter::Waited);
        let before = self.before_work(known, work);
        now(self.queues.wait_for_admission(queue, &before, demand).map(|begun| self.prepared(begun, work)))
    }

    /// Work that is about to be launched, behind what must come before it on the device.
    fn prepared(&self, begun: PendingLaunch<Cuda>, work: &Work) -> Begun {
        // Behind a closed gate a copy may keep its caller waiting in the driver, which may hold its locks meanwhile.
        let mut begun = Box::new(begun.gated_if(|| matches!(work, Work::Kernel(..) | Work::Graph(_))));
        self.queues.prepare(&mut begun);
        Begun::Pending(begun)
    }

    /// The per-thread stream has no name in other threads, so it has no queue.
    fn admit_unqueued(&self, work: &Work, demand: Demand) -> Decision {
        let Some(context) = driver::current_context() else { return Decision::Pass };
        let claim = self.device_of(context).and_then(|device| self.claim(device, 0));
        let stream = CudaStream::per_thread(context);
        let before = self.last_of_null(context);
        let begun = self.queues.wait_for_unqueued_admission(claim, stream, &before, demand);
        Decision::Make(begun.map(|begun| self.prepared(begun, work)), None)
    }

    fn demand(&self, work: &Work, site: CallSite) -> Demand {
        let mut hasher = FixedState::default().build_hasher();
        let mut end = KnownEnd::Unknown;
        let (mut waits_for_peers, mut kernel) = (false, None);
        match *work {
            Work::Kernel(Launch { function, shape, .. }) => {
                (function, shape.grid).hash(&mut hasher);
                kernel = Some(function);
                waits_for_peers = self.is_collective(function);
            }
            Work::Graph(graph) => {
                graph.hash(&mut hasher);
                waits_for_peers = self.graphs.waits_for_peers(graph);
            }
            // By their order of magnitude.
            Work::Copy(size) | Work::DeviceCopy(DeviceCopy { size, .. }) => {
                ("copy", size.checked_ilog2()).hash(&mut hasher);
            }
            Work::AwaitedCopy(size) => {
                ("awaited", size.checked_ilog2()).hash(&mut hasher);
                end = KnownEnd::ByReturn;
            }
            Work::AsyncFill(fill) => ("fill", fill.elements().checked_ilog2()).hash(&mut hasher),
            Work::Fill(count) => ("fill", count.checked_ilog2()).hash(&mut hasher),
        }
        let mut judged = rules::judge(site, kernel, || self.queues.is_urgent());
        if waits_for_peers {
            judged.judgement = Judgement::new(Action::NeverSuspend, 0, judged.judgement.rule());
        }
        Demand { end, ..Demand::judged(Load::Work(DurationClass(hasher.finish())), judged) }
    }

    #[inline]
    fn treatment_of(&self, function: usize) -> Treatment {
        let address = function as u64;
        if self.scheduled.has(address, address) {
            Treatment::Schedule
        } else {
            self.known_treatment(function)
        }
    }

    fn known_treatment(&self, function: usize) -> Treatment {
        let treatments = lock(&self.treatments);
        if let Some(known) = treatments.get(&function) {
            if *known == Treatment::Schedule {
                self.scheduled.note(function as u64, function as u64);
            }
            return *known;
        }
        drop(treatments);
        let is_collective = driver::name_of(function).is_some_and(|name| is_collective(&name));
        let treatment = if is_collective { Treatment::NeverSuspend } else { Treatment::Schedule };
        lock(&self.treatments).insert(function, treatment);
        treatment
    }

    fn forget_treatments(&self) {
        let mut treatments = lock(&self.treatments);
        treatments.clear();
        self.scheduled.clear();
    }

    /// A tracer sees the names of kernels from now on, as the shim asks for them.
    pub(crate) fn ask_names_again(&self) {
        self.forget_treatments();
    }

    fn is_collective(&self, function: usize) -> bool {
        self.treatment_of(function) == Treatment::NeverSuspend
    }

    /// A module goes, or is gone: the addresses of its functions may become those of others.
    pub(crate) fn functions_gone(&self) {
        self.forget_treatments();
        self.kernels.forget();
        rules::forget_kernels();
    }

    /// A graph was instantiated.
    pub(crate) fn graph_instantiated(&self, executable: usize, graph: usize) {
        self.graphs.instantiated(executable, graph, &|function| self.is_collective(function));
    }

    /// An executable graph was changed.
    pub(crate) fn graph_changed(&self, change: Change) {
        self.graphs.changed(change, &|function| self.is_collective(function));
    }

    /// Claims the device that the process uses first, and starts the client of the controller.
    fn note_first_use(&self) {
        if self.is_used.load(Ordering::Acquire) {
            return;
        }
        let Some(context) = driver::current_context() else { return };
        if self.is_used.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(device) = self.device_of(context) {
            self.claim(device, 0);
        }
        // Work that goes there while the process is alone is looked for as soon as others come.
        self.stream(Named::Legacy);
        process::release_at_exit();
        controller::start(&self.queues);
        #[cfg(feature = "test-switches")]
        test_suspension::start_if_configured(&self.queues);
        self.queues.await_first_use(false);
    }

    fn claim(&self, device: i32, priority: i32) -> Option<ClaimId> {
        self.devices.claim(&self.queues, device, priority)
    }

    /// A context's device; None if it is none.
    fn device_of(&self, context: Context) -> Option<i32> {
        if let Some(known) = self.streams.device(context) {
            return Some(known);
        }
        let device = driver::within(context, driver::current_device)?;
        self.streams.set_device(context, device);
        Some(device)
    }

    /// The stream that a call means, with its queue. None without a context.
    #[inline]
    fn stream(&self, named: Named) -> Option<&'static KnownStream> {
        let context = if named == Named::Legacy { Some(driver::current_context()?) } else { None };
        self.streams.find(context, named).or_else(|| self.new_stream(context, named))
    }

    #[cold]
    fn new_stream(&self, context: Option<Context>, named: Named) -> Option<&'static KnownStream> {
        match (context, named) {
            (Some(context), _) => self.add_stream(CudaStream { context, name: named, is_blocking: true }, 0),
            (None, Named::Created(handle)) => self.add_created(handle, driver::context_of(handle)?),
            (None, _) => None,
        }
    }

    fn add_created(&self, handle: usize, context: Context) -> Option<&'static KnownStream> {
        let is_blocking = driver::is_blocking(handle);
        let stream = CudaStream { context, name: Named::Created(handle), is_blocking };
        self.add_stream(stream, driver::priority(handle))
    }

    fn add_stream(&self, stream: CudaStream, priority: i32) -> Option<&'static KnownStream> {
        let claim = self.claim(self.device_of(stream.context)?, priority);
        Some(self.streams.add(stream, |status| {
            self.queues.create(stream, claim, status);
        }))
    }

    /// A stream was created: its work on the device matters as soon as other processes come. `context` is its context, if the
    /// caller knows.
    pub(crate) fn stream_created(&self, handle: usize, context: Option<Context>) {
        self.note_first_use();
        // One that had this address before, whose end the shim has not seen.
        self.forget_streams(|stream| stream.name == Named::Created(handle), XQueues::destroy);
        match context {
            Some(context) => self.add_created(handle, context),
            None => self.stream(Named::Created(handle)),
        };
    }

    /// What the program asks for a stream from now on. A null stream is the current context's, and is there with the context: the hint
    /// may be what the program does first with it.
    pub(crate) fn hint_stream(&self, named: Named, hints: QueueHints) -> Hinted {
        let known = match named {
            Named::Legacy => {
                self.note_first_use();
                self.stream(named)
            }
            // The driver is not asked: a handle that is not a stream may be any address.
            Named::Created(_) => self.streams.find(None, named),
            // It has no name in other threads.
            Named::PerThread => None,
        };
        let Some(known) = known else { return Hinted::Unknown };
        let Some(device) = self.device_of(known.stream.context) else { return Hinted::Unknown };
        let priority = match named {
            Named::Created(handle) => driver::priority(handle),
            Named::Legacy | Named::PerThread => 0,
        };
        match self.devices.claim_asked(&self.queues, device, priority, hints) {
            Ok(Some(claim)) => self.queues.move_to_claim(known.queue(), claim),
            Ok(None) => {}
            Err(TooManyHints) => return Hinted::TooMany,
        }
        Hinted::Done
    }

    /// A stream is about to be destroyed.
    pub(crate) fn stream_goes(&self, handle: usize) {
        self.wait_before(Named::Created(handle));
        self.forget_streams(|stream| stream.name == Named::Created(handle), XQueues::detach_stream);
        self.capture_ended(handle);
    }

    /// A context is about to be destroyed, or was.
    pub(crate) fn context_goes(&self, context: Context) {
        self.drain();
        self.kernels.forget();
        for green in green::of_primary(context) {
            self.forget_context(green);
        }
        self.forget_context(context);
    }

    fn forget_context(&self, context: Context) {
        self.queues.runtime_gone(RuntimeId(context.0));
        self.forget_streams(|stream| stream.context == context, XQueues::destroy);
        self.queues.forget_detached();
        let device = self.queues.device();
        device.markers.forget(context);
        device.registrations.forget(context);
        device.gates.forget(context);
        green::forget(context);
        self.streams.forget_device(context);
    }

    /// A green context was created, which its program can make current or give streams.
    pub(crate) fn green_created(&self, green: Handle, device: i32) {
        let Some((context, primary)) = driver::of_green(green).zip(driver::primary(device)) else { return };
        green::note(context, primary);
        self.streams.set_device(context, device);
    }

    /// Destroys a green context by `destroy`, which may be the end of its primary context, too. Its streams are of no use any more.
    pub(crate) fn destroying_green(&self, green: Handle, destroy: impl FnOnce() -> u32) -> u32 {
        let Some(context) = driver::of_green(green) else { return destroy() };
        let device = self.device_of(context);
        self.context_goes(context);
        match device {
            Some(device) => self.releasing_primary(device, destroy),
            None => destroy(),
        }
    }

    fn forget_streams(
        &self,
        is_meant: impl Fn(CudaStream) -> bool,
        queue_goes: impl Fn(&XQueues<Cuda>, QueueId) -> bool,
    ) {
        for known in self.streams.remove(is_meant) {
            if queue_goes(&self.queues, known.queue()) {
                self.streams.reuse(known);
            }
        }
    }

    /// A device's primary context is in use: the device is claimed if it is not the first.
    pub(crate) fn primary_retained(&self, device: i32, context: Context) {
        self.streams.set_primary(device, context);
        if self.is_used.load(Ordering::Acquire) {
            self.claim(device, 0);
        }
    }

    /// A device's primary context is about to be reset.
    pub(crate) fn primary_goes(&self, device: i32) {
        self.drain();
        // A context that was reset may be used again, at the same address.
        if let Some(context) = self.streams.primary(device) {
            self.context_goes(context);
        }
    }

    /// Releases a device's primary context by `release`, which may be the end of it. Meanwhile no thread of the shim's uses it.
    pub(crate) fn releasing_primary(&self, device: i32, release: impl FnOnce() -> u32) -> u32 {
        self.drain();
        self.pause_for(|reasons| reasons.releases += 1);
        let code = release();
        if !driver::is_primary_active(device) {
            self.primary_goes(device);
        }
        self.pause_for(|reasons| reasons.releases -= 1);
        code
    }

    /// The queues whose work a call waits for: a stream's, or all of the current context.
    pub(crate) fn waited_for(&self, stream: Option<Named>) -> Vec<QueueId> {
        let Some(context) = driver::current_context() else { return Vec::new() };
        self.streams.queues(|known| match stream {
            Some(named @ Named::Created(_)) => known.stream.name == named,
            Some(named) => known.stream.name == named && known.stream.context == context,
            None => known.stream.context == context,
        })
    }

    /// The program is about to ask whether a stream is done: a marker of the shim's own must not keep it busy.
    pub(crate) fn await_doubtful_marker(&self, named: Named) {
        if named == Named::PerThread {
            let Some(context) = driver::current_context() else { return };
            let claim = self.device_of(context).and_then(|device| self.claim(device, 0));
            self.queues.await_doubtful_marker(None, claim, CudaStream::per_thread(context));
        } else if let Some(known) = self.stream(named) {
            self.queues.await_doubtful_marker(Some(known.queue()), None, known.stream);
        }
    }
}
