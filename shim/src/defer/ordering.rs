//! Calls that need earlier work to have been launched: they observe it, wait for it, or take away something that it
//! uses.
//!
//! They wait until the work that they concern was launched, and no longer: the real function waits for the device. A
//! query of deferred work is answered here: not ready.

use xsched_xqueue::{Position, QueueId, Treatment, launching_queue};

use crate::abi::HipError;
use crate::api::{Family, Id};
use crate::defer::decision::{Decision, Wait};
use crate::defer::deferral::{Deferral, deferral};
use crate::defer::dependencies::EventUse;
use crate::defer::streams::{KnownStream, StreamKey};
use crate::hip::marker::HipStream;
use crate::hip::{failure, real};
use crate::outcome::Reason;
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::{Stopped, StreamName};
use crate::verdict;

/// A call that needs earlier work to have been launched, while something is suspended or deferred.
pub(crate) fn order(call: &Stopped<'_>) -> Decision {
    let Some(copy) = call.target.copy else { return Decision::Pass(Reason::NothingDeferred) };
    deferral().order(call, copy)
}
impl Deferral {
    pub(super) fn order(&self, call: &Stopped<'_>, copy: &'static RuntimeCopy) -> Decision {
        if puts_work(call) || is_on_many_streams(call) {
            self.note_first_use(copy);
        }
        if !self.queues.has_reason() && !failure::any_unreported() {
            return Decision::Pass(Reason::NothingDeferred);
        }
        if self.is_runtime_lost(copy) {
            return Decision::Pass(Reason::Drained);
        }
        let treatment = Treatment::from(verdict::judge(call, || self.needs_no_verdict(call)));
        let wait = |own: Option<QueueId>, positions: &[Position]| {
            if treatment.is_forced() {
                self.queues.force(positions);
            }
            if waits_for_device(call) {
                self.queues.wait_launched_as_expected(own, positions);
            } else {
                self.queues.wait_launched_by(own, positions);
            }
        };
        let event = |argument: usize| (copy.index(), call.size(argument));
        let pending = |argument| {
            let record = self.dependencies().record_of(event(argument));
            record.filter(|&record| !self.queues.are_launched(&[record]))
        };
        match call.id() {
            Id::hipEventQuery if pending(0).is_some() => return Decision::Answer(HipError::NOT_READY),
            Id::hipEventElapsedTime
                if call.size(0) != 0 && (pending(1).is_some() || pending(2).is_some()) =>
            {
                return Decision::Answer(HipError::NOT_READY);
            }
            // Any thread may wait for an event, not only those that use its stream.
            Id::hipEventSynchronize => wait(None, pending(0).as_slice()),
            Id::hipEventDestroy => {
                let before = self.dependencies().predecessors_of_uses(&[EventUse::Record(event(0))]);
                wait(None, &before);
            }
            Id::hipStreamQuery | Id::hipStreamQuery_spt
                if !self.pending_on(call, copy).is_empty() && !is_planted(Bug::EarlyAnswer) =>
            {
                return Decision::Answer(HipError::NOT_READY);
            }
            Id::hipEventQuery | Id::hipEventElapsedTime => {}
            Id::hipStreamQuery | Id::hipStreamQuery_spt => self.await_doubtful_marker(call, copy),
            Id::hipStreamSynchronize if is_planted(Bug::MissedDrain) => {}
            Id::hipFree if is_planted(Bug::FreeWithoutDrain) => {}
            Id::hipStreamSynchronize | Id::hipStreamSynchronize_spt | Id::hipStreamDestroy => {
                let own = self.known_stream(call, copy).map(KnownStream::queue);
                let mut before = self.pending_on(call, copy);
                if call.id() == Id::hipStreamDestroy {
                    before.extend(self.concerning(call, copy));
                }
                wait(own, &before);
            }
            _ if is_on_many_streams(call) => self.queues.wait_behind_all(treatment),
            _ if puts_work(call) => return self.submit_in_place(call, copy),
            _ => wait(None, &self.queues.all_last()),
        }
        let known = self.known_stream(call, copy);
        let late_failure = known.and_then(|stream| stream.entry.failure.take());
        let wait = Wait {
            queues: self.waited_for(call, copy, known.map(KnownStream::queue)),
            events: match call.id() {
                Id::hipEventQuery | Id::hipEventSynchronize => [call.word(0), 0],
                Id::hipEventElapsedTime => [call.word(1), call.word(2)],
                _ => [0; 2],
            },
            is_recorded: call.id() == Id::hipEventSynchronize && self.queues.is_recorded(),
        };
        Decision::go(Reason::Drained, late_failure, wait.effect())
    }

