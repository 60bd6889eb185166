//! The processes that write events, identified by their event ring.
//!
//! A process counts from the moment at which the tracer has its ring, which is before the process has it. It counts
//! until all its events and calls have been read. Calls arrive independently, so an ended process may still have calls
//! to come. When it executes another program it gets a new ring, under the same process id.

use std::collections::HashMap;

use super::calls::{Calls, Told};
use super::entry::Entry;
use super::judged::Judgements;
use super::process::{Called, Process};
use super::source::RingId;

#[derive(Debug, Default)]
pub(super) struct Processes {
    by_ring: HashMap<RingId, Process>,
    by_pid: HashMap<u32, Teller>,
    /// Commands of ended processes whose end was not seen.
    unseen: u64,
    /// By ended process: executions that were passed on before their calls were known.
    uncalled: HashMap<u32, u64>,
}

/// What is known about a process id.
#[derive(Debug, Default)]
struct Teller {
    /// Its unfinished rings.
    rings: usize,
    told_since_ns: Option<u64>,
}

impl Processes {
    /// A process is about to get a ring.
    pub(super) fn begin(&mut self, ring: RingId, pid: u32) {
        self.by_ring.insert(ring, Process::new(pid));
        self.by_pid.entry(pid).or_default().rings += 1;
    }

    /// Whether a process writes events, or has.
    pub(super) fn told(&self, pid: u32) -> Told {
        match self.by_pid.get(&pid) {
            None => Told::Not,
            Some(Teller { told_since_ns: None, .. }) => Told::Asked,
            Some(Teller { told_since_ns: Some(since_ns), .. }) => Told::Since(*since_ns),
        }
    }

    /// The process that has written an event at this time.
    pub(super) fn writer(&mut self, ring: RingId, time_ns: u64, calls: &mut Calls) -> Option<&mut Process> {
        if self.by_ring.get_mut(&ring)?.tells(time_ns) {
            self.tells(ring, time_ns, calls);
        }
        self.by_ring.get_mut(&ring)
    }

    /// The first event in a ring was read.
    fn tells(&mut self, ring: RingId, since_ns: u64, calls: &mut Calls) {
        let Some(pid) = self.by_ring.get(&ring).map(Process::pid) else { return };
        tracing::info!("process {pid} writes scheduling events");
        calls.told(pid, since_ns);
        if let Some(teller) = self.by_pid.get_mut(&pid) {
            teller.told_since_ns.get_or_insert(since_ns);
        }
        // A process writes into one ring: the program before it has ended.
        let is_other = |(other, process): &(&RingId, &mut Process)| **other != ring && process.pid() == pid;
        self.by_ring.iter_mut().filter(is_other).for_each(|(_, before)| before.ended(since_ns));
    }

    /// Everything was read from a ring. Returns the process if this was its last ring.
    pub(super) fn ended(&mut self, ring: RingId, ended_ns: u64) -> Option<u32> {
        let process = self.by_ring.get_mut(&ring)?;
        process.ended(ended_ns);
        let pid = process.pid();
        let goes_on = |process: &Process| process.pid() == pid && !process.has_ended();
        (!self.by_ring.values().any(goes_on)).then_some(pid)
    }

    /// Passes on what has become known.
    pub(super) fn emit(&mut self, called: Called, known: (&Calls, &Judgements), entries: &mut Vec<Entry>) {
        for process in self.by_ring.values_mut() {
            process.emit(called, known, entries);
        }
        for (_, process) in self.by_ring.extract_if(|_, process| process.is_done()) {
            self.unseen += process.unseen();
            add(&mut self.uncalled, &process);
            if let Some(teller) = self.by_pid.get_mut(&process.pid()) {
                teller.rings -= 1;
            }
        }
        self.by_pid.retain(|_, teller| teller.rings > 0);
    }

    /// Gives the calls of completed commands their delay: nothing more will be known.
    pub(super) fn tell_calls(&mut self, calls: &Calls) {
        self.by_ring.values_mut().for_each(|process| process.tell_calls(calls));
    }

