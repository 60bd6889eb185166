//! Scheduling in a recording: combines the events that processes and the arbiter write with the recorded calls.
//!
//! ```text
//!   rings of processes --\                            executions, states of XQueues, preemptions, counters
//!   ring of the arbiter --+--> in order of time --> processes, arbiter --> Entry --> recorder, timeline
//!   HIP calls ------------/    (calls by thread)
//! ```
//!
//! | module | responsible for |
//! | --- | --- |
//! | `source` | the controller that is asked, and the event rings that it hands out |
//! | `rings` | these rings, which a thread empties while the loop is busy |
//! | `elsewhere` | controllers that are not asked, or cannot be reached |
//! | `calls` | which call an event belongs to |
//! | `judged` | the verdict on a call and its rule; calls wait there for missing information |
//! | `processes` | which processes write events |
//! | `process` | which commands are on the device, and since when |
//! | `device_clock` | the device's intervals on the host's clock |
//! | `xqueue` | phases of XQueues: running, suspended, buffered |
//! | `arbiter` | which level may launch, and which process preempted which |
//! | `settings` | the controller's policy, and the parameters of processes |
//! | `entry` | the results |
//!
//! The events are written by untrusted processes: arithmetic on their numbers never overflows, and all state is
//! bounded.

mod arbiter;
mod calls;
mod device_clock;
mod elsewhere;
mod entry;
mod judged;
mod process;
mod processes;
mod rings;
mod settings;
mod source;
mod xqueue;

use std::rc::Rc;

use xsched_abi::Counter;
use xsched_control_api::call_memory::SharedCalls;
use xsched_protocol::events::{Event, Record};
use xsched_symbols::now_ns;

use crate::call::RuntimeCall;
use arbiter::Arbiter;
use calls::{Calls, Told};
pub(crate) use entry::{Entry, Execution, Holder, Phase, Preemption, Regime, XQueueId};
pub(crate) use judged::DEVICE_PATIENCE_NS;
use judged::Judgements;
use process::Called;
use processes::Processes;
pub(crate) use settings::{Changes, SettingsWatch};
use source::{Origin, RingId, Source};

/// Why a process with the shim cannot have joined the running controller of this user or machine, if that is known.
pub fn why_not_joined(pid: u32) -> Option<String> {
    elsewhere::why_not_asked(pid, true)
}

/// Events must be this much older than the time at which reading began: otherwise those of a ring that is read later
/// could come too late.
const SKEW_NS: u64 = 500_000;

pub(crate) struct Scheduling {
    source: Source,
    calls: Calls,
    judgements: Judgements,
    processes: Processes,
    arbiter: Arbiter,
    /// Records that were read, but are younger than some that were not.
    early: Vec<(u64, Origin, Record)>,
    entries: Vec<Entry>,
    /// All events up to this time have been taken in.
    taken_until_ns: u64,
    /// Malformed records.
    senseless: u64,
    /// Rings without further events, and when their end was noticed.
    ended: Vec<(u64, RingId)>,
    /// Processes that have begun to write events.
    begun: usize,
}

impl Scheduling {
    /// `takes_every_call`: no filter leaves calls out.
    pub(crate) fn new(takes_every_call: bool) -> Self {
        Self {
            source: Source::new(),
            calls: Calls::new(takes_every_call),
            judgements: Judgements::default(),
            processes: Processes::default(),
            arbiter: Arbiter::default(),
            early: Vec::new(),
            entries: Vec::new(),
            taken_until_ns: 0,
            senseless: 0,
            ended: Vec::new(),
            begun: 0,
        }
    }

    /// Learns of the processes that are about to write events, before the calls that they made since then are handled.
    pub(crate) fn hear(&mut self) {
        self.source.listen();
        for (ring, pid) in self.source.take_begun() {
            self.processes.begin(ring, pid);
            self.begun += 1;
        }
    }

    /// The processes that have memory for their own calls since the last call.
    pub(crate) fn take_calls(&mut self) -> Vec<(u32, Rc<SharedCalls>)> {
        self.source.take_calls()
    }

    /// Whether there is, or was, another recorder: its probes have to see all calls.
    pub(crate) fn is_shared(&self) -> bool {
        self.source.is_shared()
    }

    /// How many processes have begun to write events so far.
    pub(crate) fn begun(&self) -> usize {
        self.begun
    }

    /// A process has made its first call.
    pub(crate) fn meet(&mut self, pid: u32) {
        if self.processes.told(pid) == Told::Not {
            self.source.meet(pid);
        }
    }

    /// A call was seen. It is matched with events if its process writes them.
    pub(crate) fn called(&mut self, call: &mut RuntimeCall) {
        let told = self.processes.told(call.pid);
        // Without a controller no process ever writes events.
        if told != Told::Not || self.source.is_connected() {
            self.calls.note(call, told);
        }
    }

