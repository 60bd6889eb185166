//! Runs a whole program: its threads, and then the final checks.

use std::sync::Barrier;
use std::thread;

use xsched_differential::observe::{self, Outcome, Seen};
use xsched_differential::order::Checked;
use xsched_differential::program::{Buffer, Cell, Memory, Names, Program};

use crate::hip;
use crate::names;
use crate::process::Process;
use crate::step;
use crate::world::World;

/// Runs a program to its end and frees everything.
pub(crate) fn run(process: &Process, program: &Program, checked: &Checked) -> Outcome {
    let world = World::new(process);
    // SAFETY: no arguments.
    unsafe { hip::hipGetLastError() };
    let mut seen = vec![Seen::default(); program.steps.len()];
    let last_steps = last_steps(process, program);
    let others: Vec<_> = thread::scope(|scope| {
        let (world, last_steps) = (&world, &last_steps);
        let start = |number| scope.spawn(move || steps_of(world, program, number, last_steps));
        let others: Vec<_> = (1..program.threads()).map(start).collect();
        let own = steps_of(world, program, 0, last_steps);
        let others = others.into_iter().map(|thread| thread.join().expect("steps do not panic"));
        others.chain([own]).flatten().collect()
    });
    for (index, what) in others {
        seen[index] = what;
    }
    let mut outcome = Outcome::default();
    for (what, answer) in seen.into_iter().zip(&checked.answers) {
        outcome.push(what, *answer);
    }
    if program.has_fault() {
        wait_for_all(process);
    }
    outcome.end = end(&world, &checked.cells);
    outcome
}

/// After a fault that the host has not waited for, the codes of the next calls depend on time.
fn wait_for_all(process: &Process) {
    for device in 0..process.repertoire.devices() {
        // SAFETY: no pointers.
        unsafe {
            hip::hipSetDevice(device as i32);
            hip::hipDeviceSynchronize();
        }
    }
}

/// Where a program's threads wait for each other before they end, if its repertoire wants that.
fn last_steps(process: &Process, program: &Program) -> Barrier {
    Barrier::new(if process.repertoire.ends_streams_beside_threads() { 1 } else { program.threads() })
}

fn steps_of(world: &World<'_>, program: &Program, number: usize, last_steps: &Barrier) -> Vec<(usize, Seen)> {
    names::choose(Names::Plain);
    let steps = program.steps.iter().enumerate().filter(|(_, step)| step.0.index() == number);
    let seen = steps.map(|(index, step)| (index, step::take(world, &step.1))).collect();
    last_steps.wait();
    seen
}

/// Waits for everything, reads all memory, and frees everything.
fn end(world: &World<'_>, cells: &[(Cell, Memory)]) -> Vec<(String, u64)> {
    let mut end = Vec::new();
    let mut note = |name: String, code: hip::Code| end.push((name, code as u64));
    // SAFETY: handles and addresses from HIP, each freed once.
    unsafe {
        for device in 0..world.process.repertoire.devices() {
            note(format!("hipSetDevice({device})"), hip::hipSetDevice(device as i32));
            note(format!("hipDeviceSynchronize of {device}"), hip::hipDeviceSynchronize());
        }
        note("hipSetDevice(0)".to_owned(), hip::hipSetDevice(0));
    }
    for (cell, memory) in cells {
        let Cell(Buffer(buffer), index) = *cell;
        let value =
            if memory.is_host() { step::contents(world, *cell) } else { device_contents(world, *cell) };
        end.push((format!("cell ({buffer},{index})"), value));
    }
    let mut note = |name: String, code: hip::Code| end.push((name, code as u64));
    // SAFETY: as above.
    unsafe {
        for (number, graph) in world.graphs.drain() {
            note(format!("hipGraphExecDestroy of {number}"), hip::hipGraphExecDestroy(graph));
        }
        for (number, event) in world.events.drain() {
            note(format!("hipEventDestroy of {number}"), hip::hipEventDestroy(event));
        }
        for (number, stream) in world.streams.drain() {
            note(format!("hipStreamDestroy of {number}"), hip::hipStreamDestroy(stream));
        }
    }
    for (number, address) in world.buffers.drain() {
        note(format!("free of {number}"), step::free(world.shape(Buffer(number)), address));
    }
    end
}

fn device_contents(world: &World<'_>, cell: Cell) -> u64 {
    let (address, size) = world.cell(cell);
    let mut bytes = vec![0_u8; size];
    let to = bytes.as_mut_ptr().cast();
    // SAFETY: a cell of an existing buffer, with this size.
    let code = unsafe {
        if world.shape(cell.0).memory == Memory::Array {
            let row = usize::from(cell.1);
            hip::hipMemcpy2DFromArray(to, size, address, 0, row, size, 1, hip::DEVICE_TO_HOST)
        } else {
            hip::hipMemcpy(to, address, size, hip::DEVICE_TO_HOST)
        }
    };
    if code == hip::SUCCESS { observe::hash(&bytes) } else { code as u64 }
}
