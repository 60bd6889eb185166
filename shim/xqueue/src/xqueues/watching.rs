//! The watcher's part: one thread of the process looks for completions, sends the reports that are due, and wakes threads that
//! may go on.

use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use xsched_sched::{Limit, Nanos};

use crate::claim::Usage;
use crate::clock::now;
use crate::command::{PendingLaunch, SampledLaunch};
use crate::device::Device;
use crate::ids::{ClaimId, ClaimKey, QueueId, RuntimeId, Source};
use crate::origins::OriginTimes;
use crate::registration::{AdmissionState, Registration};
use crate::state::{ClaimState, Sample};
use crate::xqueues::{AdmissionStates, XQueues};

/// How often a marker is looked at while a caller waits for it, and for how long at most. The device has finished what is before
/// the marker, but the program may have put more into the stream.
const CHECK_AGAIN: Duration = Duration::from_micros(20);
const MARKER_MAX: Duration = Duration::from_secs(1);

impl<D: Device> XQueues<D> {
    /// The claim with this key; it is made if there is none.
    pub fn claim(&self, key: ClaimKey) -> ClaimId {
        let (claim, is_new) = self.lock().claim(key);
        if is_new {
            // The watcher registers it.
            self.wake_watcher();
        }
        claim
    }

    /// All claims, in the order in which they were made.
    pub(crate) fn claims(&self) -> Vec<ClaimState> {
        self.lock().all_claims()
    }

    /// Gives a claim a registration with the arbiter. None takes it away: the claim is alone then.
    pub(crate) fn register(&self, claim: ClaimId, registration: Option<Arc<dyn Registration>>) {
        let mut state = self.lock();
        state.register(claim, registration);
        self.publish(&mut state);
    }

    /// What a claim has used so far.
    pub(crate) fn usage(&self, claim: ClaimId) -> Usage {
        self.lock().usage(claim)
    }

    /// The same, and the parts of its device time.
    pub(crate) fn usage_by_origin(&self, claim: ClaimId) -> (Usage, OriginTimes) {
        self.lock().usage_by_origin(claim)
    }

    /// Origin numbers are void from now on: time that has one counts as of an unknown origin.
    pub(crate) fn forget_origins(&self) {
        self.lock().forget_origins();
    }

    /// How much may be launched ahead beside more urgent neighbours.
    pub(crate) fn set_limit(&self, limit: Limit) {
        self.lock().set_limit(limit);
    }

    /// Sets what tells a claim's admission state, by the name of its registration. Called once.
    pub(crate) fn set_arbiter(&self, admission_state: AdmissionStates) {
        let _ = self.admission_state.set(admission_state);
    }

    /// Sets what wakes the watcher. Called once.
    pub(crate) fn set_alarm(&self, alarm: Box<dyn Fn() + Send + Sync>) {
        let _ = self.alarm.set(alarm);
    }

    /// Pauses markers: none is recorded or looked at, no gate is made, and nothing is limited by what is in flight. False ends
    /// that.
    pub fn pause_markers(&self, paused: bool) {
        let mut markers_paused = self.pause();
        // Looked at under the lock: the process may have ended meanwhile, which pauses markers for good.
        *markers_paused = paused || self.is_closed();
        drop(markers_paused);
        drop(self.making_gate.lock().unwrap_or_else(PoisonError::into_inner));
        let mut state = self.lock();
        state.limits.is_paused = paused;
        if paused {
            // While markers are paused, no trial is looked at.
            state.release_trials(&self.device);
        } else {
            state.adopt_unfollowed();
        }
        self.publish(&mut state);
        drop(state);
        if !paused {
            self.wake_watcher();
        }
    }

    /// Does all that is due. Returns when to come again: at `latest`, or earlier if something is expected before.
    pub(crate) fn run_due(&self, latest: Nanos) -> Nanos {
        let mut state = self.lock();
        // This comes first: later changes then wake the threads that they concern.
        state.ask_for_quiet();
        state.update_gates(&self.device);
        state.update_admission_states();
        drop(state);
        let is_any_complete = self.check_due_markers() | self.ask_quiet_streams();
        let mut state = self.lock();
        // Pinned commands that kept gates open may have completed.
        state.update_gates(&self.device);
        // This comes before the reports: streams of a claim that has just ceased to be alone must be asked.
        let is_state_new = state.take_has_new_admission_state();
        let next = state.report_as_due(now());
        let next = next.map_or(latest, |next| next.min(latest));
        let ignores_masks = state.is_unconcerned();
        state.watch.set(next, ignores_masks);
        let is_any_over = state.is_any_over();
        state.leave_out_quiet_queues();
        if is_state_new || is_any_complete {
            self.publish(&mut state);
        } else {
            self.publish_quietly(&mut state);
            // A preemption may have begun and ended between two looks, and a command may have been deferred meanwhile.
            state.wake_concerned_worker();
        }
        drop(state);
        if is_any_over {
            self.forget_queues_without_stream(false);
        }
        next
    }

    /// Whether no change by other processes concerns this one now: it knows that they are there, and has no work.
    pub(crate) fn is_unconcerned(&self) -> bool {
        self.lock().is_unconcerned()
    }

