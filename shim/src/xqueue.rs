//! XQueues: software queues before the hardware's, which hold commands back while they must wait.
//!
//! This module knows no HIP. It is told of queues, commands and what a command comes after; it launches commands
//! through a [`Device`], each queue in its order. A queue has a thread while something is buffered (the LaunchWorker);
//! whichever of them is awake launches what goes next.
//!
//! ```text
//!            submit                    not suspended, everything before it launched
//!   caller ----------> [c3 c2 c1] ---------------------------------------------------> Device::launch
//!            waits while full         LaunchWorker
//! ```
//!
//! A command is held back only while it must be: its queue or all queues are suspended, or something that it comes
//! after is held back. [`XQueues::admit`] says so; who is admitted launches by itself, at once.
//!
//! What a command comes after is given as [`Position`]s, which are always older than the command itself. So waiting
//! never goes round in a circle, whatever is suspended: a queue that waits for a suspended one is suspended with it, no
//! more and no longer.
//!
//! Some commands are not held back at all, and not stopped either: [`treatment`].
//!
//! While other processes use the same device, a queue's [claim] on it must give way to more urgent ones, and launch
//! little ahead of what the device does; see `contention`.

mod claim;
mod clock;
mod contention;
mod face;
mod flight;
mod gates;
mod recording;
mod state;
mod treatment;
mod waking;
mod watch;
mod worker;

use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use xsched_sched::Nanos;

use crate::planted::{Bug, is_planted};
use contention::Place;
use face::Shown;
use recording::Held;
use state::{Pushed, State};

pub(crate) use claim::{ClaimId, ClaimKey, Seat, Standing, Usage};
pub(crate) use clock::now;
pub(crate) use contention::{Begun, Load};
pub(crate) use face::{Course, Face};
pub(crate) use flight::Class;
pub(crate) use treatment::{Demand, Treatment};

/// Commands that a queue holds before whoever submits to it has to wait.
const BUFFERED_MAX: usize = 4096;

/// How soon whoever waits looks again by itself: nobody waits for ever because of a word that got lost.
const WAIT_MAX: Duration = Duration::from_millis(10);

/// The watcher that comes so soon need not be woken.
const SOON: Nanos = Nanos::from_millis(1);

/// Where commands go.
pub(crate) trait Device: Send + Sync + 'static {
    /// A command with everything that it needs.
    type Command: Send + 'static;

    /// A hardware's queue, as far as markers need it.
    type Stream: Copy + Debug + Send + 'static;

    /// A point in the order of a stream.
    type Marker: Copy + Debug + Eq + Send + 'static;

    /// What holds up a hardware's queue while it is shut.
    type Gate: Copy + Debug + Send + 'static;

    /// What names a stream in events.
    fn stream_number(&self, stream: Self::Stream) -> u64;

    /// Gives a command to the hardware's queue. Called on the queue's LaunchWorker, in the queue's order. False if
    /// it was refused.
    fn launch(&self, command: Self::Command) -> bool;

    /// Records a marker behind everything that was given to a stream.
    fn mark(&self, stream: Self::Stream) -> Option<Self::Marker>;

    /// Whether everything before a marker has completed. Never waits.
    fn is_complete(&self, marker: Self::Marker) -> bool;

    /// The device's time from one complete marker to another of the same stream, if it knows.
    fn between(&self, earlier: Self::Marker, later: Self::Marker) -> Option<Nanos>;

    /// Takes a marker back.
    fn retire(&self, marker: Self::Marker);

    /// A new gate for a stream's device, open; None where there are none. May take a while.
    fn make_gate(&self, stream: Self::Stream) -> Option<Self::Gate>;

    /// Puts a gate before what is given to a stream next. False if that cannot be done.
    fn put_gate(&self, gate: Self::Gate, stream: Self::Stream) -> bool;

    /// Opens a gate, or shuts it. Never waits.
    fn set_gate(&self, gate: Self::Gate, is_open: bool);
}

/// Names a queue. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QueueId(u64);

/// A command that was held back: the how-many-th of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) queue: QueueId,
    number: u64,
}

