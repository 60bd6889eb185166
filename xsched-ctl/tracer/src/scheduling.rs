//! Scheduling as a recording sees it: what the controller's processes and the arbiter write, put together with the calls.
//!
//! ```text
//!   rings of processes --\                            executions, states of XQueues, preemptions, counters
//!   ring of the arbiter --+--> in order of time --> processes, arbiter --> Entry --> recorder, timeline
//!   HIP calls ------------/    (calls by thread)
//! ```
//!
//! | module | responsible for |
//! | --- | --- |
//! | `source` | the controller that is asked, and the rings that it hands out |
//! | `elsewhere` | controllers that are not asked, or cannot be reached |
//! | `calls` | which call an event belongs to |
//! | `judged` | how a call is treated, and by which rule; calls wait there for what is not known yet |
//! | `processes` | who tells of its commands |
//! | `process` | what is on the device, and since when |
//! | `device_clock` | the device's intervals on the host's clock |
//! | `xqueue` | running, suspended, buffered |
//! | `arbiter` | who may launch, and who had to give way to whom |
//! | `entry` | what comes of it |
//!
//! Everything here is written by processes that are not trusted: numbers are only compared and subtracted with care, and what
//! is kept is bounded.

mod arbiter;
mod calls;
mod device_clock;
mod elsewhere;
mod entry;
mod judged;
mod process;
mod processes;
mod source;
mod xqueue;

use xsched_abi::Counter;
use xsched_protocol::events::{Event, Record};
use xsched_symbols::now_ns;

use crate::call::HipCall;
use arbiter::Arbiter;
pub(crate) use calls::Followed;
use calls::{Calls, Told};
pub(crate) use entry::{Entry, Execution, Holder, Phase, Preemption, XQueueId};
use judged::Judgements;
pub(crate) use judged::{DEVICE_PATIENCE_NS, Judged};
use process::Called;
use processes::Processes;
use source::{Origin, RingId, Source};

/// Why a process with the shim cannot have joined the controller of this user or of the machine, which is there, if it is known why.
pub fn why_not_joined(pid: u32) -> Option<String> {
    elsewhere::why_not_asked(pid, true)
}

/// How much younger than a look at the rings their events may be: those of a ring that is looked at later would come too
/// late otherwise.
const SKEW_NS: u64 = 500_000;

/// What is known of scheduling.
pub(crate) struct Scheduling {
    source: Source,
    calls: Calls,
    judgements: Judgements,
    processes: Processes,
    arbiter: Arbiter,
    /// Read, and younger than some that are not.
    early: Vec<(u64, Origin, Record)>,
    entries: Vec<Entry>,
    /// Everything was taken in that was written until then.
    taken_until_ns: u64,
    /// Records that made no sense.
    senseless: u64,
    /// Rings that nothing more comes from, and when that was seen.
    ended: Vec<(u64, RingId)>,
}

