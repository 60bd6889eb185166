//! What the shim counts. Counters only grow, and restart at zero in a forked child.
//!
//! If all threads shared one set of counters, its cache lines would move between processors, at several times the
//! cost of forwarding a call. So each thread has one, and a reader adds the sets up ([`sets`]).
//!
//! All accesses are relaxed: a counter orders nothing, and a reader of several gets a snapshot that is as consistent
//! as a running process allows.

mod sets;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::outcome::{Reason, counted};
pub(crate) use sets::{NOTHING_DEFERRED, work_offset};
use sets::{sum, take_back};

/// Rare, and not on a call's fast path.
static TROUBLE: [AtomicU64; Trouble::ALL.len()] = [const { AtomicU64::new(0) }; Trouble::ALL.len()];
/// Not on the path of calls whose site is known.
static VERDICT_SOURCES: [AtomicU64; VerdictSource::ALL.len()] =
    [const { AtomicU64::new(0) }; VerdictSource::ALL.len()];

/// Gates before commands.
static GATES_PUT: AtomicU64 = AtomicU64::new(0);

counted! {
    /// Things that should not happen. They cost a call its shortcut or its hook, never its result, except for the
    /// first.
    Trouble {
        /// The runtime that the caller reaches lacks the function: the call returned `hipErrorNotSupported`.
        Missing = "missing in the runtime",
        /// Several runtime copies are mapped and nothing says which one the caller reaches: the first was taken.
        Ambiguous = "ambiguous runtime copies",
        /// The table of call sites has no place for the caller's: the call was answered by its library.
        SiteNotKept = "calls from places without an entry",
        /// The caller is in no library: generated code, or hidden by a return probe. No site can be kept.
        UnknownCaller = "calls from code of no library",
        /// The process has more runtime copies than the shim supports: no call of the others is deferred.
        TooManyCopies = "runtime copies without a place",
        /// A runtime handed a dispatch table out after calls by symbols: the table was left alone.
        LateTable = "dispatch tables that came late",
        /// The runtime refused a command that was launched late; the stream's next call returned the error.
        LateFailure = "failures returned late",
        /// The controller had no slot for the process, or for one more of its queues: it was not scheduled.
        ControllerFull = "times that the controller had no free slot: unscheduled for at least a second",
        /// The controller did not take a report: it was too far behind.
        UnsentReport = "reports that could not be sent",
        /// The program has closed or replaced the connection to the controller: it was not scheduled until the next one.
        LostConnection = "connections to the controller that the program closed: unscheduled for a second",
        /// The controller gave memory for events that the shim does not write into.
        NoEventRing = "rings of events that could not be used",
        /// A runtime did not take a gate: commands on that device are not stopped any more once they were launched.
        RefusedGate = "gates that a runtime refused: launched commands are not stopped any more",
        /// The user's settings, or the controller's rules, could not be read.
        Settings = "settings that could not be read",
        /// The shim panicked.
        Panic = "panics",
    }
}

counted! {
    /// How the verdict of a call was found that was not known yet.
    VerdictSource {
        /// The controller's programs have walked the stack.
        Programs = "by the whole call chain",
        /// The rules saw the immediate caller.
        Caller = "by the immediate caller",
        /// The call returns to no library.
        Unknown = "not found: the caller is in no library",
        /// A recording uses return probes, which hide the caller, and no program walks the stack behind them.
        Hidden = "not found: a return probe hides the caller",
        /// The controller took too long to answer.
        Late = "answers that came too late",
        /// The controller's answer was pending, and the call could go at once whatever the answer.
        NotAwaited = "answers that were not waited for",
        /// No program was attached where one should be.
        Unheard = "questions that no program answered",
        /// More threads ask than there are slots.
        NoSlot = "threads without a slot",
    }
}

