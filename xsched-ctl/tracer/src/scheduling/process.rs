//! One process: the commands of its streams on the device, and their executions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use xsched_protocol::{
    events::{Event, Observed, Record},
    verdict::Judgement,
};
use xsched_sched::{Gate, Nanos};

use super::arbiter::Arbiter;
use super::calls::Calls;
use super::device_clock::{DeviceClock, Seen};
use super::entry::{Entry, Execution, Timing, XQueueId};
use super::judged::Judgements;
use super::xqueue::{Waits, XQueue};
use crate::call::{Followed, Settled};

/// Most streams of a process, and commands of a stream, that are followed. The end of a stream is not reported.
const STREAMS_MAX: usize = 1 << 12;
const COMMANDS_MAX: usize = 1 << 16;

/// Most XQueues of a process: it has one for each device and priority of its streams.
const XQUEUES_MAX: usize = 1 << 8;

/// Most completed commands of a stream whose calls are looked up at a time.
const LOOKED_FOR_MAX: usize = 1 << 12;

/// How much later than others of its time a call may be read: its thread may be kept from handing it over. Measured by
/// the times of what was read, not by the clock, because the tracer may be busy for longer.
const CALL_PATIENCE_NS: u64 = 1_000_000_000;

/// Up to which time calls are known, except for lost ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Called {
    /// Those that returned by this time.
    Until(u64),
    /// All: no more come.
    All,
}

impl Called {
    /// Whether a call that returned by then would be known, unless it was lost.
    fn is_past(self, returned_ns: u64) -> bool {
        self > Self::Until(returned_ns.saturating_add(CALL_PATIENCE_NS))
    }
}

/// A command on the device.
#[derive(Debug)]
struct Launch {
    number: u64,
    /// Threads and times at which its call may have been seen, the likeliest first.
    sightings: [Option<(u32, u64, u64)>; 2],
    /// 0: it did not wait.
    waited_since_ns: u64,
    begun_ns: u64,
    returned_ns: u64,
    judgement: Judgement,
    /// A gate before it makes the device wait while it is closed.
    is_gated: bool,
    call: Option<Rc<Followed>>,
    /// None until it is determined.
    on_device: Option<OnDevice>,
}

/// The execution of a command.
#[derive(Clone, Copy, Debug)]
struct OnDevice {
    /// From here on only a gate kept it from beginning.
    due: Nanos,
    begin: Nanos,
    end: Nanos,
}

/// Commands that one observation has shown to be complete.
#[derive(Debug)]
struct Finished {
    launches: Vec<Launch>,
    seen: Seen,
    /// It has been handled before.
    is_old: bool,
}

#[derive(Debug)]
struct Stream {
    /// The stream's HIP handle.
    handle: u64,
    xqueue: XQueueId,
    clock: DeviceClock,
    /// Buffered commands by position: the calling thread, and the time.
    waiting: HashMap<u64, (u32, u64)>,
    launched: VecDeque<Launch>,
    /// Commands up to this number are complete.
    through: u64,
    finished: VecDeque<Finished>,
    /// The calls of commands up to this one were looked up, and were found or are lost.
    sought: u64,
    /// The end of the latest execution with final times.
    end_ns: u64,
    /// The time of its last event.
    told_ns: u64,
}

#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    streams: HashMap<u64, Stream>,
    xqueues: BTreeMap<XQueueId, (XQueue, Waits)>,
    /// When it began to write events.
    told_since_ns: Option<u64>,
    /// When its end was noticed.
    ended_ns: Option<u64>,
    is_closed: bool,
    /// Commands that are no longer followed and whose end is unknown.
    lost: u64,
    /// Executions that were passed on before their calls were known.
    uncalled: u64,
}

