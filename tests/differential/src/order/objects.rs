//! Threads, streams and events, and the calls on them.

use super::clock::{Clock, Line};
use super::memory::{BufferState, History};
use super::{Access, Answer, Flaw, Gates, Order, Pending};
use crate::program::{
    Buffer, CELLS_MAX, Cell, Event, EventKind, Memory, STREAMS_MAX, Stream, StreamKind, THREADS,
};

/// A thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadState {
    pub(super) clock: Clock,
    pub(super) device: usize,
    /// Whether its last error depends on time.
    is_error_unknown: bool,
}

impl ThreadState {
    pub(super) fn last_error(&mut self, clears: bool) -> Answer {
        let answer = if self.is_error_unknown { Answer::Any } else { Answer::Code };
        self.is_error_unknown &= !clears;
        answer
    }

    /// The answer of a query. Releases of HIP differ in whether `hipErrorNotReady` becomes the last error;
    /// this is a known limit of the shim.
    fn queried(&mut self, answer: Answer) -> Answer {
        self.is_error_unknown |= answer != Answer::Ready;
        answer
    }
}

/// Calls on an object, which must be in a known order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls(Clock);

impl Calls {
    pub(super) fn new(caller: Line, at: &Clock) -> Self {
        let mut calls = Self::default();
        calls.0.note(caller, at);
        calls
    }

    /// Adds a call that must come after all others.
    pub(super) fn next(&mut self, caller: Line, at: &Clock) -> Result<(), Flaw> {
        self.check(at)?;
        self.0.note(caller, at);
        Ok(())
    }

    /// Adds a call in any order.
    pub(super) fn note(&mut self, caller: Line, at: &Clock) {
        self.0.note(caller, at);
    }

    /// Whether all calls are known at this time; if not, the error names a line with an unknown call.
    pub(super) fn check(&self, at: &Clock) -> Result<(), Flaw> {
        at.behind(&self.0).map_or(Ok(()), |line| Err(Flaw::Unordered(line)))
    }

    fn are_before(&self, at: &Clock) -> bool {
        self.check(at).is_ok()
    }
}

/// A stream.
#[derive(Clone, Debug)]
pub(super) struct StreamState {
    pub(super) is_there: bool,
    pub(super) device: usize,
    /// Whether it waits for the null stream and the null stream for it.
    pub(super) is_implicit: bool,
    /// It was in a capture that broke: the runtime refuses its work until it begins another.
    pub(super) is_broken: bool,
    pub(super) clock: Clock,
    /// Closed gates that certainly precede its next command, and those that may.
    pub(super) sure: Gates,
    pub(super) maybe: Gates,
    calls: Calls,
}

impl StreamState {
    pub(super) fn absent() -> Self {
        Self { is_there: false, ..Self::null(0) }
    }

    pub(super) fn null(device: usize) -> Self {
        Self {
            is_there: true,
            device,
            is_implicit: true,
            is_broken: false,
            clock: Clock::default(),
            sure: 0,
            maybe: 0,
            calls: Calls::default(),
        }
    }

    /// Its relation to the null stream is left open; see `Order::enqueue`.
    pub(super) fn per_thread(device: usize) -> Self {
        Self { is_implicit: false, ..Self::null(device) }
    }
}

/// The point that an event refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) line: Line,
    pub(super) clock: Clock,
    pub(super) sure: Gates,
    pub(super) maybe: Gates,
}

/// An event.
#[derive(Clone, Debug)]
pub(super) struct EventState {
    kind: EventKind,
    device: usize,
    pub(super) record: Option<Record>,
    /// The point in a capture that it refers to, with the capture's number.
    pub(super) captured: Option<(u32, Clock)>,
    calls: Calls,
}

impl EventState {
    pub(super) fn new(kind: EventKind, thread: usize, state: &ThreadState) -> Self {
        let calls = Calls::new(Line::thread(thread), &state.clock);
        Self { kind, device: state.device, record: None, captured: None, calls }
    }
}

