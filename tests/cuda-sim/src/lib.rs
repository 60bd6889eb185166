//! A simulated `libcuda`: the driver's functions under their true exported names, on the simulated device of `hip-sim`.
//!
//! One device model, two runtimes: each function here checks what CUDA checks and HIP does not (a current context), and calls
//! the function of HIP that does the same. See `README.md` for what differs from the genuine library.
//!
//! 1. `export`: the macro that defines a function, its `_ptsz` or `_ptds` variant, and its entry for `cuGetProcAddress`.
//! 2. `hip`: the functions of the simulated HIP runtime, which is linked into this library and exports none of them.
//! 3. `context`: contexts and each thread's stack of them.
//! 4. One module for each noun of CUDA.

mod context;
mod device;
mod event;
mod export;
mod graph;
mod green;
mod hip;
mod launch;
mod memory;
mod module;
mod proc_address;
mod result;
mod stream;

/// Older than the first release that offers dispatch tables: a HIP tool in this process must not get this library's.
#[unsafe(no_mangle)]
static hip_sim_release: i32 = 50_600_000;
