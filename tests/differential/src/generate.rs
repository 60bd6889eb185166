//! A program from a seed.
//!
//! Steps are proposed at random and taken if [`Order`] allows them. Steps that it rejects are often ordered
//! first: by an event, a wait, a signal to another thread, or an opened gate. So all of these occur where
//! they matter.

mod propose;
mod repair;
mod work;

use fastrand::Rng;

use crate::order::{Flaw, Order};
use crate::program::{
    Buffer, Device, Event, Gate, Graph, Memory, Names, Op, Program, Step, Stream, Thread, Token, Work,
};
use crate::repertoire::Repertoire;

/// The program of a seed.
#[must_use]
pub fn generate(seed: u64) -> Program {
    generate_of(seed, Repertoire::All)
}

/// The program of a seed that has only these steps.
#[must_use]
pub fn generate_of(seed: u64, repertoire: Repertoire) -> Program {
    // Neighbouring seeds give unrelated programs.
    let mut rng = Rng::with_seed(seed ^ 0x5851_f42d_4c95_7f2d);
    let threads = [1, 1, 1, 1, 2, 3][rng.usize(..6)];
    let steps_wanted = [15, 30, 30, 60, 60, 120][rng.usize(..6)];
    let mut generator = Generator::new(rng, threads, repertoire);
    generator.begin();
    for _ in 0..steps_wanted * 3 {
        if generator.steps.len() >= steps_wanted {
            break;
        }
        generator.advance();
    }
    generator.finish();
    Program { steps: generator.steps }
}

#[derive(Clone, Copy)]
struct Known<T> {
    name: T,
    device: u8,
}

#[derive(Clone, Copy)]
struct KnownBuffer {
    name: Buffer,
    device: u8,
    memory: Memory,
    cells: u8,
}

struct Capturing {
    origin: u8,
    /// Steps until it ends.
    left: u32,
}

struct Generator {
    rng: Rng,
    repertoire: Repertoire,
    order: Order,
    steps: Vec<Step>,
    /// The device that each thread has selected.
    devices: Vec<u8>,
    thread: usize,
    streams: Vec<Known<u8>>,
    streams_made: u8,
    events: Vec<Known<Event>>,
    events_made: u8,
    buffers: Vec<KnownBuffer>,
    buffers_made: u8,
    graphs: Vec<Known<Graph>>,
    graphs_made: u8,
    /// Closed gates, and the threads that open them.
    gates: Vec<(Gate, usize)>,
    gates_made: u8,
    tokens_made: u8,
    /// Captures in progress, by thread.
    captures: Vec<Option<Capturing>>,
}

impl Generator {
    fn new(rng: Rng, threads: usize, repertoire: Repertoire) -> Self {
        Self {
            rng,
            repertoire,
            order: Order::new(threads),
            steps: Vec::new(),
            devices: vec![0; threads],
            thread: 0,
            streams: Vec::new(),
            streams_made: 0,
            events: Vec::new(),
            events_made: 0,
            buffers: Vec::new(),
            buffers_made: 0,
            graphs: Vec::new(),
            graphs_made: 0,
            gates: Vec::new(),
            gates_made: 0,
            tokens_made: 0,
            captures: (0..threads).map(|_| None).collect(),
        }
    }

    fn device(&self) -> u8 {
        self.devices[self.thread]
    }

    fn chance(&mut self, of_100: u32) -> bool {
        self.rng.u32(..100) < of_100
    }

    /// Creates the first objects.
    fn begin(&mut self) {
        for thread in 0..self.devices.len() {
            self.thread = thread;
            if self.chance(10) {
                self.take(&Op::SetDevice(Device(1)));
            }
            if self.chance(30) {
                self.take(&Op::Name(Names::PerThread));
            }
            for _ in 0..self.rng.u32(1..3) {
                let op = self.make_stream();
                self.take(&op);
            }
            let op = self.allocate(Memory::Device);
            self.take(&op);
            for _ in 0..self.rng.u32(1..3) {
                let memory = self.memory();
                let op = self.allocate(memory);
                self.take(&op);
            }
        }
    }

    fn advance(&mut self) {
        if self.devices.len() > 1 && self.chance(25) {
            self.thread = self.rng.usize(..self.devices.len());
        }
        if let Some(capture) = &mut self.captures[self.thread] {
            capture.left = capture.left.saturating_sub(1);
            if capture.left == 0 {
                self.end_capture();
                return;
            }
        }
        let own: Vec<_> = self.gates.iter().filter(|(_, thread)| *thread == self.thread).copied().collect();
        if !own.is_empty() && self.chance(8) {
            let (gate, _) = own[self.rng.usize(..own.len())];
            self.take(&Op::Release(gate));
            return;
        }
        let op = self.propose();
        self.take(&op);
    }

