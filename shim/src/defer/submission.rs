//! Calls that put work on a stream: at once, deferred, or in place.
//!
//! Work on the per-thread stream always waits in place: the stream has no name in the thread that would launch it.

use std::sync::atomic::Ordering;

use crate::abi::HipError;
use crate::api::Family;
use crate::defer::decision::{Decision, Effect};
use crate::defer::deferral::{DEFERRAL, Deferral, deferral};
use crate::defer::dependencies::{Dependencies, EventUse};
use crate::defer::load::load;
use crate::defer::ordering::reaches_out;
use crate::defer::streams::{KnownStream, StreamKey};
use crate::defer::{deferrable, exit};
use crate::hip::device::{HipCommand, HipWork};
use crate::hip::marker::HipStream;
use crate::hip::real;
use crate::outcome::Reason;
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::{Stopped, StreamName};
use crate::verdict;
use xsched_xqueue::{
    Admission, AdmissionAtOnce, AdmissionMode, Demand, JournalledLaunch, KnownEnd, Position, Refused,
    Treatment, launching_queue,
};

/// A call that puts work on a stream with a queue.
struct Submission<'a> {
    call: &'a Stopped<'a>,
    copy: &'static RuntimeCopy,
    /// The calling thread's device.
    device: i32,
    stream: KnownStream,
    demand: Demand,
    uses: &'a [EventUse],
}

/// Whether a call that puts work on a stream goes at once, as far as is known without a lock. Other queues are suspended or have
/// deferred commands, but none of them concerns the call.
pub(crate) fn passes_at_once(call: &Stopped<'_>) -> bool {
    let known = DEFERRAL.existing().zip(call.target.copy);
    known.is_some_and(|(deferral, copy)| deferral.passes_at_once(call, copy))
}

/// Admits a call that puts work on a stream, if it may go at once although other processes use the device. None: that cannot be said
/// without a lock.
pub(crate) fn admit_at_once(call: &Stopped<'_>) -> Option<AdmissionAtOnce> {
    let (deferral, copy) = DEFERRAL.existing().zip(call.target.copy)?;
    deferral.admit_at_once(call, copy)
}

/// A call that was admitted so has returned.
pub(crate) fn finish_at_once(launch: JournalledLaunch, result: HipError) {
    deferral().queues.finish_at_once(launch, result == HipError::SUCCESS);
}

/// A call that puts work on a stream, while something is suspended or deferred.
pub(crate) fn submit(call: &Stopped<'_>) -> Decision {
    let Some(copy) = call.target.copy else { return Decision::Pass(Reason::NotScheduled) };
    deferral().submit(call, copy)
}

impl Deferral {
    fn passes_at_once(&self, call: &Stopped<'_>, copy: &RuntimeCopy) -> bool {
        let StreamName::Created(handle) = call.stream_name() else { return false };
        let key = StreamKey::created(copy, handle);
        let is_open = matches!(self.queues.admission_mode(), AdmissionMode::Open | AdmissionMode::ByQueue);
        is_open
            && self.streams.find(key).is_some_and(|entry| {
                let has_failed = entry.failure.is_set();
                entry.status.is_clear() && !has_failed && self.is_independent(KnownStream { key, entry })
            })
            && deferrable::events(call, copy).is_empty()
            && !reaches_out(call)
    }

    fn admit_at_once(&self, call: &Stopped<'_>, copy: &RuntimeCopy) -> Option<AdmissionAtOnce> {
        if self.queues.admission_mode() != AdmissionMode::Beside {
            return None;
        }
        let entry = self.streams.find(stream_key(call, copy)?)?;
        let is_doubtful =
            entry.failure.is_set() || self.has_broken_captures.load(Ordering::Acquire) || reaches_out(call);
        // Nothing is deferred that it could come after.
        (!is_doubtful).then(|| self.queues.admit_at_once(&entry.status, &self.demand(call)))?
    }

