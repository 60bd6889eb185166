//! Graphs and the memory that they access; captures, which are unfinished graphs.

use super::clock::{Clock, Line};
use super::memory::{Access, History};
use super::{Calls, Flaw, Order, Pending};
use crate::program::{
    Buffer, CaptureMode, Cell, Copy, Fill, Graph, HostCall, Launch, Memory, Node, Stream, Work,
};

/// An executable graph.
#[derive(Clone, Debug)]
pub(super) struct GraphState {
    device: usize,
    accesses: Vec<Access>,
    /// Launches, which must follow each other.
    used: History,
    calls: Calls,
}

/// A capture in progress; a thread has at most one.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    number: u32,
    origin: Line,
    members: Vec<(Line, Clock)>,
    touched: Vec<(Cell, History)>,
    accesses: Vec<Access>,
    is_spoilt: bool,
    /// Whether it forbids other threads the same calls as its own.
    is_global: bool,
}

impl Capture {
    /// Distinguishes its events from those of earlier captures.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn clock(&self, line: Line) -> Option<Clock> {
        self.members.iter().find(|(member, _)| *member == line).map(|(_, clock)| *clock)
    }

    pub(super) fn is_spoilt(&self) -> bool {
        self.is_spoilt
    }

    pub(super) fn is_global(&self) -> bool {
        self.is_global
    }

    /// A stream joins by waiting for a captured event; a member gains knowledge.
    pub(super) fn join(&mut self, line: Line, clock: &Clock) {
        match self.members.iter_mut().find(|(member, _)| *member == line) {
            Some((_, own)) => own.join(clock),
            None => self.members.push((line, *clock)),
        }
    }

    /// Adds the next node of a member.
    fn add(&mut self, line: Line, accesses: &[Access]) -> Result<(), Flaw> {
        let (_, clock) = self.members.iter_mut().find(|(member, _)| *member == line).ok_or(Flaw::Capture)?;
        clock.tick(line);
        let clock = *clock;
        for access in accesses {
            let at = self.touched.iter().position(|(cell, _)| *cell == access.cell).unwrap_or_else(|| {
                let defined = History::new(line, &Clock::default(), true);
                self.touched.push((access.cell, defined));
                self.touched.len() - 1
            });
            self.touched[at].1.access(*access, line, &clock)?;
            note(&mut self.accesses, *access);
        }
        Ok(())
    }

    /// The first member whose work the origin does not wait for.
    fn unjoined(&self) -> Option<Line> {
        let origin = self.clock(self.origin)?;
        self.members.iter().find(|(line, clock)| !origin.knows(*line, clock)).map(|(line, _)| *line)
    }
}

/// A graph reads memory before its own writes: one launch requires it to be defined.
fn note(accesses: &mut Vec<Access>, access: Access) {
    let access = Access { is_whole: false, ..access };
    match accesses.iter_mut().find(|known| known.cell == access.cell) {
        Some(known) => known.is_write |= access.is_write,
        None => accesses.push(access),
    }
}

impl Order {
    /// With several threads, other threads may make any calls meanwhile that the capture does not forbid. So
    /// only streams that are not ordered with the null stream are captured.
    pub(super) fn begin_capture(&mut self, thread: usize, stream: u8, mode: CaptureMode) -> Result<(), Flaw> {
        let line = self.maybe_broken(thread, Stream::Made(stream))?;
        if self.captures[thread].is_some() || self.thread_count > 1 && self.stream_of(line).is_implicit {
            return Err(Flaw::Capture);
        }
        let is_global = mode == CaptureMode::Global;
        self.breaking.check(&self.threads[thread].clock)?;
        if is_global {
            self.forbidden.check(&self.threads[thread].clock)?;
        }
        self.stream_mut(line).is_broken = false;
        self.captures_begun += 1;
        self.captures[thread] = Some(Capture {
            number: self.captures_begun,
            origin: line,
            members: vec![(line, Clock::default())],
            touched: Vec::new(),
            accesses: Vec::new(),
            is_spoilt: false,
            is_global,
        });
        Ok(())
    }

    pub(super) fn end_capture(&mut self, thread: usize, stream: u8, graph: Graph) -> Result<(), Flaw> {
        let line = self.made(thread, stream)?;
        let capture = self.captures[thread].as_ref().filter(|c| c.origin == line).ok_or(Flaw::Capture)?;
        if let Some(line) = capture.unjoined().filter(|_| !capture.is_spoilt) {
            return Err(Flaw::Unjoined(line));
        }
        let Some(Capture { accesses, is_spoilt, is_global, members, .. }) = self.captures[thread].take()
        else {
            return Err(Flaw::Capture);
        };
        for (member, _) in members {
            self.stream_mut(member).is_broken |= is_spoilt;
        }
        let clock = self.threads[thread].clock;
        self.captures_ended.note(Line::thread(thread), &clock);
        if is_global {
            self.global_ended.note(Line::thread(thread), &clock);
        }
        let state = self.new_graph(thread, accesses);
        super::insert(&mut self.graphs, graph.index(), state)?;
        if is_spoilt {
            self.graphs[graph.index()] = None;
        }
        Ok(())
    }

