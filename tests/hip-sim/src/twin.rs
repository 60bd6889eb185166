//! Twins: C functions that do a kernel's work on the CPU. The interface is in `include/hip_sim.h`.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, OnceLock};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::executor::{self, Handled};
use crate::{config, counters};

/// `struct hip_sim_launch`
#[repr(C)]
pub(crate) struct Launch {
    pub(crate) name: *const c_char,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) dynamic_lds_size: usize,
    pub(crate) kernarg: *const c_void,
    pub(crate) kernarg_size: usize,
    pub(crate) check_access: extern "C" fn(*const c_void, usize) -> c_int,
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

    /// Lets the executor or the twin do the work of a kernel, or counts that there is neither.
    pub(crate) fn run(&self, kernel: &str, lds_size: usize, launch: &Launch) {
        if let Some(code_object) = self.code_object.get()
            && executor::execute(launch, code_object, lds_size) == Handled::Yes
        {
            return;
        }
        let Some(function) = *self.function.get_or_init(|| find(kernel)) else {
            counters::missed_twin(kernel);
            return;
        };
        // SAFETY: a twin's name guarantees this signature; the launch outlives the call.
        unsafe { function(launch) };
    }
}

/// Searches the named libraries first, then all symbols of the process.
fn find(kernel: &str) -> Option<Function> {
    let symbol = format!("hip_sim_twin_{kernel}");
    let process = Library::this();
    libraries().iter().chain([&process]).find_map(|library| {
        // SAFETY: as in `Twin::run`, the name guarantees the signature.
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