impl Scheduling {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        Self {
            source: Source::new(),
            calls: Calls::default(),
            judgements: Judgements::default(),
            processes: Processes::default(),
            arbiter: Arbiter::default(),
            early: Vec::new(),
            entries: Vec::new(),
            taken_until_ns: 0,
            senseless: 0,
            ended: Vec::new(),
        }
    }

    /// Learns of the processes that are about to write, before the calls are looked at that they have made since.
    pub(crate) fn hear(&mut self) {
        self.source.listen();
        for (ring, pid) in self.source.take_begun() {
            self.processes.begin(ring, pid);
        }
    }

    /// A process has made its first call.
    pub(crate) fn meet(&mut self, pid: u32) {
        if self.processes.told(pid) == Told::Not {
            self.source.meet(pid);
        }
    }

    /// A call was seen. If its process tells of its commands, they are put together.
    pub(crate) fn called(&mut self, call: &mut HipCall) {
        let told = self.processes.told(call.pid);
        // Without a controller nobody ever tells.
        if told != Told::Not || self.source.is_connected() {
            self.calls.note(call, told);
        }
    }

    /// A call is about to be recorded. Given back unless it has to wait until it is known how its process treats it, and when
    /// the device began with what it starts.
    pub(crate) fn hold(&mut self, call: HipCall) -> Option<HipCall> {
        if call.followed.is_some() { self.judgements.hold(call) } else { Some(call) }
    }

    /// The calls that wait no longer, after [`Self::poll`].
    pub(crate) fn release(&mut self) -> Vec<HipCall> {
        let is_gone = |pid| self.processes.told(pid) == Told::Not;
        self.judgements.release(self.taken_until_ns, is_gone)
    }

    /// All calls that wait, and what was written about them: nothing more will come.
    pub(crate) fn release_all(&mut self) -> Vec<HipCall> {
        self.read();
        self.take_until(u64::MAX);
        self.processes.tell_calls(&self.calls);
        self.release()
    }

    /// Takes in what was written until now. All calls are known that had returned by `called_until_ns`, but for those that are
    /// lost and a few that are late. Entries come in order of time for each track.
    pub(crate) fn poll(&mut self, called_until_ns: u64) -> Vec<Entry> {
        let looked_ns = now_ns();
        let ended = self.read();
        let until_ns = looked_ns.saturating_sub(SKEW_NS);
        self.take_until(until_ns);
        self.ended.extend(ended.into_iter().map(|ring| (looked_ns, ring)));
        self.let_go(until_ns);
        self.emit(Called::Until(called_until_ns));
        self.calls.forget_old(called_until_ns);
        self.judgements.forget_old(called_until_ns);
        std::mem::take(&mut self.entries)
    }

    /// What comes of the rest, after [`Self::release_all`].
    pub(crate) fn finish(&mut self) -> Vec<Entry> {
        let now_ns = now_ns();
        self.emit(Called::All);
        self.processes.close(now_ns, &mut self.entries);
        self.arbiter.close(now_ns, &mut self.entries);
        std::mem::take(&mut self.entries)
    }

    /// What is missing.
    pub(crate) fn losses(&self) -> [(Counter, u64); 4] {
        [
            (Counter::SchedulingLost, self.source.lost()),
            (Counter::SchedulingSenseless, self.senseless),
            (Counter::SchedulingUnseen, self.processes.unseen()),
            (Counter::SchedulingEarly, self.calls.early()),
        ]
    }

    /// Executions of these processes that were written before the calls that have started them were known.
    pub(crate) fn uncalled(&self, includes: impl Fn(u32) -> bool) -> u64 {
        self.processes.uncalled(includes)
    }

    /// What people should be told.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        self.source.take_notices()
    }

    /// Reads what was written; returns the rings that nothing more comes from.
    fn read(&mut self) -> Vec<RingId> {
        self.hear();
        let early = &mut self.early;
        let ended = self.source.read(&mut |time_ns, origin, record| early.push((time_ns, origin, record)));
        self.forget_impossible(now_ns());
        for (number, name) in self.source.take_rule_names() {
            self.judgements.name(number, name);
        }
        ended
    }

    /// Forgets what says that it was written after it was read: it would wait for its time, which may never come.
    fn forget_impossible(&mut self, read_ns: u64) {
        let (latest_ns, count) = (read_ns.saturating_add(SKEW_NS), self.early.len());
        self.early.retain(|(time_ns, ..)| *time_ns <= latest_ns);
        self.senseless += (count - self.early.len()) as u64;
    }

    fn take_until(&mut self, until_ns: u64) {
        self.taken_until_ns = until_ns;
        // Stable: what one process writes stays in its order.
        self.early.sort_by_key(|(time_ns, ..)| *time_ns);
        let count = self.early.partition_point(|(time_ns, ..)| *time_ns <= until_ns);
        for (time_ns, origin, record) in self.early.drain(..count).collect::<Vec<_>>() {
            let Some(event) = Event::of(&record) else {
                self.senseless += 1;
                continue;
            };
            match origin {
                Origin::Arbiter => self.arbiter.take(time_ns, &event, &mut self.entries),
                Origin::Process(ring) => {
                    let Some(process) = self.processes.writer(ring, time_ns, &mut self.calls) else {
                        self.senseless += 1;
                        continue;
                    };
                    self.judgements.take(process.pid(), &record, &event);
                    process.take(time_ns, &record, &event, &self.arbiter, &mut self.entries);
                }
            }
        }
    }

    /// Notes the ends of processes of which everything until then was taken in.
    fn let_go(&mut self, until_ns: u64) {
        for (ended_ns, ring) in self.ended.extract_if(.., |(ended_ns, _)| *ended_ns <= until_ns) {
            if let Some(pid) = self.processes.ended(ring, ended_ns) {
                self.arbiter.ended(ended_ns, pid, &mut self.entries);
            }
        }
    }

    fn emit(&mut self, called: Called) {
        self.processes.emit(called, (&self.calls, &self.judgements), &mut self.entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_that_it_is_still_to_come_is_not_kept() {
        let mut scheduling = Scheduling::new();
        let record = Record { kind: 1, thread: 0, time_ns: 0, queue: 1, values: [0; 5] };
        let read_ns = 1_000_000_000;
        for time_ns in [1, read_ns, read_ns + SKEW_NS, read_ns + SKEW_NS + 1, u64::MAX] {
            scheduling.early.push((time_ns, Origin::Process(RingId(1)), record));
        }
        scheduling.forget_impossible(read_ns);
        let kept: Vec<_> = scheduling.early.iter().map(|(time_ns, ..)| *time_ns).collect();
        assert_eq!((kept, scheduling.senseless), (vec![1, read_ns, read_ns + SKEW_NS], 2));
    }
}
