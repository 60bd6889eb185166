//! Whether a command may be launched now, and what is noted when it is launched.

use crate::claim::Claim;
use crate::clock::now;
use crate::command::{Delay, Demand, Load, PendingLaunch};
use crate::device::Device;
use crate::flight::Flight;
use crate::ids::{ClaimId, QueueId, RuntimeId, Source};
use crate::registration::AdmissionState;
use crate::state::State;

impl<D: Device> State<D> {
    /// Whether a claim is preempted now.
    pub(crate) fn is_preempted(&self, claim: ClaimId) -> bool {
        !self.mode.closed && self.claims.get(claim).admission_state().is_preempted()
    }

    /// Whether other processes use a device of this process. While the watcher ignores ready masks, the answer stays true: the watcher
    /// would not notice that they go and come again, nor look for what was launched in between.
    pub(crate) fn is_contended(&self) -> bool {
        !self.mode.closed
            && (self.watch.ignores_masks() || self.claims.iter().any(|(_, claim)| !claim.is_alone()))
    }

    /// Whether more urgent processes may use a device of this process at any time.
    pub(crate) fn is_limited(&self) -> bool {
        self.claims.iter().any(|(_, claim)| Claim::is_below(claim))
    }

    /// Whether a source may launch one more command ahead. While callers wait in place, a stream that makes no progress may exceed its
    /// limit: what it waits for may be behind the limit itself.
    pub(crate) fn may_launch_ahead(&self, source: Source, load: Load) -> bool {
        let (Some(claim), Load::Work(class)) = (self.claim_of_source(source), load) else { return true };
        let may_be_limited = self.limits_itself(source) || self.claims.get(claim).is_below();
        let is_limited = !self.mode.closed && !self.limits.is_paused && may_be_limited;
        let flight = self.flight(source).filter(|_| is_limited);
        flight.is_none_or(|flight| flight.may_launch(now(), class, self.waiters.in_place > 0))
    }

    /// Notes that a command of a queue is about to be launched. None if its completion is not followed.
    pub(crate) fn begin(&mut self, queue: QueueId, demand: Demand, delay: Delay) -> Option<PendingLaunch<D>> {
        let known = self.queues.get(queue)?;
        let (claim, stream, runtime) = (known.claim()?, known.stream()?, known.runtime());
        if matches!(delay, Delay::Deferred(..)) && demand.treatment.is_counted() {
            self.claims.get_mut(claim).count_deferred();
        }
        self.begin_from(Source::Queue(queue), claim, (stream, runtime), demand, delay)
    }

    /// The same for any source.
    pub(crate) fn begin_from(
        &mut self,
        source: Source,
        claim: ClaimId,
        (stream, runtime): (D::Stream, RuntimeId),
        demand: Demand,
        delay: Delay,
    ) -> Option<PendingLaunch<D>> {
        let Demand { load, treatment, judgement, .. } = demand;
        let Load::Work(class) = load else {
            if load == Load::Wait
                && let Some(flight) = self.flight_mut(source)
            {
                flight.waits();
            }
            if treatment.is_forced() {
                // The command's completion is not followed, and other work may wait for what is in flight before it.
                self.pin_all();
            }
            return None;
        };
        let state = self.claims.get(claim).admission_state();
        let is_alone = state == AdmissionState::Alone && !self.watch.ignores_masks();
        let limits_itself = self.limits_itself(source);
        if self.limits.is_paused || is_alone && !self.is_recorded() && !limits_itself {
            self.note_unfollowed(source, delay, judgement, now());
            if !is_alone && treatment.is_counted() {
                self.flight_mut(source)?.stop_following();
            }
            return None;
        }
        if !treatment.is_counted() {
            self.note_unfollowed(source, delay, judgement, now());
            // The command runs beside the followed ones, so their durations say less.
            self.flight_mut(source)?.disturbed(now());
            self.pin_all();
            return None;
        }
        let admitted = now();
        let is_reported = if is_alone {
            self.claims.get_mut(claim).launches_alone();
            false
        } else {
            self.claims.get_mut(claim).launches(admitted)
        };
        // After a pause the watcher does not know when the first command will complete.
        let is_awaited = self.is_recorded() && self.flight(source).is_some_and(Flight::is_empty);
        let is_first = is_reported || is_awaited;
        // A claim without a limit needs to know of its last completion only. The watcher finds that one.
        let is_below = matches!(state, AdmissionState::Below { .. });
        let is_pinned = treatment.is_pinned();
        self.pinned_launches += usize::from(is_pinned);
        let gate = if is_below && !is_pinned && self.allows_gates(source) {
            self.gate_before(source, claim, runtime, class)
        } else {
            None
        };
        let sample = if is_alone { None } else { self.begins_sample(source, class, &demand, admitted) };
        Some(PendingLaunch {
            source,
            claim,
            admitted,
            delay,
            stream,
            demand,
            class,
            is_limited: is_below || limits_itself,
            gate,
            is_first,
            sample,
        })
    }
}
