//! Proposes the next step at random.

use super::Generator;
use crate::program::{
    CELLS_MAX, CaptureMode, Cell, Copy, Device, Event, EventKind, Fill, Gate, GateKind, Graph, Launch,
    MISTAKES, Memory, Names, Node, Op, STREAMS_MAX, Stream, StreamKind, Work,
};

impl Generator {
    /// Any step; it need not be allowed.
    pub(super) fn propose(&mut self) -> Op {
        if self.captures[self.thread].is_some() {
            return self.propose_in_capture();
        }
        if self.captures.iter().any(Option::is_some) && self.chance(10) {
            return self.begin_capture();
        }
        match self.rng.u32(..1000) {
            0..40 => self.host_step(),
            40..70 => self.timed(),
            420..480 => {
                let (event, stream) = (self.event(), self.stream());
                event.map_or_else(|| self.make_event(), |event| Op::Record(event, stream))
            }
            480..520 => {
                let (event, stream) = (self.event(), self.stream());
                event.map_or_else(|| self.make_event(), |event| Op::Wait(stream, event))
            }
            520..560 => Op::SyncStream(self.stream()),
            560..580 => self.event().map_or(Op::SyncDevice, Op::SyncEvent),
            580..590 => Op::SyncDevice,
            590..620 => Op::QueryStream(self.stream()),
            620..650 => self.event().map_or_else(|| self.make_event(), Op::QueryEvent),
            650..660 => {
                let (from, to) = (self.event(), self.event());
                from.zip(to).map_or(Op::LastError, |(from, to)| Op::Elapsed(from, to))
            }
            660..700 => self.hold(),
            700..725 => self.begin_capture(),
            725..745 => self.build_graph(),
            745..790 => self.launch_graph(),
            790..796 => self.destroy_graph(),
            796..800 => self.upload_graph(),
            800..815 => self.make_stream(),
            815..822 => self.destroy_stream(),
            822..845 => self.make_event(),
            845..850 => self.event().map_or(Op::LastError, Op::DestroyEvent),
            850..880 => {
                let memory = self.memory();
                self.allocate(memory)
            }
            880..900 => self.free(),
            900..930 => Op::Wrong(*self.rng.choice(&MISTAKES).unwrap_or(&MISTAKES[0]), self.stream()),
            930..955 => Op::LastError,
            955..965 => Op::PeekError,
            965..972 => Op::SetDevice(Device(1 - self.device())),
            972..975 => Op::Name(if self.rng.bool() { Names::Plain } else { Names::PerThread }),
            _ => self.submit(),
        }
    }

    /// A capture allows kernels, copies, fills and host functions, and branches through events.
    fn propose_in_capture(&mut self) -> Op {
        let origin = self.captures[self.thread].as_ref().map_or(0, |capture| capture.origin);
        let stream = if self.chance(60) { Stream::Made(origin) } else { self.stream() };
        match self.rng.u32(..100) {
            0..60 => Op::Submit(stream, self.work()),
            60..72 => self
                .event()
                .map_or_else(|| Op::Submit(stream, self.work()), |event| Op::Record(event, stream)),
            72..90 => {
                self.event().map_or_else(|| Op::Submit(stream, self.work()), |event| Op::Wait(stream, event))
            }
            90..92 => Op::SyncStream(Stream::Made(origin)),
            _ => self.host_step(),
        }
    }

    pub(super) fn make_stream(&mut self) -> Op {
        if usize::from(self.streams_made) >= STREAMS_MAX {
            return Op::LastError;
        }
        let kind = match self.rng.u32(..5) {
            0 | 1 => StreamKind::Blocking,
            2 => StreamKind::Priority(self.rng.i8(-1..=1)),
            _ => StreamKind::NonBlocking,
        };
        Op::MakeStream(self.streams_made, kind)
    }

    fn destroy_stream(&mut self) -> Op {
        match self.stream() {
            Stream::Made(name) => Op::DestroyStream(name),
            _ => Op::SyncDevice,
        }
    }

    pub(super) fn make_event(&mut self) -> Op {
        let kind = match self.rng.u32(..4) {
            0 => EventKind::Untimed,
            1 => EventKind::Blocking,
            _ => EventKind::Timed,
        };
        Op::MakeEvent(Event(self.events_made), kind)
    }

    fn event(&mut self) -> Option<Event> {
        let near: Vec<_> =
            self.events.iter().filter(|event| event.device == self.device()).map(|e| e.name).collect();
        // An event of another device may be waited for.
        let all: Vec<_> = self.events.iter().map(|event| event.name).collect();
        let any = if self.chance(10) { &all } else { &near };
        self.rng.choice(any).copied()
    }

    pub(super) fn memory(&mut self) -> Memory {
        match self.rng.u32(..11) {
            0..3 => Memory::Device,
            3 | 4 => Memory::Pooled,
            5 | 6 => Memory::Pinned,
            7 => Memory::Managed,
            8 => Memory::Array,
            _ => Memory::Pageable,
        }
    }