    /// Ends all open intervals.
    pub(super) fn close(&mut self, now_ns: u64, entries: &mut Vec<Entry>) {
        for (_, mut process) in self.by_ring.drain() {
            process.close(now_ns, entries);
            self.unseen += process.unseen();
            add(&mut self.uncalled, &process);
        }
        self.by_pid.clear();
    }

    /// Commands whose end was not seen.
    pub(super) fn unseen(&self) -> u64 {
        self.unseen
    }

    /// Executions of these processes that were passed on before their calls were known.
    pub(super) fn uncalled(&self, includes: impl Fn(u32) -> bool) -> u64 {
        let gone = self.uncalled.iter().map(|(pid, uncalled)| (*pid, *uncalled));
        let present = self.by_ring.values().map(|process| (process.pid(), process.uncalled()));
        gone.chain(present).filter(|(pid, _)| includes(*pid)).map(|(_, uncalled)| uncalled).sum()
    }
}

/// Adds the executions of an ended process that were passed on before their calls were known, if there are any.
fn add(to: &mut HashMap<u32, u64>, process: &Process) {
    if process.uncalled() > 0 {
        *to.entry(process.pid()).or_default() += process.uncalled();
    }
}

#[cfg(test)]
mod tests {
    use xsched_protocol::events::{Event, Observed, Record};
    use xsched_protocol::verdict::Judgement;

    use super::*;
    use crate::call::RuntimeCall;
    use crate::call::tests::call;
    use crate::scheduling::arbiter::Arbiter;
    use crate::scheduling::entry::Execution;

    const PID: u32 = 10;
    const TID: u32 = 11;

    #[derive(Default)]
    struct Bench {
        processes: Processes,
        calls: Calls,
        judgements: Judgements,
        entries: Vec<Entry>,
    }

    impl Bench {
        fn wrote(&mut self, ring: RingId, time_ns: u64, event: &Event) {
            let record: Record = event.record(time_ns, TID);
            let process = self.processes.writer(ring, time_ns, &mut self.calls).expect("it is known");
            process.take(time_ns, &record, event, &Arbiter::default(), &mut self.entries);
        }

        fn opened(&mut self, ring: RingId, time_ns: u64) {
            let (deferred, in_flight, launched) = (0, 0, 0);
            let (queue, stream, device, stream_priority) = (1, 2, 3, 0);
            let event =
                Event::QueueOpened { queue, stream, device, stream_priority, deferred, in_flight, launched };
            self.wrote(ring, time_ns, &event);
        }

        /// A command that is launched at a time, and completes.
        fn executed(&mut self, ring: RingId, begun_ns: u64) {
            let (number, returned_ns, judgement) = (1, begun_ns + 5, Judgement::NONE);
            let (position, waited_since_ns, ahead_ns) = (0, 0, 0);
            let launched = Event::Launched {
                queue: 1,
                number,
                returned_ns,
                position,
                waited_since_ns,
                ahead_ns,
                judgement,
                is_gated: false,
            };
            self.wrote(ring, begun_ns, &launched);
            let completed =
                Event::Completed { queue: 1, through: number, device_ns: 0, observed: Observed::Marker };
            self.wrote(ring, begun_ns + 20, &completed);
        }

        /// Its call reaches the tracer; returns whether it is followed.
        fn called(&mut self, begun_ns: u64) -> bool {
            let (begin_ns, end_ns) = (begun_ns - 1, Some(begun_ns + 6));
            let mut call = RuntimeCall { pid: PID, tid: TID, begin_ns, end_ns, ..call("hipLaunchKernel") };
            self.calls.note(&mut call, self.processes.told(PID));
            call.followed.inspect(|call| call.settle(&"liba.so".into(), true)).is_some()
        }