    /// Whether nothing that is deferred on other streams concerns a stream, except for events.
    pub(super) fn is_independent(&self, KnownStream { key, entry }: KnownStream) -> bool {
        matches!(key, StreamKey::Created { .. })
            && (!entry.is_blocking() || self.streams.is_null_stream_clear(key.copy(), entry.device()))
    }

    fn submit(&self, call: &Stopped<'_>, copy: &'static RuntimeCopy) -> Decision {
        self.note_first_use(copy);
        let uses = &deferrable::events(call, copy);
        if self.is_capturing.load(Ordering::Acquire) {
            return self.during_capture(call, copy, uses);
        }
        if self.is_on_broken_capture(call, copy) {
            return Decision::Pass(Reason::StreamCapture);
        }
        if reaches_out(call) {
            return self.order(call, copy);
        }
        let Some((stream, device)) = self.stream_of(call, copy) else {
            return self.without_a_queue(call, copy, uses);
        };
        if launching_queue() == Some(stream.queue()) {
            return Decision::Pass(Reason::OwnCommand);
        }
        let demand = self.demand(call);
        let submission = Submission { call, copy, device, stream, demand, uses };
        if self.must_wait(&submission) {
            return self.defer_call(&submission);
        }
        let admission = if uses.is_empty() && self.is_independent(stream) {
            self.queues.admit(stream.queue(), &[], demand)
        } else {
            let dependencies = self.dependencies();
            self.queues.admit(stream.queue(), &self.predecessors(&dependencies, stream.key, uses), demand)
        };
        let (reason, effect) = match admission {
            Admission::Free => (Reason::NotScheduled, Effect::None),
            Admission::Now(begun) => {
                let begun = begun.gated_if(|| deferrable::is_certain(call, copy, device, uses));
                (Reason::Scheduled, Effect::Work(begun))
            }
            Admission::Wait => return self.defer_call(&submission),
        };
        Decision::go(reason_of(demand.treatment, reason), stream.entry.failure.take(), effect)
    }

    /// Whether a call must wait, as far as that is known without a lock.
    fn must_wait(&self, Submission { stream, demand, .. }: &Submission<'_>) -> bool {
        let is_kept = match self.queues.admission_mode() {
            AdmissionMode::Suspended => true,
            // A command behind a deferred one is deferred, whatever else decides.
            AdmissionMode::ByQueue | AdmissionMode::Beside | AdmissionMode::UnderLock => {
                !stream.entry.status.is_clear()
            }
            AdmissionMode::Open => false,
        };
        is_kept && !demand.treatment.is_forced() && !is_planted(Bug::Overtaking)
    }

    /// Defers a call that must wait.
    fn defer_call(&self, submission: &Submission<'_>) -> Decision {
        let &Submission { call, copy, device, stream, demand, uses } = submission;
        if uses.iter().any(|used| self.is_freed_twice(*used)) {
            return self.wait_in_place(stream, demand, uses);
        }
        let Some(owned) = deferrable::own(call, copy, device, uses) else {
            return self.wait_in_place(stream, demand, uses);
        };
        let queue = stream.queue();
        if demand.treatment.is_forced() {
            // The commands that fill the queue may be suspended.
            self.queues.force(self.queues.last(queue).as_slice());
        }
        exit::release_before_kernels();
        let mut command =
            HipCommand { work: HipWork::Call(owned), copy, device, failure: &stream.entry.failure };
        loop {
            let is_alone = uses.is_empty() && self.is_independent(stream);
            let mut dependencies = (!is_alone).then(|| self.dependencies());
            let before = dependencies
                .as_ref()
                .map(|dependencies| self.predecessors(dependencies, stream.key, uses))
                .unwrap_or_default();
            match self.queues.submit(queue, before, demand, command) {
                Ok(position) => {
                    if let Some(dependencies) = &mut dependencies {
                        dependencies.used(uses, position, &self.queues);
                    }
                    break;
                }
                Err((Refused::Full, refused)) => {
                    drop(dependencies);
                    command = refused;
                    self.queues.wait_while_full(queue);
                }
                Err(_) => {
                    drop(dependencies);
                    return self.wait_in_place(stream, demand, uses);
                }
            }
        }
        Decision::Answer(stream.entry.failure.take().unwrap_or(HipError::SUCCESS))
    }