/// Adds a new object; numbers are assigned in sequence.
pub(super) fn insert<T>(objects: &mut Vec<Option<T>>, at: usize, object: T) -> Result<(), Flaw> {
    if at < objects.len() || at > usize::from(u8::MAX) {
        return Err(Flaw::Unknown);
    }
    objects.resize_with(at, || None);
    objects.push(Some(object));
    Ok(())
}

impl Order {
    pub(super) fn line(&self, thread: usize, stream: Stream) -> Result<Line, Flaw> {
        let device = self.threads[thread].device;
        match stream {
            Stream::Null | Stream::Legacy => Ok(Line::null(device)),
            Stream::PerThread => Ok(Line::per_thread(thread, device)),
            Stream::Made(number) => {
                let number = usize::from(number);
                if number < STREAMS_MAX { Ok(Line::made(number)) } else { Err(Flaw::Unknown) }
            }
        }
    }

    pub(super) fn stream_of(&self, line: Line) -> &StreamState {
        &self.streams[line.0 - THREADS]
    }

    pub(super) fn stream_mut(&mut self, line: Line) -> &mut StreamState {
        &mut self.streams[line.0 - THREADS]
    }

    /// A stream of the thread's device that takes work, with this call as its next.
    pub(super) fn stream(&mut self, thread: usize, stream: Stream) -> Result<Line, Flaw> {
        let line = self.maybe_broken(thread, stream)?;
        if self.stream_of(line).is_broken { Err(Flaw::Capture) } else { Ok(line) }
    }

    pub(super) fn maybe_broken(&mut self, thread: usize, stream: Stream) -> Result<Line, Flaw> {
        let line = self.line(thread, stream)?;
        let ThreadState { clock, device, .. } = self.threads[thread];
        let state = self.stream_mut(line);
        if !state.is_there {
            return Err(Flaw::Unknown);
        }
        if state.device != device {
            return Err(Flaw::OtherDevice);
        }
        state.calls.next(Line::thread(thread), &clock)?;
        // A stream belongs exclusively to the thread that captures it.
        if self.capturing_thread(line).is_some_and(|by| by != thread) { Err(Flaw::Capture) } else { Ok(line) }
    }

    pub(super) fn made(&mut self, thread: usize, number: u8) -> Result<Line, Flaw> {
        self.stream(thread, Stream::Made(number))
    }

    pub(super) fn make_stream(&mut self, thread: usize, number: u8, kind: StreamKind) -> Result<(), Flaw> {
        let line = self.line(thread, Stream::Made(number))?;
        let ThreadState { clock, device, .. } = self.threads[thread];
        let state = self.stream_mut(line);
        // A number is used once, so a stream that was destroyed has calls.
        if state.is_there || !state.calls.are_before(&Clock::default()) {
            return Err(Flaw::Unknown);
        }
        *state = StreamState {
            is_implicit: kind == StreamKind::Blocking,
            calls: Calls::new(Line::thread(thread), &clock),
            ..StreamState::null(device)
        };
        Ok(())
    }

    /// It is left open whether destruction waits for the stream's work.
    pub(super) fn destroy_stream(&mut self, thread: usize, number: u8) -> Result<(), Flaw> {
        let line = self.maybe_broken(thread, Stream::Made(number))?;
        self.check_may_wait(thread, self.stream_of(line).maybe)?;
        self.stream_mut(line).is_there = false;
        Ok(())
    }

    /// The position of a command that is submitted to a stream now.
    pub(super) fn enqueue(&mut self, thread: usize, stream: Stream) -> Result<Pending, Flaw> {
        self.next_position(thread, stream, true)
    }

    /// The position in a stream of a call that may add no command: nothing else is ordered after it.
    pub(super) fn position(&mut self, thread: usize, stream: Stream) -> Result<Pending, Flaw> {
        self.next_position(thread, stream, false)
    }

