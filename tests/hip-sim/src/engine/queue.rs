//! An in-order queue and the thread that drains it.
//!
//! The thread exists from the first command on and sleeps whenever it has nothing to do: on the queue's condition,
//! on a completion of another queue, or on the clock until a kernel's end.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use super::{Completion, Compute, Span, clock};

/// A piece of work.
pub(crate) struct Command {
    /// Done by the queue's thread, none for a mere marker.
    pub(crate) run: Option<Box<dyn FnOnce() + Send>>,
    /// Time for which it occupies the compute part, none if it does not.
    pub(crate) compute_ns: Option<u64>,
    /// Commands of other queues that must be finished before.
    pub(crate) waits: Vec<Arc<Completion>>,
}

impl Command {
    /// Does nothing; finished when everything before it is.
    pub(crate) fn marker() -> Self {
        Self { run: None, compute_ns: None, waits: Vec::new() }
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

    /// Takes the time that it takes, beside the compute part.
    pub(crate) fn transfer(run: impl FnOnce() + Send + 'static) -> Self {
        Self { run: Some(Box::new(run)), compute_ns: None, waits: Vec::new() }
    }

    /// Occupies the compute part.
    pub(crate) fn kernel(duration_ns: u64, run: impl FnOnce() + Send + 'static) -> Self {
        Self { run: Some(Box::new(run)), compute_ns: Some(duration_ns), waits: Vec::new() }
    }
}

struct Submitted {
    command: Command,
    time_ns: u64,
    completion: Arc<Completion>,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Submitted>,
    /// Of the newest command, pending or not.
    last: Option<Arc<Completion>>,
    has_thread: bool,
    is_closed: bool,
}

/// An in-order queue. Dropping the last handle lets its thread finish what is pending and end.
pub(crate) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    /// Distinguishes threads' names only.
    number: u32,
    compute: Arc<Compute>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    pub(crate) fn new(number: u32, compute: Arc<Compute>) -> Self {
        let shared = Shared { number, compute, state: Mutex::new(State::default()), changed: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Appends a command.
    pub(crate) fn submit(&self, command: Command) -> Arc<Completion> {
        let completion = Arc::new(Completion::default());
        let submitted = Submitted { command, time_ns: clock::now_ns(), completion: Arc::clone(&completion) };
        let mut state = self.shared.lock();
        state.pending.push_back(submitted);
        state.last = Some(Arc::clone(&completion));
        if !state.has_thread {
            state.has_thread = true;
            spawn(Arc::clone(&self.shared));
        }
        drop(state);
        self.shared.changed.notify_one();
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

    /// The next command, or none once the queue is closed and empty.
    fn next(&self) -> Option<Submitted> {
        let mut state = self.lock();
        loop {
            if let Some(submitted) = state.pending.pop_front() {
                return Some(submitted);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).expect("no holder panics");
        }
    }

    fn drain(&self) {
        let mut free_ns = 0;
        while let Some(submitted) = self.next() {
            let span = self.execute(submitted.command, submitted.time_ns.max(free_ns));
            free_ns = span.end_ns;
            submitted.completion.finish(span);
        }
    }

    fn execute(&self, command: Command, mut ready_ns: u64) -> Span {
        for dependency in command.waits {
            ready_ns = ready_ns.max(dependency.wait().end_ns);
        }
        let compute = command.compute_ns.map(|duration_ns| self.compute.reserve(ready_ns, duration_ns));
        let is_marker = command.run.is_none();
        if let Some(run) = command.run {
            // A panic would end the thread and hang every waiter; there is nobody to report it to but stderr,
            // which the default hook has done.
            let _ = catch_unwind(AssertUnwindSafe(run));
        }
        if let Some(span) = compute {
            clock::sleep_until(span.end_ns);
            return span;
        }
        let end_ns = if is_marker { ready_ns } else { clock::now_ns().max(ready_ns) };
        Span { start_ns: ready_ns, end_ns }
    }
}

/// Starts the draining thread, named, precise, and deaf to signals, which belong to the application's threads.
fn spawn(shared: Arc<Shared>) {
    let previous = block_signals();
    let thread = thread::Builder::new().name(format!("hip-sim-q{}", shared.number));
    let spawned = thread.spawn(move || {
        let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
        shared.drain();
    });
    restore_signals(&previous);
    drop(spawned.expect("a process that can start no thread cannot be simulated on"));
}

/// Blocks every signal for the calling thread and, by inheritance, for a thread that it starts.
fn block_signals() -> libc::sigset_t {
    // SAFETY: plain data that the calls below fill in; pthread_sigmask only touches this thread's mask.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut previous: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut previous);
        previous
    }
}

fn restore_signals(previous: &libc::sigset_t) {
    // SAFETY: `previous` was filled by pthread_sigmask.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, previous, core::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn queue(compute: &Arc<Compute>) -> Queue {
        Queue::new(0, Arc::clone(compute))
    }

    #[test]
    fn commands_run_in_order() {
        let queue = queue(&Arc::default());
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
        let queue = queue(&Arc::default());
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
        let compute = Arc::default();
        let (first, second) = (queue(&compute), queue(&compute));
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
        let queue = queue(&Arc::default());
        queue.submit(Command::transfer(|| panic!("expected by this test"))).wait();
        queue.submit(Command::marker()).wait();
    }
}
