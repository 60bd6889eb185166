//! A stream's in-order queue and the thread that drains it.
//!
//! Commands that occupy a part of the device are posted to a hardware queue as soon as nothing but the packets before them
//! is in their way: by the thread that submits them, or later by the queue's own. So the device's backlog is real, and
//! late wake-ups of threads leave no gaps on its timeline. What a command does on the CPU is done by the queue's thread,
//! in order, while the packet occupies the device.
//!
//! ```text
//! submitted -> pending --- work, and nothing in its way ---> posted --- run, started, ended ---> finished
//!                 `------- function of the host: run by the thread in its turn ------------------'
//! ```
//!
//! In its way are the commands that it waits for, and those of other streams that were submitted to the same hardware queue
//! before and wait themselves (`turns`). Copies go to engines of their own and take no turn.
//!
//! The thread exists from the first command on and sleeps whenever it has nothing to do: on the queue's condition, on a
//! completion of another queue, on the device, or on the clock until a packet's end.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use super::hw_queue::Ticket;
use super::schedule::Packet;
use super::turns::{Turn, Way};
use super::{Completion, Device, Gate, HwQueue, HwQueues, Span, clock, eager, worker};
use crate::execution_log;
use crate::memory::guard;

/// Unfinished commands of a queue; with more, submitting waits. As many packets as a genuine hardware queue holds.
const PENDING_MAX: usize = 16_384;

type Run = Box<dyn FnOnce() -> Took + Send>;

/// What a command that occupies nothing of the device has taken of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// All the time until its function returned.
    HostTime,
    /// None: the device did it as soon as it came to it, however late the thread was.
    NoTime,
}

/// A piece of work.
pub(crate) struct Command {
    /// Done by the queue's thread, none for a mere marker.
    pub(crate) run: Option<Run>,
    /// What it occupies of the device, none if nothing.
    pub(crate) work: Option<Work>,
    /// Commands of other queues that must be finished before.
    pub(crate) waits: Vec<Arc<Completion>>,
    /// What the log of executions calls it; none unless there is one.
    pub(crate) label: Option<Box<str>>,
}

/// What a command occupies of the device, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// So many compute units, at most all of them.
    Kernel { units: u64, duration_ns: u64 },
    /// One of the copy engines.
    Copy { is_from_device: bool, duration_ns: u64 },
    /// Nothing: it holds up what is behind it.
    Gate(Gate),
}

impl Command {
    /// Does nothing; finished when everything before it is.
    pub(crate) fn marker() -> Self {
        Self { run: None, work: None, waits: Vec::new(), label: None }
    }

    /// Holds its queue up until the sender is used or dropped.
    #[cfg(test)]
    pub(crate) fn gate() -> (Self, std::sync::mpsc::Sender<()>) {
        let (open, opened) = std::sync::mpsc::channel();
        let wait = move || {
            let _ = opened.recv();
        };
        (Self::transfer(wait), open)
    }

    /// Takes the time that it takes, beside the device.
    pub(crate) fn transfer(run: impl FnOnce() + Send + 'static) -> Self {
        Self::on_words(move || {
            run();
            Took::HostTime
        })
    }

    /// Looks at memory or changes it, in the device's place.
    pub(crate) fn on_words(run: impl FnOnce() -> Took + Send + 'static) -> Self {
        Self { run: Some(Box::new(run)), ..Self::marker() }
    }

    /// Occupies a part of the device.
    pub(crate) fn on_device(work: Work, run: impl FnOnce() + Send + 'static) -> Self {
        Self { work: Some(work), ..Self::transfer(run) }
    }

    /// Occupies all compute units.
    #[cfg(test)]
    pub(crate) fn kernel(duration_ns: u64, run: impl FnOnce() + Send + 'static) -> Self {
        Self::on_device(Work::Kernel { units: u64::MAX, duration_ns }, run)
    }
}

struct Submitted {
    command: Command,
    /// In the compute queue, none for copies.
    turn: Option<Turn>,
    time_ns: u64,
    completion: Arc<Completion>,
}

impl Submitted {
    /// From when on it may start, if what it waits for is finished.
    fn ready_ns(&self) -> Option<u64> {
        let mut ends_ns = self.command.waits.iter().map(|wait| wait.poll().map(|span| span.end_ns));
        ends_ns.try_fold(self.time_ns, |ready_ns, end_ns| Some(ready_ns.max(end_ns?)))
    }
}

/// A command that nothing but the ones before it holds up.
struct Posted {
    run: Option<Run>,
    /// None for a marker, which ends with the commands before it.
    packet: Option<(Arc<HwQueue>, Ticket)>,
    /// For a marker: the packet before it in the hardware queue, whosever it is.
    after: Option<Arc<Completion>>,
    ready_ns: u64,
    submitted_ns: u64,
    label: Option<Box<str>>,
    completion: Arc<Completion>,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Submitted>,
    /// Markers, and packets of one hardware queue. The thread has the first in its hands.
    posted: VecDeque<Posted>,
    /// The thread has a function of the host in its hands.
    is_busy: bool,
    /// End of the newest finished command.
    free_ns: u64,
    /// Of the newest command, pending or not.
    last: Option<Arc<Completion>>,
    has_thread: bool,
    /// The thread has nothing to do.
    is_asleep: bool,
    is_closed: bool,
}