    /// Settles the markers that the shim has recorded in a stream: a program that knows the stream to be done must
    /// not find them there.
    fn await_doubtful_marker(&self, call: &Stopped<'_>, copy: &'static RuntimeCopy) {
        let Some(device) = real::current_device(copy) else { return };
        let name = call.stream_name();
        let (queue, claim) = match name {
            StreamName::PerThread => (None, self.claim(copy, device, 0)),
            _ => (self.known_stream(call, copy).map(KnownStream::queue), None),
        };
        self.queues.await_doubtful_marker(queue, claim, HipStream { copy, device, name });
    }

    /// The queues whose work on the device a call waits for, and how far.
    fn waited_for(
        &self,
        call: &Stopped<'_>,
        copy: &RuntimeCopy,
        queue: Option<QueueId>,
    ) -> Vec<(QueueId, u64)> {
        let queues = match call.id() {
            Id::hipStreamSynchronize | Id::hipStreamSynchronize_spt => queue.into_iter().collect(),
            // It frees memory that the device may still use, so it waits for all of that first.
            Id::hipFree if call.size(0) == 0 => Vec::new(),
            Id::hipDeviceSynchronize | Id::hipCtxSynchronize | Id::hipFree => {
                let device = real::current_device(copy);
                device.map(|device| self.dependencies().queues_of(copy.index(), device)).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        self.queues.host_wait_begins(&queues)
    }

    /// A call that puts work on a stream and also waits for it, or whose answer cannot be given before.
    fn submit_in_place(&self, call: &Stopped<'_>, copy: &'static RuntimeCopy) -> Decision {
        if self.dependencies().is_any_capturing() {
            return self.during_capture(call, copy, &[]);
        }
        match self.stream_of(call, copy) {
            Some((stream, _)) => self.wait_in_place(stream, self.demand(call), &[]),
            None => self.without_a_queue(call, copy, &[]),
        }
    }

    /// The deferred commands of other streams that must be launched before a stream is destroyed.
    fn concerning(&self, call: &Stopped<'_>, copy: &RuntimeCopy) -> Vec<Position> {
        let StreamName::Created(handle) = call.stream_name() else { return Vec::new() };
        self.dependencies().concerning(StreamKey::created(copy, handle), &self.queues)
    }

    /// The deferred commands that a query of a stream concerns, or a wait for it.
    fn pending_on(&self, call: &Stopped<'_>, copy: &'static RuntimeCopy) -> Vec<Position> {
        let Some(stream) = self.known_stream(call, copy) else { return Vec::new() };
        let is_own = launching_queue() == Some(stream.queue());
        let last = self.queues.last(stream.queue()).filter(|_| !is_own);
        let mut pending: Vec<_> = last.into_iter().collect();
        if stream.is_null() {
            pending.extend(self.dependencies().blocking(copy.index(), stream.entry.device(), &self.queues));
        }
        pending
    }
}

/// Whether a call does nothing but wait for the device.
fn waits_for_device(call: &Stopped<'_>) -> bool {
    matches!(
        call.id(),
        Id::hipStreamSynchronize
            | Id::hipStreamSynchronize_spt
            | Id::hipEventSynchronize
            | Id::hipDeviceSynchronize
            | Id::hipCtxSynchronize
    )
}

/// Whether a call puts work on several streams, or on one that it does not name, or orders work of several streams.
fn is_on_many_streams(call: &Stopped<'_>) -> bool {
    call.function.family == Family::launch || reaches_out(call)
}

/// Whether a call launches a graph that may concern more streams than the call's own.
pub(super) fn reaches_out(call: &Stopped<'_>) -> bool {
    let is_launch = matches!(call.id(), Id::hipGraphLaunch | Id::hipGraphLaunch_spt);
    let graph = call.target.copy.filter(|_| is_launch).map(|copy| (copy.index(), call.size(0)));
    graph.is_some_and(|graph| !deferral().dependencies().is_graph_alone(graph))
}

/// Whether a call that must not be made later puts work on a device.
fn puts_work(call: &Stopped<'_>) -> bool {
    matches!(call.function.family, Family::copy | Family::set)
        || matches!(call.id(), Id::hipMallocAsync | Id::hipMallocFromPoolAsync)
}