counted! {
    /// What a call puts on a stream.
    Work {
        /// a kernel
        Kernel = "kernels",
        /// a copy
        Copy = "copies",
        /// a fill
        Fill = "fills",
        /// a graph
        Graph = "graphs",
        /// a host function
        HostFunction = "host functions",
        /// an event's record
        Event = "event records",
        /// a wait for an event, a value or a semaphore, or a signal to one
        Signal = "waits and signals",
        /// a change of memory: freed, moved, mapped
        Memory = "memory operations",
    }
}

counted! {
    /// Which kind of stream work was put on.
    StreamKind {
        /// The null stream that every thread of the process shares.
        Legacy = "legacy null stream",
        /// The null stream that each thread has for itself.
        PerThread = "per-thread stream",
        /// A stream that the application created.
        Created = "created streams",
    }
}

/// Notes a call of the function with this number.
pub(crate) fn called(id: usize) {
    sets::bump(|set| &set.calls[id]);
}

/// Takes a call back that the shim itself has made.
pub(crate) fn uncalled(id: usize) {
    take_back(|set| &set.calls[id]);
}

/// Counts a call that was passed on.
///
/// Work that goes straight to its stream is not counted here but computed from other counters: each increment is a
/// fifth of what a launch costs.
pub(crate) fn passed(reason: Reason) {
    if reason != Reason::NotScheduled {
        sets::bump(|set| &set.passed[reason as usize]);
    }
}

/// Counts something that should not happen.
pub(crate) fn trouble(trouble: Trouble) {
    bump(&TROUBLE[trouble as usize]);
}

/// Counts a gate that was put before a command.
pub(crate) fn gate_put() {
    bump(&GATES_PUT);
}

/// Counts how a verdict was found.
pub(crate) fn verdict_found(source: VerdictSource) {
    bump(&VERDICT_SOURCES[source as usize]);
}

/// Counts work that the application put on a stream.
pub(crate) fn submitted(work: Work, stream: StreamKind) {
    sets::bump(|set| &set.work[work as usize][stream as usize]);
}

/// Counts work that may not go straight to its stream.
pub(crate) fn delayed() {
    sets::bump(|set| &set.delayed);
}

/// Takes that back.
pub(crate) fn not_delayed() {
    take_back(|set| &set.delayed);
}

/// Calls so far of the function with this number.
pub(crate) fn calls(id: usize) -> u64 {
    sum(|set| &set.calls[id])
}

/// Calls passed on so far for this reason.
pub(crate) fn passed_so_far(reason: Reason) -> u64 {
    if reason != Reason::NotScheduled {
        return sum(|set| &set.passed[reason as usize]);
    }
    // Read first: work that is submitted meanwhile is counted as submitted before it is counted as delayed.
    let delayed = sum(|set| &set.delayed);
    let kinds = 0..StreamKind::ALL.len();
    let of = |work: &Work| kinds.clone().map(|kind| sum(|set| &set.work[*work as usize][kind])).sum::<u64>();
    Work::ALL.iter().map(of).sum::<u64>().saturating_sub(delayed)
}

/// Times that this happened so far.
pub(crate) fn trouble_so_far(trouble: Trouble) -> u64 {
    read(&TROUBLE[trouble as usize])
}

/// Gates put before commands so far.
pub(crate) fn gates_put_so_far() -> u64 {
    read(&GATES_PUT)
}

/// Verdicts found in this way so far.
pub(crate) fn verdicts_so_far(source: VerdictSource) -> u64 {
    read(&VERDICT_SOURCES[source as usize])
}

/// Work of this kind submitted so far.
pub(crate) fn submitted_so_far(work: Work, stream: StreamKind) -> u64 {
    sum(|set| &set.work[work as usize][stream as usize])
}

/// Sets every counter to zero. For a forked child, which runs one thread and has counts of its own.
pub(crate) fn reset() {
    sets::reset();
    let others = TROUBLE.iter().chain(&VERDICT_SOURCES).chain([&GATES_PUT]);
    others.for_each(|counter| counter.store(0, Ordering::Relaxed));
}

fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
