//! A library that does kernels' work from their code objects. The interface is `include/hip_sim.h`.

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

/// Whether the executor has taken a launch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    Yes,
    No,
}

/// Has the executor do it, if there is one and it wants to. Its error is a fault of the device.
pub(crate) fn execute(launch: &Launch, code_object: &[u8], static_lds_size: usize) -> Handled {
    let Some(function) = function() else { return Handled::No };
    let execution = Execution {
        launch,
        code_object: code_object.as_ptr().cast(),
        code_object_size: code_object.len(),
        lds_size: static_lds_size + launch.dynamic_lds_size,
    };
    // SAFETY: whoever names the library promises this signature; what is passed outlives the call.
    match unsafe { function(&raw const execution) } {
        NOT_MINE => Handled::No,
        code => {
            fault::raise(code as hipError_t);
            Handled::Yes
        }
    }
}

/// What `HIP_SIM_EXECUTOR` names, opened once and never closed.
fn function() -> Option<Function> {
    static FUNCTION: OnceLock<Option<Function>> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        let path = config::get().executor.as_ref()?;
        let open = || {
            // SAFETY: the library's constructors run, which is what whoever sets the variable asks for.
            let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
            // SAFETY: as in `execute`, the name is a promise of the signature.
            let function = unsafe { library.get::<Function>("hip_sim_execute") }.map(|function| *function);
            core::mem::forget(library);
            function
        };
        open().inspect_err(|error: &libloading::Error| eprintln!("hip-sim: HIP_SIM_EXECUTOR: {error}")).ok()
    })
}