    /// A call is about to be recorded. Returns it unless it must wait for its verdict, or for the start of what it
    /// launches on the device.
    pub(crate) fn hold(&mut self, call: RuntimeCall) -> Option<RuntimeCall> {
        if call.followed.is_some() { self.judgements.hold(call) } else { Some(call) }
    }

    /// The calls that need not wait any longer, after [`Self::poll`].
    pub(crate) fn release(&mut self) -> Vec<RuntimeCall> {
        let is_gone = |pid| self.processes.told(pid) == Told::Not;
        self.judgements.release(self.taken_until_ns, is_gone)
    }

    /// All waiting calls, with everything that was written about them: nothing more will come.
    pub(crate) fn release_all(&mut self) -> Vec<RuntimeCall> {
        self.read();
        self.take_until(u64::MAX);
        self.processes.tell_calls(&self.calls);
        self.release()
    }

    /// Takes in events written until now. All calls that returned by `called_until_ns` are known, except for lost calls
    /// and a few late ones. Entries are in order of time on each track.
    pub(crate) fn poll(&mut self, called_until_ns: u64) -> Vec<Entry> {
        let looked_ns = now_ns();
        let ended = self.read();
        let until_ns = looked_ns.saturating_sub(SKEW_NS);
        self.take_until(until_ns);
        self.ended.extend(ended.into_iter().map(|ring| (looked_ns, ring)));
        self.end_rings(until_ns);
        self.emit(Called::Until(called_until_ns));
        self.calls.forget_old(called_until_ns);
        self.judgements.forget_old(called_until_ns);
        std::mem::take(&mut self.entries)
    }

    /// The remaining entries, after [`Self::release_all`].
    pub(crate) fn finish(&mut self) -> Vec<Entry> {
        let now_ns = now_ns();
        self.emit(Called::All);
        self.processes.close(now_ns, &mut self.entries);
        self.arbiter.close(now_ns, &mut self.entries);
        std::mem::take(&mut self.entries)
    }

    /// The recording ends: no call that begins from now on is recorded.
    pub(crate) fn end(&mut self) {
        self.calls.end(now_ns());
    }

    /// Counts of missing information.
    pub(crate) fn losses(&self) -> [(Counter, u64); 4] {
        [
            (Counter::SchedulingLost, self.source.lost()),
            (Counter::SchedulingSenseless, self.senseless),
            (Counter::SchedulingUnseen, self.processes.unseen()),
            (Counter::SchedulingEarly, self.calls.early()),
        ]
    }

    /// Executions of these processes that were written before the calls that started them were known.
    pub(crate) fn uncalled(&self, includes: impl Fn(u32) -> bool) -> u64 {
        self.processes.uncalled(includes)
    }

    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        self.source.take_notices()
    }

    /// Reads events; returns the rings that have ended.
    fn read(&mut self) -> Vec<RingId> {
        self.hear();
        let early = &mut self.early;
        let ended = self.source.read(&mut |time_ns, origin, record| early.push((time_ns, origin, record)));
        self.drop_future_records(now_ns());
        for (number, name) in self.source.take_rule_names() {
            self.judgements.name(number, name);
        }
        ended
    }

    /// Drops records with a time after the time of reading: they would wait for that time, which may be arbitrarily far
    /// off.
    fn drop_future_records(&mut self, read_ns: u64) {
        let (latest_ns, count) = (read_ns.saturating_add(SKEW_NS), self.early.len());
        self.early.retain(|(time_ns, ..)| *time_ns <= latest_ns);
        self.senseless += (count - self.early.len()) as u64;
    }

    fn take_until(&mut self, until_ns: u64) {
        self.taken_until_ns = until_ns;
        // A stable sort: events of one process stay in their order.
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

    /// Notes the ends of processes after all their events have been taken in.
    fn end_rings(&mut self, until_ns: u64) {
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
    fn records_with_a_future_time_are_dropped() {
        let mut scheduling = Scheduling::new(true);
        let record = Record { kind: 1, thread: 0, time_ns: 0, queue: 1, values: [0; 5] };
        let read_ns = 1_000_000_000;
        for time_ns in [1, read_ns, read_ns + SKEW_NS, read_ns + SKEW_NS + 1, u64::MAX] {
            scheduling.early.push((time_ns, Origin::Process(RingId(1)), record));
        }
        scheduling.drop_future_records(read_ns);
        let kept: Vec<_> = scheduling.early.iter().map(|(time_ns, ..)| *time_ns).collect();
        assert_eq!((kept, scheduling.senseless), (vec![1, read_ns, read_ns + SKEW_NS], 2));
    }
}