impl Process {
    pub(super) fn new(pid: u32) -> Self {
        Self {
            pid,
            streams: HashMap::new(),
            xqueues: BTreeMap::new(),
            told_since_ns: None,
            ended_ns: None,
            is_closed: false,
            lost: 0,
            uncalled: 0,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// It writes events, since this time if it has not before; returns whether this is the first one.
    pub(super) fn tells(&mut self, since_ns: u64) -> bool {
        let is_first = self.told_since_ns.is_none();
        self.told_since_ns.get_or_insert(since_ns);
        is_first
    }

    pub(super) fn take(
        &mut self,
        time_ns: u64,
        record: &Record,
        event: &Event,
        arbiter: &Arbiter,
        entries: &mut Vec<Entry>,
    ) {
        match *event {
            Event::QueueOpened { queue, stream, device, stream_priority, deferred, in_flight, launched } => {
                let xqueue = XQueueId { pid: self.pid, device, stream_priority };
                if !self.has_room() {
                    return;
                }
                let Some((state, _)) = self.xqueue(xqueue) else { return };
                let through = launched.saturating_sub(in_flight.into());
                state.defer(time_ns, deferred.into(), 0, entries);
                if in_flight > 0 {
                    state.launch(time_ns, 0, in_flight.into(), entries);
                }
                self.streams.insert(queue, Stream::new(stream, xqueue, through, time_ns));
            }
            Event::Waits { queue, position, .. } => {
                let Some(stream) = self.streams.get_mut(&queue) else { return };
                stream.told_ns = time_ns;
                if position != 0 && stream.waiting.len() < COMMANDS_MAX {
                    stream.waiting.insert(position, (record.thread, record.time_ns));
                }
                let xqueue = stream.xqueue;
                let Some((state, _)) = self.xqueue(xqueue) else { return };
                state.defer(time_ns, 1, 0, entries);
            }
            Event::Launched {
                queue,
                number,
                returned_ns,
                position,
                waited_since_ns,
                ahead_ns,
                judgement,
                is_gated,
            } => {
                let Some(stream) = self.streams.get_mut(&queue) else {
                    self.lost += u64::from(number != 0);
                    return;
                };
                stream.told_ns = time_ns;
                let caller = stream.waiting.remove(&position);
                let begun_ns = record.time_ns;
                if number != 0 {
                    let caller = caller.map(|(thread, at_ns)| (thread, at_ns, at_ns));
                    let own = Some((record.thread, begun_ns, returned_ns));
                    self.lost += stream.launch(Launch {
                        number,
                        sightings: if caller.is_some() { [caller, own] } else { [own, None] },
                        waited_since_ns,
                        begun_ns,
                        returned_ns,
                        judgement,
                        is_gated,
                        call: None,
                        on_device: None,
                    });
                }
                let xqueue = stream.xqueue;
                let Some((state, _)) = self.xqueue(xqueue) else { return };
                if waited_since_ns != 0 {
                    state.defer(begun_ns, 0, 1, entries);
                }
                if number != 0 {
                    state.launch(begun_ns, ahead_ns, 1, entries);
                }
            }
            Event::Completed { queue, through, device_ns, observed } => {
                let Some(stream) = self.streams.get_mut(&queue) else { return };
                stream.told_ns = time_ns;
                let (count, lost) = stream.complete(time_ns, through, device_ns, observed);
                let xqueue = stream.xqueue;
                self.lost += lost;
                let Some((state, _)) = self.xqueue(xqueue) else { return };
                state.complete(time_ns, count, entries);
            }
            Event::Admission { device, stream_priority, suspended, level, .. } => {
                let id = XQueueId { pid: self.pid, device, stream_priority };
                let Some((state, waits)) = self.xqueue(id) else { return };
                if suspended {
                    state.suspend(time_ns, level, arbiter.holder(device, level.into()), entries);
                } else if let Some(suspension) = state.resume(time_ns, entries) {
                    waits.note(suspension);
                }
            }
            Event::Gate { device, stream_priority, is_open } => {
                let id = XQueueId { pid: self.pid, device, stream_priority };
                if let Some((_, waits)) = self.xqueue(id) {
                    waits.gate.set(Nanos(time_ns), is_open);
                }
            }
            Event::Claim { .. } | Event::Arbiter(_) => {}
        }
    }

    /// The state of an XQueue; none if the process reports more than the limit.
    fn xqueue(&mut self, id: XQueueId) -> Option<&mut (XQueue, Waits)> {
        if self.xqueues.len() >= XQUEUES_MAX && !self.xqueues.contains_key(&id) {
            return None;
        }
        Some(self.xqueues.entry(id).or_insert_with(|| (XQueue::new(id), Waits::default())))
    }

    /// Whether there is space for a stream. If necessary, drops the idle stream without an event for the longest time,
    /// which probably no longer exists.
    fn has_room(&mut self) -> bool {
        if self.streams.len() < STREAMS_MAX {
            return true;
        }
        let idle = self.streams.iter().filter(|(_, stream)| stream.is_idle());
        let oldest = idle.min_by_key(|(_, stream)| stream.told_ns).map(|(queue, _)| *queue);
        oldest.is_some_and(|queue| self.streams.remove(&queue).is_some())
    }

    /// Gives the calls of completed commands their delay: nothing more will be known.
    pub(super) fn tell_calls(&mut self, calls: &Calls) {
        for stream in self.streams.values_mut() {
            let gate = self.xqueues.get(&stream.xqueue).map(|(_, waits)| &waits.gate);
            stream.place(self.pid, calls, gate, true);
        }
    }

    /// Passes on completed executions whose calls are known and in the timeline.
    pub(super) fn emit(
        &mut self,
        called: Called,
        (calls, judgements): (&Calls, &Judgements),
        entries: &mut Vec<Entry>,
    ) {
        let first = entries.len();
        for stream in self.streams.values_mut() {
            let xqueue = self.xqueues.get(&stream.xqueue);
            let gate = xqueue.map(|(_, waits)| &waits.gate);
            stream.seek(self.pid, called, calls);
            stream.place(self.pid, calls, gate, false);
            while let Some(finished) = stream.finished.front() {
                let is_full = stream.launched.len() >= COMMANDS_MAX;
                if !is_full && !finished.launches.iter().all(|launch| launch.is_settled(called)) {
                    break;
                }
                stream.place_first(gate);
                let Some(finished) = stream.finished.pop_front() else { break };
                self.uncalled += finished.uncalled(self.pid, calls);
                finished.execute(stream, xqueue, (calls, judgements), entries);
            }
        }
        // Streams that share a track in the timeline alternate on it.
        entries[first..].sort_by_key(Entry::time_ns);
        if let Some(ended_ns) = self.ended_ns
            && called > Called::Until(ended_ns)
            && self.streams.values().all(|stream| stream.finished.is_empty())
        {
            self.close(ended_ns, entries);
        }
    }

    /// Its end was noticed: nothing more comes from it.
    ///
    /// Commands that were on the device then are not known to have been executed.
    pub(super) fn ended(&mut self, ended_ns: u64) {
        self.ended_ns = Some(self.ended_ns.map_or(ended_ns, |before_ns| before_ns.min(ended_ns)));
    }

    /// Whether nothing more comes from it.
    pub(super) fn has_ended(&self) -> bool {
        self.ended_ns.is_some()
    }

    /// Ends all open intervals.
    pub(super) fn close(&mut self, time_ns: u64, entries: &mut Vec<Entry>) {
        for (xqueue, _) in self.xqueues.values_mut() {
            xqueue.close(time_ns, entries);
        }
        self.is_closed = true;
    }

    /// Commands whose end was not seen.
    pub(super) fn unseen(&self) -> u64 {
        let on_device = self.streams.values().map(|stream| stream.launched.len() as u64);
        self.lost + on_device.sum::<u64>()
    }

    /// Executions that were passed on without a call.
    pub(super) fn uncalled(&self) -> u64 {
        self.uncalled
    }

    pub(super) fn is_done(&self) -> bool {
        self.ended_ns.is_some() && self.is_closed
    }
}

impl Stream {
    fn new(handle: u64, xqueue: XQueueId, through: u64, told_ns: u64) -> Self {
        Self {
            handle,
            xqueue,
            clock: DeviceClock::default(),
            waiting: HashMap::new(),
            launched: VecDeque::new(),
            through,
            finished: VecDeque::new(),
            sought: 0,
            end_ns: 0,
            told_ns,
        }
    }

    /// Whether it has nothing to follow.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.launched.is_empty() && self.finished.is_empty()
    }

    /// Returns how many commands are dropped to make space for it.
    fn launch(&mut self, launch: Launch) -> u64 {
        let is_full = self.launched.len() >= COMMANDS_MAX;
        if is_full {
            self.launched.pop_front();
        }
        self.launched.push_back(launch);
        u64::from(is_full)
    }

    /// Commands up to this one have completed, or are lost. Returns how many more those are than before, and how many
    /// of them will have no execution.
    fn complete(&mut self, time_ns: u64, through: u64, device_ns: u64, observed: Observed) -> (u64, u64) {
        let count = through.saturating_sub(self.through);
        self.through = self.through.max(through);
        let known = self.launched.partition_point(|launch| launch.number <= through);
        let launches: Vec<_> = self.launched.drain(..known).collect();
        let interval_ns = if observed == Observed::Marker { device_ns } else { 0 };
        let seen = self.clock.observe(time_ns, interval_ns);
        if observed == Observed::Lost {
            return (count, launches.len() as u64);
        }
        if !launches.is_empty() {
            self.finished.push_back(Finished { launches, seen, is_old: false });
        }
        (count, 0)
    }

    /// Looks up the calls of launches: those of a long kernel are forgotten before it ends.
    fn seek(&mut self, pid: u32, called: Called, calls: &Calls) {
        let first = self.launched.partition_point(|launch| launch.number <= self.sought);
        let mut is_next = true;
        for launch in self.launched.range_mut(first..).take(LOOKED_FOR_MAX) {
            launch.find_call(pid, calls);
            // Behind a launch whose call is still on its way, others may be known already.
            is_next &= launch.call.is_some() || called.is_past(launch.returned_ns);
            if is_next {
                self.sought = launch.number;
            }
        }
    }

    /// Determines when the device ran completed commands. It handles those that were seen in an earlier round, because
    /// later observations improve times; or all of them. Their calls get their delay.
    fn place(&mut self, pid: u32, calls: &Calls, gate: Option<&Gate>, all: bool) {
        let mut left = LOOKED_FOR_MAX;
        for finished in &mut self.finished {
            if left == 0 && !all {
                break;
            }
            left = left.saturating_sub(finished.launches.len());
            finished.find_calls(pid, calls);
            if std::mem::replace(&mut finished.is_old, true) || all {
                self.end_ns = finished.place(self.end_ns, gate);
            }
        }
    }

    /// The same for the first one, which is about to be passed on.
    fn place_first(&mut self, gate: Option<&Gate>) {
        if let Some(first) = self.finished.front_mut() {
            self.end_ns = first.place(self.end_ns, gate);
        }
    }
}

impl Launch {
    /// Whether its call is known and in the timeline, or never will be.
    fn is_settled(&self, called: Called) -> bool {
        match &self.call {
            // It waits for its chain or for the device, both for a limited time.
            Some(call) => call.settled() != Settled::NotYet || called == Called::All,
            None => called.is_past(self.returned_ns),
        }
    }

