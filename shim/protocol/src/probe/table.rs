//! The rows of the table, one module per family: HIP's here, CUDA's in `cuda`.

mod copy;
mod cuda;
mod device;
mod event;
mod graph;
mod launch;
mod memory;
mod module;
mod row;
mod set;
mod stream;

use super::Probe;

const FAMILIES: [&[Probe]; 9] = [
    launch::PROBES,
    copy::PROBES,
    set::PROBES,
    memory::PROBES,
    module::PROBES,
    stream::PROBES,
    event::PROBES,
    graph::PROBES,
    device::PROBES,
];

const RUNTIMES: [[&[Probe]; 9]; 2] = [FAMILIES, cuda::FAMILIES];

const fn count() -> usize {
    let (mut count, mut family) = (0, 0);
    while family < RUNTIMES.as_flattened().len() {
        count += RUNTIMES.as_flattened()[family].len();
        family += 1;
    }
    count
}

#[expect(clippy::large_stack_arrays, reason = "the compiler evaluates it")]
const fn join() -> [Probe; count()] {
    let families = RUNTIMES.as_flattened();
    let mut rows = [launch::PROBES[0]; count()];
    let (mut at, mut family) = (0, 0);
    while family < families.len() {
        let mut row = 0;
        while row < families[family].len() {
            rows[at] = families[family][row];
            at += 1;
            row += 1;
        }
        family += 1;
    }
    rows
}

/// Every function that is probed. Its index is part of the ABI of the programs and user space.
pub const PROBES: &[Probe] = &join();
