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
//! The thread exists from the first command on and sleeps whenever it has nothing to do: on the queue's condition, on a
//! completion of another queue, on the device, or on the clock until a packet's end.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use super::hw_queue::Ticket;
use super::schedule::Packet;
use super::{Completion, Device, HwQueue, HwQueues, Span, clock, worker};
use crate::memory::guard;

/// Unfinished commands of a queue; with more, submitting waits. As many packets as a genuine hardware queue holds.
const PENDING_MAX: usize = 16_384;

type Run = Box<dyn FnOnce() + Send>;

/// A piece of work.
pub(crate) struct Command {
    /// Done by the queue's thread, none for a mere marker.
    pub(crate) run: Option<Run>,
    /// What it occupies of the device, none if nothing.
    pub(crate) work: Option<Work>,
    /// Commands of other queues that must be finished before.
    pub(crate) waits: Vec<Arc<Completion>>,
}

/// What a command occupies of the device, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// So many compute units, at most all of them.
    Kernel { units: u64, duration_ns: u64 },
    /// One of the copy engines.
    Copy { is_from_device: bool, duration_ns: u64 },
}

impl Command {
    /// Does nothing; finished when everything before it is.
    pub(crate) fn marker() -> Self {
        Self { run: None, work: None, waits: Vec::new() }
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
        Self { run: Some(Box::new(run)), work: None, waits: Vec::new() }
    }

    /// Occupies a part of the device.
    pub(crate) fn on_device(work: Work, run: impl FnOnce() + Send + 'static) -> Self {
        Self { run: Some(Box::new(run)), work: Some(work), waits: Vec::new() }
    }

    /// Occupies all compute units.
    #[cfg(test)]
    pub(crate) fn kernel(duration_ns: u64, run: impl FnOnce() + Send + 'static) -> Self {
        Self::on_device(Work::Kernel { units: u64::MAX, duration_ns }, run)
    }
}

