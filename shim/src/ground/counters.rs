//! What the shim counts. Counters only grow, and begin again at zero in a forked child.
//!
//! Threads that count at the same time would pass a counter's cache line to and fro, at several times the cost of
//! forwarding a call. So there are several sets of counters, of which each thread has one that few others have, and
//! whoever reads a counter adds up the sets ([`stripe`]).
//!
//! All accesses are relaxed: a counter orders nothing, and whoever reads several gets a snapshot that is as
//! consistent as a running process allows.

mod stripe;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ground::outcome::{Reason, counted};
pub(crate) use stripe::{CALLS, STRIPE_BITS, STRIPE_BYTES};
use stripe::{STRIPES, Stripe};

/// Rare, and not on the way of a call.
static TROUBLE: [AtomicU64; Trouble::ALL.len()] = [const { AtomicU64::new(0) }; Trouble::ALL.len()];
/// Not on the way of calls whose site is known.
static RULINGS: [AtomicU64; Ruling::ALL.len()] = [const { AtomicU64::new(0) }; Ruling::ALL.len()];

counted! {
    /// Things that should not happen. They cost a call its shortcut or its hook, never its result, except for
    /// the first.
    Trouble {
        /// The runtime that the caller reaches lacks the function: the call returned `hipErrorNotSupported`.
        Missing = "missing in the runtime",
        /// Several runtime copies are mapped and nothing says which one the caller reaches: the first was
        /// taken.
        Ambiguous = "ambiguous runtime copies",
        /// The call site was not remembered and is looked up at each call.
        SiteNotKept = "call sites not kept",
        /// More copies of the runtime than there is room for: nothing of the others is deferred.
        TooManyCopies = "runtime copies without a place",
        /// A runtime handed a dispatch table out after calls by symbols: it was left alone.
        LateTable = "dispatch tables that came late",
        /// The runtime refused a command that was launched late; the stream's next call told so.
        LateFailure = "failures told late",
        /// The controller had no room for the process, or for one more of its queues: it was not scheduled.
        NoRoom = "times that the controller had no room: unscheduled for a second at least",
        /// The controller did not take a report: it was too far behind.
        UnsentReport = "reports that could not be sent",
        /// The controller gave memory for events that the shim does not write into.
        NoJournal = "rings of events that could not be used",
        /// The user's settings, or the controller's rules, could not be read.
        Settings = "settings that make no sense",
        /// The shim panicked.
        Panic = "panics",
    }
}

counted! {
    /// How it was found out who makes a call, where that was not known.
    Ruling {
        /// The controller's programs have walked the stack.
        Programs = "by the whole call chain",
        /// The rules saw the immediate caller.
        Caller = "by the immediate caller",
        /// The call returns to no library.
        Unknown = "by nothing: the caller is in no library",
        /// Somebody records with return probes, and nobody is there who could see behind them.
        Hidden = "by nothing: a return probe hides the caller",
        /// The controller took too long.
        Late = "answers that came too late",
        /// The controller would have taken a moment, and nothing would have kept the call whatever it had said.
        NotAwaited = "answers that were not waited for",
        /// No program was where one should be.
        Unheard = "questions that nobody heard",
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
    bump(&Stripe::own().calls[id]);
}

/// Takes a call back that the shim itself has made.
pub(crate) fn uncalled(id: usize) {
    take_back(&Stripe::own().calls[id]);
}

/// Notes that a call was passed on.
///
/// Work that goes straight to its stream is not counted here, but told by what else is known of it: each increment is a
/// fifth of what a launch costs.
pub(crate) fn passed(reason: Reason) {
    if reason != Reason::NotScheduled {
        bump(&Stripe::own().passed[reason as usize]);
    }
}

/// Notes something that should not happen.
pub(crate) fn trouble(trouble: Trouble) {
    bump(&TROUBLE[trouble as usize]);
}

/// Notes something of the queues that should not happen.
pub(crate) fn trouble_of_queues(what: xsched_xqueue::Trouble) {
    trouble(match what {
        xsched_xqueue::Trouble::NoRoom => Trouble::NoRoom,
        xsched_xqueue::Trouble::UnsentReport => Trouble::UnsentReport,
        xsched_xqueue::Trouble::NoJournal => Trouble::NoJournal,
        xsched_xqueue::Trouble::Panic => Trouble::Panic,
    });
}

/// Notes how a verdict was found.
pub(crate) fn ruled(ruling: Ruling) {
    bump(&RULINGS[ruling as usize]);
}

/// Notes that an application put work on a stream.
pub(crate) fn submitted(work: Work, stream: StreamKind) {
    bump(&Stripe::own().work[work as usize][stream as usize]);
}

/// Notes that work may not go straight to its stream.
pub(crate) fn held_up() {
    bump(&Stripe::own().held_up);
}

/// Takes that back.
pub(crate) fn not_held_up() {
    take_back(&Stripe::own().held_up);
}

/// Calls so far of the function with this number.
pub(crate) fn calls(id: usize) -> u64 {
    sum(|stripe| &stripe.calls[id])
}

/// Calls passed on so far for this reason.
pub(crate) fn passed_so_far(reason: Reason) -> u64 {
    if reason != Reason::NotScheduled {
        return sum(|stripe| &stripe.passed[reason as usize]);
    }
    // Read first: what is submitted meanwhile is counted as work before it is held up.
    let held_up = sum(|stripe| &stripe.held_up);
    let kinds = 0..StreamKind::ALL.len();
    let of =
        |work: &Work| kinds.clone().map(|kind| sum(|stripe| &stripe.work[*work as usize][kind])).sum::<u64>();
    Work::ALL.iter().map(of).sum::<u64>().saturating_sub(held_up)
}

/// Times that this happened so far.
pub(crate) fn trouble_so_far(trouble: Trouble) -> u64 {
    read(&TROUBLE[trouble as usize])
}

/// Verdicts found in this way so far.
pub(crate) fn rulings_so_far(ruling: Ruling) -> u64 {
    read(&RULINGS[ruling as usize])
}

/// Work of this kind submitted so far.
pub(crate) fn submitted_so_far(work: Work, stream: StreamKind) -> u64 {
    sum(|stripe| &stripe.work[work as usize][stream as usize])
}

/// Sets every counter to zero. For a forked child, which runs one thread and counts for itself.
pub(crate) fn reset() {
    let striped = STRIPES.iter().flat_map(Stripe::counters);
    striped.chain(&TROUBLE).chain(&RULINGS).for_each(|counter| counter.store(0, Ordering::Relaxed));
}

fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// May take a thread's set below zero, where another thread has counted up; the sum is right all the same.
fn take_back(counter: &AtomicU64) {
    counter.fetch_sub(1, Ordering::Relaxed);
}

fn sum(counter: impl Fn(&'static Stripe) -> &'static AtomicU64) -> u64 {
    STRIPES.iter().map(|stripe| read(counter(stripe))).fold(0, u64::wrapping_add)
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
