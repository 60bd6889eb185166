//! Calls that put something on a device, by thread: an event says when and on which thread, and belongs to the call around
//! it.
//!
//! With a dispatch table the shim's hook runs within the call that the tracer sees, otherwise around it: then the two
//! overlap. A thread is in one such call at a time.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use xsched_abi::Category;

use crate::call::HipCall;

/// Calls of a thread that are remembered.
const CALLS_MAX: usize = 1 << 14;

/// How long.
const KEPT_NS: u64 = 10_000_000_000;

/// Processes of which it is counted what they start before they tell of it. Most never do: they have no shim.
const EARLY_MAX: usize = 1 << 12;

/// What became of a call in the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Settled {
    /// It waits.
    #[default]
    NotYet,
    /// It is there.
    Written,
    /// A filter has left it out.
    LeftOut,
}

/// A call that is followed to what it starts.
#[derive(Debug)]
pub(crate) struct Followed {
    /// Links it to the execution. Never used again.
    pub(crate) flow: u64,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) api: &'static str,
    pub(super) kernel: Option<Arc<str>>,
    /// The library to which it belongs, once that is known.
    origin: OnceCell<Arc<str>>,
    settled: Cell<Settled>,
    /// From the call until the device began with it, once that is known.
    queue_delay_ns: OnceCell<u64>,
}

impl Followed {
    /// The device began with what it started so long after it.
    pub(super) fn begun(&self, queue_delay_ns: u64) {
        // A call that starts several things is told of the first.
        let _ = self.queue_delay_ns.set(queue_delay_ns);
    }

    /// From the call until the device began with what it started, if that is known.
    pub(crate) fn queue_delay_ns(&self) -> Option<u64> {
        self.queue_delay_ns.get().copied()
    }

    /// It is in the timeline, or will not be; it belongs to this library.
    pub(crate) fn settle(&self, origin: &Arc<str>, is_written: bool) {
        // Whoever settles it twice says the same.
        let _ = self.origin.set(Arc::clone(origin));
        self.settled.set(if is_written { Settled::Written } else { Settled::LeftOut });
    }

    pub(super) fn origin(&self) -> Option<Arc<str>> {
        self.origin.get().cloned()
    }

    pub(super) fn settled(&self) -> Settled {
        self.settled.get()
    }
}

/// The calls, by process and thread.
#[derive(Debug, Default)]
pub(super) struct Calls {
    threads: HashMap<(u32, u32), VecDeque<Rc<Followed>>>,
    flows: u64,
    /// Calls of processes that do not tell of their commands: how many, and when the last ended.
    untold: HashMap<u32, (u64, u64)>,
    /// How many were made by processes that did so later.
    early: u64,
}

impl Calls {
    /// Takes note of a call of a process that tells of its commands, if it may start one.
    pub(super) fn note(&mut self, call: &mut HipCall) {
        if let Some((count, _)) = self.untold.remove(&call.pid) {
            self.early += count;
        }
        let Some(end_ns) = may_start(call) else { return };
        self.flows += 1;
        let followed = Rc::new(Followed {
            flow: self.flows,
            begin_ns: call.begin_ns,
            end_ns,
            api: call.probe.name,
            kernel: call.kernel.clone(),
            origin: OnceCell::new(),
            settled: Cell::default(),
            queue_delay_ns: OnceCell::new(),
        });
        call.followed = Some(Rc::clone(&followed));
        let calls = self.threads.entry((call.pid, call.tid)).or_default();
        if calls.len() >= CALLS_MAX {
            calls.pop_front();
        }
        calls.push_back(followed);
    }

    /// Takes note of a call of a process that does not tell of its commands, or does not yet.
    pub(super) fn note_untold(&mut self, call: &HipCall) {
        let Some(end_ns) = may_start(call) else { return };
        if self.untold.len() < EARLY_MAX || self.untold.contains_key(&call.pid) {
            let (count, last_ns) = self.untold.entry(call.pid).or_default();
            (*count, *last_ns) = (*count + 1, end_ns);
        }
    }

    /// Calls that may have started something which nobody has told of.
    pub(super) fn early(&self) -> u64 {
        self.early
    }

    /// The call on a thread that overlaps with a time: the innermost, if calls nest.
    pub(super) fn find(&self, pid: u32, tid: u32, from_ns: u64, to_ns: u64) -> Option<Rc<Followed>> {
        let calls = self.threads.get(&(pid, tid))?;
        // They are noted as they return.
        let first = calls.partition_point(|call| call.end_ns < from_ns);
        calls.range(first..).find(|call| call.begin_ns <= to_ns).cloned()
    }

    /// Forgets what nobody will ask for.
    pub(super) fn forget_old(&mut self, now_ns: u64) {
        let before_ns = now_ns.saturating_sub(KEPT_NS);
        self.untold.retain(|_, (_, last_ns)| *last_ns >= before_ns);
        self.threads.retain(|_, calls| {
            while calls.front().is_some_and(|call| call.end_ns < before_ns) {
                calls.pop_front();
            }
            !calls.is_empty()
        });
    }
}

/// When a call has ended that may start something.
fn may_start(call: &HipCall) -> Option<u64> {
    let starts =
        matches!(call.probe.category, Category::Launch | Category::Copy | Category::Set | Category::Graph);
    call.end_ns.filter(|_| starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::call;

    #[test]
    fn what_was_called_before_its_process_told_of_it_is_counted_once_it_does() {
        let mut calls = Calls::default();
        let of = |pid, name| HipCall { end_ns: Some(20), pid, tid: 2, ..call(name) };
        for name in ["hipLaunchKernel", "hipMemcpy", "hipStreamSynchronize"] {
            calls.note_untold(&of(1, name));
            calls.note_untold(&of(3, name));
        }
        assert_eq!(calls.early(), 0, "it may have no shim");
        calls.note(&mut of(1, "hipStreamSynchronize"));
        calls.note(&mut of(1, "hipLaunchKernel"));
        assert_eq!(calls.early(), 2);
        calls.forget_old(KEPT_NS + 21);
        calls.note(&mut of(3, "hipLaunchKernel"));
        assert_eq!(calls.early(), 2, "that was long ago, and may have been another process");
    }

    #[test]
    fn a_call_is_found_by_thread_and_time() {
        let mut calls = Calls::default();
        for (begin_ns, end_ns) in [(10, 20), (30, 40)] {
            let mut launch =
                HipCall { begin_ns, end_ns: Some(end_ns), pid: 1, tid: 2, ..call("hipLaunchKernel") };
            calls.note(&mut launch);
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
    fn what_starts_nothing_is_not_followed() {
        let mut calls = Calls::default();
        let mut wait = call("hipStreamSynchronize");
        calls.note(&mut wait);
        assert!(wait.followed.is_none());
    }
}