    /// The only way to break a capture here: waiting for a captured stream.
    pub(super) fn spoil(&mut self, thread: usize) {
        if let Some(capture) = &mut self.captures[thread] {
            capture.is_spoilt = true;
        }
    }

    /// Adds work on a captured stream.
    pub(super) fn captured_work(&mut self, thread: usize, line: Line, work: &Work) -> Result<(), Flaw> {
        let is_known = match work {
            Work::Kernel { by, .. } => !matches!(
                by,
                Launch::Cooperative | Launch::ConfigCooperative | Launch::ModuleCooperative | Launch::Ext
            ),
            Work::Copy { by, .. } => matches!(by, Copy::Async | Copy::Spt | Copy::Driver),
            Work::Fill { by, .. } => matches!(by, Fill::Async | Fill::Bytes | Fill::HalfWords | Fill::Words),
            Work::Host { by, .. } => *by == HostCall::Function,
            Work::WriteValue { .. } | Work::Move { .. } => false,
        };
        if !is_known {
            return Err(Flaw::Capture);
        }
        let accesses = self.node_accesses(thread, work)?;
        for access in &accesses {
            self.name(thread, access.cell.0);
        }
        self.captures[thread].as_mut().ok_or(Flaw::Capture)?.add(line, &accesses)
    }

    pub(super) fn build_graph(&mut self, thread: usize, graph: Graph, nodes: &[Node]) -> Result<(), Flaw> {
        let mut all = Vec::new();
        // For each node, the nodes before it as bits, including itself.
        let mut before: Vec<u64> = Vec::new();
        let mut done: Vec<(usize, Access)> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let mut ancestors = 1_u64 << index;
            for &after in &node.after {
                ancestors |= before.get(usize::from(after)).ok_or(Flaw::Unknown)?;
            }
            for access in self.node_accesses(thread, &node.work)? {
                let conflicts = |(other, earlier): &(usize, Access)| {
                    earlier.cell == access.cell
                        && (earlier.is_write || access.is_write)
                        && ancestors & 1 << other == 0
                };
                if done.iter().any(conflicts) {
                    return Err(Flaw::GraphRace);
                }
                done.push((index, access));
                note(&mut all, access);
            }
            before.push(ancestors);
        }
        for access in &all {
            self.name(thread, access.cell.0);
        }
        let state = self.new_graph(thread, all);
        super::insert(&mut self.graphs, graph.index(), state)
    }

    fn new_graph(&self, thread: usize, accesses: Vec<Access>) -> GraphState {
        let line = Line::thread(thread);
        let clock = &self.threads[thread].clock;
        let (used, calls) = (History::new(line, clock, true), Calls::new(line, clock));
        GraphState { device: self.threads[thread].device, accesses, used, calls }
    }

    /// The memory that a node accesses. Pageable memory is left out, because it is read only when the graph
    /// runs. Arrays are left out, because nodes are built from plain addresses.
    fn node_accesses(&self, thread: usize, work: &Work) -> Result<Vec<Access>, Flaw> {
        if matches!(work, Work::WriteValue { .. } | Work::Move { .. }) {
            return Err(Flaw::Capture);
        }
        let accesses = self.accesses(thread, work)?;
        let is_left_out = |cell: Cell| {
            let state = self.buffer(cell.0);
            state.is_ok_and(|b| matches!(b.memory, Memory::Pageable | Memory::Array) || b.is_large)
        };
        if accesses.iter().any(|access| is_left_out(access.cell)) {
            return Err(Flaw::Capture);
        }
        Ok(accesses)
    }

    pub(super) fn launch_graph(&mut self, graph: Graph, on: &Pending) -> Result<(), Flaw> {
        let state = self.graphs.get_mut(graph.index()).and_then(Option::as_mut).ok_or(Flaw::Unknown)?;
        if state.device != on.device {
            return Err(Flaw::OtherDevice);
        }
        state.calls.next(on.caller, &self.threads[on.caller.0].clock)?;
        state.used.access(Access::update(Cell(Buffer(0), 0)), on.line, &on.clock)?;
        for access in state.accesses.clone() {
            self.access(access, on.line, &on.clock)?;
        }
        Ok(())
    }

    /// It is left open whether this is a command.
    pub(super) fn upload_graph(&mut self, thread: usize, graph: Graph, stream: Stream) -> Result<(), Flaw> {
        let on = self.position(thread, stream)?;
        let state = self.graphs.get_mut(graph.index()).and_then(Option::as_mut).ok_or(Flaw::Unknown)?;
        if state.device != on.device {
            return Err(Flaw::OtherDevice);
        }
        state.calls.next(on.caller, &self.threads[on.caller.0].clock)?;
        state.used.access(Access::update(Cell(Buffer(0), 0)), on.line, &on.clock)
    }

    /// It is left open whether destruction waits for launches in progress.
    pub(super) fn destroy_graph(&mut self, thread: usize, graph: Graph) -> Result<(), Flaw> {
        self.check_may_wait(thread, self.all_gates())?;
        let state = self.graphs.get_mut(graph.index()).ok_or(Flaw::Unknown)?;
        let calls = &mut state.as_mut().ok_or(Flaw::Unknown)?.calls;
        calls.next(Line::thread(thread), &self.threads[thread].clock)?;
        *state = None;
        Ok(())
    }
}
