//! Which steps of a program are known to precede which, so that its results are determined.
//!
//! A program is checked in the order of its list. Every access to memory must be ordered with all conflicting
//! ones, by streams, events, waits and tokens. No thread may wait for something that only it can release. A
//! program that passes computes the same result in every run, on any runtime that keeps HIP's guarantees.
//! Where HIP leaves the order open, none is assumed here.

mod clock;
mod fault;
mod graph;
mod memory;
mod objects;
mod work;

use self::clock::{Clock, LINES};
pub use self::clock::{Line, Owner};
use self::fault::Faulted;
use self::graph::{Capture, GraphState};
use self::memory::{Access, BufferState};
use self::objects::{Calls, EventState, StreamState, ThreadState, insert};
use crate::program::{
    Cell, Copy, DEVICES, Event, Fill, Gate, GateKind, Memory, Op, Program, STREAMS_MAX, Step, Stream,
    THREADS, Work,
};

/// Why a step is not allowed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It names an object that does not exist, or names one twice.
    #[error("no such object, or of the wrong kind")]
    Unknown,
    /// It would access memory in parallel with this line.
    #[error("conflicts with {0:?}")]
    Race(Line),
    /// It is not ordered with another thread's call on the same object.
    #[error("not ordered after a call of {0:?}")]
    Unordered(Line),
    /// It would read memory that was never written.
    #[error("reads undefined memory")]
    Undefined,
    /// It would wait for a gate that this thread has to open.
    #[error("waits behind a gate")]
    BehindGate,
    /// A capture does not allow it, or there is no capture.
    #[error("against the rules of capture")]
    Capture,
    /// A captured stream is not joined.
    #[error("{0:?} is not joined")]
    Unjoined(Line),
    /// Two nodes of a graph are not ordered.
    #[error("nodes of a graph conflict")]
    GraphRace,
    /// Its object belongs to another device than the thread's.
    #[error("belongs to another device")]
    OtherDevice,
    /// A gate or capture is open at the end.
    #[error("a gate or a capture is left open")]
    Open,
}

/// Prior knowledge about a call's return code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The same as without the shim.
    Code,
    /// Success, since all work is done.
    Ready,
    /// Not ready, since a gate is closed.
    NotReady,
    /// One of both, depending on time.
    ReadyOrNot,
    /// Depends on time.
    Any,
}

/// Gates, as bits.
type Gates = u32;

/// The position of a stream's next command.
#[derive(Clone, Copy, Debug)]
struct Pending {
    caller: Line,
    line: Line,
    device: usize,
    clock: Clock,
    /// Gates that certainly precede it.
    sure: Gates,
}

/// The state of a program after some steps.
#[derive(Clone, Debug)]
pub struct Order {
    thread_count: usize,
    threads: [ThreadState; THREADS],
    streams: Vec<StreamState>,
    events: Vec<Option<EventState>>,
    buffers: Vec<Option<BufferState>>,
    graphs: Vec<Option<GraphState>>,
    /// The thread that has to open a gate, while it is closed.
    gates: Vec<Option<usize>>,
    /// Number of captures begun so far.
    captures_begun: u32,
    tokens: Vec<Option<(usize, Clock)>>,
    /// Captures in progress, by the thread that began them.
    captures: [Option<Capture>; THREADS],
    /// Ends of captures, and calls that break all existing captures, by any thread. With several threads
    /// these must be in a known order.
    captures_ended: Calls,
    breaking: Calls,
    /// Ends of global captures, which forbid other threads the same calls as their own, and the calls that
    /// these captures forbid.
    global_ended: Calls,
    forbidden: Calls,
    faulted: Faulted,
}

/// Facts about a program that are known before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// About each step's return code.
    pub answers: Vec<Answer>,
    /// Cells that exist at the end with determined contents.
    pub cells: Vec<(Cell, Memory)>,
}

/// Checks a whole program.
///
/// # Errors
///
/// The index of the first step that is not allowed, and why.
pub fn check(program: &Program) -> Result<Checked, (usize, Flaw)> {
    let mut order = Order::new(program.threads());
    let mut answers = Vec::with_capacity(program.steps.len());
    for (index, step) in program.steps.iter().enumerate() {
        answers.push(order.step(step).map_err(|flaw| (index, flaw))?);
    }
    order.finish().map_err(|flaw| (program.steps.len(), flaw))?;
    // After a device fault the contents of memory cannot be known.
    let is_known = order.faulted == Faulted::No;
    let cells = order.cells().filter(|(_, _, is_defined)| is_known && *is_defined);
    let cells = cells.map(|(cell, memory, _)| (cell, memory)).collect();
    Ok(Checked { answers, cells })
}