    fn finish(&mut self) {
        while let Some((gate, thread)) = self.gates.last().copied() {
            self.thread = thread;
            self.take(&Op::Release(gate));
        }
        for thread in 0..self.captures.len() {
            self.thread = thread;
            self.end_capture();
        }
        if self.devices.len() == 1 && self.chance(4) {
            self.fault();
        }
    }

    /// Adds a device fault; the program continues for a while before it waits, and after that.
    fn fault(&mut self) {
        let stream = self.stream();
        if self.attempt(&Op::Fault(stream)).is_err() {
            return;
        }
        for _ in 0..self.rng.u32(0..8) {
            let op = self.propose();
            // Impossible steps are left out.
            let _ = self.attempt(&op);
        }
        let _ = self.attempt(&Op::SyncDevice);
        for _ in 0..self.rng.u32(4..16) {
            let op = self.propose();
            let _ = self.attempt(&op);
        }
    }

    /// Takes a step, after ordering it if necessary; returns whether it was taken.
    fn take(&mut self, op: &Op) -> bool {
        const REPAIRS_MAX: u32 = 4;
        for _ in 0..REPAIRS_MAX {
            match self.attempt(op) {
                Ok(()) => return true,
                Err(flaw) => {
                    if !self.repair(op, flaw) {
                        return false;
                    }
                }
            }
        }
        self.attempt(op).is_ok()
    }

    /// Takes a step without changes.
    fn attempt(&mut self, op: &Op) -> Result<(), Flaw> {
        if !self.repertoire.has(op) || !self.may_copy(op) || !self.may_destroy(op) {
            return Err(Flaw::Unknown);
        }
        let step = Step(Thread(self.thread as u8), op.clone());
        let mut order = self.order.clone();
        order.step(&step)?;
        self.order = order;
        self.steps.push(step);
        self.note(op);
        Ok(())
    }

    /// Whether the repertoire has the step's copy, if it is one, from memory of this kind.
    fn may_copy(&self, op: &Op) -> bool {
        let Op::Submit(_, Work::Copy { by, from, .. }) = op else { return true };
        let source = self.buffers.iter().find(|known| known.name == from.0);
        source.is_none_or(|known| self.repertoire.copies(*by, known.memory))
    }

    /// Whether a step, if it destroys a stream, may do so beside the program's other threads.
    fn may_destroy(&self, op: &Op) -> bool {
        let is_alone = self.devices.len() == 1;
        is_alone || self.repertoire.ends_streams_beside_threads() || !matches!(op, Op::DestroyStream(_))
    }

    /// Updates the lists of objects.
    fn note(&mut self, op: &Op) {
        let device = self.device();
        match op {
            Op::SetDevice(device) => self.devices[self.thread] = device.0,
            Op::Signal(_) => self.tokens_made += 1,
            Op::MakeStream(name, _) => {
                self.streams_made += 1;
                self.streams.push(Known { name: *name, device });
            }
            Op::DestroyStream(name) => self.streams.retain(|stream| stream.name != *name),
            Op::MakeEvent(name, _) => {
                self.events_made += 1;
                self.events.push(Known { name: *name, device });
            }
            Op::DestroyEvent(name) => self.events.retain(|event| event.name != *name),
            Op::Allocate { buffer, memory, cells } => {
                self.buffers_made += 1;
                self.buffers.push(KnownBuffer { name: *buffer, device, memory: *memory, cells: *cells });
            }
            Op::AllocateAsync { buffer, cells, .. } => {
                self.buffers_made += 1;
                let memory = Memory::Pooled;
                self.buffers.push(KnownBuffer { name: *buffer, device, memory, cells: *cells });
            }
            Op::Free(name) | Op::FreeAsync(name, _) => self.buffers.retain(|buffer| buffer.name != *name),
            Op::Hold(name, ..) => {
                self.gates_made += 1;
                self.gates.push((*name, self.thread));
            }
            Op::Release(name) => self.gates.retain(|(gate, _)| gate != name),
            Op::BeginCapture(origin, _) => {
                self.captures[self.thread] = Some(Capturing { origin: *origin, left: self.rng.u32(2..12) });
            }
            Op::EndCapture(_, name) | Op::BuildGraph(name, _) => {
                self.captures[self.thread] = None;
                self.graphs_made += 1;
                self.graphs.push(Known { name: *name, device });
            }
            Op::DestroyGraph(name) => self.graphs.retain(|graph| graph.name != *name),
            _ => {}
        }
    }

    fn end_capture(&mut self) {
        let Some(Capturing { origin, .. }) = self.captures[self.thread] else { return };
        // Each attempt joins one more branch.
        for _ in 0..8 {
            if self.take(&Op::EndCapture(origin, Graph(self.graphs_made))) {
                return;
            }
        }
        // Only other threads have events by which it could be joined. It is broken, and ends without a graph.
        self.take(&Op::SyncStream(Stream::Made(origin)));
        self.take(&Op::EndCapture(origin, Graph(self.graphs_made)));
    }

