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
mod contention;
mod face;
mod flight;
mod gates;
mod origins;
mod recording;
mod state;
mod treatment;
mod turn;
mod waking;
mod watch;
mod worker;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use xsched_sched::Nanos;

use crate::planted::{Bug, Bugs};
use crate::trouble::Trouble;
use contention::Place;
use face::Shown;
use recording::Held;
use state::{Pushed, State};
use waking::Locked;

pub(crate) use crate::clock::now;
pub(crate) use crate::device::Device;
pub(crate) use crate::gate_page::GatePage;

pub use claim::{ClaimId, ClaimKey, Usage};
pub(crate) use claim::{Seat, Standing};
pub use contention::{Begun, Load};
pub use face::{Course, Face};
pub use flight::Class;
pub(crate) use origins::OriginTimes;
pub use origins::{Judged, Origin};
pub use treatment::{Demand, End, Treatment};

/// Commands that a queue holds before whoever submits to it has to wait.
const BUFFERED_MAX: usize = 4096;

/// How soon whoever waits looks again by itself: nobody waits for ever because of a word that got lost.
const WAIT_MAX: Duration = Duration::from_millis(10);

/// How often an ending process tries whether the watcher has left the runtime.
const LOCKED_AGAIN: Duration = Duration::from_micros(100);

/// The watcher that comes so soon need not be woken.
const SOON: Nanos = Nanos::from_millis(1);

/// Names a queue. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(u64);

/// A command that was held back: the how-many-th of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its queue.
    pub queue: QueueId,
    number: u64,
}

/// What queues are given when they are made.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Counts what should not happen. Called on any thread, with or without locks; must not wait.
    pub trouble: fn(Trouble),
    /// What is wrong with the queues on purpose.
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
    /// For callers that wait: something was launched, or may go.
    changed: Condvar,
    /// What shows without the lock.
    shown: Shown,
    device: D,
    setup: Setup,
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
pub enum Admission<D: Device> {
    /// At once, and nobody needs to know of it.
    Free,
    /// At once; [`XQueues::finish`] wants to know when it was launched.
    Now(Begun<D>),
    /// Not yet.
    Wait,
}