    fn find_call(&mut self, pid: u32, calls: &Calls) {
        if self.call.is_none() {
            let mut sightings = self.sightings.iter().flatten();
            self.call =
                sightings.find_map(|&(thread, from_ns, to_ns)| calls.find(pid, thread, from_ns, to_ns));
            self.leave_out_walk();
            self.tell_call();
        }
    }

    /// CUDA's shim makes the call that is recorded, after it has admitted the launch. In between is little but the recorder's own walk
    /// of the stack, up to a tenth of a millisecond, which the call's time leaves out as well. So the launch began with the call.
    fn leave_out_walk(&mut self) {
        let Some(call) = &self.call else { return };
        let walk_ns = call.begin_ns.min(self.returned_ns).saturating_sub(self.begun_ns);
        self.begun_ns += walk_ns;
        if self.waited_since_ns > 0 {
            self.waited_since_ns += walk_ns;
        }
    }

    fn tell_call(&self) {
        if let (Some(call), Some(on_device)) = (&self.call, self.on_device) {
            call.begun(on_device.begin.0.saturating_sub(self.called_ns()));
        }
    }

    /// When it began to wait, or to be launched.
    fn earliest_ns(&self) -> u64 {
        let waited_since_ns = if self.waited_since_ns == 0 { self.begun_ns } else { self.waited_since_ns };
        waited_since_ns.min(self.begun_ns)
    }