    fn token(&self) -> Token {
        Token(self.tokens_made)
    }

    fn stream(&mut self) -> Stream {
        let near: Vec<_> =
            self.streams.iter().filter(|stream| stream.device == self.device()).map(|s| s.name).collect();
        match self.rng.u32(..20) {
            0 | 1 => Stream::Null,
            2 => Stream::Legacy,
            3 => Stream::PerThread,
            _ => self.rng.choice(&near).map_or(Stream::Null, |name| Stream::Made(*name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::order;
    use crate::program::{CaptureMode, Copy, Program};

    #[test]
    fn every_program_is_in_order_and_can_be_parsed_again() {
        for seed in 0..300 {
            let program = generate(seed);
            if let Err((at, flaw)) = order::check(&program) {
                panic!("seed {seed}: step {at} {flaw}\n{program}");
            }
            assert_eq!(Program::parse(&program.to_string()).unwrap(), program, "seed {seed}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_program() {
        assert_eq!(generate(7), generate(7));
        assert_ne!(generate(7), generate(8));
    }

    #[test]
    fn programs_of_a_repertoire_have_its_steps_only_and_enough_of_them() {
        for repertoire in [Repertoire::Rocm52, Repertoire::Rocm64, Repertoire::Rocm72] {
            let programs: Vec<_> = (0..300).map(|seed| generate_of(seed, repertoire)).collect();
            let mut steps = programs.iter().flat_map(|program| &program.steps);
            assert!(steps.all(|Step(_, op)| repertoire.has(op)));
            let has_order = |program: &Program| order::check(program).is_ok();
            assert!(programs.iter().all(has_order));
            assert!(programs.iter().map(|program| program.steps.len()).sum::<usize>() > 300 * 20);
        }
    }

    #[test]
    fn rocm_7_2_copies_no_rows_and_boxes_from_pageable_memory() {
        let copies = |repertoire| {
            let programs = (0..300).map(|seed| generate_of(seed, repertoire));
            let steps = programs.flat_map(|program| {
                let pageable = |buffer| {
                    let is_made = |Step(_, op): &Step| {
                        matches!(op, Op::Allocate { buffer: made, memory: Memory::Pageable, .. } if *made == buffer)
                    };
                    program.steps.iter().any(is_made)
                };
                let is_late = |step: &&Step| {
                    matches!(&step.1, Op::Submit(_, Work::Copy { by: Copy::Rows | Copy::Box, from, .. }) if pageable(from.0))
                };
                program.steps.iter().filter(is_late).cloned().collect::<Vec<_>>()
            });
            steps.count()
        };
        assert_eq!(copies(Repertoire::Rocm72), 0);
        assert!(copies(Repertoire::Rocm64) > 0);
    }

    #[test]
    fn with_rocm_6_4_and_7_2_only_programs_of_one_thread_destroy_streams() {
        for repertoire in [Repertoire::Rocm64, Repertoire::Rocm72] {
            let destroys = |program: &Program| {
                program.steps.iter().any(|Step(_, op)| matches!(op, Op::DestroyStream(_)))
            };
            let programs = (0..300).map(|seed| generate_of(seed, repertoire)).filter(destroys);
            let threads: BTreeSet<_> = programs.map(|program| program.threads()).collect();
            assert_eq!(threads, BTreeSet::from([1]));
        }
    }

    /// `Global` captures, which forbid other threads some calls.
    #[test]
    fn threads_capture_globally_beside_others() {
        let captures = |program: Program| {
            let is_global = |Step(_, op): &Step| matches!(op, Op::BeginCapture(_, CaptureMode::Global));
            program.threads() > 1 && program.steps.iter().any(is_global)
        };
        assert!((0..400).map(generate).any(captures));
    }

    #[test]
    fn several_threads_capture_at_once() {
        let overlaps = |program: Program| {
            let mut capturing = BTreeSet::new();
            program.steps.iter().any(|Step(thread, op)| {
                match op {
                    Op::BeginCapture(..) => capturing.insert(*thread),
                    Op::EndCapture(..) => capturing.remove(thread),
                    _ => false,
                };
                capturing.len() > 1
            })
        };
        assert!((0..400).map(generate).any(overlaps));
    }

    /// Kinds of steps, by the first word of their text.
    #[test]
    fn every_kind_of_step_occurs() {
        let word =
            |step: &Step| format!("{:?}", step.1).split(['(', ' ']).next().unwrap_or_default().to_owned();
        let kinds: BTreeSet<_> =
            (0..400).flat_map(|seed| generate(seed).steps).map(|step| word(&step)).collect();
        assert_eq!(kinds.len(), 36, "{kinds:?}");
    }
}
