//! The executor: a library that does kernels' work from their code objects. The interface is in
//! `include/hip_sim.h`.

use core::ffi::{c_int, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::abi::hipError_t;
use crate::twin::Launch;
use crate::{config, fault};

/// `struct hip_sim_execution`
#[repr(C)]
struct Execution<'a> {
    launch: &'a Launch,
    code_object: *const c_void,
    code_object_size: usize,
    lds_size: usize,
}

const _: () = assert!(size_of::<Execution<'_>>() == 32);

/// `HIP_SIM_NOT_MINE`
const NOT_MINE: c_int = -1;

type Function = unsafe extern "C" fn(*const Execution<'_>) -> c_int;

/// Whether the executor has done a launch's work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    Yes,
    No,
}

/// Passes the launch to the executor, if there is one and it accepts. Its error is a device fault.
pub(crate) fn execute(launch: &Launch, code_object: &[u8], static_lds_size: usize) -> Handled {
    let Some(function) = function() else { return Handled::No };
    let execution = Execution {
        launch,
        code_object: code_object.as_ptr().cast(),
        code_object_size: code_object.len(),
        lds_size: static_lds_size + launch.dynamic_lds_size,
    };
    // SAFETY: a library named in `HIP_SIM_EXECUTOR` must have this signature; the arguments outlive the call.
    match unsafe { function(&raw const execution) } {
        NOT_MINE => Handled::No,
        code => {
            fault::raise(code as hipError_t);
            Handled::Yes
        }
    }
}

/// The function in the library that `HIP_SIM_EXECUTOR` names. The library is opened once and never closed.
fn function() -> Option<Function> {
    static FUNCTION: OnceLock<Option<Function>> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        let path = config::get().executor.as_ref()?;
        let open = || {
            // SAFETY: the library's constructors run, as setting the variable requests.
            let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
            // SAFETY: as in `execute`, the library must have this signature.
            let function = unsafe { library.get::<Function>("hip_sim_execute") }.map(|function| *function);
            core::mem::forget(library);
            function
        };
        open().inspect_err(|error: &libloading::Error| eprintln!("hip-sim: HIP_SIM_EXECUTOR: {error}")).ok()
    })
}