    fn called_ns(&self) -> u64 {
        let earliest_ns = self.earliest_ns();
        self.call.as_ref().map_or(earliest_ns, |call| call.begin_ns.min(earliest_ns))
    }

    /// Whether the program launched it after the end of the recording. It goes on while the rest of the calls is read.
    fn is_later(&self, calls: &Calls) -> bool {
        self.call.is_none() && calls.is_after_recording(self.earliest_ns())
    }

    /// When it was handed to the device, which completed it at `seen_ns`. The device may begin before the launching
    /// call returns.
    fn handed_ns(&self, seen_ns: u64) -> u64 {
        self.returned_ns.clamp(self.begun_ns, seen_ns.max(self.begun_ns))
    }
}

impl Finished {
    fn find_calls(&mut self, pid: u32, calls: &Calls) {
        self.launches.iter_mut().for_each(|launch| launch.find_call(pid, calls));
    }

    /// Places the commands in sequence. The first begins at `before_ns`, where the previous one ended; the last ends where its end
    /// was observed. Time at a closed gate is left out. Returns the end of the last, or `before_ns` if that was known already.
    fn place(&mut self, before_ns: u64, gate: Option<&Gate>) -> u64 {
        let seen = Nanos(self.seen.time_ns());
        let count = self.launches.len() as u64;
        let gate = gate.filter(|_| self.launches.iter().any(|launch| launch.is_gated));
        let mut end = Nanos(before_ns);
        for (launch, left) in self.launches.iter_mut().zip((1..=count).rev()) {
            if launch.on_device.is_some() {
                continue;
            }
            let due = Nanos(launch.handed_ns(seen.0)).max(end);
            let begin = gate.filter(|_| launch.is_gated).map_or(due, |gate| gate.passed(due, seen));
            // Another command behind this one has waited at the gate.
            let closed = gate.filter(|_| left > 1).map_or(Nanos::ZERO, |gate| gate.closed_for(begin, seen));
            end = begin + (seen - begin - closed) / left;
            launch.on_device = Some(OnDevice { due, begin, end });
            launch.tell_call();
        }
        end.0
    }

