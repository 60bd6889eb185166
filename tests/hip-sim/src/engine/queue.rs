//! A stream's in-order queue and the thread that drains it.
//!
//! Commands that occupy a part of the device are posted to a hardware queue as soon as nothing but earlier
//! packets blocks them. The submitting thread posts them, or the queue's own thread does so later. So the
//! device has a real backlog, and late wake-ups of threads leave no gaps on its timeline. The queue's thread
//! does a command's CPU work, in order, while the packet occupies the device.
//!
//! ```text
//! submitted -> pending --- work, not blocked ---> posted --- run, started, ended ---> finished
//!                 `------- host function: run by the thread in its order ----------'
//! ```
//!
//! A command is blocked by the commands that it waits for. It is also blocked by waiting commands of other
//! streams that were submitted to the same hardware queue earlier (`submission_order`). Copies go to copy
//! engines and have no position in that order.
//!
//! The thread exists from the first command on and sleeps while it has nothing to do: on the queue's
//! condition, on a completion of another queue, on the device, or on the clock until a packet's end.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use super::hw_queue::Ticket;
use super::schedule::Packet;
use super::submission_order::{Position, Predecessors};
use super::{Completion, Device, Gate, HwQueue, HwQueues, Span, clock, spin_then_sleep, worker};
use crate::execution_log;
use crate::memory::guard;

/// Limit of unfinished commands in a queue; beyond it, submitting waits. A genuine hardware queue holds as
/// many packets.
const PENDING_MAX: usize = 16_384;

type Run = Box<dyn FnOnce() -> TimeTaken + Send>;

/// The time on the timeline of a command that occupies no part of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeTaken {
    /// The time until its function returned.
    HostTime,
    /// None: the device did it as soon as the command was due, even if the thread was late.
    NoTime,
}

/// A piece of work.
pub(crate) struct Command {
    /// Work for the queue's thread; none for a plain marker.
    pub(crate) run: Option<Run>,
    /// The part of the device that the command occupies, if any.
    pub(crate) work: Option<Work>,
    /// Commands of other queues that must finish first.
    pub(crate) waits: Vec<Arc<Completion>>,
    /// The command's name in the execution log; none without a log.
    pub(crate) label: Option<Box<str>>,
}

/// The part of the device that a command occupies, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// This many compute units, at most all of them.
    Kernel { units: u64, duration_ns: u64 },
    /// One of the copy engines.
    Copy { is_from_device: bool, duration_ns: u64 },
    /// No part of the device: it blocks the packets behind it.
    Gate(Gate),
}

impl Command {
    /// Does nothing; finishes when all commands before it have.
    pub(crate) fn marker() -> Self {
        Self { run: None, work: None, waits: Vec::new(), label: None }
    }

    /// Blocks its queue until the sender is used or dropped.
    #[cfg(test)]
    pub(crate) fn gate() -> (Self, std::sync::mpsc::Sender<()>) {
        let (open, opened) = std::sync::mpsc::channel();
        let wait = move || {
            let _ = opened.recv();
        };
        (Self::transfer(wait), open)
    }

    /// Takes as long as its function does, and occupies no part of the device.
    pub(crate) fn transfer(run: impl FnOnce() + Send + 'static) -> Self {
        Self::on_words(move || {
            run();
            TimeTaken::HostTime
        })
    }

    /// Reads or writes memory on the device's behalf.
    pub(crate) fn on_words(run: impl FnOnce() -> TimeTaken + Send + 'static) -> Self {
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
    /// Position in the compute queue; none for copies.
    position: Option<Position>,
    time_ns: u64,
    completion: Arc<Completion>,
}

impl Submitted {
    /// The earliest start, if the commands that it waits for are finished.
    fn ready_ns(&self) -> Option<u64> {
        let mut ends_ns = self.command.waits.iter().map(|wait| wait.poll().map(|span| span.end_ns));
        ends_ns.try_fold(self.time_ns, |ready_ns, end_ns| Some(ready_ns.max(end_ns?)))
    }
}

/// A command that is blocked only by the commands before it.
struct Posted {
    run: Option<Run>,
    /// None for a marker, which ends with the commands before it.
    packet: Option<(Arc<HwQueue>, Ticket)>,
    /// For a marker: the packet before it in the hardware queue, of any stream.
    after: Option<Arc<Completion>>,
    ready_ns: u64,
    submitted_ns: u64,
    label: Option<Box<str>>,
    completion: Arc<Completion>,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Submitted>,
    /// Markers, and packets of one hardware queue. The thread is processing the first.
    posted: VecDeque<Posted>,
    /// The thread is running a host function.
    is_busy: bool,
    /// End of the newest finished command.
    free_ns: u64,
    /// Completion of the newest command, pending or not.
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

    /// The hardware queue of the posted packets.
    fn hw_queue(&self) -> Option<&Arc<HwQueue>> {
        self.posted.iter().find_map(|posted| posted.packet.as_ref()).map(|(hw_queue, _)| hw_queue)
    }
}

/// An in-order queue. After the last handle is dropped, its thread finishes the pending commands and ends.
pub(crate) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    /// Only for the thread's name.
    number: u32,
    device: Arc<Device>,
    priority: i32,
    /// Assigned by the device when first needed.
    hw_queues: OnceLock<HwQueues>,
    state: Mutex<State>,
    changed: Condvar,
    has_space: Condvar,
}

