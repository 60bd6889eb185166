//! Calls that put work on a device, by thread. An event has a time and a thread, and belongs to the call in progress
//! then.
//!
//! With a dispatch table, the shim's hook runs inside the call that the tracer sees; otherwise around it. In both cases
//! the two overlap, and a thread is in one such call at a time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use xsched_abi::{Category, ParamKind};

use crate::call::{Followed, RuntimeCall};

/// Most remembered calls of a thread.
const CALLS_MAX: usize = 1 << 14;

/// How long they are remembered.
const KEPT_NS: u64 = 10_000_000_000;

/// Processes with launches that are counted before they write events. Most never write any: they have no shim.
const UNTOLD_MAX: usize = 1 << 12;

/// Whether a process writes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It does not, or not yet.
    Not,
    /// It was asked to, or is about to be.
    Asked,
    /// It does, since this time.
    Since(u64),
}

/// The calls, by process and thread.
#[derive(Debug, Default)]
pub(super) struct Calls {
    threads: HashMap<(u32, u32), VecDeque<Noted>>,
    /// No filter leaves calls out.
    has_every_call: bool,
    /// When the first known call of a process began. Without a filter, it is recorded since then.
    first_ns: HashMap<u32, u64>,
    /// When the recording has ended, if it has: later calls are not recorded.
    ends_ns: Option<u64>,
    flows: u64,
    /// Calls of processes that have not written events.
    untold: HashMap<u32, Untold>,
    /// Calls that processes made before they wrote events.
    early: u64,
}

/// A call, in the order of returns.
#[derive(Debug)]
struct Noted {
    call: Rc<Followed>,
    /// A later call is around it.
    is_inner: bool,
}

/// Calls of a process that has not written events.
#[derive(Debug, Default)]
struct Untold {
    /// Calls before it was asked to write events.
    count: u64,
    /// Return times of calls since then.
    undecided: Vec<u64>,
    last_ns: u64,
}

impl Calls {
    /// No calls yet. `takes_every_call`: no filter leaves any out.
    pub(super) fn new(takes_every_call: bool) -> Self {
        Self { has_every_call: takes_every_call, ..Self::default() }
    }

    /// Notes a call if it may start something. It is followed if its process writes events.
    pub(super) fn note(&mut self, call: &mut RuntimeCall, told: Told) {
        let Some(end_ns) = may_start(call) else { return };
        match told {
            Told::Not => return self.untold(call.pid, end_ns, |untold| untold.count += 1),
            Told::Asked => self.untold(call.pid, end_ns, |untold| {
                if untold.undecided.len() < CALLS_MAX {
                    untold.undecided.push(end_ns);
                } else {
                    untold.count += 1;
                }
            }),
            Told::Since(since_ns) => self.early += u64::from(end_ns < since_ns),
        }
        let first_ns = self.first_ns.entry(call.pid).or_insert(call.begin_ns);
        *first_ns = call.begin_ns.min(*first_ns);
        self.flows += 1;
        let followed = Rc::new(Followed::new(self.flows, call, end_ns));
        call.followed = Some(Rc::clone(&followed));
        let calls = self.threads.entry((call.pid, call.tid)).or_default();
        if calls.len() >= CALLS_MAX {
            calls.pop_front();
        }
        let inner = calls.iter_mut().rev().take_while(|noted| noted.call.begin_ns >= followed.begin_ns);
        inner.for_each(|noted| noted.is_inner = true);
        calls.push_back(Noted { call: followed, is_inner: false });
    }

    fn untold(&mut self, pid: u32, end_ns: u64, change: impl FnOnce(&mut Untold)) {
        if self.untold.len() < UNTOLD_MAX || self.untold.contains_key(&pid) {
            let untold = self.untold.entry(pid).or_default();
            untold.last_ns = end_ns;
            change(untold);
        }
    }

    /// A process writes events since this time; they do not cover what it started before.
    pub(super) fn told(&mut self, pid: u32, since_ns: u64) {
        if let Some(Untold { count, undecided, .. }) = self.untold.remove(&pid) {
            self.early += count + undecided.iter().filter(|end_ns| **end_ns < since_ns).count() as u64;
        }
    }

    /// Calls that may have started something about which no event was written.
    pub(super) fn early(&self) -> u64 {
        self.early
    }

    /// Whether a process made this call before it was recorded: a process may write events before the probes are there.
    pub(super) fn is_before_recording(&self, pid: u32, returned_ns: u64) -> bool {
        self.has_every_call && self.first_ns.get(&pid).is_some_and(|first_ns| returned_ns < *first_ns)
    }

    /// No call that begins from now on is recorded.
    pub(super) fn end(&mut self, now_ns: u64) {
        self.ends_ns = Some(now_ns);
    }

    /// Whether a call that began then was made after the end of the recording.
    pub(super) fn is_after_recording(&self, began_ns: u64) -> bool {
        self.ends_ns.is_some_and(|ends_ns| began_ns >= ends_ns)
    }

    /// The call on a thread that overlaps with an interval: the innermost if calls nest.
    pub(super) fn find(&self, pid: u32, tid: u32, from_ns: u64, to_ns: u64) -> Option<Rc<Followed>> {
        let calls = self.threads.get(&(pid, tid))?;
        // Calls are noted in the order of their return.
        let first = calls.partition_point(|noted| noted.call.end_ns < from_ns);
        let is_begun = |noted: &&Noted| noted.call.begin_ns <= to_ns;
        // No call that returned after an outermost one began before that.
        let place = calls.range(first..).find(|noted| is_begun(noted) || !noted.is_inner)?;
        is_begun(&place).then(|| Rc::clone(&place.call))
    }