    /// Whether changes of ready masks need not wake the watcher: at its last look, none could concern the process. Any change of
    /// the process's own that matters wakes it.
    pub(crate) fn ignores_masks(&self) -> bool {
        self.lock_only().watch.ignores_masks()
    }

    /// The claims' registrations and admission states, if the watcher must poll them rather than sleep.
    pub(crate) fn polled(&self) -> Vec<(Arc<dyn Registration>, AdmissionState)> {
        self.lock().polled(now())
    }

    /// Sets the bound for polling: an alert claim is polled if its commands are shorter than this. Zero: none is.
    pub(crate) fn poll_below(&self, time: Nanos) {
        self.lock().limits.poll_below = time;
    }

    /// Makes the gates that are needed, one at a time, and looks at trials. Returns when to come again for that.
    pub(crate) fn make_gates(&self) -> Option<Nanos> {
        let at = self.lock().see_to_gates_at()?;
        if at > now() {
            return Some(at);
        }
        // No gate is made while a stream captures: a request for memory by any thread would end the capture. Nor is one made
        // during a reset, which takes the memory back.
        let _made = self.making_gate.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.pause() {
            // What ends the pause wakes the watcher.
            return None;
        }
        let wanted = self.lock().wanted_gate();
        if let Some(mut wanted) = wanted {
            // The page is never unmapped: it is not known when the device last looks at it.
            let page = wanted.page.take().map(|page| &**Box::leak(Box::new(page)));
            // If the stream was destroyed meanwhile, it only names the device.
            let trial = self.device.make_gate(wanted.stream, page);
            self.lock().trial_begins(&wanted, page, trial);
        }
        loop {
            let Some((index, mut trial)) = self.lock().due_trial() else { break };
            let tried = self.device.look_at_trial(&mut trial);
            self.lock().trial_looked_at(index, trial, tried, &self.device);
        }
        let mut state = self.lock();
        self.publish(&mut state);
        state.see_to_gates_at()
    }

    /// Sets whether gates may be used. A gate that may not be used stays open.
    pub(crate) fn use_gates(&self, uses: bool) {
        self.lock().use_gates(uses, &self.device);
    }

    /// Stops using and making gates of a runtime: its devices are about to be reset.
    pub fn retire_gates(&self, runtime: RuntimeId) {
        let _none_is_made = self.making_gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock().retire_gates(Some(runtime), &self.device);
    }

    /// Forgets the gates of a runtime that is gone. Its number may later be another runtime's.
    pub fn runtime_gone(&self, runtime: RuntimeId) {
        let _none_is_made = self.making_gate.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        state.retire_gates(Some(runtime), &self.device);
        state.forget_gates(runtime);
    }

    /// The host begins to wait for what these queues have in flight. Returns how many commands each has launched, for
    /// [`Self::host_wait_ends`].
    pub fn host_wait_begins(&self, queues: &[QueueId]) -> Vec<(QueueId, u64)> {
        if queues.is_empty() {
            return Vec::new();
        }
        self.lock().host_wait_begins(queues)
    }

    /// The host's wait is over. With `is_complete`, what it waited for has completed.
    pub fn host_wait_ends(&self, waited: &[(QueueId, u64)], is_complete: bool) {
        if is_complete && self.is_recorded() {
            self.check_queues(waited.iter().map(|&(queue, _)| queue));
        }
        let mut state = self.lock();
        if is_complete {
            state.update_gates(&self.device);
            state.update_admission_states();
        }
        let retired = state.host_wait_ends(waited, is_complete, now());
        let mut sleeps = false;
        if is_complete {
            self.publish(&mut state);
            // Otherwise the watcher would come only when a lease must be renewed, and other processes would wait as long.
            sleeps = state.idle_at().is_some_and(|at| state.watch.sleeps_beyond(at));
        }
        drop(state);
        self.retire(retired);
        if sleeps {
            self.wake_watcher();
        }
    }

    /// Looks at the markers that are due. Returns whether any was complete.
    fn check_due_markers(&self) -> bool {
        let paused = self.pause();
        let mut is_any_complete = false;
        if *paused {
            return false;
        }
        // What these tell bounds what the following looks charge.
        self.check_samples();
        let due = self.lock().due_markers(now());
        for (source, marker) in due {
            // If the look is late, several may be complete.
            if self.check_marker(source, marker) {
                is_any_complete = true;
                self.check_source(source);
            }
        }
        is_any_complete
    }

    /// Looks at the samples that are due. The caller holds the markers' lock.
    fn check_samples(&self) {
        let due = self.lock_only().due_samples(now());
        for sample in due {
            if !self.device.is_complete(sample.behind) {
                self.lock_only().sample_pending(sample, now());
                continue;
            }
            if let Some(between) = self.device.time_between(sample.before, sample.behind) {
                self.lock_only().sampled(&sample, between);
            }
            self.retire(vec![sample.before, sample.behind]);
        }
    }