    pub(super) fn allocate(&mut self, memory: Memory) -> Op {
        let buffer = crate::program::Buffer(self.buffers_made);
        let cells = self.rng.u8(1..=CELLS_MAX as u8);
        if memory == Memory::Pooled {
            return Op::AllocateAsync { buffer, stream: self.stream(), cells, own_pool: self.chance(40) };
        }
        // Large buffers cost time.
        let cells = if memory != Memory::Array && self.chance(3) { 0 } else { cells };
        Op::Allocate { buffer, memory, cells }
    }

    fn free(&mut self) -> Op {
        let Some(buffer) = self.rng.choice(&self.buffers).copied() else { return Op::SyncDevice };
        if buffer.memory == Memory::Pooled {
            Op::FreeAsync(buffer.name, self.stream())
        } else {
            Op::Free(buffer.name)
        }
    }

    /// A cell of a buffer that satisfies the condition, on this thread's device if that matters.
    pub(super) fn cell(&mut self, condition: impl Fn(Memory) -> bool) -> Option<Cell> {
        let device = self.device();
        let fit = |buffer: &&super::KnownBuffer| {
            let is_bound = matches!(buffer.memory, Memory::Device | Memory::Pooled | Memory::Array);
            condition(buffer.memory) && (!is_bound || buffer.device == device)
        };
        let fitting: Vec<_> = self.buffers.iter().filter(fit).copied().collect();
        let buffer = self.rng.choice(&fitting)?;
        Some(Cell(buffer.name, self.rng.u8(..buffer.cells.max(1))))
    }

    pub(super) fn any_cell(&mut self) -> Option<Cell> {
        let all = self.buffers.clone();
        let buffer = self.rng.choice(&all)?;
        Some(Cell(buffer.name, self.rng.u8(..buffer.cells.max(1))))
    }

    fn host_step(&mut self) -> Op {
        match self.cell(Memory::is_host) {
            Some(cell) if self.rng.bool() => Op::HostWrite(cell, self.rng.u32(..)),
            Some(cell) => Op::HostRead(cell),
            None => self.allocate(Memory::Pinned),
        }
    }

    fn submit(&mut self) -> Op {
        let work = self.work();
        let is_on_null =
            matches!(work, Work::Copy { by: Copy::Sync, .. } | Work::Fill { by: Fill::Sync, .. });
        Op::Submit(if is_on_null { Stream::Null } else { self.stream() }, work)
    }

    /// A kernel between events; one of them may be missing.
    fn timed(&mut self) -> Op {
        let by = match self.rng.u32(..3) {
            0 => Launch::Ext,
            1 => Launch::ModuleList,
            _ => Launch::ModuleBuffer,
        };
        let work = self.kernel(by);
        let (start, stop) = (self.event(), self.event());
        match work {
            Some(work) if start != stop => {
                let start = if self.chance(70) { start } else { None };
                Op::Timed(self.stream(), work, start, stop)
            }
            _ => self.make_event(),
        }
    }

    fn hold(&mut self) -> Op {
        if self.gates_made >= 31 || self.gates.len() >= 2 {
            return Op::QueryStream(self.stream());
        }
        let kind = match self.rng.u32(..10) {
            0..6 => GateKind::Function,
            6 | 7 => GateKind::Value,
            8 => GateKind::Wide,
            _ => GateKind::Batch,
        };
        Op::Hold(Gate(self.gates_made), self.stream(), kind)
    }

    fn begin_capture(&mut self) -> Op {
        let mode = match self.rng.u32(..3) {
            0 => CaptureMode::Global,
            1 => CaptureMode::ThreadLocal,
            _ => CaptureMode::Relaxed,
        };
        match self.stream() {
            Stream::Made(name) => Op::BeginCapture(name, mode),
            _ => self.build_graph(),
        }
    }

    fn build_graph(&mut self) -> Op {
        let mut nodes = Vec::new();
        for index in 0..self.rng.u8(1..6) {
            // Mostly a chain, sometimes a branch.
            let mut after = Vec::new();
            if index > 0 && self.chance(85) {
                after.push(index - 1);
            }
            if index > 1 && self.chance(30) {
                let earlier = self.rng.u8(..index - 1);
                after.push(earlier);
            }
            nodes.push(Node { after, work: self.work() });
        }
        Op::BuildGraph(Graph(self.graphs_made), nodes)
    }

    fn launch_graph(&mut self) -> Op {
        let near: Vec<_> =
            self.graphs.iter().filter(|graph| graph.device == self.device()).map(|g| g.name).collect();
        match self.rng.choice(&near).copied() {
            Some(graph) => Op::LaunchGraph(graph, self.stream()),
            None => self.build_graph(),
        }
    }

    fn upload_graph(&mut self) -> Op {
        match self.launch_graph() {
            Op::LaunchGraph(graph, stream) => Op::UploadGraph(graph, stream),
            other => other,
        }
    }

    fn destroy_graph(&mut self) -> Op {
        let graphs: Vec<_> = self.graphs.iter().map(|graph| graph.name).collect();
        self.rng.choice(&graphs).copied().map_or(Op::LastError, Op::DestroyGraph)
    }
}
