//! XQueues: software queues in front of a device's streams, which defer commands while these must wait.
//!
//! Back ends name queues, commands, and what a command comes after. Commands are launched through a [`Device`], each queue in its
//! order. A queue has a thread while something is deferred (the launch worker); any of them that is awake launches the next
//! command.
//!
//! ```text
//!            submit                    not suspended, everything before it launched
//!   caller ----------> [c3 c2 c1] ---------------------------------------------------> Device::launch
//!            waits while full         launch worker
//! ```
//!
//! A command is deferred only while it must be: its queue or all queues are suspended, or it comes after a deferred command.
//! [`XQueues::admit`] says so. A caller that is admitted launches by itself, at once.
//!
//! What a command comes after is given as [`Position`]s, which are always older than the command itself. So waiting never goes
//! round in a circle, whatever is suspended: a queue that waits for a suspended one is suspended with it, for as long as it
//! depends.
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

use std::sync::atomic::{AtomicU64, Ordering};
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
use crate::state::{Refused, State};
use crate::status::{AdmissionMode, QueueStatus, SharedMode};
use crate::trouble::Trouble;
use crate::tuning::Tuning;
use locked::Locked;

/// How soon a thread that waits looks again by itself: no thread waits for ever because of a lost notification.
const WAIT_MAX: Duration = Duration::from_millis(10);

/// How often an ending process tries whether the watcher has left the runtime.
const LOCKED_AGAIN: Duration = Duration::from_micros(100);

/// A watcher that is busy for longer is stuck.
const STUCK_AFTER: Nanos = Nanos::from_millis(100);

/// A watcher that looks so soon need not be woken.
const SOON: Nanos = Nanos::from_millis(1);

pub use at_once::{AdmissionAtOnce, JournalledLaunch};

/// What queues are given when they are made.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Counts what should not happen. Called on any thread, with or without locks; must not wait.
    pub trouble: fn(Trouble),
    /// Bugs for tests to find.
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
    /// For callers that wait: something was launched, or may be.
    changed: Condvar,
    /// What can be read without the lock.
    mode: SharedMode,
    device: D,
    setup: Setup,
    /// Held while markers are recorded or looked at, and by threads that take away what these need. True: neither is done.
    markers_paused: Mutex<bool>,
    /// Held while a gate is made.
    making_gate: Mutex<()>,
    /// Since when the watcher has been busy; 0 while it sleeps.
    watcher_busy_since: AtomicU64,
    /// Wakes the watcher.
    alarm: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Tunes the policy by which the process schedules itself, if it does.
    tuner: OnceLock<Tuner>,
    /// Says of the name of a claim's registration whether the claim is beside others.
    is_beside: OnceLock<Box<dyn Fn(u64) -> bool + Send + Sync>>,
}

/// Takes what a program asks for of a policy.
pub(crate) type Tuner = Box<dyn Fn(Tuning) + Send + Sync>;

/// Whether a command may be launched.
#[derive(Debug)]
#[must_use]
pub enum Admission<D: Device> {
    /// At once, and its end is not followed.
    Free,
    /// At once; [`XQueues::finish`] must be called when it was launched.
    Now(PendingLaunch<D>),
    /// Not yet.
    Wait,
}