impl Queue {
    /// The priority only selects the hardware queues that the stream may share.
    pub(crate) fn new(number: u32, device: Arc<Device>, priority: i32) -> Self {
        let shared = Shared {
            number,
            device,
            priority,
            hw_queues: OnceLock::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            has_space: Condvar::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Appends a command. Waits while the queue is full, except on a thread of the simulator, which may be
    /// the one that has to finish a command to free space.
    pub(crate) fn submit(&self, command: Command) -> Arc<Completion> {
        let shared = &self.shared;
        let order = &shared.hw_queues().compute.order;
        let mut state = shared.lock();
        while state.len() >= PENDING_MAX && !worker::is_current() {
            state = shared.has_space.wait(state).expect("no holder panics");
        }
        let completion = Arc::new(Completion::default());
        let position = (!matches!(command.work, Some(Work::Copy { .. }))).then(|| order.next_position());
        let submitted =
            Submitted { command, position, time_ns: clock::now_ns(), completion: Arc::clone(&completion) };
        state.pending.push_back(submitted);
        state.last = Some(Arc::clone(&completion));
        shared.post_ready(&mut state);
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

    /// The newest command's completion, if it is unfinished.
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
        spin_then_sleep::lock(&self.state)
    }

    fn hw_queues(&self) -> &HwQueues {
        self.hw_queues.get_or_init(|| self.device.queues_for_stream(self.priority))
    }

    /// The commands before this position in the hardware queue; none if an earlier one has not passed yet.
    fn predecessors(&self, position: Option<Position>) -> Option<Predecessors> {
        position.map_or_else(
            || Some(Predecessors::default()),
            |position| self.hw_queues().compute.order.predecessors(position),
        )
    }

    /// The hardware queue for a command's work, and the work as a packet.
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

    /// Moves commands from pending to posted, up to the first that must wait for more than the posted ones.
    fn post_ready(&self, state: &mut State) {
        while !state.is_busy
            && let Some(submitted) = state.pending.front()
            && let Some(ready_ns) = submitted.ready_ns()
            && let Some(predecessors) = self.predecessors(submitted.position)
        {
            let ready_ns = ready_ns.max(state.free_ns).max(predecessors.free_ns);
            let order = &self.hw_queues().compute.order;
            // Behind a copy, a marker is a barrier too.
            let is_behind = |hw_queue| state.hw_queue().is_some_and(|before| !Arc::ptr_eq(before, hw_queue));
            let (packet, after) = match (submitted.command.work, &submitted.command.run) {
                (None, Some(_)) => return,
                (None, None) => {
                    if is_behind(&self.hw_queues().compute) {
                        return;
                    }
                    submitted.position.inspect(|position| order.pass_barrier(*position, ready_ns));
                    (None, predecessors.last)
                }
                (Some(work), _) => {
                    let (hw_queue, packet) = self.packet(work, ready_ns);
                    if is_behind(hw_queue) {
                        return;
                    }
                    let gate = if let Work::Gate(gate) = work { Some(gate) } else { None };
                    let Some(ticket) = hw_queue.try_post(packet, gate) else { return };
                    submitted
                        .position
                        .inspect(|position| order.pass_packet(*position, &submitted.completion));
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
            self.post_ready(&mut state);
            state = if !state.posted.is_empty() {
                self.finish_posted(state)
            } else if !state.pending.is_empty() {
                self.unblock_first(state)
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

    /// Runs and finishes the first posted command.
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
            // Logged before the kernel's end, because the process may die before it.
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

    /// Resolves what blocks the first pending command. Nothing is posted before it.
    fn unblock_first<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let first = &mut state.pending[0];
        let Some(ready_ns) = first.ready_ns() else {
            let waits = first.command.waits.clone();
            drop(state);
            for wait in waits {
                wait.wait();
            }
            return self.lock();
        };
        let position = first.position;
        let Some(predecessors) = self.predecessors(position) else {
            drop(state);
            position.inspect(|position| self.hw_queues().compute.order.wait(*position));
            return self.lock();
        };
        if let Some(work) = first.command.work {
            let hw_queue = self.packet(work, ready_ns).0;
            // From now on a thread that submits to this stream may post the pending commands, as soon as
            // there is space.
            let posted = hw_queue.posted();
            drop(state);
            hw_queue.wait_for_space(posted);
            return self.lock();
        }
        let last_ns = match predecessors.last.as_ref().map(|last| (last.poll(), last)) {
            None => 0,
            Some((Some(last), _)) => last.end_ns,
            Some((None, last)) => {
                drop(state);
                last.wait();
                return self.lock();
            }
        };
        let Submitted { command, completion, .. } = state.pending.pop_front().expect("it was looked at");
        let ready_ns = ready_ns.max(state.free_ns).max(predecessors.free_ns).max(last_ns);
        state.is_busy = true;
        drop(state);
        let end_ns = match command.run.map_or(TimeTaken::HostTime, guarded) {
            TimeTaken::HostTime => clock::now_ns().max(ready_ns),
            TimeTaken::NoTime => ready_ns,
        };
        let span = Span { start_ns: ready_ns, end_ns };
        position.inspect(|position| self.hw_queues().compute.order.pass_barrier(*position, span.end_ns));
        let mut state = self.lock();
        state.is_busy = false;
        self.finish(&mut state, &completion, span);
        state
    }

    fn finish(&self, state: &mut State, completion: &Completion, span: Span) {
        state.free_ns = span.end_ns;
        completion.finish(span);
        if state.len() == PENDING_MAX - 1 {
            self.has_space.notify_all();
        }
    }
}

/// A panic would end the thread and leave every waiter hanging. The default hook has already printed it to
/// stderr.
fn guarded(run: Run) -> TimeTaken {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(TimeTaken::HostTime)
}

#[cfg(test)]
mod tests;
