//! What a program does with the queue of one of its streams, by XSched's functions. [`crate::explicit`] knows their handles.

use std::sync::atomic::{AtomicBool, Ordering};

use xsched_protocol::verdict::Judgement;
use xsched_sched::Limit;
use xsched_xqueue::{
    CallState, Demand, DurationClass, Load, Position, QueueHints, QueueId, Refused, SchedulerChoice, Tuning,
    launching_queue,
};

use crate::abi::Stream;
use crate::defer::deferral::{DEFERRAL, deferral};
use crate::defer::exit;
use crate::defer::streams::{KnownStream, StreamEntry, StreamKey};
use crate::hip::device::{HipCommand, HipWork};
use crate::hip::marker::HipStream;
use crate::hip::program::ProgramCommand;
use crate::hip::real;
use crate::reentry::ReentryGuard;
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::{Stopped, StreamName};

/// The queue of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramQueue {
    copy: &'static RuntimeCopy,
    device: i32,
    stream: KnownStream,
    id: QueueId,
}

/// Why there is no queue for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoQueue {
    /// A thread's own stream, which has no name in other threads.
    PerThread,
    /// The runtime does not know the stream, or has lost its device.
    NoStream,
}

/// Why a wait has not happened, or has ended in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotWaited {
    /// The calling thread is inside a command of the queue.
    ForItself,
    /// The stream captures: a wait would end that.
    Captures,
    /// The runtime, or an earlier command, has failed.
    Failed,
}

/// What has become of a command.
#[derive(Debug)]
pub(crate) enum Submitted {
    /// The queue has taken the command, at this position.
    At(Position),
    /// The queue is full, [`ProgramQueue::wait_while_full`].
    Full,
    /// The command cannot be deferred: use [`ProgramQueue::run_in_place`].
    InPlace,
    /// The queue is gone.
    Gone,
    /// The process ends.
    Ending,
}

/// Whether calls are counted by stream.
pub(crate) static COUNTS_CALLS: AtomicBool = AtomicBool::new(false);

/// Whether calls are counted by stream.
#[inline]
pub(crate) fn counts_calls() -> bool {
    COUNTS_CALLS.load(Ordering::Relaxed)
}