    /// Whether a call frees memory a second time. The runtime refuses that only once the first free was launched.
    fn is_freed_twice(&self, used: EventUse) -> bool {
        let EventUse::Free(memory) = used else { return false };
        let freed = self.dependencies().record_of(memory);
        freed.is_some_and(|freed| !self.queues.are_launched(&[freed]))
    }

    /// The deferred commands that a call on a stream comes after.
    pub(super) fn predecessors(
        &self,
        dependencies: &Dependencies,
        key: StreamKey,
        uses: &[EventUse],
    ) -> Vec<Position> {
        let mut before = dependencies.predecessors_on(key, &self.queues);
        before.extend(dependencies.predecessors_of_uses(uses));
        before
    }

    /// Waits until the call may be made.
    pub(super) fn wait_in_place(&self, stream: KnownStream, demand: Demand, uses: &[EventUse]) -> Decision {
        if launching_queue() == Some(stream.queue()) {
            return Decision::Pass(Reason::OwnCommand);
        }
        let before = self.predecessors(&self.dependencies(), stream.key, uses);
        let begun = self.queues.wait_for_admission(stream.queue(), &before, demand);
        let effect = begun.map_or(Effect::None, |begun| Effect::Work(begun.gated_if(|| false)));
        Decision::go(Reason::WaitedInPlace, stream.entry.failure.take(), effect)
    }

    /// A call on a stream without a queue: the per-thread stream, a handle that is no stream, or any stream after a
    /// fault.
    pub(super) fn without_a_queue(
        &self,
        call: &Stopped<'_>,
        copy: &'static RuntimeCopy,
        uses: &[EventUse],
    ) -> Decision {
        if self.is_runtime_lost(copy) {
            return Decision::Pass(Reason::WaitedInPlace);
        }
        if call.stream_name() == StreamName::PerThread
            && let Some(device) = real::current_device(copy)
        {
            let claim = self.claim(copy, device, 0);
            let before = {
                let dependencies = self.dependencies();
                let mut before = dependencies.predecessors_of_uses(uses);
                before.extend(dependencies.last_of_null(copy.index(), device, &self.queues));
                before
            };
            let stream = HipStream { copy, device, name: StreamName::PerThread };
            if let Some(begun) =
                self.queues.wait_for_unqueued_admission(claim, stream, &before, self.demand(call))
            {
                let begun = begun.gated_if(|| deferrable::is_certain(call, copy, device, uses));
                return Decision::go(Reason::WaitedInPlace, None, Effect::Work(begun));
            }
        }
        Decision::Pass(Reason::WaitedInPlace)
    }

    /// What a call demands: its load, its verdict, and how its end can be seen.
    pub(super) fn demand(&self, call: &Stopped<'_>) -> Demand {
        let end = match call.function.family {
            Family::copy | Family::set => KnownEnd::ByReturn,
            Family::launch => deferrable::stop_event(call).map_or(KnownEnd::Unknown, KnownEnd::ByEvent),
            _ => KnownEnd::Unknown,
        };
        Demand { end, ..Demand::judged(load(call), verdict::judge(call, || self.needs_no_verdict(call))) }
    }
}

/// The key of a call's stream. None for the per-thread stream.
fn stream_key(call: &Stopped<'_>, copy: &RuntimeCopy) -> Option<StreamKey> {
    match call.stream_name() {
        StreamName::Created(handle) => Some(StreamKey::created(copy, handle)),
        name => StreamKey::of(copy, name, real::current_device(copy)?),
    }
}

/// Why a call with this treatment goes at once.
fn reason_of(treatment: Treatment, scheduled: Reason) -> Reason {
    match treatment {
        Treatment::NeverSuspend => Reason::NeverSuspended,
        Treatment::PassThrough => Reason::PassedThrough,
        Treatment::Schedule | Treatment::Pinned => scheduled,
    }
}
