//! XQueues: software queues in front of a device's streams, which defer commands while the process must wait.
//!
//! Back ends name the queues, the commands, and what each command comes after. Commands are launched through a [`Device`], each
//! queue's in order. While a queue has deferred commands it has a thread, the launch worker. Any worker that is awake launches
//! the next command of any queue.
//!
//! ```text
//!            submit                    not suspended, everything before it launched
//!   caller ----------> [c3 c2 c1] ---------------------------------------------------> Device::launch
//!            waits while full         launch worker
//! ```
//!
//! A command is deferred only while it must be: its queue or all queues are suspended, or it comes after a deferred command.
//! [`XQueues::admit`] decides. A caller that is admitted launches the command itself, at once.
//!
//! What a command comes after is given as [`Position`]s, which are always older than the command itself. So no circle of waiting
//! is possible, whatever is suspended. A queue that waits for a suspended one waits as long as that one is suspended.
//!
//! Some commands are not deferred at all, and not stopped either: [`crate::command`].
//!
//! While other processes use the same device, a queue's [claim](crate::claim) on it may be preempted, and launches little ahead of
//! what the device does: [`crate::state`].

mod at_once;
mod locked;
mod recording;
mod waiting;
mod watching;
mod worker;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use xsched_sched::{Limit, Nanos};

use crate::claim::Usage;
use crate::clock::now;
use crate::command::{Delay, Demand, KnownEnd, PendingLaunch};
use crate::device::Device;
use crate::ids::{ClaimId, Position, QueueId, Source};
use crate::planted::{Bug, Bugs};
use crate::queue::QueueParts;
use crate::registration::AdmissionState;
use crate::state::{Refused, State};
use crate::status::{AdmissionMode, QueueStatus, SharedMode};
use crate::trouble::Trouble;
use crate::tuning::Tuning;
use locked::Locked;

/// How soon a waiting thread looks again without a notification, so that a lost one does not keep it for ever.
const WAIT_MAX: Duration = Duration::from_millis(10);

/// How often the end of a process tries to get a lock that the watcher holds during a call of the runtime.
const LOCKED_AGAIN: Duration = Duration::from_micros(100);

/// A watcher that has been busy for longer than this is stuck.
const STUCK_AFTER: Nanos = Nanos::from_millis(100);

/// A watcher that looks again within this time need not be woken.
const SOON: Nanos = Nanos::from_millis(1);

pub use at_once::{AdmissionAtOnce, JournalledLaunch};

/// What the queues of a process are made with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Counts what should not happen. Any thread may call it, with or without locks, so it must not wait.
    pub trouble: fn(Trouble),
    /// Bugs that tests must find.
    pub bugs: Bugs,
}

impl Default for Setup {
    fn default() -> Self {
        Self { trouble: |_| {}, bugs: Bugs::NONE }
    }
}

/// All queues of a process.
pub struct XQueues<D: Device> {
    state: Mutex<State<D>>,
    /// Rung for waiting callers when a launch has returned or may be made.
    changed: Condvar,
    /// What can be read without the lock.
    mode: SharedMode,
    device: D,
    setup: Setup,
    /// Held while markers are recorded or looked at, and by threads that take away what these need. The value is true while
    /// markers are paused.
    markers_paused: Mutex<bool>,
    /// Held while a gate is made.
    making_gate: Mutex<()>,
    /// When the watcher last woke up; 0 while it sleeps.
    watcher_busy_since: AtomicU64,
    /// Wakes the watcher.
    alarm: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Changes the settings of the policy by which the process schedules itself, if it does.
    tuner: OnceLock<Tuner>,
    /// A claim's admission state, by the name of its registration.
    admission_state: OnceLock<AdmissionStates>,
}

/// Tells admission states.
pub(crate) type AdmissionStates = Box<dyn Fn(u64) -> AdmissionState + Send + Sync>;

/// Takes the settings that a program asks of a policy.
pub(crate) type Tuner = Box<dyn Fn(Tuning) + Send + Sync>;