    /// The launch of a command that is measured has returned.
    pub(super) fn finish_sample(
        &self,
        launch: &PendingLaunch<D>,
        &SampledLaunch { is_idle, before }: &SampledLaunch<D::Marker>,
        on_device: bool,
    ) {
        let Some((before, begun)) = before else { return };
        let gap = if is_idle { now() - begun } else { Nanos::ZERO };
        let behind = if on_device { self.mark(launch.stream) } else { None };
        let (Source::Queue(queue), Some(behind)) = (launch.source, behind) else {
            return self.device.retire(before);
        };
        let PendingLaunch { class, admitted: launched, .. } = *launch;
        self.lock_only().sample_launched(Sample { queue, class, launched, gap, before, behind });
    }

    /// Looks at a queue's first marker in place of the watcher. Returns whether it is complete.
    pub(super) fn check_first_marker(&self, queue: QueueId) -> bool {
        let paused = self.pause();
        if *paused {
            return false;
        }
        let source = Source::Queue(queue);
        let first = self.lock_for(source).first_marker(source);
        first.is_some_and(|marker| self.check_marker(source, marker))
    }

    pub(super) fn retire(&self, markers: Vec<D::Marker>) {
        for marker in markers {
            self.device.retire(marker);
        }
    }

    /// Looks at a marker. Returns whether it is complete. The caller holds the markers' lock.
    pub(super) fn check_marker(&self, source: Source, marker: D::Marker) -> bool {
        let is_complete = self.device.is_complete(marker);
        let before = self.lock_for(source).marker_before(source).filter(|_| is_complete);
        let device_time = before.and_then(|before| self.device.time_between(before, marker));
        let retired = self.lock_for(source).marker_checked(source, marker, is_complete, device_time);
        if let Some(retired) = retired {
            self.device.retire(retired);
        }
        is_complete
    }

    /// Asks the streams that are due to be asked. Returns whether any was done.
    fn ask_quiet_streams(&self) -> bool {
        let paused = self.pause();
        if *paused {
            return false;
        }
        let quiet = self.lock().quiet_streams(now());
        let mut is_any_done = false;
        for (queue, stream, launched) in quiet {
            let is_done = stream.and_then(|stream| self.device.is_done(stream));
            is_any_done |= is_done != Some(false);
            self.note_answer(queue, launched, is_done);
        }
        is_any_done
    }

    /// Notes that a queue's stream is done, or records a marker whose completion shows it without the stream. The caller holds
    /// the markers' lock.
    pub(super) fn mark_end(&self, queue: QueueId) {
        let Some((stream, launched)) = self.lock().stream_in_use(queue) else { return };
        if self.device.is_done(stream) == Some(true) {
            self.note_answer(queue, launched, Some(true));
            return;
        }
        let Some(marker) = self.device.mark(stream) else { return };
        let unneeded = self.lock().marked_last(queue, marker);
        self.retire(Vec::from_iter(unneeded));
    }

    /// Waits until a queue's stream is done, on a thread that is about to wait for the same in the runtime. A marker would make
    /// that thread wait for more if the null stream orders the stream: for all that was put there since. A stream that cannot
    /// tell, as after a capture that broke, is not followed any more.
    pub(super) fn await_end(&self, queue: QueueId) {
        loop {
            let paused = self.pause();
            if *paused {
                return;
            }
            let Some((stream, launched)) = self.lock().stream_in_use(queue) else { return };
            let is_done = self.device.is_done(stream);
            if is_done != Some(false) {
                return self.note_answer(queue, launched, is_done);
            }
            drop(paused);
            thread::sleep(CHECK_AGAIN);
        }
    }

    /// Notes whether a queue's stream is done with its first `launched` commands; None: it cannot tell. The caller holds the
    /// markers' lock.
    pub(super) fn note_answer(&self, queue: QueueId, launched: u64, is_done: Option<bool>) {
        if is_done == Some(true) {
            // Markers tell when.
            self.check_source(Source::Queue(queue));
        }
        let retired = self.lock_for(Source::Queue(queue)).stream_answered(queue, launched, is_done);
        self.retire(retired);
    }

    /// The program has seen that this event is complete.
    pub fn event_seen(&self, event: u64) {
        self.lock().event_seen(event);
    }

    /// Waits for a marker that could make the runtime contradict what the program knows. The program is about to ask whether a
    /// stream is done, and may know by an event of its own that it is. The marker behind that event must not keep the stream
    /// busy. This takes as long as the device needs from one packet to the next.
    pub fn await_doubtful_marker(&self, queue: Option<QueueId>, claim: Option<ClaimId>, stream: D::Stream) {
        let source = queue.map(Source::Queue).or(claim.map(Source::Unqueued));
        if source.is_some_and(|source| self.lock_for(source).is_marker_in_doubt(source)) {
            self.await_marker(stream);
        }
    }

    /// Waits until a stream is done that has at most a marker left. Called on a thread of the program's.
    pub(super) fn await_marker(&self, stream: D::Stream) {
        let deadline = Instant::now() + MARKER_MAX;
        while Instant::now() < deadline {
            let paused = self.pause();
            if *paused || self.device.is_done(stream) != Some(false) {
                return;
            }
            drop(paused);
            thread::sleep(CHECK_AGAIN);
        }
    }
}