/// Whether a capture may forbid a call to other threads: one that may have to wait for the device, or that
/// queries its progress.
fn is_forbidden_globally(op: &Op) -> bool {
    match op {
        Op::Allocate { memory, .. } => *memory != Memory::Pageable,
        Op::Free(_) | Op::SyncStream(_) | Op::QueryStream(_) | Op::Wrong(..) => true,
        _ => false,
    }
}

/// Whether a call breaks captures of all threads and in all modes: it waits for the device, or for a copy or
/// fill.
fn breaks_captures(op: &Op) -> bool {
    match op {
        Op::SyncDevice => true,
        Op::Submit(_, work) => matches!(
            work,
            Work::Copy { by: Copy::Sync | Copy::WithStream, .. } | Work::Fill { by: Fill::Sync, .. }
        ),
        _ => false,
    }
}

impl Order {
    /// The order of an empty program with this many threads.
    #[must_use]
    pub fn new(thread_count: usize) -> Self {
        let mut streams: Vec<_> = (0..STREAMS_MAX).map(|_| StreamState::absent()).collect();
        streams.extend((0..DEVICES).map(StreamState::null));
        streams.extend((0..THREADS * DEVICES).map(|index| StreamState::per_thread(index % DEVICES)));
        debug_assert_eq!(streams.len() + THREADS, LINES);
        Self {
            thread_count,
            threads: Default::default(),
            streams,
            events: Vec::new(),
            buffers: Vec::new(),
            graphs: Vec::new(),
            gates: Vec::new(),
            captures_begun: 0,
            tokens: Vec::new(),
            captures: Default::default(),
            captures_ended: Calls::default(),
            breaking: Calls::default(),
            global_ended: Calls::default(),
            forbidden: Calls::default(),
            faulted: Faulted::No,
        }
    }

    /// Takes the next step. The order is unusable after an error.
    ///
    /// # Errors
    ///
    /// Why the step is not allowed next.
    pub fn step(&mut self, step: &Step) -> Result<Answer, Flaw> {
        self.check_after_fault(&step.1)?;
        let answer = self.step_unchecked(step)?;
        Ok(self.answer_after_fault(&step.1, answer))
    }