/// Whether a command may be launched.
#[derive(Debug)]
#[must_use]
pub enum Admission<D: Device> {
    /// At once. Its completion is not followed.
    Free,
    /// At once. [`XQueues::finish`] must be called after the launch.
    Now(PendingLaunch<D>),
    /// Not yet.
    Wait,
}

/// Why a command may not be launched yet.
enum Unready {
    /// It is suspended, or comes after another.
    Kept,
    /// As much is in flight on its queue as may be.
    Full,
}

impl<D: Device> XQueues<D> {
    /// Queues for this device; there are none at first.
    pub fn new(device: D, setup: Setup) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new()),
            changed: Condvar::new(),
            mode: SharedMode::new(),
            device,
            setup,
            markers_paused: Mutex::new(false),
            making_gate: Mutex::new(()),
            watcher_busy_since: AtomicU64::new(0),
            alarm: OnceLock::new(),
            tuner: OnceLock::new(),
            admission_state: OnceLock::new(),
        })
    }

    /// Whether any command may have to wait. One load, and a process that nothing schedules pays no more.
    #[inline]
    pub fn is_engaged(&self) -> bool {
        self.admission_mode() != AdmissionMode::Open
    }

    /// How launches are decided about now. One load.
    #[inline]
    pub fn admission_mode(&self) -> AdmissionMode {
        self.mode.get()
    }

    /// Where that is read: an [`AdmissionMode`].
    pub fn admission_mode_word(&self) -> &AtomicU8 {
        self.mode.word()
    }

    /// Sets whether every call is looked at, so that the first use of a device is noticed.
    pub fn await_first_use(&self, awaits: bool) {
        let mut state = self.lock();
        state.mode.awaits_first_use = awaits;
        self.publish(&mut state);
    }

    /// Makes every call be looked at from now on.
    pub fn observe_all_calls(&self) {
        let mut state = self.lock();
        state.mode.observes_all = true;
        self.publish(&mut state);
    }

    /// Whether calls must be looked at for any other reason than the first use of a device.
    pub fn has_reason(&self) -> bool {
        self.lock_only().has_reason()
    }

    /// Whether this process is beside others on some device and no command of it would wait, whatever the decision about that
    /// command. Then each claim is on the first level, and nothing is suspended or deferred.
    pub fn is_urgent(&self) -> bool {
        let state = self.lock_only();
        let is_any_suspended = state.is_any_suspended() || state.is_any_queue_kept();
        state.is_contended() && !is_any_suspended && !state.is_limited() && !state.is_any_deferred()
    }

    /// Whether a more urgent claim of this process on the queue's device has work, or had some within this time. The thread that
    /// makes that work may need what the caller holds, such as the lock of an interpreter.
    pub fn is_behind_own(&self, queue: QueueId, within: Nanos) -> bool {
        let since = now() - within;
        self.lock().is_behind_own(queue, since)
    }

    /// Whether other processes use a device of this process.
    pub fn is_contended(&self) -> bool {
        self.lock_only().is_contended()
    }

    /// What all claims have used so far; None if a lock is taken.
    pub fn total_usage(&self) -> Option<Usage> {
        let mut state = self.state.try_lock().ok()?;
        state.collect_all_launches();
        Some(state.total_usage())
    }

    /// Where commands are launched.
    pub fn device(&self) -> &D {
        &self.device
    }

    pub(crate) fn setup(&self) -> Setup {
        self.setup
    }

    /// Something happened that should not.
    pub(crate) fn trouble(&self, trouble: Trouble) {
        (self.setup.trouble)(trouble);
    }

    /// Adds a queue for a stream. No other queue may have the same status.
    pub fn create(&self, stream: D::Stream, claim: Option<ClaimId>, status: &'static QueueStatus) -> QueueId {
        let mut state = self.lock();
        let (orders_others, is_ordered) = (self.device.orders_others(stream), self.device.is_ordered(stream));
        let runtime = self.device.runtime(stream);
        let parts = QueueParts { stream, runtime, orders_others, is_ordered, claim, status };
        let queue = state.create_queue(&parts);
        state.note_queue(queue, &self.device);
        let is_new = claim.is_some_and(|claim| state.wants_registration(claim));
        drop(state);
        if is_new {
            // The watcher may have seen the claim while it had no stream.
            self.wake_watcher();
        }
        queue
    }

    /// Forgets a queue and what it has in flight. Returns false, and keeps the queue, if some deferred commands were not
    /// launched.
    pub fn destroy(&self, queue: QueueId) -> bool {
        let _no_marker = self.pause();
        let mut state = self.lock();
        let markers = state.destroy_queue(queue);
        self.publish(&mut state);
        drop(state);
        let Some(markers) = markers else { return false };
        self.retire(markers);
        true
    }

    /// Tells that a queue's stream is about to be destroyed: nothing is done with it from now on. The queue is forgotten when
    /// what it has in flight completes. Returns false, and keeps the queue as it is, if some deferred commands were not launched.
    pub fn detach_stream(&self, queue: QueueId) -> bool {
        if D::DESTROY_WAITS {
            self.await_end(queue);
        }
        let paused = self.pause();
        if !D::DESTROY_WAITS && !*paused {
            self.mark_end(queue);
        }
        let mut state = self.lock();
        let is_detached = state.detach_stream(queue);
        let over = state.forget_detached(false);
        self.publish(&mut state);
        let next = state.next_check(Source::Queue(queue));
        let sleeps = next.is_some_and(|at| state.watch.sleeps_beyond(at));
        drop(state);
        self.retire(over);
        drop(paused);
        if sleeps {
            self.wake_watcher();
        }
        is_detached
    }

    /// Forgets what destroyed streams have in flight: the device was reset.
    pub fn forget_detached(&self) {
        self.forget_queues_without_stream(true);
    }

    /// Forgets queues that have no stream and nothing in flight. With `all`, forgets those with commands in flight, too.
    fn forget_queues_without_stream(&self, all: bool) {
        // Threads that take away the device's events wait until these markers are retired.
        let _no_marker = self.pause();
        let mut state = self.lock();
        let over = state.forget_detached(all);
        self.publish(&mut state);
        drop(state);
        self.retire(over);
    }

    /// Defers nothing from now on; false ends that. What is deferred already stays deferred.
    pub fn defer_nothing(&self, defers_nothing: bool) {
        let mut state = self.lock();
        state.mode.defers_nothing = defers_nothing;
        self.publish(&mut state);
    }

    /// Suspends all queues; false resumes them.
    pub fn suspend_all(&self, suspended: bool) {
        let mut state = self.lock();
        state.mode.suspend_all(suspended);
        self.publish(&mut state);
    }

    /// Suspends a queue; false resumes it.
    pub fn suspend(&self, queue: QueueId, suspended: bool) {
        let mut state = self.lock();
        state.suspend(queue, suspended);
        self.publish(&mut state);
    }

    /// The program suspends a queue; false resumes it. `state/holding.rs` says what a held queue keeps.
    pub fn hold(&self, queue: QueueId, held: bool) {
        let mut state = self.lock();
        state.hold(queue, held);
        self.publish(&mut state);
        drop(state);
        self.wake_watcher();
    }

    /// Whether the calling thread itself suspended a queue, by [`Self::hold`].
    pub fn is_held_by_caller(&self, queue: QueueId) -> bool {
        self.lock_only().is_held_by_caller(queue)
    }

    /// Moves a queue to another claim, with what it has deferred and in flight.
    pub fn move_to_claim(&self, queue: QueueId, claim: ClaimId) {
        let mut state = self.lock();
        state.move_to_claim(queue, claim);
        state.update_gates(&self.device);
        state.note_queue(queue, &self.device);
        self.publish(&mut state);
        drop(state);
        self.wake_watcher();
    }

    /// Limits what a queue may have launched ahead, even without other processes. A limit from the controller takes precedence.
    /// None removes the limit.
    pub fn set_queue_limit(&self, queue: QueueId, limit: Option<Limit>) {
        let mut state = self.lock();
        state.set_queue_limit(queue, limit);
        self.publish(&mut state);
    }

    /// Sets whether gates may stop a queue's commands on the device.
    pub fn use_queue_gates(&self, queue: QueueId, uses_gates: bool) {
        self.lock().use_queue_gates(queue, uses_gates);
    }

    /// Changes the settings of the policy by which the process schedules itself. Returns false if it does not schedule itself.
    pub fn tune(&self, tuning: Tuning) -> bool {
        self.tuner.get().map(|tune| tune(tuning)).is_some()
    }

    /// Sets what takes the settings of the policy. Called once.
    pub(crate) fn set_tuner(&self, tuner: Tuner) {
        let _ = self.tuner.set(tuner);
    }

    /// Whether the queue exists and has its stream.
    pub fn exists(&self, queue: QueueId) -> bool {
        self.lock_only().stream_of(queue).is_some()
    }

    /// Whether any command is deferred or any caller waits.
    pub fn is_deferring(&self) -> bool {
        let state = self.lock_only();
        state.waiters.callers > 0 || state.is_any_deferred()
    }

    /// Decides whether a command that comes after these may be launched now. If so, notes that it is being launched.
    pub fn admit(&self, queue: QueueId, after: &[Position], demand: impl Into<Demand>) -> Admission<D> {
        let demand = demand.into();
        let mut tried = self.try_admit(queue, after, demand);
        // What the watcher finds at its next look, the caller finds now. Once a command is deferred, so are all behind it. It looks
        // even if nothing should be done yet: durations that were only seen by late looks are too long.
        let mut may_have_room = true;
        while may_have_room && matches!(tried, Err(Unready::Full)) {
            may_have_room = self.check_first_marker(queue);
            tried = self.try_admit(queue, after, demand);
        }
        tried.unwrap_or(Admission::Wait)
    }

    fn try_admit(&self, queue: QueueId, after: &[Position], demand: Demand) -> Result<Admission<D>, Unready> {
        let is_forced = demand.treatment.is_forced();
        // A forced command changes how everything in flight is treated, so all launches must be known.
        let mut state = if is_forced { self.lock() } else { self.lock_for(Source::Queue(queue)) };
        let bugs = self.setup.bugs;
        let is_first = state.is_drained(queue)
            || bugs.has(Bug::Overtaking)
            || is_forced && bugs.has(Bug::ForcedOvertaking);
        state.update_gates(&self.device);
        let is_alone = is_forced && bugs.has(Bug::ForcedAlone);
        let is_kept = !is_forced && state.is_suspended(queue);
        if is_kept || !is_first || !(is_alone || state.are_launched(after)) {
            return Err(Unready::Kept);
        }
        if !is_forced && !state.may_launch_ahead(Source::Queue(queue), demand.load) {
            return Err(Unready::Full);
        }
        let launch = state.begin(queue, demand, Delay::None);
        self.open_gates_for(&mut state, launch.as_ref());
        Ok(launch.map_or(Admission::Free, Admission::Now))
    }

    /// Puts the gate and the marker, if any, before an admitted launch. Called right before the launch, on the same thread.
    pub fn prepare(&self, launch: &mut PendingLaunch<D>) {
        if let Some(gate) = launch.gate
            && !self.device.put_gate(gate, launch.stream)
        {
            // Without the gate, the command merely cannot be kept from beginning.
            launch.gate = None;
            self.trouble(Trouble::RefusedGate);
            let mut state = self.lock();
            state.gate_refused(launch.claim, self.device.runtime(launch.stream), &self.device);
            self.publish(&mut state);
        }
        if let Some(sample) = &mut launch.sample
            && self.device.measures()
        {
            let begun = now();
            sample.before = self.mark(launch.stream).map(|marker| (marker, begun));
        }
    }

    /// Records a marker, unless markers are paused.
    fn mark(&self, stream: D::Stream) -> Option<D::Marker> {
        let paused = self.pause();
        if *paused { None } else { self.device.mark(stream) }
    }

    /// Notes that an admitted launch has returned. With `on_device` the runtime took it.
    #[expect(clippy::needless_pass_by_value, reason = "a launch is finished once")]
    pub fn finish(&self, launch: PendingLaunch<D>, on_device: bool) {
        if let Some(sample) = &launch.sample {
            self.finish_sample(&launch, sample, on_device);
        }
        let mut state = self.lock_for(launch.source);
        let returned = now();
        let Some(launched) = state.launch_returned(&launch, on_device, returned) else {
            let (sleeps, retired) = state.finish(&launch, None, on_device, returned);
            self.open_journal(&mut state, &launch, returned);
            drop(state);
            return self.finished(sleeps, retired);
        };
        drop(state);
        let paused = Some(self.pause()).filter(|paused| !**paused);
        let may_be_done = paused.is_some() && launch.demand.end == KnownEnd::ByReturn;
        let is_done = may_be_done.then(|| self.device.is_done(launch.stream));
        let marker = match (launch.source, is_done) {
            // The program may know that the stream is done. A marker behind it would make the stream busy again.
            (Source::Queue(queue), Some(Some(true))) => {
                self.note_answer(queue, launched, Some(true));
                None
            }
            // The watcher asks the stream later.
            (Source::Queue(queue), Some(None)) if self.lock_only().may_be_asked_later(queue) => None,
            _ => {
                paused.as_ref().and_then(|_| self.device.mark(launch.stream)).map(|marker| (marker, launched))
            }
        };
        drop(paused);
        let mut state = self.lock_for(launch.source);
        let finished = now();
        let (sleeps, retired) = state.finish(&launch, marker, on_device, finished);
        self.open_journal(&mut state, &launch, finished);
        drop(state);
        if is_done == Some(Some(true)) && marker.is_some() {
            // Streams without a queue are followed by markers only, and this marker must not keep the stream busy.
            self.await_marker(launch.stream);
        }
        self.finished(sleeps, retired);
    }

    /// Wakes the watcher if it would look too late, and retires markers.
    fn finished(&self, sleeps: bool, retired: Vec<D::Marker>) {
        self.retire(retired);
        if sleeps {
            self.wake_watcher();
        }
    }

    /// The queue's last command, if its launch has not returned.
    pub fn last(&self, queue: QueueId) -> Option<Position> {
        self.lock_only().last(queue)
    }

    /// The same, as other threads see it: while the program holds the queue, a command whose call was not made does not count.
    pub fn last_for_others(&self, queue: QueueId) -> Option<Position> {
        self.lock_only().last_for_others(queue)
    }

    /// The command of a queue whose launch has begun and has not returned.
    pub fn last_taken(&self, queue: QueueId) -> Option<Position> {
        self.lock_only().last_taken(queue)
    }

    /// The last commands of all queues, as other threads see them.
    pub fn all_last(&self) -> Vec<Position> {
        self.lock_only().all_last()
    }

    /// Whether all of these were launched.
    pub fn are_launched(&self, positions: &[Position]) -> bool {
        self.lock_only().are_launched(positions)
    }

    /// Defers a command until it may be launched. Never waits.
    ///
    /// # Errors
    /// The command itself, with the reason.
    pub fn submit(
        self: &Arc<Self>,
        queue: QueueId,
        after: Vec<Position>,
        demand: impl Into<Demand>,
        command: D::Command,
    ) -> Result<Position, (Refused, D::Command)> {
        let demand = demand.into();
        let mut state = self.lock();
        // A command behind deferred ones did not ask for admission, which updates gates otherwise.
        state.update_gates(&self.device);
        if let Some(refused) = state.refusal(queue) {
            return Err((refused, command));
        }
        if !state.has_worker(queue) && worker::start(self, queue).is_err() {
            return Err((Refused::NoWorker, command));
        }
        let now = now();
        let pushed = state.push(queue, after, demand, command, now);
        let may_be_next = pushed.is_first || demand.treatment.is_forced();
        if may_be_next {
            self.publish(&mut state);
        }
        // No thread waits for a command that comes last, and the watcher knows of those before.
        let sleeps = may_be_next && state.is_watched(queue) && state.watch.sleeps_beyond(now + SOON);
        drop(state);
        if sleeps {
            self.wake_watcher();
        }
        Ok(pushed.position)
    }

    /// Forces these commands and what they come after: nothing suspended keeps them. Commands in flight are pinned, since what
    /// waits for the forced commands may wait for them, too.
    pub fn force(&self, positions: &[Position]) {
        let mut state = self.lock();
        state.pin_all();
        state.update_gates(&self.device);
        if !state.are_launched(positions) {
            state.force(positions);
            self.publish(&mut state);
        }
    }

    /// Opens gates before a launch that must not be stopped, or that must not wait for work behind a gate. Also opens the gate
    /// before the launch, if it should be open: it may not have been looked at since it was closed.
    fn open_gates_for(&self, state: &mut State<D>, launch: Option<&PendingLaunch<D>>) {
        // A launch that is not followed may be one that passes through.
        if launch.is_none_or(|launch| launch.demand.treatment.is_pinned() || launch.gate.is_some()) {
            state.update_gates(&self.device);
        }
    }

    /// Launches everything that is deferred and accepts nothing more: the process ends. Gives up at `deadline`.
    pub fn close(&self, deadline: Instant) {
        self.check_all_if_recorded();
        let mut state = self.lock();
        state.close();
        state.retire_gates(None, &self.device);
        self.publish(&mut state);
        let positions = state.all_last();
        while !state.are_launched(&positions) && Instant::now() < deadline {
            state = self.wait(state);
        }
        drop(state);
        self.leave_device(deadline);
    }

    /// Whether the process ends.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().mode.closed
    }

    /// Makes all threads stop looking at markers, recording them and making gates: the runtime is about to destroy its own data.
    /// Waits for a thread that is in such a call until `deadline`: the call may never return.
    fn leave_device(&self, deadline: Instant) {
        if let Some(mut paused) = lock_until(&self.markers_paused, deadline) {
            *paused = true;
        }
        let _none_is_made = lock_until(&self.making_gate, deadline);
        self.lock().release_trials(&self.device);
    }

    /// The watcher goes to sleep; false: it is busy from now on.
    pub(crate) fn watcher_sleeps(&self, sleeps: bool) {
        let since = if sleeps { 0 } else { now().0.max(1) };
        self.watcher_busy_since.store(since, Ordering::Release);
    }

    /// Opens gates while the watcher is stuck in a call of the runtime. Called on another thread than the watcher's, and makes no
    /// calls of the runtime.
    pub(crate) fn guard_gates(&self, now: Nanos) {
        let since = Nanos(self.watcher_busy_since.load(Ordering::Acquire));
        let is_stuck = !since.is_zero() && now > since + STUCK_AFTER;
        let mut state = self.lock();
        if std::mem::replace(&mut state.limits.is_watcher_stuck, is_stuck) != is_stuck {
            state.update_gates(&self.device);
        }
        if is_stuck {
            state.open_tried_pages();
        }
    }

    /// Locks the state. It knows all launches that have returned.
    fn lock(&self) -> Locked<'_, D> {
        let mut state = self.lock_only();
        state.collect_all_launches();
        state
    }

    /// Locks the state. It knows this source's launches that have returned, and may not know the latest of other sources.
    fn lock_for(&self, source: Source) -> Locked<'_, D> {
        let mut state = self.lock_only();
        if let Source::Queue(queue) = source {
            state.collect_launches(queue);
        }
        state
    }

    /// Locks the state for a purpose that no launch matters to: it may not know the latest ones.
    ///
    /// The lock is never poisoned for good: a panic under it can only be this crate's, and each change to the state is complete
    /// in itself.
    fn lock_only(&self) -> Locked<'_, D> {
        Locked::new(self.state.lock().unwrap_or_else(PoisonError::into_inner), &self.changed)
    }

    /// Keeps other threads from recording markers and looking at them. The value is true if markers are paused anyway.
    fn pause(&self) -> MutexGuard<'_, bool> {
        self.markers_paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_watcher(&self) {
        if let Some(alarm) = self.alarm.get() {
            alarm();
        }
    }
}

/// Locks a mutex. None if other threads hold it until `deadline`.
fn lock_until<T>(mutex: &Mutex<T>, deadline: Instant) -> Option<MutexGuard<'_, T>> {
    loop {
        match mutex.try_lock() {
            Ok(locked) => return Some(locked),
            Err(TryLockError::Poisoned(locked)) => return Some(locked.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(LOCKED_AGAIN),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