impl<D: Device> XQueues<D> {
    /// No queues yet, in front of this device.
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
            is_beside: OnceLock::new(),
        })
    }

    /// Whether any command may have to wait. One load: all that a process pays in which nothing is scheduled.
    #[inline]
    pub fn is_engaged(&self) -> bool {
        self.admission_mode() != AdmissionMode::Open
    }

    /// What decides about commands now. One load.
    #[inline]
    pub fn admission_mode(&self) -> AdmissionMode {
        self.mode.get()
    }

    /// Every call is looked at until this is taken back: the first use of a device must be noticed.
    pub fn await_first_use(&self, awaits: bool) {
        let mut state = self.lock();
        state.mode.awaits_first_use = awaits;
        self.publish(&mut state);
    }

    /// Every call is looked at from now on.
    pub fn observe_all_calls(&self) {
        let mut state = self.lock();
        state.mode.observes_all = true;
        self.publish(&mut state);
    }

    /// Whether there is any reason to look at calls, besides the first use of a device.
    pub fn has_reason(&self) -> bool {
        self.lock_only().has_reason()
    }

    /// Whether others use a device of this process, and none of its commands would have to wait whatever is decided about
    /// it: it is on the first level wherever it has a claim, and nothing is suspended or deferred.
    pub fn is_urgent(&self) -> bool {
        let state = self.lock_only();
        let is_any_suspended = state.is_any_suspended() || state.is_any_queue_kept();
        state.is_contended() && !is_any_suspended && !state.is_limited() && !state.is_any_deferred()
    }

    /// Whether another claim of this process on the queue's device is more urgent than the queue's, and has or had work within this
    /// time. The thread that gives it work may need something that the caller holds, such as the lock of an interpreter.
    pub fn is_behind_own(&self, queue: QueueId, within: Nanos) -> bool {
        let since = now() - within;
        self.lock().is_behind_own(queue, since)
    }

    /// Whether others use a device of this process.
    pub fn is_contended(&self) -> bool {
        self.lock_only().is_contended()
    }

    /// What all claims have used so far, if that can be told without waiting.
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

    /// A new queue in front of a stream, with a status that no other queue has.
    pub fn create(&self, stream: D::Stream, claim: Option<ClaimId>, status: &'static QueueStatus) -> QueueId {
        let mut state = self.lock();
        let orders_others = self.device.orders_others(stream);
        let runtime = self.device.runtime(stream);
        let queue = state.create_queue(&QueueParts { stream, runtime, orders_others, claim, status });
        state.note_queue(queue, &self.device);
        let is_new = claim.is_some_and(|claim| state.wants_registration(claim));
        drop(state);
        if is_new {
            // It may have seen the claim without a stream.
            self.wake_watcher();
        }
        queue
    }

    /// Forgets a queue whose commands were all launched, and what it has in flight. False if some were not: then it stays.
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

    /// A queue's stream is about to go: it is not touched any more. The queue is forgotten when what it has in flight is done. False
    /// if not all of its commands were launched: then it stays.
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

    /// Forgets what streams that are gone have in flight: the device was reset.
    pub fn forget_detached(&self) {
        self.forget_queues_without_stream(true);
    }

    /// Forgets queues without a stream that have nothing in flight; with `all`, also the others.
    fn forget_queues_without_stream(&self, all: bool) {
        // A thread that takes the device's events away waits until they are given back.
        let _no_marker = self.pause();
        let mut state = self.lock();
        let over = state.forget_detached(all);
        self.publish(&mut state);
        drop(state);
        self.retire(over);
    }

    /// Nothing is deferred from now on; false takes it back. What was deferred before stays so.
    pub fn defer_nothing(&self, defers_nothing: bool) {
        let mut state = self.lock();
        state.mode.defers_nothing = defers_nothing;
        self.publish(&mut state);
    }

    /// Suspends all queues from now on; false resumes them.
    pub fn suspend_all(&self, suspended: bool) {
        let mut state = self.lock();
        state.mode.suspend_all(suspended);
        self.publish(&mut state);
    }

    /// Suspends a queue from now on; false resumes it.
    pub fn suspend(&self, queue: QueueId, suspended: bool) {
        let mut state = self.lock();
        state.suspend(queue, suspended);
        self.publish(&mut state);
    }

    /// The program suspends a queue from now on; false resumes it. What such a queue keeps, and what not: `state/holding.rs`.
    pub fn hold(&self, queue: QueueId, held: bool) {
        let mut state = self.lock();
        state.hold(queue, held);
        self.publish(&mut state);
        drop(state);
        self.wake_watcher();
    }

    /// Whether the calling thread has itself suspended a queue, by [`Self::hold`].
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

    /// How much a queue may have launched ahead, also while it has no neighbours, where the controller says nothing. None takes it back.
    pub fn set_queue_limit(&self, queue: QueueId, limit: Option<Limit>) {
        let mut state = self.lock();
        state.set_queue_limit(queue, limit);
        self.publish(&mut state);
    }

    /// Whether gates may stop a queue's commands on the device.
    pub fn use_queue_gates(&self, queue: QueueId, uses_gates: bool) {
        self.lock().use_queue_gates(queue, uses_gates);
    }

    /// Tunes the policy by which the process schedules itself. False if it does not.
    pub fn tune(&self, tuning: Tuning) -> bool {
        self.tuner.get().map(|tune| tune(tuning)).is_some()
    }

    /// What tunes the policy. Given once.
    pub(crate) fn set_tuner(&self, tuner: Tuner) {
        let _ = self.tuner.set(tuner);
    }

    /// Whether a queue is there, with its stream.
    pub fn exists(&self, queue: QueueId) -> bool {
        self.lock_only().stream_of(queue).is_some()
    }

    /// Whether any command is deferred, or a caller waits.
    pub fn is_deferring(&self) -> bool {
        let state = self.lock_only();
        state.waiters.callers > 0 || state.is_any_deferred()
    }

    /// Whether a command that comes after these may be launched now, and then notes that it is.
    pub fn admit(&self, queue: QueueId, after: &[Position], demand: impl Into<Demand>) -> Admission<D> {
        let demand = demand.into();
        let is_forced = demand.treatment.is_forced();
        // What must not wait concerns all that is in flight.
        let mut state = if is_forced { self.lock() } else { self.lock_for(Source::Queue(queue)) };
        let bugs = self.setup.bugs;
        let is_first = state.is_drained(queue)
            || bugs.has(Bug::Overtaking)
            || is_forced && bugs.has(Bug::ForcedOvertaking);
        state.update_gates(&self.device);
        let may_launch = is_forced
            || !state.is_suspended(queue) && state.may_launch_ahead(Source::Queue(queue), demand.load);
        let is_alone = is_forced && bugs.has(Bug::ForcedAlone);
        if !may_launch || !is_first || !(is_alone || state.are_launched(after)) {
            return Admission::Wait;
        }
        let launch = state.begin(queue, demand, Delay::None);
        self.open_gates_for(&mut state, launch.as_ref());
        launch.map_or(Admission::Free, Admission::Now)
    }

    /// A launch that was admitted is about to happen, on this thread.
    pub fn prepare(&self, launch: &mut PendingLaunch<D>) {
        if let Some(gate) = launch.gate
            && !self.device.put_gate(gate, launch.stream)
        {
            // Without it the command just cannot be kept from beginning.
            launch.gate = None;
            self.trouble(Trouble::RefusedGate);
            let mut state = self.lock();
            state.gate_refused(launch.claim, self.device.runtime(launch.stream), &self.device);
            self.publish(&mut state);
        }
    }

    /// A launch that was admitted has returned. With `on_device` the runtime took it.
    #[expect(clippy::needless_pass_by_value, reason = "a launch is finished once")]
    pub fn finish(&self, launch: PendingLaunch<D>, on_device: bool) {
        let mut state = self.lock_for(launch.source);
        let returned = now();
        let Some(launched) = state.launch_returned(&launch, on_device, returned) else {
            let (sleeps, retired) = state.finish(&launch, None, on_device, returned);
            self.open_journal(&mut state, launch.source, returned);
            drop(state);
            return self.finished(sleeps, retired);
        };
        drop(state);
        let paused = Some(self.pause()).filter(|paused| !**paused);
        let may_be_done = paused.is_some() && launch.demand.end == KnownEnd::ByReturn;
        let is_done = may_be_done.then(|| self.device.is_done(launch.stream));
        let marker = match (launch.source, is_done) {
            // The program may know it as well: a marker behind it would be the only thing left to wait for.
            (Source::Queue(queue), Some(Some(true))) => {
                self.note_answer(queue, launched, Some(true));
                None
            }
            // The watcher will ask.
            (Source::Queue(queue), Some(None)) if self.lock_only().may_be_asked_later(queue) => None,
            _ => {
                paused.as_ref().and_then(|_| self.device.mark(launch.stream)).map(|marker| (marker, launched))
            }
        };
        drop(paused);
        let mut state = self.lock_for(launch.source);
        let finished = now();
        let (sleeps, retired) = state.finish(&launch, marker, on_device, finished);
        self.open_journal(&mut state, launch.source, finished);
        drop(state);
        if is_done == Some(Some(true)) && marker.is_some() {
            // Streams without a queue are followed by markers only.
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

    /// The queue's last deferred command, if it has not been launched.
    pub fn last(&self, queue: QueueId) -> Option<Position> {
        self.lock_only().last(queue)
    }

    /// The same as other threads know it: a command whose call is still to be made does not count while the program suspends the
    /// queue.
    pub fn last_for_others(&self, queue: QueueId) -> Option<Position> {
        self.lock_only().last_for_others(queue)
    }

    /// The command of a queue whose launch has begun and has not returned.
    pub fn last_taken(&self, queue: QueueId) -> Option<Position> {
        self.lock_only().last_taken(queue)
    }

    /// The same of all queues.
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
        // A command behind deferred ones has not asked for admission, where gates are looked at as well.
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
        // No thread waits for a command that comes last, and the watcher was notified of those before.
        let sleeps = may_be_next && state.is_watched(queue) && state.watch.sleeps_beyond(now + SOON);
        drop(state);
        if sleeps {
            self.wake_watcher();
        }
        Ok(pushed.position)
    }

    /// Whatever is suspended, these commands are launched from now on, and what they come after. Commands in flight are not stopped
    /// any more: what waits for these may wait for that as well.
    pub fn force(&self, positions: &[Position]) {
        let mut state = self.lock();
        state.pin_all();
        state.update_gates(&self.device);
        if !state.are_launched(positions) {
            state.force(positions);
            self.publish(&mut state);
        }
    }

    /// Opens gates for a launch that must not be stopped, or must not wait for what may be, before it happens; and the gate that is
    /// put before it, which may not have been looked at since it was closed.
    fn open_gates_for(&self, state: &mut State<D>, launch: Option<&PendingLaunch<D>>) {
        // A launch that is not followed may be one that passes through.
        if launch.is_none_or(|launch| launch.demand.treatment.is_pinned() || launch.gate.is_some()) {
            state.update_gates(&self.device);
        }
    }

    /// Launches everything and takes nothing more, for a process that ends. Gives up at `deadline`.
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

    /// No thread looks at markers, records any or makes gates from now on: the runtime's own data is about to be destroyed. Waits
    /// for a thread that does so, until `deadline` at most: its call of the runtime may not return.
    fn leave_device(&self, deadline: Instant) {
        if let Some(mut paused) = lock_until(&self.markers_paused, deadline) {
            *paused = true;
        }
        let _none_is_made = lock_until(&self.making_gate, deadline);
        self.lock().release_trials(&self.device);
    }

    /// The watcher goes to sleep, or is busy from now on.
    pub(crate) fn watcher_sleeps(&self, sleeps: bool) {
        let since = if sleeps { 0 } else { now().0.max(1) };
        self.watcher_busy_since.store(since, Ordering::Release);
    }

    /// Opens gates while the watcher is stuck in a call of the runtime. Not on its thread; makes no calls of the runtime.
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

    /// The state, which knows all launches that have returned.
    fn lock(&self) -> Locked<'_, D> {
        let mut state = self.lock_only();
        state.collect_all_launches();
        state
    }

    /// The same, but of the other sources it may not know the latest launches.
    fn lock_for(&self, source: Source) -> Locked<'_, D> {
        let mut state = self.lock_only();
        if let Source::Queue(queue) = source {
            state.collect_launches(queue);
        }
        state
    }

    /// The state for what no launch concerns: of none it may know the latest.
    ///
    /// A panic while the lock was held is the crate's own; the state is only changed by whole steps.
    fn lock_only(&self) -> Locked<'_, D> {
        Locked::new(self.state.lock().unwrap_or_else(PoisonError::into_inner), &self.changed)
    }

    /// Keeps markers from being recorded and looked at while it lives; says whether they are anyway.
    fn pause(&self) -> MutexGuard<'_, bool> {
        self.markers_paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_watcher(&self) {
        if let Some(alarm) = self.alarm.get() {
            alarm();
        }
    }
}

/// None if others hold it until then.
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