        fn executions(&mut self, called: Called) -> Vec<Execution> {
            self.processes.emit(called, (&self.calls, &self.judgements), &mut self.entries);
            let executions = self.entries.drain(..).filter_map(|entry| match entry {
                Entry::Execution(execution) => Some(execution),
                _ => None,
            });
            executions.collect()
        }
    }

    #[test]
    fn a_process_that_has_ended_is_known_until_its_calls_are() {
        let mut bench = Bench::default();
        let ring = RingId(1);
        assert_eq!(bench.processes.told(PID), Told::Not);
        bench.processes.begin(ring, PID);
        assert_eq!(bench.processes.told(PID), Told::Asked);
        bench.opened(ring, 50);
        bench.executed(ring, 100);
        assert_eq!(bench.processes.told(PID), Told::Since(50));
        // It ends while the tracer reads earlier calls.
        assert_eq!(bench.processes.ended(ring, 200), Some(PID));
        assert!(bench.executions(Called::Until(90)).is_empty());
        assert!(bench.called(100));
        assert_eq!(bench.executions(Called::Until(210))[0].api, Some("hipLaunchKernel"));
        assert!(!bench.called(100) && bench.processes.told(PID) == Told::Not);
        assert_eq!((bench.processes.uncalled(|_| true), bench.processes.unseen()), (0, 0));
        assert!(bench.processes.uncalled.is_empty(), "it has no memory");
    }

    #[test]
    fn events_of_both_programs_of_a_process_are_used() {
        let mut bench = Bench::default();
        let [before, after] = [RingId(1), RingId(2)];
        bench.processes.begin(before, PID);
        bench.opened(before, 50);
        bench.executed(before, 100);
        // Everything is handled afterwards.
        bench.processes.begin(after, PID);
        bench.opened(after, 300);
        bench.executed(after, 400);
        assert_eq!(
            bench.processes.ended(before, 1_000),
            None,
            "its claims in the arbiter page belong to the new program"
        );
        assert!(bench.called(100) && bench.called(400));
        let executions = bench.executions(Called::Until(450));
        let mut begun: Vec<_> = executions.iter().map(|one| (one.begin_ns, one.api)).collect();
        begun.sort_unstable();
        assert_eq!(begun, [(105, Some("hipLaunchKernel")), (405, Some("hipLaunchKernel"))]);
        assert_eq!(bench.calls.early(), 0);
        assert_eq!(bench.processes.ended(after, 1_000), Some(PID));
    }

    /// Reading what was recorded takes seconds on a busy machine.
    #[test]
    fn what_a_process_launches_after_the_recording_has_ended_is_neither_shown_nor_counted() {
        let mut bench = Bench::default();
        let ring = RingId(1);
        bench.processes.begin(ring, PID);
        bench.opened(ring, 50);
        bench.executed(ring, 100);
        assert!(bench.called(100));
        bench.calls.end(150);
        bench.executed(ring, 160);
        let executions = bench.executions(Called::All);
        assert_eq!(executions.iter().map(|one| one.begin_ns).collect::<Vec<_>>(), [105]);
        assert_eq!(bench.processes.uncalled(|_| true), 0);
    }

    #[test]
    fn missing_ends_are_counted_once_when_a_process_is_gone() {
        let mut bench = Bench::default();
        for ring in [RingId(1), RingId(2)] {
            bench.processes.begin(ring, PID);
            bench.opened(ring, 50);
            bench.executed(ring, 100);
            bench.processes.ended(ring, 200);
            assert_eq!(bench.executions(Called::All).len(), 1);
        }
        assert_eq!(bench.processes.uncalled(|pid| pid == PID), 2);
        assert_eq!(bench.processes.uncalled(|pid| pid != PID), 0, "none of other processes");
        bench.processes.close(300, &mut bench.entries);
        assert_eq!((bench.processes.uncalled(|pid| pid == PID), bench.processes.unseen()), (2, 0));
        assert_eq!(bench.processes.uncalled(|pid| pid != PID), 0, "none of other processes");
    }
}