impl State {
    fn len(&self) -> usize {
        self.pending.len() + self.posted.len()
    }

    /// The hardware queue that the posted packets are in.
    fn hw_queue(&self) -> Option<&Arc<HwQueue>> {
        self.posted.iter().find_map(|posted| posted.packet.as_ref()).map(|(hw_queue, _)| hw_queue)
    }
}

/// An in-order queue. Dropping the last handle lets its thread finish what is pending and end.
pub(crate) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    /// Distinguishes threads' names only.
    number: u32,
    device: Arc<Device>,
    priority: i32,
    /// Given by the device when first needed.
    hw_queues: OnceLock<HwQueues>,
    state: Mutex<State>,
    changed: Condvar,
    has_room: Condvar,
}

impl Queue {
    /// The priority tells only which hardware queues it shares with others.
    pub(crate) fn new(number: u32, device: Arc<Device>, priority: i32) -> Self {
        let shared = Shared {
            number,
            device,
            priority,
            hw_queues: OnceLock::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            has_room: Condvar::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Appends a command. Waits while there are too many, except on a thread of the simulator, which may have to finish
    /// the very command that makes room.
    pub(crate) fn submit(&self, command: Command) -> Arc<Completion> {
        let shared = &self.shared;
        let turns = &shared.hw_queues().compute.turns;
        let mut state = shared.lock();
        while state.len() >= PENDING_MAX && !worker::is_current() {
            state = shared.has_room.wait(state).expect("no holder panics");
        }
        let completion = Arc::new(Completion::default());
        let turn = (!matches!(command.work, Some(Work::Copy { .. }))).then(|| turns.take());
        let submitted =
            Submitted { command, turn, time_ns: clock::now_ns(), completion: Arc::clone(&completion) };
        state.pending.push_back(submitted);
        state.last = Some(Arc::clone(&completion));
        shared.post_what_may(&mut state);
        if !state.has_thread {
            state.has_thread = true;
            let shared = Arc::clone(shared);
            worker::spawn(format!("hip-sim-q{}", shared.number), move || shared.drain());
        }
        let is_asleep = state.is_asleep;
        drop(state);
        if is_asleep {
            shared.changed.notify_one();
        }
        completion
    }

    /// The newest command's completion, if it is not finished.
    pub(crate) fn unfinished(&self) -> Option<Arc<Completion>> {
        let last = self.shared.lock().last.clone();
        last.filter(|completion| completion.poll().is_none())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(hw_queues) = self.hw_queues.get() {
            hw_queues.compute.leave();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        eager::lock(&self.state)
    }

    fn hw_queues(&self) -> &HwQueues {
        self.hw_queues.get_or_init(|| self.device.queues_for_stream(self.priority))
    }

    /// What a command finds before it in the hardware queue, none if it is not its turn.
    fn way(&self, turn: Option<Turn>) -> Option<Way> {
        turn.map_or_else(|| Some(Way::default()), |turn| self.hw_queues().compute.turns.way(turn))
    }

    /// The hardware queue for some work, and the work as a packet.
    fn packet(&self, work: Work, ready_ns: u64) -> (&Arc<HwQueue>, Packet) {
        let hw_queues = self.hw_queues();
        match work {
            Work::Kernel { units, duration_ns } => {
                (&hw_queues.compute, Packet { ready_ns, duration_ns, units, is_gate: false })
            }
            Work::Copy { is_from_device, duration_ns } => {
                let packet = Packet { ready_ns, duration_ns, units: 1, is_gate: false };
                (&hw_queues.copy[usize::from(is_from_device)], packet)
            }
            Work::Gate(_) => {
                (&hw_queues.compute, Packet { ready_ns, duration_ns: 0, units: 0, is_gate: true })
            }
        }
    }

    /// Moves commands from pending to posted, up to the first that must wait for more than what is posted.
    fn post_what_may(&self, state: &mut State) {
        while !state.is_busy
            && let Some(submitted) = state.pending.front()
            && let Some(ready_ns) = submitted.ready_ns()
            && let Some(way) = self.way(submitted.turn)
        {
            let ready_ns = ready_ns.max(state.free_ns).max(way.free_ns);
            let turns = &self.hw_queues().compute.turns;
            // Behind a copy, a marker is a barrier too.
            let is_behind = |hw_queue| state.hw_queue().is_some_and(|before| !Arc::ptr_eq(before, hw_queue));
            let (packet, after) = match (submitted.command.work, &submitted.command.run) {
                (None, Some(_)) => return,
                (None, None) => {
                    if is_behind(&self.hw_queues().compute) {
                        return;
                    }
                    submitted.turn.inspect(|turn| turns.pass_barrier(*turn, ready_ns));
                    (None, way.last)
                }
                (Some(work), _) => {
                    let (hw_queue, packet) = self.packet(work, ready_ns);
                    if is_behind(hw_queue) {
                        return;
                    }
                    let gate = if let Work::Gate(gate) = work { Some(gate) } else { None };
                    let Some(ticket) = hw_queue.try_post(packet, gate) else { return };
                    submitted.turn.inspect(|turn| turns.pass_packet(*turn, &submitted.completion));
                    (Some((Arc::clone(hw_queue), ticket)), None)
                }
            };
            let Submitted { command, completion, time_ns, .. } =
                state.pending.pop_front().expect("it was looked at");
            state.posted.push_back(Posted {
                run: command.run,
                packet,
                after,
                ready_ns,
                submitted_ns: time_ns,
                label: command.label,
                completion,
            });
        }
    }

    fn drain(&self) {
        let mut state = self.lock();
        loop {
            self.post_what_may(&mut state);
            state = if !state.posted.is_empty() {
                self.finish_posted(state)
            } else if !state.pending.is_empty() {
                self.clear_the_way(state)
            } else if state.is_closed {
                return;
            } else {
                state.is_asleep = true;
                let mut state = self.changed.wait(state).expect("no holder panics");
                state.is_asleep = false;
                state
            };
        }
    }

    /// Sees the first posted command through.
    fn finish_posted<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let free_ns = state.free_ns;
        let first = &mut state.posted[0];
        let (run, packet, after) = (first.run.take(), first.packet.clone(), first.after.take());
        let (ready_ns, submitted_ns, label) =
            (first.ready_ns.max(free_ns), first.submitted_ns, first.label.take());
        drop(state);
        if let Some(run) = run {
            guard::watch(|| {
                guarded(run);
            });
        }
        let span = if let Some((queue, ticket)) = packet {
            let span = queue.wait_start(ticket);
            // Before its end, which the process may not live to see.
            if let Some(label) = label {
                execution_log::note(
                    span,
                    submitted_ns,
                    (self.device.index(), queue.index(), self.number),
                    &label,
                );
            }
            queue.wait_end(span);
            span
        } else {
            let end_ns = after.map_or(ready_ns, |packet| packet.wait().end_ns.max(ready_ns));
            Span { start_ns: end_ns, end_ns }
        };
        let mut state = self.lock();
        let posted = state.posted.pop_front().expect("only this thread takes them");
        self.finish(&mut state, &posted.completion, span);
        state
    }

    /// Does something about what keeps the first pending command from being posted, with nothing posted before it.
    fn clear_the_way<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let first = &mut state.pending[0];
        let Some(ready_ns) = first.ready_ns() else {
            let waits = first.command.waits.clone();
            drop(state);
            for wait in waits {
                wait.wait();
            }
            return self.lock();
        };
        let turn = first.turn;
        let Some(way) = self.way(turn) else {
            drop(state);
            turn.inspect(|turn| self.hw_queues().compute.turns.wait(*turn));
            return self.lock();
        };
        if let Some(work) = first.command.work {
            let hw_queue = self.packet(work, ready_ns).0;
            // Whoever submits to this stream from now on may post what is pending, into room that there is by then.
            let posted = hw_queue.posted();
            drop(state);
            hw_queue.wait_for_room(posted);
            return self.lock();
        }
        let last_ns = match way.last.as_ref().map(|last| (last.poll(), last)) {
            None => 0,
            Some((Some(last), _)) => last.end_ns,
            Some((None, last)) => {
                drop(state);
                last.wait();
                return self.lock();
            }
        };
        let Submitted { command, completion, .. } = state.pending.pop_front().expect("it was looked at");
        let ready_ns = ready_ns.max(state.free_ns).max(way.free_ns).max(last_ns);
        state.is_busy = true;
        drop(state);
        let end_ns = match command.run.map_or(Took::HostTime, guarded) {
            Took::HostTime => clock::now_ns().max(ready_ns),
            Took::NoTime => ready_ns,
        };
        let span = Span { start_ns: ready_ns, end_ns };
        turn.inspect(|turn| self.hw_queues().compute.turns.pass_barrier(*turn, span.end_ns));
        let mut state = self.lock();
        state.is_busy = false;
        self.finish(&mut state, &completion, span);
        state
    }

    fn finish(&self, state: &mut State, completion: &Completion, span: Span) {
        state.free_ns = span.end_ns;
        completion.finish(span);
        if state.len() == PENDING_MAX - 1 {
            self.has_room.notify_all();
        }
    }
}

/// A panic would end the thread and hang every waiter; there is nobody to report it to but stderr, which the default hook
/// has done.
fn guarded(run: Run) -> Took {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Took::HostTime)
}

#[cfg(test)]
mod tests;
