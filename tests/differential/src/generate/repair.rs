//! Orders a proposed step that is not allowed yet.

use super::Generator;
use crate::order::{Flaw, Line, Owner};
use crate::program::{Cell, Copy, Device, Event, Fill, Memory, Node, Op, Stream, Work};

impl Generator {
    /// Takes steps that may make the proposed one possible; returns whether there was anything to try.
    pub(super) fn repair(&mut self, op: &Op, flaw: Flaw) -> bool {
        match flaw {
            Flaw::Race(line) => self.wait_for(line, stream_of(op)),
            Flaw::Unordered(line) => self.wait_for(line, None),
            Flaw::Undefined => self.define(op),
            Flaw::BehindGate => self.open_own_gate(),
            Flaw::OtherDevice => {
                self.chance(30) && self.attempt(&Op::SetDevice(Device(1 - self.device()))).is_ok()
            }
            Flaw::Unjoined(line) => self.join(line, op),
            Flaw::Unknown | Flaw::Capture | Flaw::GraphRace | Flaw::Open => false,
        }
    }

    /// Orders this thread, or only the stream, after the work of a line.
    fn wait_for(&mut self, line: Line, stream: Option<Stream>) -> bool {
        let from = match line.owner() {
            Owner::Thread(other) => return self.wait_for_thread(usize::from(other)),
            Owner::Made(name) => Stream::Made(name),
            Owner::Null(device) if device == self.device() => Stream::Null,
            Owner::PerThread(thread) if usize::from(thread) == self.thread => Stream::PerThread,
            Owner::PerThread(thread) => {
                // Only that thread can name the stream.
                let (own, other) = (self.thread, usize::from(thread));
                self.thread = other;
                let is_done = self.attempt(&Op::SyncStream(Stream::PerThread)).is_ok();
                self.thread = own;
                return is_done && self.wait_for_thread(other);
            }
            Owner::Null(_) => return false,
        };
        match stream {
            Some(stream) if self.captures[self.thread].is_some() || self.chance(60) => {
                self.wait_by_event(from, stream)
            }
            _ if self.chance(80) => self.order(&Op::SyncStream(from)),
            _ => self.order(&Op::SyncDevice),
        }
    }

    /// Takes a wait, after opening a gate or awaiting another thread's call if necessary.
    fn order(&mut self, op: &Op) -> bool {
        match self.attempt(op) {
            Ok(()) => true,
            Err(Flaw::BehindGate) => self.open_own_gate() && self.attempt(op).is_ok(),
            Err(Flaw::Unordered(line)) => match line.owner() {
                Owner::Thread(other) => self.wait_for_thread(usize::from(other)) && self.attempt(op).is_ok(),
                _ => false,
            },
            Err(_) => false,
        }
    }

    fn wait_for_thread(&mut self, other: usize) -> bool {
        let (own, token) = (self.thread, self.token());
        if other == own || token.0 == u8::MAX {
            return false;
        }
        self.thread = other;
        let is_signalled = self.attempt(&Op::Signal(token)).is_ok();
        self.thread = own;
        is_signalled && self.order(&Op::Await(token))
    }

    fn wait_by_event(&mut self, from: Stream, to: Stream) -> bool {
        if self.events_made == u8::MAX {
            return false;
        }
        let device = self.device();
        let known: Vec<_> = self.events.iter().filter(|e| e.device == device).map(|e| e.name).collect();
        let event = self.rng.choice(&known).copied().or_else(|| {
            let event = Event(self.events_made);
            let op = self.make_event();
            // No event can be created while a stream is captured.
            self.attempt(&op).is_ok().then_some(event)
        });
        event.is_some_and(|event| self.order(&Op::Record(event, from)) && self.order(&Op::Wait(to, event)))
    }

    fn join(&mut self, line: Line, op: &Op) -> bool {
        match (line.owner(), op) {
            (Owner::Made(from), Op::EndCapture(origin, _)) => {
                self.wait_by_event(Stream::Made(from), Stream::Made(*origin))
            }
            _ => false,
        }
    }

    fn open_own_gate(&mut self) -> bool {
        let own = self.gates.iter().find(|(_, thread)| *thread == self.thread).copied();
        own.is_some_and(|(gate, _)| self.attempt(&Op::Release(gate)).is_ok())
    }

    /// Fills the memory that the step would read.
    fn define(&mut self, op: &Op) -> bool {
        let stream = stream_of(op).unwrap_or(Stream::Null);
        let mut is_any = false;
        for cell in cells_of(op) {
            let is_array =
                self.buffers.iter().any(|buffer| buffer.name == cell.0 && buffer.memory == Memory::Array);
            if is_array {
                // Nothing fills arrays; host memory always has contents.
                let from = self.cell(Memory::is_host);
                let work = from.map(|from| Work::Copy { by: Copy::Rows, to: cell, from });
                is_any |= work.is_some_and(|work| self.take(&Op::Submit(stream, work)));
            } else {
                let work = Work::Fill { by: Fill::Async, to: cell, value: self.rng.u8(..) };
                is_any |= self.attempt(&Op::Submit(stream, work)).is_ok();
            }
        }
        is_any
    }
}

/// The stream that a step uses.
fn stream_of(op: &Op) -> Option<Stream> {
    match op {
        Op::Submit(stream, _)
        | Op::Timed(stream, ..)
        | Op::LaunchGraph(_, stream)
        | Op::UploadGraph(_, stream)
        | Op::FreeAsync(_, stream) => Some(*stream),
        _ => None,
    }
}

fn cells_of(op: &Op) -> Vec<Cell> {
    let of_work = |work: &Work| match work {
        Work::Kernel { to, from, .. } | Work::Copy { to, from, .. } | Work::Host { to, from, .. } => {
            vec![*to, *from]
        }
        Work::WriteValue { to, .. } | Work::Fill { to, .. } => vec![*to],
        Work::Move { what, .. } => vec![*what],
    };
    match op {
        Op::Submit(_, work) | Op::Timed(_, work, ..) => of_work(work),
        Op::BuildGraph(_, nodes) => nodes.iter().flat_map(|Node { work, .. }| of_work(work)).collect(),
        _ => Vec::new(),
    }
}