/// All queues of a process.
pub(crate) struct XQueues<D: Device> {
    state: Mutex<State<D>>,
    /// For callers that wait: something was launched, or may go.
    changed: Condvar,
    /// What shows without the lock.
    shown: Shown,
    device: D,
    /// Held while markers are recorded or looked at, and by whoever takes away what they need. True: neither is done.
    markers_paused: Mutex<bool>,
    /// Held while a gate is made.
    gate_in_the_making: Mutex<()>,
    /// Wakes the watcher.
    alarm: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Whether a command may go.
#[derive(Debug)]
#[must_use]
pub(crate) enum Admission<D: Device> {
    /// At once, and nobody needs to know of it.
    Free,
    /// At once; [`XQueues::finish`] wants to know when it was launched.
    Now(Begun<D>),
    /// Not yet.
    Wait,
}

/// Why a command was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The queue holds as many commands as it can.
    Full,
    /// Nothing is held back at present.
    HoldsNothing,
    /// There is no thread to launch it from: the system gives none.
    NoWorker,
    /// The process ends.
    Closed,
}

impl<D: Device> XQueues<D> {
    pub(crate) fn new(device: D) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new()),
            changed: Condvar::new(),
            shown: Shown::new(),
            device,
            markers_paused: Mutex::new(false),
            gate_in_the_making: Mutex::new(()),
            alarm: OnceLock::new(),
        })
    }

    /// Whether any command may have to wait. One load: all that a process pays in which nothing is scheduled.
    pub(crate) fn is_engaged(&self) -> bool {
        self.course() != Course::Open
    }

    /// What decides about commands now. One load.
    #[inline]
    pub(crate) fn course(&self) -> Course {
        self.shown.course()
    }

    /// Every call is looked at until this is taken back: the first use of a device must be noticed.
    pub(crate) fn await_first_use(&self, awaits: bool) {
        let mut state = self.lock();
        state.awaits_first_use = awaits;
        self.publish(&mut state);
    }

    /// Every call is looked at from now on.
    pub(crate) fn look_at_all(&self) {
        let mut state = self.lock();
        state.looks_at_all = true;
        self.publish(&mut state);
    }

    /// Where commands go.
    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// A new queue before a stream, with a face that no other queue has.
    pub(crate) fn create(&self, stream: D::Stream, claim: Option<ClaimId>, face: &'static Face) -> QueueId {
        let mut state = self.lock();
        let queue = state.create(stream, claim, face);
        state.introduce(queue, &self.device);
        queue
    }

    /// Forgets a queue whose commands were all launched, before its stream goes. False if some were not: then it stays.
    pub(crate) fn destroy(&self, queue: QueueId) -> bool {
        let _no_marker = self.pause();
        let mut state = self.lock();
        let markers = state.destroy(queue);
        self.publish(&mut state);
        drop(state);
        let Some(markers) = markers else { return false };
        self.retire(markers);
        true
    }

    /// Nothing is held back from now on; false takes it back. What was held back before stays so.
    pub(crate) fn hold_nothing(&self, holds_nothing: bool) {
        let mut state = self.lock();
        state.holds_nothing = holds_nothing;
        self.publish(&mut state);
    }

    /// Holds commands of all queues back from now on; false lets them go again.
    pub(crate) fn suspend_all(&self, suspended: bool) {
        let mut state = self.lock();
        state.all_suspended = suspended && !state.closed;
        self.publish(&mut state);
    }

    /// Holds a queue's commands back from now on; false lets them go again.
    pub(crate) fn suspend(&self, queue: QueueId, suspended: bool) {
        let mut state = self.lock();
        state.suspend(queue, suspended);
        self.publish(&mut state);
    }

    /// Whether a command that comes after these may go now, and then notes that it does.
    pub(crate) fn admit(
        &self,
        queue: QueueId,
        after: &[Position],
        demand: impl Into<Demand>,
    ) -> Admission<D> {
        let demand = demand.into();
        let mut state = self.lock();
        let is_forced = demand.treatment.is_forced();
        let is_first = state.is_idle(queue)
            || is_planted(Bug::Overtaking)
            || is_forced && is_planted(Bug::ForcedOvertaking);
        state.set_gates(&self.device);
        let has_turn =
            is_forced || !state.is_suspended(queue) && state.has_room(Place::Queue(queue), demand.load);
        let is_alone = is_forced && is_planted(Bug::ForcedAlone);
        if !has_turn || !is_first || !(is_alone || state.are_launched(after)) {
            return Admission::Wait;
        }
        let begun = state.begin(queue, demand, Held::Never);
        self.open_for(&mut state, begun.as_ref());
        begun.map_or(Admission::Free, Admission::Now)
    }

    /// A launch that was admitted is about to happen, on this thread.
    pub(crate) fn prepare(&self, begun: &Begun<D>) {
        if let Some(gate) = begun.gate {
            // Without it the command just cannot be kept from beginning.
            self.device.put_gate(gate, begun.stream);
        }
    }

    /// A launch that was admitted has returned. With `on_device` the runtime took it.
    #[expect(clippy::needless_pass_by_value, reason = "a launch is finished once")]
    pub(crate) fn finish(&self, begun: Begun<D>, on_device: bool) {
        let wants_marker = self.lock().launched_one(&begun, on_device);
        let paused = wants_marker.then(|| self.pause()).filter(|paused| !**paused);
        let marker = paused.as_ref().and_then(|_| self.device.mark(begun.stream));
        drop(paused);
        let (sleeps, retired) = self.lock().finish(&begun, marker);
        self.retire(retired);
        if sleeps {
            self.wake_watcher();
        }
    }

    /// The queue's last command that was held back, if it has not been launched.
    pub(crate) fn last(&self, queue: QueueId) -> Option<Position> {
        self.lock().last(queue)
    }

    /// Whether all of these were launched.
    pub(crate) fn are_launched(&self, positions: &[Position]) -> bool {
        self.lock().are_launched(positions)
    }

    /// Waits while the queue is full.
    pub(crate) fn wait_for_room(&self, queue: QueueId) {
        let mut state = self.lock();
        while state.is_full(queue) && !state.closed {
            state = self.wait(state);
        }
    }

    /// Holds a command back until it may go. Never waits.
    ///
    /// # Errors
    /// The command itself, with the reason.
    pub(crate) fn submit(
        self: &Arc<Self>,
        queue: QueueId,
        after: Vec<Position>,
        demand: impl Into<Demand>,
        command: D::Command,
    ) -> Result<Position, (Refused, D::Command)> {
        let demand = demand.into();
        let mut state = self.lock();
        if let Some(refused) = state.refuses(queue) {
            return Err((refused, command));
        }
        if !state.has_worker(queue) && worker::start(self, queue).is_err() {
            return Err((Refused::NoWorker, command));
        }
        let now = now();
        let Pushed { position, is_first } = state.push(queue, after, demand, command, now);
        let is_forced = demand.treatment.is_forced();
        if is_first || is_forced {
            self.publish(&mut state);
        }
        // Nobody waits for a command that comes last, and the watcher was told of those before.
        let sleeps = (is_first || is_forced) && state.is_watched(queue) && state.sleeps_beyond(now + SOON);
        drop(state);
        if sleeps {
            self.wake_watcher();
        }
        Ok(position)
    }

    /// Whatever is suspended, these commands go from now on, and what they come after.
    pub(crate) fn urge(&self, positions: &[Position]) {
        let mut state = self.lock();
        if !state.are_launched(positions) {
            state.force(positions);
            self.publish(&mut state);
        }
    }

    /// Waits until all of these were launched.
    pub(crate) fn wait_launched(&self, positions: &[Position]) {
        let mut state = self.lock();
        while !state.are_launched(positions) {
            state = self.wait(state);
        }
    }

    /// The last commands of all queues, of what is held back now.
    pub(crate) fn all_last(&self) -> Vec<Position> {
        self.lock().all_last()
    }

    /// Waits until everything that is held back now was launched.
    pub(crate) fn wait_all_launched(&self) {
        self.wait_launched(&self.all_last());
    }

    /// Waits as a command would that comes after these: until the queue is not suspended, they were launched, and there is
    /// room. Then it goes.
    pub(crate) fn wait_turn(
        &self,
        queue: QueueId,
        after: &[Position],
        demand: impl Into<Demand>,
    ) -> Option<Begun<D>> {
        let demand = demand.into();
        let since = now();
        let mut state = self.lock();
        state.note_wait(queue, 0, demand, since);
        let after: Vec<_> = after.iter().copied().chain(state.last(queue)).collect();
        self.force_if_asked(&mut state, demand, &after);
        let claim = state.claim_of(queue).filter(|_| demand.treatment.is_counted());
        let mut state = self.wait_until(state, claim, |state| {
            let may_go = || !state.is_suspended(queue) && state.has_room(Place::Queue(queue), demand.load);
            state.are_launched(&after) && (demand.treatment.is_forced() || may_go())
        });
        let begun = state.begin(queue, demand, Held::InPlace(since));
        self.open_for(&mut state, begun.as_ref());
        begun
    }

    /// The same for a stream that has no queue.
    pub(crate) fn wait_loose_turn(
        &self,
        claim: Option<ClaimId>,
        stream: D::Stream,
        after: &[Position],
        demand: impl Into<Demand>,
    ) -> Option<Begun<D>> {
        let demand = demand.into();
        let since = now();
        let mut state = self.lock();
        self.force_if_asked(&mut state, demand, after);
        let waiting = claim.filter(|_| demand.treatment.is_counted());
        let mut state = self.wait_until(state, waiting, |state| {
            let has_room = |claim| state.has_room(Place::Loose(claim), demand.load);
            let may_go = || claim.is_none_or(|claim| !state.is_held(claim) && has_room(claim));
            let has_turn = demand.treatment.is_forced() || !state.all_suspended && may_go();
            state.are_launched(after) && has_turn
        });
        let begun = state.begin_at(Place::Loose(claim?), claim?, stream, demand, Held::InPlace(since));
        self.open_for(&mut state, begun.as_ref());
        begun
    }

    /// Waits as a command would that comes after everything.
    pub(crate) fn wait_turn_of_all(&self, treatment: Treatment) {
        let mut state = self.lock();
        let after = state.all_last();
        let demand = Demand { treatment, ..Load::Signal.into() };
        self.force_if_asked(&mut state, demand, &after);
        drop(self.wait_until(state, None, |state| {
            state.are_launched(&after) && (treatment.is_forced() || !state.is_any_suspended())
        }));
    }

    /// What a command comes after that must not wait goes at once, too.
    fn force_if_asked(&self, state: &mut State<D>, demand: Demand, after: &[Position]) {
        if demand.treatment.is_forced() && !state.are_launched(after) {
            state.force(after);
            self.publish(state);
        }
    }

    /// Opens gates for a launch that must not be stopped, before it happens.
    fn open_for(&self, state: &mut State<D>, begun: Option<&Begun<D>>) {
        if begun.is_some_and(|begun| begun.is_pinned) {
            state.set_gates(&self.device);
        }
    }

    /// Waits for what a claim's next command needs.
    fn wait_until<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<D>>,
        claim: Option<ClaimId>,
        is_so: impl Fn(&State<D>) -> bool,
    ) -> MutexGuard<'a, State<D>> {
        if is_so(&state) {
            return state;
        }
        if let Some(claim) = claim {
            state.waits(claim, true);
            self.wake_watcher();
        }
        while !is_so(&state) {
            state = self.wait(state);
        }
        if let Some(claim) = claim {
            state.waits(claim, false);
        }
        state
    }

    /// Lets everything go and takes nothing more, for a process that ends. Gives up at `deadline`.
    pub(crate) fn close(&self, deadline: Instant) {
        self.look_around();
        let mut state = self.lock();
        state.close();
        state.forget_gates(&self.device);
        self.publish(&mut state);
        let positions = state.all_last();
        while !state.are_launched(&positions) {
            if Instant::now() >= deadline {
                return;
            }
            state = self.wait(state);
        }
    }

    /// A panic while the lock was held is the shim's own; the state is only changed by whole steps.
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
pub(crate) mod tests;
