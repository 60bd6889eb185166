//! CUDA's functions, as `libcuda` exports them. A row for each version and each variant for per-thread default streams: they have
//! addresses of their own. What takes 32-bit addresses, of CUDA 3.1 and before, is left out.

mod copy;
mod device;
mod event;
mod graph;
mod launch;
mod memory;
mod module;
mod set;
mod stream;

use crate::probe::Probe;

pub(super) const FAMILIES: [&[Probe]; 9] = [
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
