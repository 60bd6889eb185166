//! Twins: C functions that do on the CPU what a kernel would do. The interface is `include/hip_sim.h`.

use core::ffi::{c_char, c_uint, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::abi::dim3;
use crate::durations::Launched;
use crate::engine::Work;
use crate::kernel::{ArgumentBuffer, Kernel};
use crate::{config, counters};

/// `struct hip_sim_launch`
#[repr(C)]
struct Launch {
    name: *const c_char,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    dynamic_lds_size: usize,
    kernarg: *const c_void,
    kernarg_size: usize,
}

const _: () = assert!(size_of::<Launch>() == 56);

type Function = unsafe extern "C" fn(*const Launch);

/// A kernel's twin, looked up at its first launch; none if there is none.
#[derive(Default)]
pub(crate) struct Twin(OnceLock<Option<Function>>);

/// One kernel at work: what its twin is told, in a form that can travel to the stream's thread.
pub(crate) struct Dispatch {
    pub(crate) kernel: std::sync::Arc<Kernel>,
    pub(crate) grid: dim3,
    pub(crate) block: dim3,
    pub(crate) dynamic_lds_size: usize,
    pub(crate) arguments: ArgumentBuffer,
}

impl Dispatch {
    /// What the launch occupies, as `HIP_SIM_DURATIONS` says.
    pub(crate) fn work(&self, compute_units: u64) -> Work {
        let argument = |index: usize| self.arguments.integer(*self.kernel.arguments.get(index)?);
        let product = |extent: dim3| u64::from(extent.x) * u64::from(extent.y) * u64::from(extent.z);
        let cost = config::get().durations.of(&Launched {
            kernel: self.kernel.name(),
            blocks: product(self.grid),
            threads_per_block: product(self.block),
            compute_units,
            argument: &argument,
        });
        Work::Kernel { units: cost.units, duration_ns: cost.duration_ns }
    }

    /// Runs the twin, or counts that there is none.
    pub(crate) fn run(&self) {
        let name = self.kernel.name();
        let Some(function) = *self.kernel.twin.0.get_or_init(|| find(name)) else {
            counters::missed_twin(name);
            return;
        };
        let launch = Launch {
            name: self.kernel.name.as_ptr(),
            grid: [self.grid.x, self.grid.y, self.grid.z],
            block: [self.block.x, self.block.y, self.block.z],
            dynamic_lds_size: self.dynamic_lds_size,
            kernarg: self.arguments.as_ptr().cast(),
            kernarg_size: self.arguments.size(),
        };
        // SAFETY: whoever wrote the twin promises this signature by its name; the launch outlives the call.
        unsafe { function(&raw const launch) };
    }
}

/// Named libraries first, then every symbol of the process.
fn find(kernel: &str) -> Option<Function> {
    let symbol = format!("hip_sim_twin_{kernel}");
    let process = Library::this();
    libraries().iter().chain([&process]).find_map(|library| {
        // SAFETY: as in `Dispatch::run`, the name is a promise of the signature.
        let found = unsafe { library.get::<Function>(&symbol) };
        found.ok().map(|function| *function)
    })
}

/// What `HIP_SIM_TWINS` names, opened once and never closed.
fn libraries() -> &'static [Library] {
    static LIBRARIES: OnceLock<Vec<Library>> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let open = |path: &std::path::PathBuf| {
            // SAFETY: the library's constructors run, which is what whoever sets the variable asks for.
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
                .inspect_err(|error| eprintln!("hip-sim: HIP_SIM_TWINS: {error}"))
                .ok()
        };
        config::get().twins.iter().filter_map(open).collect()
    })
}
