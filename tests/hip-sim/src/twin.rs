//! Twins: C functions that do a kernel's work on the CPU. The interface is in `include/hip_sim.h`.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, OnceLock};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::abi::dim3;
use crate::durations::Launched;
use crate::engine::Work;
use crate::error::HipError;
use crate::executor::{self, Handled};
use crate::kernel::{ArgumentBuffer, Kernel};
use crate::{boundary, config, counters, fault, runtime};

/// `struct hip_sim_launch`
#[repr(C)]
pub(crate) struct Launch {
    name: *const c_char,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    pub(crate) dynamic_lds_size: usize,
    kernarg: *const c_void,
    kernarg_size: usize,
    check_access: extern "C" fn(*const c_void, usize) -> c_int,
}

const _: () = assert!(size_of::<Launch>() == 64);

type Function = unsafe extern "C" fn(*const Launch);

/// The implementation of a kernel's work.
#[derive(Default)]
pub(crate) struct Twin {
    /// Looked up at the first launch; none if there is none.
    function: OnceLock<Option<Function>>,
    /// The kernel's code object, kept only for an executor.
    code_object: OnceLock<Arc<[u8]>>,
}

impl Twin {
    /// Stores the kernel's code object.
    pub(crate) fn set_code_object(&self, code_object: &Arc<[u8]>) {
        let _ = self.code_object.set(Arc::clone(code_object)); // a kernel belongs to one code object
    }
}

/// One kernel to run: its twin's arguments, in a form that can be sent to the stream's thread.
pub(crate) struct Dispatch {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) grid: dim3,
    pub(crate) block: dim3,
    pub(crate) dynamic_lds_size: usize,
    pub(crate) arguments: ArgumentBuffer,
}

impl Dispatch {
    /// The part of the device that the launch occupies, by `HIP_SIM_DURATIONS`.
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

    /// Lets the executor or the twin do the work, or counts that there is neither.
    pub(crate) fn run(&self) {
        let launch = Launch {
            name: self.kernel.name.as_ptr(),
            grid: [self.grid.x, self.grid.y, self.grid.z],
            block: [self.block.x, self.block.y, self.block.z],
            dynamic_lds_size: self.dynamic_lds_size,
            kernarg: self.arguments.as_ptr().cast(),
            kernarg_size: self.arguments.size(),
            check_access,
        };
        let twin = &self.kernel.twin;
        if let Some(code_object) = twin.code_object.get()
            && executor::execute(&launch, code_object, self.kernel.lds_size) == Handled::Yes
        {
            return;
        }
        let name = self.kernel.name();
        let Some(function) = *twin.function.get_or_init(|| find(name)) else {
            counters::missed_twin(name);
            return;
        };
        // SAFETY: a twin's name guarantees this signature; the launch outlives the call.
        unsafe { function(&raw const launch) };
    }
}

/// Checks whether one allocation contains the whole range. If not, that is a device fault.
extern "C" fn check_access(address: *const c_void, size: usize) -> c_int {
    boundary::value(-1, || {
        let range = runtime::get().memory.find(address as usize);
        if range.is_some_and(|range| range.size_from(address as usize) >= size) {
            return 0;
        }
        fault::raise(HipError::IllegalAddress.code());
        HipError::IllegalAddress.code() as c_int
    })
}

/// Searches the named libraries first, then all symbols of the process.
fn find(kernel: &str) -> Option<Function> {
    let symbol = format!("hip_sim_twin_{kernel}");
    let process = Library::this();
    libraries().iter().chain([&process]).find_map(|library| {
        // SAFETY: as in `Dispatch::run`, the name guarantees the signature.
        let found = unsafe { library.get::<Function>(&symbol) };
        found.ok().map(|function| *function)
    })
}

/// The libraries that `HIP_SIM_TWINS` names, opened once and never closed.
fn libraries() -> &'static [Library] {
    static LIBRARIES: OnceLock<Vec<Library>> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let open = |path: &std::path::PathBuf| {
            // SAFETY: the library's constructors run, as setting the variable requests.
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
                .inspect_err(|error| eprintln!("hip-sim: HIP_SIM_TWINS: {error}"))
                .ok()
        };
        config::get().twins.iter().filter_map(open).collect()
    })
}