/// Counts a call that puts something on a stream.
pub(crate) fn count_call(call: &Stopped<'_>) {
    let (Some(deferral), Some(copy)) = (DEFERRAL.existing(), call.target.copy) else { return };
    let device = match call.stream_name() {
        StreamName::Legacy => real::current_device(copy),
        StreamName::Created(_) | StreamName::PerThread => Some(0),
    };
    let key = device.and_then(|device| StreamKey::of(copy, call.stream_name(), device));
    let entry = key.and_then(|key| deferral.streams.find(key));
    if let Some(entry) = entry {
        entry.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// The program asks for this scheduler. False if the process has another one already.
pub(crate) fn ask_for_scheduler(scheduler: SchedulerChoice) -> bool {
    deferral().scheduler().ask(scheduler)
}

/// The program tunes the policy of its own scheduler. False if it has none, or another one.
pub(crate) fn tune_scheduler(tuning: Tuning) -> bool {
    let deferral = deferral();
    let mut scheduler = deferral.scheduler();
    if !matches!(scheduler.choice(), SchedulerChoice::Itself(_)) {
        return false;
    }
    scheduler.tune(tuning) || deferral.queues.tune(tuning)
}

impl ProgramQueue {
    /// The queue of this stream of a runtime copy, as the calling thread means it.
    pub(crate) fn of(copy: &'static RuntimeCopy, stream: Stream) -> Result<Self, NoQueue> {
        let queue = Self::find(copy, stream)?;
        COUNTS_CALLS.store(true, Ordering::Relaxed);
        Ok(queue)
    }

    /// The same without counting calls by stream.
    pub(crate) fn find(copy: &'static RuntimeCopy, stream: Stream) -> Result<Self, NoQueue> {
        let _guard = ReentryGuard::enter();
        let deferral = deferral();
        deferral.note_first_use(copy);
        let device = real::current_device(copy).ok_or(NoQueue::NoStream)?;
        let key = StreamKey::of(copy, StreamName::by_handle(stream), device).ok_or(NoQueue::PerThread)?;
        let entry = deferral.find_stream(copy, key, device).ok_or(NoQueue::NoStream)?;
        Ok(Self { copy, device: entry.device(), stream: KnownStream { key, entry }, id: entry.queue() })
    }

    /// The queue of a stream, if it is known.
    pub(crate) fn known(copy: &'static RuntimeCopy, stream: Stream) -> Option<QueueId> {
        let key = StreamKey::created(copy, stream.0.addr());
        DEFERRAL.existing()?.dependencies().stream(key).map(StreamEntry::queue)
    }

    pub(crate) fn id(&self) -> QueueId {
        self.id
    }

    /// Whether it is of a stream of this device.
    pub(crate) fn is_on(&self, copy: &RuntimeCopy, device: i32) -> bool {
        self.copy.index() == copy.index() && self.device == device
    }

    /// Whether its stream is there.
    pub(crate) fn exists(&self) -> bool {
        deferral().queues.exists(self.id)
    }

    /// Whether the calling thread is inside one of its commands.
    pub(crate) fn is_inside(&self) -> bool {
        launching_queue() == Some(self.id)
    }

    /// Calls that have put something on its stream since the program first asked for a queue.
    pub(crate) fn calls(&self) -> u64 {
        self.stream.entry.calls.load(Ordering::Relaxed)
    }

    fn demand(command: &ProgramCommand) -> Demand {
        let class = DurationClass(command.launch as usize as u64);
        Demand { call: CallState::ToBeMade, ..Demand::judged(Load::Work(class), Judgement::NONE) }
    }

    /// The deferred commands that a command of the queue comes after by the rules of null streams.
    fn before(&self) -> Vec<Position> {
        let deferral = deferral();
        if deferral.is_independent(self.stream) {
            return Vec::new();
        }
        deferral.predecessors(&deferral.dependencies(), self.stream.key, &[])
    }

    /// Gives it a command, which a thread of the shim's launches when it is its turn. Never waits.
    pub(crate) fn submit(&self, command: ProgramCommand) -> Submitted {
        exit::release_before_kernels();
        let Self { copy, device, stream, id } = *self;
        let demand = Self::demand(&command);
        let command =
            HipCommand { work: HipWork::Program(command), copy, device, failure: &stream.entry.failure };
        match deferral().queues.submit(id, self.before(), demand, command) {
            Ok(position) => Submitted::At(position),
            Err((Refused::Full, _)) => Submitted::Full,
            Err((Refused::DefersNothing | Refused::NoWorker, _)) => Submitted::InPlace,
            Err((Refused::Gone, _)) => Submitted::Gone,
            Err((Refused::Closed, _)) => Submitted::Ending,
        }
    }

    /// Waits until it can take another command.
    pub(crate) fn wait_while_full(&self) {
        deferral().queues.wait_while_full(self.id);
    }

    /// Waits until it is the command's turn, then runs the command on the calling thread. Its calls go the usual way.
    pub(crate) fn run_in_place(&self, command: &ProgramCommand) {
        let queues = &deferral().queues;
        if !self.is_inside() {
            queues.wait_launched_by(Some(self.id), queues.last(self.id).as_slice());
        }
        command.call();
    }

    /// Waits until this command of the queue is complete, and everything launched in its stream by then.
    pub(crate) fn wait(&self, position: Position) -> Result<(), NotWaited> {
        self.wait_for(&[position])
    }

    /// The same for all commands and calls so far.
    pub(crate) fn wait_all(&self) -> Result<(), NotWaited> {
        self.wait_for(deferral().queues.last(self.id).as_slice())
    }

    /// The same for everything that was launched. Commands that the queue keeps are not waited for.
    pub(crate) fn wait_launched(&self) -> Result<(), NotWaited> {
        self.wait_for(deferral().queues.last_taken(self.id).as_slice())
    }

    fn wait_for(&self, positions: &[Position]) -> Result<(), NotWaited> {
        if self.is_inside() {
            return Err(NotWaited::ForItself);
        }
        let _guard = ReentryGuard::enter();
        let queues = &deferral().queues;
        queues.wait_launched_as_expected(Some(self.id), positions);
        if !self.exists() {
            return Ok(());
        }
        if real::is_capturing(self.copy, self.hip_stream().handle()) {
            return Err(NotWaited::Captures);
        }
        let waited = queues.host_wait_begins(&[self.id]);
        let stream = self.hip_stream();
        let is_done =
            stream.on_its_device(|| Some(real::synchronize(self.copy, stream.handle()))).unwrap_or(false);
        queues.host_wait_ends(&waited, is_done);
        let has_failed = self.stream.entry.failure.take().is_some();
        if is_done && !has_failed { Ok(()) } else { Err(NotWaited::Failed) }
    }

    /// Whether it has nothing deferred and nothing on the device.
    pub(crate) fn is_idle(&self) -> bool {
        let _guard = ReentryGuard::enter();
        let is_drained = deferral().queues.last(self.id).is_none();
        is_drained && (!self.exists() || self.hip_stream().is_done() == Some(true))
    }

    fn hip_stream(&self) -> HipStream {
        HipStream { copy: self.copy, device: self.device, name: self.stream.key.name() }
    }

    /// The program suspends the queue; false resumes it.
    pub(crate) fn hold(&self, held: bool) {
        deferral().queues.hold(self.id, held);
    }

    /// Whether the calling thread itself suspended the queue.
    pub(crate) fn is_held_by_caller(&self) -> bool {
        deferral().queues.is_held_by_caller(self.id)
    }

    /// Limits what may be launched ahead, even while nothing else uses the device. None: as much as the device takes.
    pub(crate) fn set_limit(&self, limit: Option<Limit>) {
        deferral().queues.set_queue_limit(self.id, limit);
    }

    /// Whether its commands may be stopped on the device.
    pub(crate) fn use_gates(&self, uses_gates: bool) {
        deferral().queues.use_queue_gates(self.id, uses_gates);
    }

    /// Sets the program's hints for the queue. False if the program has too many combinations of hints.
    pub(crate) fn ask(&self, hints: QueueHints) -> bool {
        let _guard = ReentryGuard::enter();
        let deferral = deferral();
        if !self.exists() {
            return true;
        }
        let priority = match self.stream.key {
            StreamKey::Legacy { .. } => 0,
            StreamKey::Created { .. } => real::priority(self.copy, self.hip_stream().handle()),
        };
        let of = (self.copy, self.device, priority);
        let Ok(claim) = deferral.devices.claim_asked(&deferral.queues, of, hints) else { return false };
        if let Some(claim) = claim {
            deferral.queues.move_to_claim(self.id, claim);
        }
        true
    }
}