    /// Orderings between the null stream and others are assumed only if HIP guarantees them and the calls are
    /// in a known order. Gates reach further: the null stream may also be ordered with threads' own streams.
    fn next_position(&mut self, thread: usize, stream: Stream, is_command: bool) -> Result<Pending, Flaw> {
        let line = self.stream(thread, stream)?;
        if self.capturing_thread(line).is_some() {
            return Err(Flaw::Capture);
        }
        let ThreadState { clock: now, device, .. } = self.threads[thread];
        let null = Line::null(device);
        let mut own = self.stream_of(line).clone();
        own.clock.join(&now);
        let is_made = matches!(stream, Stream::Made(_));
        if own.is_implicit || !is_made {
            for (index, other) in self.streams.iter().enumerate() {
                let other_line = Line(index + THREADS);
                let is_other_made = index < STREAMS_MAX;
                let is_related = other.device == device
                    && (line == null || other_line == null)
                    && (other.is_implicit || !is_other_made);
                if !is_related {
                    continue;
                }
                own.maybe |= other.maybe;
                if is_command && own.is_implicit && other.is_implicit && other.calls.are_before(&now) {
                    own.clock.join(&other.clock);
                    own.sure |= other.sure;
                }
            }
        }
        own.clock.tick(line);
        let pending =
            Pending { caller: Line::thread(thread), line, device, clock: own.clock, sure: own.sure };
        *self.stream_mut(line) = own;
        Ok(pending)
    }

    pub(super) fn sync_stream(&mut self, thread: usize, stream: Stream) -> Result<(), Flaw> {
        let line = self.stream(thread, stream)?;
        if self.capturing_thread(line).is_some() {
            self.spoil(thread);
            return Ok(());
        }
        if matches!(stream, Stream::Made(_)) {
            let StreamState { clock, maybe, .. } = *self.stream_of(line);
            return self.wait(thread, &clock, maybe);
        }
        // Waits as a command on the stream would.
        let pending = self.enqueue(thread, stream)?;
        let maybe = self.stream_of(line).maybe;
        self.wait(thread, &pending.clock, maybe)
    }

    /// Waits for all work submitted to the device before, as far as it is known.
    pub(super) fn sync_device(&mut self, thread: usize, device: usize) -> Result<(), Flaw> {
        let now = self.threads[thread].clock;
        let mut all = Clock::default();
        let mut behind = 0;
        for stream in self.streams.iter().filter(|stream| stream.device == device) {
            behind |= stream.maybe;
            if stream.calls.are_before(&now) {
                all.join(&stream.clock);
            }
        }
        self.wait(thread, &all, behind)
    }

    /// An event, with this call as its next.
    pub(super) fn event(&mut self, thread: usize, event: Event) -> Result<&mut EventState, Flaw> {
        let clock = self.threads[thread].clock;
        let others = self.captures.iter().enumerate().filter(|(by, _)| *by != thread);
        let others: Vec<_> = others.filter_map(|(_, capture)| Some(capture.as_ref()?.number())).collect();
        let state = self.events.get_mut(event.index()).and_then(Option::as_mut).ok_or(Flaw::Unknown)?;
        state.calls.next(Line::thread(thread), &clock)?;
        if state.captured.is_some_and(|(number, _)| others.contains(&number)) {
            return Err(Flaw::Capture);
        }
        Ok(state)
    }

    /// The event's record, if it has one that is not of a capture.
    pub(super) fn recorded(&mut self, thread: usize, event: Event) -> Result<Option<Record>, Flaw> {
        let state = self.event(thread, event)?;
        if state.captured.is_some() { Err(Flaw::Capture) } else { Ok(state.record) }
    }