    /// How many of the executions are not linked to a call because it is missing.
    fn uncalled(&self, pid: u32, calls: &Calls) -> u64 {
        let is_missing = |launch: &&Launch| match &launch.call {
            Some(call) => call.settled() == Settled::NotYet,
            None => !calls.is_before_recording(pid, launch.returned_ns) && !launch.is_later(calls),
        };
        self.launches.iter().filter(|launch| launch.on_device.is_some()).filter(is_missing).count() as u64
    }

    /// Passes the executions on.
    fn execute(
        self,
        stream: &Stream,
        xqueue: Option<&(XQueue, Waits)>,
        (calls, judgements): (&Calls, &Judgements),
        entries: &mut Vec<Entry>,
    ) {
        let timing = if self.launches.len() == 1 { Timing::Measured } else { Timing::Estimated };
        for launch in self.launches {
            let Some(OnDevice { due: Nanos(due_ns), begin: Nanos(begin_ns), end: Nanos(end_ns) }) =
                launch.on_device.filter(|_| !launch.is_later(calls))
            else {
                continue;
            };
            let (called_ns, earliest_ns) = (launch.called_ns(), launch.earliest_ns());
            let begun_ns = launch.begun_ns;
            let handed_ns = launch.handed_ns(due_ns);
            let suspended = |until_ns| {
                xqueue.map_or((0, None), |(state, waits)| {
                    waits.suspended(earliest_ns, until_ns, state.suspension(until_ns))
                })
            };
            let (suspended_ns, holder) = suspended(begun_ns);
            let gated_ns = begin_ns - due_ns;
            let holder = if gated_ns > 0 { suspended(begin_ns).1 } else { holder };
            let call = launch.call.as_ref();
            entries.push(Entry::Execution(Execution {
                xqueue: stream.xqueue,
                stream: stream.handle,
                name: call.map(|call| call.kernel.clone().unwrap_or_else(|| call.api.into())),
                api: call.map(|call| call.api),
                origin: call.and_then(|call| call.origin()),
                judged: judgements.judged(launch.judgement),
                flow: call.filter(|call| call.settled() == Settled::Written).map(|call| call.flow),
                called_ns,
                begin_ns,
                end_ns,
                timing,
                host_ns: (earliest_ns - called_ns).saturating_add(handed_ns - begun_ns),
                buffered_ns: begun_ns - earliest_ns,
                suspended_ns,
                holder,
                behind_ns: due_ns - handed_ns,
                gated_ns,
            }));
        }
    }
}

#[cfg(test)]
mod tests;