    fn step_unchecked(&mut self, Step(thread, op): &Step) -> Result<Answer, Flaw> {
        let thread = thread.index();
        if thread >= self.thread_count {
            return Err(Flaw::Unknown);
        }
        self.threads[thread].clock.tick(Line::thread(thread));
        self.check_during_capture(thread, op)?;
        if breaks_captures(op) {
            self.break_captures(thread)?;
        }
        if is_forbidden_globally(op) {
            self.check_global_captures(thread)?;
        }
        match op {
            Op::SetDevice(device) => {
                self.threads[thread].device =
                    Some(device.index()).filter(|d| *d < DEVICES).ok_or(Flaw::Unknown)?;
            }
            Op::Name(_) => {}
            Op::Signal(token) => {
                insert(&mut self.tokens, token.index(), (thread, self.threads[thread].clock))?;
            }
            Op::Await(token) => {
                let signalled = self.tokens.get(token.index()).copied().flatten();
                let (_, clock) = signalled.filter(|(by, _)| *by != thread).ok_or(Flaw::Unknown)?;
                self.wait(thread, &clock, 0)?;
            }
            Op::MakeStream(number, kind) => self.make_stream(thread, *number, *kind)?,
            Op::DestroyStream(number) => self.destroy_stream(thread, *number)?,
            Op::MakeEvent(event, kind) => {
                let state = EventState::new(*kind, thread, &self.threads[thread]);
                insert(&mut self.events, event.index(), state)?;
            }
            Op::DestroyEvent(event) => {
                self.event(thread, *event)?;
                self.events[event.index()] = None;
            }
            Op::Allocate { buffer, memory, cells } => self.allocate(thread, *buffer, *memory, *cells)?,
            Op::AllocateAsync { buffer, stream, cells, .. } => {
                self.allocate_async(thread, *buffer, *stream, *cells)?;
            }
            Op::Free(buffer) => self.free(thread, *buffer)?,
            Op::FreeAsync(buffer, stream) => self.free_async(thread, *buffer, *stream)?,
            Op::Submit(stream, work) => self.submit(thread, *stream, work)?,
            Op::Timed(stream, work, start, stop) => self.timed(thread, *stream, work, (*start, *stop))?,
            Op::Record(event, stream) => self.record(thread, *event, *stream)?,
            Op::Wait(stream, event) => self.wait_event(thread, *stream, *event)?,
            Op::SyncStream(stream) => self.sync_stream(thread, *stream)?,
            Op::SyncEvent(event) => {
                if let Some(record) = self.recorded(thread, *event)? {
                    self.wait(thread, &record.clock, record.maybe)?;
                }
            }
            Op::SyncDevice => self.sync_device(thread, self.threads[thread].device)?,
            Op::QueryStream(stream) => return self.query_stream(thread, *stream),
            Op::QueryEvent(event) => return self.query_event(thread, *event),
            Op::Elapsed(from, to) => return self.elapsed(thread, *from, *to),
            Op::HostWrite(cell, _) => self.host_access(thread, Access::write(*cell))?,
            Op::HostRead(cell) => self.host_access(thread, Access::read(*cell))?,
            Op::Hold(gate, stream, kind) => self.hold(thread, *gate, *stream, *kind)?,
            Op::Release(gate) => self.release(thread, *gate)?,
            Op::BeginCapture(stream, mode) => self.begin_capture(thread, *stream, *mode)?,
            Op::EndCapture(stream, graph) => self.end_capture(thread, *stream, *graph)?,
            Op::BuildGraph(graph, nodes) => self.build_graph(thread, *graph, nodes)?,
            Op::LaunchGraph(graph, stream) => {
                let pending = self.enqueue(thread, *stream)?;
                self.launch_graph(*graph, &pending)?;
            }
            Op::UploadGraph(graph, stream) => self.upload_graph(thread, *graph, *stream)?,
            Op::DestroyGraph(graph) => self.destroy_graph(thread, *graph)?,
            Op::LastError => return Ok(self.threads[thread].last_error(true)),
            Op::PeekError => return Ok(self.threads[thread].last_error(false)),
            Op::Wrong(_, stream) => {
                self.stream(thread, *stream)?;
            }
            Op::Fault(stream) => return self.fault(thread, *stream),
        }
        Ok(Answer::Code)
    }

    /// Requires that a call which would break captures comes before or after each of them.
    fn break_captures(&mut self, thread: usize) -> Result<(), Flaw> {
        if self.captures.iter().any(Option::is_some) {
            return Err(Flaw::Capture);
        }
        let clock = self.threads[thread].clock;
        self.captures_ended.check(&clock)?;
        self.breaking.note(Line::thread(thread), &clock);
        Ok(())
    }

    /// Requires that a call which a global capture forbids comes before or after those of other threads.
    fn check_global_captures(&mut self, thread: usize) -> Result<(), Flaw> {
        let others = self.captures.iter().enumerate().filter(|(by, _)| *by != thread);
        if others.filter_map(|(_, capture)| capture.as_ref()).any(Capture::is_global) {
            return Err(Flaw::Capture);
        }
        let clock = self.threads[thread].clock;
        self.global_ended.check(&clock)?;
        self.forbidden.note(Line::thread(thread), &clock);
        Ok(())
    }

    /// Whether a program may end here.
    ///
    /// # Errors
    ///
    /// Fails if a gate or capture is open.
    pub fn finish(&self) -> Result<(), Flaw> {
        let is_open = self.captures.iter().any(Option::is_some) || self.gates.iter().any(Option::is_some);
        if is_open { Err(Flaw::Open) } else { Ok(()) }
    }

    /// The thread that captures a stream.
    fn capturing_thread(&self, line: Line) -> Option<usize> {
        let has_it = |capture: &Option<Capture>| capture.as_ref().is_some_and(|c| c.clock(line).is_some());
        self.captures.iter().position(has_it)
    }