struct Submitted {
    command: Command,
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
    /// None for a marker, which ends with the command before it.
    packet: Option<(Arc<HwQueue>, Ticket)>,
    ready_ns: u64,
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
        let mut state = shared.lock();
        while state.len() >= PENDING_MAX && !worker::is_current() {
            state = shared.has_room.wait(state).expect("no holder panics");
        }
        let completion = Arc::new(Completion::default());
        let submitted = Submitted { command, time_ns: clock::now_ns(), completion: Arc::clone(&completion) };
        state.pending.push_back(submitted);
        state.last = Some(Arc::clone(&completion));
        shared.post_what_may(&mut state);
        if !state.has_thread {
            state.has_thread = true;
            let shared = Arc::clone(shared);
            worker::spawn(format!("hip-sim-q{}", shared.number), move || shared.drain());
        }
        drop(state);
        shared.changed.notify_one();
        completion
    }

    /// The newest command's completion, if it is not finished.
    pub(crate) fn unfinished(&self) -> Option<Arc<Completion>> {
        let last = self.shared.lock().last.clone();
        last.filter(|completion| completion.poll().is_none())
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
        self.state.lock().expect("no holder panics")
    }

    /// The hardware queue for some work, and the work as a packet.
    fn packet(&self, work: Work, ready_ns: u64) -> (&Arc<HwQueue>, Packet) {
        let hw_queues = self.hw_queues.get_or_init(|| self.device.queues_for_stream(self.priority));
        match work {
            Work::Kernel { units, duration_ns } => {
                (&hw_queues.compute, Packet { ready_ns, duration_ns, units })
            }
            Work::Copy { is_from_device, duration_ns } => {
                (&hw_queues.copy[usize::from(is_from_device)], Packet { ready_ns, duration_ns, units: 1 })
            }
        }
    }

    /// Moves commands from pending to posted, up to the first that must wait for more than what is posted.
    fn post_what_may(&self, state: &mut State) {
        while !state.is_busy
            && let Some(submitted) = state.pending.front()
            && let Some(ready_ns) = submitted.ready_ns()
        {
            let ready_ns = ready_ns.max(state.free_ns);
            let packet = match (submitted.command.work, &submitted.command.run) {
                (None, Some(_)) => return,
                (None, None) => None,
                (Some(work), _) => {
                    let (hw_queue, packet) = self.packet(work, ready_ns);
                    if state.hw_queue().is_some_and(|other| !Arc::ptr_eq(other, hw_queue)) {
                        return;
                    }
                    let Some(ticket) = hw_queue.try_post(packet) else { return };
                    Some((Arc::clone(hw_queue), ticket))
                }
            };
            let Submitted { command, completion, .. } = state.pending.pop_front().expect("it was looked at");
            state.posted.push_back(Posted { run: command.run, packet, ready_ns, completion });
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
                self.changed.wait(state).expect("no holder panics")
            };
        }
    }

    /// Sees the first posted command through.
    fn finish_posted<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let free_ns = state.free_ns;
        let first = &mut state.posted[0];
        let (run, packet, ready_ns) = (first.run.take(), first.packet.clone(), first.ready_ns.max(free_ns));
        drop(state);
        if let Some(run) = run {
            guard::watch(|| guarded(run));
        }
        let span = packet
            .map_or(Span { start_ns: ready_ns, end_ns: ready_ns }, |(queue, ticket)| queue.wait(ticket));
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
        if let Some(work) = first.command.work {
            drop(state);
            self.packet(work, ready_ns).0.wait_for_room();
            return self.lock();
        }
        let Submitted { command, completion, .. } = state.pending.pop_front().expect("it was looked at");
        let ready_ns = ready_ns.max(state.free_ns);
        state.is_busy = true;
        drop(state);
        if let Some(run) = command.run {
            guarded(run);
        }
        let span = Span { start_ns: ready_ns, end_ns: clock::now_ns().max(ready_ns) };
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
fn guarded(run: Run) {
    let _ = catch_unwind(AssertUnwindSafe(run));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn queue(device: &Arc<Device>) -> Queue {
        Queue::new(0, Arc::clone(device), 0)
    }

    #[test]
    fn commands_run_in_order() {
        let queue = queue(&Device::private(0));
        let log = Arc::new(Mutex::new(Vec::new()));
        for number in 0..100 {
            let log = Arc::clone(&log);
            queue.submit(Command::transfer(move || log.lock().unwrap().push(number)));
        }
        queue.submit(Command::marker()).wait();
        assert_eq!(*log.lock().unwrap(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn back_to_back_kernels_leave_no_gap_on_the_timeline() {
        let queue = queue(&Device::private(0));
        let (gate, open) = Command::gate();
        queue.submit(gate);
        let spans: Vec<_> = (0..20).map(|_| queue.submit(Command::kernel(300_000, || ()))).collect();
        drop(open);
        let spans: Vec<Span> = spans.iter().map(|c| c.wait()).collect();
        for pair in spans.windows(2) {
            assert_eq!(pair[1].start_ns, pair[0].end_ns);
        }
        assert!(clock::now_ns() >= spans[19].end_ns, "a kernel is not finished before its time");
    }

    #[test]
    fn a_dependency_is_awaited() {
        let device = Device::private(0);
        let (first, second) = (queue(&device), queue(&device));
        let value = Arc::new(AtomicU32::new(0));
        let set = {
            let value = Arc::clone(&value);
            move || value.store(1, Ordering::SeqCst)
        };
        let seen = Arc::new(AtomicU32::new(9));
        let before = first.submit(Command::kernel(2_000_000, set));
        let read = {
            let (value, seen) = (Arc::clone(&value), Arc::clone(&seen));
            move || seen.store(value.load(Ordering::SeqCst), Ordering::SeqCst)
        };
        let mut command = Command::transfer(read);
        command.waits.push(Arc::clone(&before));
        let after = second.submit(command).wait();
        assert_eq!(seen.load(Ordering::SeqCst), 1);
        assert!(after.start_ns >= before.wait().end_ns);
    }

    #[test]
    fn a_panicking_command_is_finished_all_the_same() {
        let queue = queue(&Device::private(0));
        queue.submit(Command::transfer(|| panic!("expected by this test"))).wait();
        queue.submit(Command::marker()).wait();
    }

    #[test]
    fn kernels_that_fit_overlap_and_others_take_turns() {
        let device = Device::private(0);
        let (first, second) = (queue(&device), queue(&device));
        let half = Work::Kernel { units: device.compute_units() / 2, duration_ns: 20_000_000 };
        let spans =
            [&first, &second].map(|queue| queue.submit(Command::on_device(half, || ()))).map(|c| c.wait());
        assert!(spans[1].start_ns < spans[0].end_ns, "{spans:?}");
        let spans =
            [&first, &second].map(|queue| queue.submit(Command::kernel(2_000_000, || ()))).map(|c| c.wait());
        assert_eq!(spans[1].start_ns, spans[0].end_ns);
    }

    #[test]
    fn copies_go_beside_kernels() {
        let device = Device::private(0);
        let (first, second) = (queue(&device), queue(&device));
        let kernel = first.submit(Command::kernel(50_000_000, || ()));
        let copy = Work::Copy { is_from_device: false, duration_ns: 1_000_000 };
        let copied = second.submit(Command::on_device(copy, || ())).wait();
        assert!(copied.end_ns < kernel.wait().end_ns);
    }

    #[test]
    fn streams_beyond_the_number_of_hardware_queues_share_them() {
        let device = Device::private(0);
        let queues: Vec<_> = (0..64).map(|_| queue(&device)).collect();
        let small = Work::Kernel { units: 1, duration_ns: 1_000_000 };
        let (gate, open) = Command::gate();
        queues[0].submit(gate);
        let completions: Vec<_> =
            queues.iter().map(|queue| queue.submit(Command::on_device(small, || ()))).collect();
        drop(open);
        let spans: Vec<Span> = completions.iter().map(|completion| completion.wait()).collect();
        let most = spans
            .iter()
            .map(|span| spans.iter().filter(|o| (o.start_ns..o.end_ns).contains(&span.start_ns)).count());
        assert!(most.max().unwrap() <= crate::config::get().queues);
    }

    #[test]
    fn a_full_queue_holds_its_submitter_up_and_loses_nothing() {
        let queue = queue(&Device::private(0));
        let count = Arc::new(AtomicU32::new(0));
        let (gate, open) = Command::gate();
        queue.submit(gate);
        let opener = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            drop(open);
        });
        let began = std::time::Instant::now();
        for expected in 0..PENDING_MAX as u32 + 10 {
            let count = Arc::clone(&count);
            queue.submit(Command::transfer(move || {
                assert_eq!(count.fetch_add(1, Ordering::Relaxed), expected);
            }));
        }
        assert!(began.elapsed() >= std::time::Duration::from_millis(50));
        queue.submit(Command::marker()).wait();
        assert_eq!(count.load(Ordering::Relaxed), PENDING_MAX as u32 + 10);
        opener.join().unwrap();
    }
}