    /// Forgets calls that are too old for any event.
    pub(super) fn forget_old(&mut self, now_ns: u64) {
        let before_ns = now_ns.saturating_sub(KEPT_NS);
        self.untold.retain(|_, untold| untold.last_ns >= before_ns);
        self.threads.retain(|_, calls| {
            while calls.front().is_some_and(|noted| noted.call.end_ns < before_ns) {
                calls.pop_front();
            }
            !calls.is_empty()
        });
        let with_calls: HashSet<u32> = self.threads.keys().map(|(pid, _)| *pid).collect();
        self.first_ns.retain(|pid, _| with_calls.contains(pid));
    }
}

/// The return time of a call that may put work on a device.
fn may_start(call: &RuntimeCall) -> Option<u64> {
    let takes_stream = || call.probe.params.iter().any(|param| param.kind == ParamKind::Stream);
    let starts = match call.probe.category {
        Category::Launch | Category::Copy | Category::Set | Category::Graph => true,
        // Such as a prefetch.
        Category::Memory => takes_stream(),
        _ => false,
    };
    call.end_ns.filter(|_| starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::call;

    #[test]
    fn earlier_calls_are_counted_once_their_process_writes_events() {
        let mut calls = Calls::default();
        let of = |pid, name, end_ns| RuntimeCall { end_ns: Some(end_ns), pid, tid: 2, ..call(name) };
        for name in ["hipLaunchKernel", "hipMemcpy", "hipMemPrefetchAsync", "hipMalloc"] {
            calls.note(&mut of(1, name, 20), Told::Not);
            calls.note(&mut of(3, name, 20), Told::Not);
        }
        // It was asked to write events, and has not learnt of it yet.
        calls.note(&mut of(1, "hipLaunchKernel", 30), Told::Asked);
        calls.note(&mut of(1, "hipLaunchKernel", 40), Told::Asked);
        assert_eq!(calls.early(), 0, "it may never write events");
        calls.told(1, 35);
        assert_eq!(calls.early(), 4);
        calls.note(&mut of(1, "hipMemcpy", 34), Told::Since(35));
        calls.note(&mut of(1, "hipMemcpy", 36), Told::Since(35));
        assert_eq!(calls.early(), 5, "its events cover the other one");
        calls.forget_old(KEPT_NS + 21);
        calls.told(3, 50);
        assert_eq!(calls.early(), 5, "that was long ago, and may have been another process");
    }

    #[test]
    fn a_call_around_others_is_found_behind_them_and_no_call_is_looked_for_behind_an_outermost_one() {
        let mut calls = Calls::default();
        for (begin_ns, end_ns) in [(12, 14), (16, 18), (10, 20), (22, 24), (30, 40)] {
            let mut launch =
                RuntimeCall { begin_ns, end_ns: Some(end_ns), pid: 1, tid: 2, ..call("hipLaunchKernel") };
            calls.note(&mut launch, Told::Since(0));
        }
        let flow = |at_ns| calls.find(1, 2, at_ns, at_ns).map(|call| call.flow);
        assert_eq!([11, 13, 15, 17, 19].map(flow), [Some(3), Some(1), Some(3), Some(2), Some(3)]);
        assert_eq!([9, 21, 23, 29, 35].map(flow), [None, None, Some(4), None, Some(5)]);
        let is_inner: Vec<_> = calls.threads[&(1, 2)].iter().map(|noted| noted.is_inner).collect();
        assert_eq!(is_inner, [true, true, false, false, false]);
    }

    #[test]
    fn a_process_is_recorded_from_its_first_known_call_on() {
        let mut calls = Calls::new(true);
        assert!(!calls.is_before_recording(1, 5), "no call of it is known: it may be missing");
        for (tid, begin_ns) in [(2, 30), (3, 20)] {
            let mut launch =
                RuntimeCall { begin_ns, end_ns: Some(40), pid: 1, tid, ..call("hipLaunchKernel") };
            calls.note(&mut launch, Told::Since(0));
        }
        assert_eq!([19, 20, 25].map(|at_ns| calls.is_before_recording(1, at_ns)), [true, false, false]);
        assert!(!calls.is_before_recording(2, 19), "another process");
        calls.has_every_call = false;
        assert!(!calls.is_before_recording(1, 19), "a filter may have left calls out before");
    }

    #[test]
    fn a_call_is_found_by_thread_and_time() {
        let mut calls = Calls::default();
        for (begin_ns, end_ns) in [(10, 20), (30, 40)] {
            let mut launch =
                RuntimeCall { begin_ns, end_ns: Some(end_ns), pid: 1, tid: 2, ..call("hipLaunchKernel") };
            calls.note(&mut launch, Told::Since(0));
            assert_eq!(launch.followed.unwrap().begin_ns, begin_ns);
        }
        let flow = |from_ns, to_ns| calls.find(1, 2, from_ns, to_ns).map(|call| call.flow);
        assert_eq!((flow(15, 15), flow(35, 36), flow(8, 25)), (Some(1), Some(2), Some(1)), "either around");
        assert_eq!((flow(21, 29), flow(41, 50), flow(1, 9)), (None, None, None));
        assert!(calls.find(1, 3, 15, 15).is_none() && calls.find(2, 2, 15, 15).is_none());
        calls.forget_old(KEPT_NS + 21);
        assert!(calls.find(1, 2, 15, 15).is_none() && calls.find(1, 2, 35, 35).is_some());
    }

    #[test]
    fn calls_that_start_nothing_are_not_followed() {
        let mut calls = Calls::default();
        let mut wait = call("hipStreamSynchronize");
        calls.note(&mut wait, Told::Since(0));
        assert!(wait.followed.is_none());
    }
}