    pub(super) fn record(&mut self, thread: usize, event: Event, stream: Stream) -> Result<(), Flaw> {
        let line = self.line(thread, stream)?;
        let captured =
            self.captures.iter().flatten().find_map(|capture| Some((capture.number(), capture.clock(line)?)));
        if captured.is_some() {
            self.stream(thread, stream)?;
            let device = self.threads[thread].device;
            let state = self.event(thread, event)?;
            state.captured = captured;
            return if state.device == device { Ok(()) } else { Err(Flaw::OtherDevice) };
        }
        let pending = self.enqueue(thread, stream)?;
        let maybe = self.stream_of(line).maybe;
        let state = self.event(thread, event)?;
        if state.device != pending.device {
            return Err(Flaw::OtherDevice);
        }
        state.captured = None;
        state.record = Some(Record { line, clock: pending.clock, sure: pending.sure, maybe });
        Ok(())
    }

    pub(super) fn wait_event(&mut self, thread: usize, stream: Stream, event: Event) -> Result<(), Flaw> {
        let state = self.event(thread, event)?;
        if let Some((number, clock)) = state.captured {
            let device = state.device;
            let line = self.stream(thread, stream)?;
            let is_same_device = device == self.threads[thread].device;
            if self.thread_count > 1 && self.stream_of(line).is_implicit {
                // Work of other threads on the null stream would violate the rules.
                return Err(Flaw::Capture);
            }
            let capture = self.captures[thread].as_mut().filter(|c| is_same_device && c.number() == number);
            capture.ok_or(Flaw::Capture)?.join(line, &clock);
            return Ok(());
        }
        let record = state.record;
        // The event may be done already, so there may be no command.
        let line = self.position(thread, stream)?.line;
        if let Some(record) = record {
            let state = self.stream_mut(line);
            state.clock.join(&record.clock);
            state.sure |= record.sure;
            state.maybe |= record.maybe;
        }
        Ok(())
    }

    /// A query does not wait, so it adds no knowledge.
    pub(super) fn query_stream(&mut self, thread: usize, stream: Stream) -> Result<Answer, Flaw> {
        let line = self.stream(thread, stream)?;
        let StreamState { clock, sure, .. } = *self.stream_of(line);
        let answer = if matches!(stream, Stream::Made(_)) {
            self.readiness(thread, line, &clock, sure)
        } else {
            Answer::ReadyOrNot
        };
        Ok(self.threads[thread].queried(answer))
    }

    pub(super) fn query_event(&mut self, thread: usize, event: Event) -> Result<Answer, Flaw> {
        let Some(record) = self.recorded(thread, event)? else { return Ok(Answer::Ready) };
        let answer = self.readiness(thread, record.line, &record.clock, record.sure);
        Ok(self.threads[thread].queried(answer))
    }

    pub(super) fn elapsed(&mut self, thread: usize, from: Event, to: Event) -> Result<Answer, Flaw> {
        let mut is_certain = true;
        for event in [from, to] {
            let has_time = self.event(thread, event)?.kind != EventKind::Untimed;
            is_certain &= has_time
                && self.recorded(thread, event)?.is_some_and(|record| {
                    self.readiness(thread, record.line, &record.clock, record.sure) == Answer::Ready
                });
        }
        let answer = if is_certain { Answer::Ready } else { Answer::Any };
        Ok(self.threads[thread].queried(answer))
    }

    /// Only the thread that keeps a gate closed knows that it is closed.
    fn readiness(&self, thread: usize, line: Line, clock: &Clock, sure: Gates) -> Answer {
        if self.threads[thread].clock.knows(line, clock) {
            Answer::Ready
        } else if self.open_gates(thread) & sure != 0 {
            Answer::NotReady
        } else {
            Answer::ReadyOrNot
        }
    }

    pub(super) fn allocate(
        &mut self,
        thread: usize,
        buffer: Buffer,
        memory: Memory,
        cells: u8,
    ) -> Result<(), Flaw> {
        if memory == Memory::Pooled {
            return Err(Flaw::Unknown);
        }
        let clock = self.threads[thread].clock;
        self.new_buffer(thread, buffer, memory, cells, (Line::thread(thread), &clock))
    }