    /// Checks a thread's calls during its capture. Other threads may make every call that does not concern
    /// the captured streams, since the capture forbids them nothing.
    fn check_during_capture(&self, thread: usize, op: &Op) -> Result<(), Flaw> {
        let Some(capture) = &self.captures[thread] else { return Ok(()) };
        let is_captured =
            |stream: Stream| self.line(thread, stream).is_ok_and(|line| capture.clock(line).is_some());
        let is_free = |stream: Stream| {
            let line = self.line(thread, stream);
            matches!(stream, Stream::Made(_)) && line.is_ok_and(|line| !self.stream_of(line).is_implicit)
        };
        if capture.is_spoilt() {
            return if matches!(op, Op::EndCapture(..) | Op::Release(_)) {
                Ok(())
            } else {
                Err(Flaw::Capture)
            };
        }
        let is_permitted = match op {
            Op::Submit(stream, work) => {
                is_captured(*stream) || is_free(*stream) && self.is_asynchronous(work)
            }
            Op::Record(_, stream) => is_captured(*stream) || is_free(*stream),
            Op::Wait(stream, event) => {
                matches!(stream, Stream::Made(_)) && self.is_captured_event(*event)
                    || is_free(*stream) && !is_captured(*stream)
            }
            Op::SyncStream(stream) => is_captured(*stream),
            Op::Release(_)
            | Op::EndCapture(..)
            | Op::HostRead(_)
            | Op::HostWrite(..)
            | Op::Signal(_)
            | Op::Await(_) => true,
            _ => false,
        };
        if is_permitted { Ok(()) } else { Err(Flaw::Capture) }
    }

    fn is_captured_event(&self, event: Event) -> bool {
        let state = self.events.get(event.index()).and_then(Option::as_ref);
        state.is_some_and(|state| state.captured.is_some())
    }

    /// The thread waits for some work, which these gates block.
    fn wait(&mut self, thread: usize, clock: &Clock, behind: Gates) -> Result<(), Flaw> {
        self.check_may_wait(thread, behind)?;
        self.threads[thread].clock.join(clock);
        Ok(())
    }

    /// A thread that keeps a gate closed must not wait for work that the gate blocks. If other threads exist,
    /// whose calls may come before or after, it must not wait at all.
    fn check_may_wait(&self, thread: usize, behind: Gates) -> Result<(), Flaw> {
        let own = self.open_gates(thread);
        let is_stuck = if self.thread_count > 1 { own != 0 } else { own & behind != 0 };
        if is_stuck { Err(Flaw::BehindGate) } else { Ok(()) }
    }

    /// Closed gates that this thread has to open.
    fn open_gates(&self, thread: usize) -> Gates {
        let own = self.gates.iter().enumerate().filter(|(_, by)| **by == Some(thread));
        own.fold(0, |gates, (gate, _)| gates | 1 << gate)
    }

    /// All closed gates.
    fn all_gates(&self) -> Gates {
        self.streams.iter().fold(0, |gates, stream| gates | stream.maybe)
    }

    fn hold(&mut self, thread: usize, gate: Gate, stream: Stream, _: GateKind) -> Result<(), Flaw> {
        if gate.index() >= Gates::BITS as usize {
            return Err(Flaw::Unknown);
        }
        let pending = self.enqueue(thread, stream)?;
        insert(&mut self.gates, gate.index(), thread)?;
        let state = self.stream_mut(pending.line);
        state.sure |= 1 << gate.index();
        state.maybe |= 1 << gate.index();
        Ok(())
    }

    fn release(&mut self, thread: usize, gate: Gate) -> Result<(), Flaw> {
        let holder = self.gates.get_mut(gate.index()).ok_or(Flaw::Unknown)?;
        if *holder != Some(thread) {
            return Err(Flaw::Unknown);
        }
        *holder = None;
        let rest = !(1 << gate.index());
        for stream in &mut self.streams {
            stream.sure &= rest;
            stream.maybe &= rest;
        }
        for record in self.events.iter_mut().flatten().filter_map(|event| event.record.as_mut()) {
            record.sure &= rest;
            record.maybe &= rest;
        }
        Ok(())
    }

    fn host_access(&mut self, thread: usize, access: Access) -> Result<(), Flaw> {
        if !self.buffer(access.cell.0)?.memory.is_host() {
            return Err(Flaw::Unknown);
        }
        let clock = self.threads[thread].clock;
        self.access(access, Line::thread(thread), &clock)
    }

    fn access(&mut self, access: Access, line: Line, at: &Clock) -> Result<(), Flaw> {
        let Cell(buffer, cell) = access.cell;
        let state = self.buffers.get_mut(buffer.index()).and_then(Option::as_mut).ok_or(Flaw::Unknown)?;
        state.cells.get_mut(usize::from(cell)).ok_or(Flaw::Unknown)?.access(access, line, at)
    }

    fn buffer(&self, buffer: crate::program::Buffer) -> Result<&BufferState, Flaw> {
        self.buffers.get(buffer.index()).and_then(Option::as_ref).ok_or(Flaw::Unknown)
    }
}