/// Why a command was not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
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
    /// No queues yet, in front of this device.
    pub fn new(device: D, setup: Setup) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new()),
            changed: Condvar::new(),
            shown: Shown::new(),
            device,
            setup,
            markers_paused: Mutex::new(false),
            gate_in_the_making: Mutex::new(()),
            alarm: OnceLock::new(),
        })
    }

    /// Whether any command may have to wait. One load: all that a process pays in which nothing is scheduled.
    pub fn is_engaged(&self) -> bool {
        self.course() != Course::Open
    }

    /// What decides about commands now. One load.
    #[inline]
    pub fn course(&self) -> Course {
        self.shown.course()
    }

    /// Every call is looked at until this is taken back: the first use of a device must be noticed.
    pub fn await_first_use(&self, awaits: bool) {
        let mut state = self.lock();
        state.awaits_first_use = awaits;
        self.publish(&mut state);
    }

    /// Every call is looked at from now on.
    pub fn look_at_all(&self) {
        let mut state = self.lock();
        state.looks_at_all = true;
        self.publish(&mut state);
    }

    /// Whether others use a device of this process, and none of its commands would have to wait whatever is decided about
    /// it: it is on the first level wherever it has a claim, and nothing is suspended or held back.
    pub fn is_urgent(&self) -> bool {
        let state = self.lock();
        state.is_contended() && !state.is_any_suspended() && !state.is_limited() && !state.has_any_buffered()
    }

    pub(crate) fn setup(&self) -> Setup {
        self.setup
    }

    /// Something happened that should not.
    pub(crate) fn trouble(&self, trouble: Trouble) {
        (self.setup.trouble)(trouble);
    }

    /// Where commands go.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// A new queue before a stream, with a face that no other queue has.
    pub fn create(&self, stream: D::Stream, claim: Option<ClaimId>, face: &'static Face) -> QueueId {
        let mut state = self.lock();
        let queue = state.create(stream, self.device.orders_others(stream), claim, face);
        state.introduce(queue, &self.device);
        queue
    }

    /// Forgets a queue whose commands were all launched, and what it has on the device. False if some were not: then it stays.
    pub fn destroy(&self, queue: QueueId) -> bool {
        let _no_marker = self.pause();
        let mut state = self.lock();
        let markers = state.destroy(queue);
        self.publish(&mut state);
        drop(state);
        let Some(markers) = markers else { return false };
        self.retire(markers);
        true
    }

    /// Forgets a queue whose commands were all launched, before its stream goes: it is not touched any more. What it has on the
    /// device is followed to its end. False if some were not: then it stays.
    pub fn outlive_stream(&self, queue: QueueId) -> bool {
        let paused = self.pause();
        if !*paused {
            self.mark_end(queue);
        }
        let mut state = self.lock();
        let is_gone = state.lose_stream(queue);
        let over = state.forget_without_stream(false);
        self.publish(&mut state);
        let sleeps = state.next_look(Place::Queue(queue)).is_some_and(|at| state.sleeps_beyond(at));
        drop(state);
        self.retire(over);
        drop(paused);
        if sleeps {
            self.wake_watcher();
        }
        is_gone
    }

    /// Forgets what streams that are gone have on the device: it was reset.
    pub fn forget_without_stream(&self) {
        self.forget_those_without_stream(true);
    }

    /// Forgets queues without a stream, with `all` also those that have something on the device.
    fn forget_those_without_stream(&self, all: bool) {
        // Whoever takes the device's events away waits until they are given back.
        let _no_marker = self.pause();
        let mut state = self.lock();
        let over = state.forget_without_stream(all);
        self.publish(&mut state);
        drop(state);
        self.retire(over);
    }

    /// Nothing is held back from now on; false takes it back. What was held back before stays so.
    pub fn hold_nothing(&self, holds_nothing: bool) {
        let mut state = self.lock();
        state.holds_nothing = holds_nothing;
        self.publish(&mut state);
    }

    /// Holds commands of all queues back from now on; false lets them go again.
    pub fn suspend_all(&self, suspended: bool) {
        let mut state = self.lock();
        state.all_suspended = suspended && !state.closed;
        self.publish(&mut state);
    }

    /// Whether any command is held back, or a caller waits.
    pub fn is_holding(&self) -> bool {
        let state = self.lock();
        state.callers > 0 || state.has_any_buffered()
    }

    /// Holds a queue's commands back from now on; false lets them go again.
    pub fn suspend(&self, queue: QueueId, suspended: bool) {
        let mut state = self.lock();
        state.suspend(queue, suspended);
        self.publish(&mut state);
    }

    /// Whether a command that comes after these may go now, and then notes that it does.
    pub fn admit(&self, queue: QueueId, after: &[Position], demand: impl Into<Demand>) -> Admission<D> {
        let demand = demand.into();
        let mut state = self.lock();
        let is_forced = demand.treatment.is_forced();
        let is_first = state.is_idle(queue)
            || self.setup.bugs.has(Bug::Overtaking)
            || is_forced && self.setup.bugs.has(Bug::ForcedOvertaking);
        state.set_gates(&self.device);
        let has_turn =
            is_forced || !state.is_suspended(queue) && state.has_room(Place::Queue(queue), demand.load);
        let is_alone = is_forced && self.setup.bugs.has(Bug::ForcedAlone);
        if !has_turn || !is_first || !(is_alone || state.are_launched(after)) {
            return Admission::Wait;
        }
        let begun = state.begin(queue, demand, Held::Never);
        self.open_for(&mut state, begun.as_ref());
        begun.map_or(Admission::Free, Admission::Now)
    }

    /// A launch that was admitted is about to happen, on this thread.
    pub fn prepare(&self, begun: &Begun<D>) {
        if let Some(gate) = begun.gate {
            // Without it the command just cannot be kept from beginning.
            self.device.put_gate(gate, begun.stream);
        }
    }

    /// A launch that was admitted has returned. With `on_device` the runtime took it.
    #[expect(clippy::needless_pass_by_value, reason = "a launch is finished once")]
    pub fn finish(&self, begun: Begun<D>, on_device: bool) {
        let launched = self.lock().launched_one(&begun, on_device);
        let paused = launched.map(|_| self.pause()).filter(|paused| !**paused);
        let may_be_done = paused.is_some() && begun.end == End::ByReturn;
        let is_done = may_be_done.then(|| self.device.is_done(begun.stream));
        let marker = match (begun.place, is_done) {
            // The program may know it as well: there is nothing to wait for behind it.
            (Place::Queue(queue), Some(Some(true))) => {
                self.note_answer(queue, launched.unwrap_or(0), Some(true));
                None
            }
            // The watcher will ask.
            (Place::Queue(queue), Some(None)) if self.lock().may_be_asked_later(queue) => None,
            _ => paused.as_ref().and_then(|_| self.device.mark(begun.stream)).zip(launched),
        };
        drop(paused);
        let (sleeps, retired) = self.lock().finish(&begun, marker, on_device);
        self.retire(retired);
        if is_done == Some(Some(true)) && marker.is_some() {
            // Streams without a queue are followed by markers only.
            self.await_marker(begun.stream);
        }
        if sleeps {
            self.wake_watcher();
        }
    }

    /// The queue's last command that was held back, if it has not been launched.
    pub fn last(&self, queue: QueueId) -> Option<Position> {
        self.lock().last(queue)
    }

    /// Whether all of these were launched.
    pub fn are_launched(&self, positions: &[Position]) -> bool {
        self.lock().are_launched(positions)
    }

    /// Holds a command back until it may go. Never waits.
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
        // Whoever comes behind something that is held back was not admitted before, where gates are looked at as well.
        state.set_gates(&self.device);
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

    /// Whatever is suspended, these commands go from now on, and what they come after. What is on the device is not stopped any
    /// more: whoever waits for these may wait for that as well.
    pub fn urge(&self, positions: &[Position]) {
        let mut state = self.lock();
        state.pin_all();
        state.set_gates(&self.device);
        if !state.are_launched(positions) {
            state.force(positions);
            self.publish(&mut state);
        }
    }

    /// The last commands of all queues, of what is held back now.
    pub fn all_last(&self) -> Vec<Position> {
        self.lock().all_last()
    }

    /// Opens gates for a launch that must not be stopped, or must not wait for what may be, before it happens; and the one that is put
    /// before it, which nobody may have looked at since it was shut.
    fn open_for(&self, state: &mut State<D>, begun: Option<&Begun<D>>) {
        // What nobody follows may pass through.
        if begun.is_none_or(|begun| begun.is_pinned || begun.gate.is_some()) {
            state.set_gates(&self.device);
        }
    }

    /// Lets everything go and takes nothing more, for a process that ends. Gives up at `deadline`.
    pub fn close(&self, deadline: Instant) {
        self.look_around();
        let mut state = self.lock();
        state.close();
        state.forget_gates(&self.device);
        self.publish(&mut state);
        let positions = state.all_last();
        while !state.are_launched(&positions) && Instant::now() < deadline {
            state = self.wait(state);
        }
        drop(state);
        self.leave_device(deadline);
    }

    /// Nobody looks at markers or records any from now on: the runtime's own data is about to be destroyed. Waits for who is at it
    /// or makes a gate; no longer than until `deadline`, since he may be in a call that does not return.
    fn leave_device(&self, deadline: Instant) {
        if let Some(mut paused) = lock_until(&self.markers_paused, deadline) {
            *paused = true;
        }
        drop(lock_until(&self.gate_in_the_making, deadline));
    }

    /// A panic while the lock was held is the shim's own; the state is only changed by whole steps.
    fn lock(&self) -> Locked<'_, D> {
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