    pub(super) fn allocate_async(
        &mut self,
        thread: usize,
        buffer: Buffer,
        stream: Stream,
        cells: u8,
    ) -> Result<(), Flaw> {
        let pending = self.position(thread, stream)?;
        if cells == 0 {
            return Err(Flaw::Unknown);
        }
        self.new_buffer(thread, buffer, Memory::Pooled, cells, (pending.line, &pending.clock))
    }

    fn new_buffer(
        &mut self,
        thread: usize,
        buffer: Buffer,
        memory: Memory,
        cells: u8,
        (line, clock): (Line, &Clock),
    ) -> Result<(), Flaw> {
        if usize::from(cells) > CELLS_MAX || memory == Memory::Array && cells == 0 {
            return Err(Flaw::Unknown);
        }
        let history = History::new(line, clock, memory.is_host());
        let state = BufferState {
            memory,
            device: self.threads[thread].device,
            is_large: cells == 0,
            made: Calls::new(Line::thread(thread), &self.threads[thread].clock),
            named: Clock::default(),
            cells: vec![history; usize::from(cells).max(1)],
        };
        insert(&mut self.buffers, buffer.index(), state)
    }

    /// The runtime waits for the memory's device before it frees; this is relied upon for device memory.
    pub(super) fn free(&mut self, thread: usize, buffer: Buffer) -> Result<(), Flaw> {
        self.check_named(thread, buffer)?;
        let (memory, device) = self.buffer(buffer).map(|state| (state.memory, state.device))?;
        if memory == Memory::Pooled {
            return Err(Flaw::Unknown);
        }
        if memory != Memory::Pageable {
            self.check_may_wait(thread, self.all_gates())?;
        }
        if memory == Memory::Device && device == self.threads[thread].device {
            self.sync_device(thread, device)?;
        }
        let clock = self.threads[thread].clock;
        self.end_buffer(buffer, Line::thread(thread), &clock)
    }

    pub(super) fn free_async(&mut self, thread: usize, buffer: Buffer, stream: Stream) -> Result<(), Flaw> {
        self.check_named(thread, buffer)?;
        let pending = self.position(thread, stream)?;
        let state = self.buffer(buffer)?;
        if state.memory != Memory::Pooled || state.device != pending.device {
            return Err(Flaw::Unknown);
        }
        self.end_buffer(buffer, pending.line, &pending.clock)
    }

    /// Requires that the freeing call knows all calls that named the buffer.
    fn check_named(&self, thread: usize, buffer: Buffer) -> Result<(), Flaw> {
        let unknown = self.threads[thread].clock.behind(&self.buffer(buffer)?.named);
        unknown.map_or(Ok(()), |line| Err(Flaw::Unordered(line)))
    }

    /// Records a call that names a buffer without accessing it yet.
    pub(super) fn name(&mut self, thread: usize, buffer: Buffer) {
        let clock = self.threads[thread].clock;
        if let Some(state) = self.buffers.get_mut(buffer.index()).and_then(Option::as_mut) {
            state.named.note(Line::thread(thread), &clock);
        }
    }

    fn end_buffer(&mut self, buffer: Buffer, line: Line, clock: &Clock) -> Result<(), Flaw> {
        for cell in 0..self.buffer(buffer)?.cells.len() {
            self.access(Access::write(Cell(buffer, cell as u8)), line, clock)?;
        }
        self.buffers[buffer.index()] = None;
        Ok(())
    }

    /// Existing cells, and whether their contents are determined.
    pub(super) fn cells(&self) -> impl Iterator<Item = (Cell, Memory, bool)> + '_ {
        let buffers = self.buffers.iter().enumerate();
        buffers.filter_map(|(index, state)| Some((Buffer(index as u8), state.as_ref()?))).flat_map(
            |(buffer, state)| {
                let cells = state.cells.iter().enumerate();
                cells.map(move |(cell, history)| {
                    (Cell(buffer, cell as u8), state.memory, history.is_defined())
                })
            },
        )
    }
}
