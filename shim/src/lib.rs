//! `libxsched_shim.so`: stands between an application and its HIP runtime.
//!
//! Preloaded into a process, it exports every function of HIP's API, counts each call, lets a hook look at
//! those that concern the order of streams, and forwards all of them to the runtime copy that the caller
//! would have reached without it. `DESIGN.md` beside this crate says why it is built this way.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `api` | the one list of functions |
//! | `abi` | HIP's types and how the C ABI passes them |
//! | `exports` | the exported symbols |
//! | `gate` | the way from a symbol into Rust and on to the real function |
//! | `hooks` | what is decided about a call |
//! | `replay` | calling a real function with the arguments of a stopped call |
//! | `controller` | what the controller and the shim tell each other, besides the queues |
//! | `defer` | which calls are held back, which wait in place, and how |
//! | `domain` | what programs and libraries say of their own calls |
//! | `verdict` | how the calls of different callers are treated |
//! | `kernels` | how the arguments of kernels lie in memory |
//! | `test_suspension`, `planted` | the scheduler of tests, and bugs for them to find |
//! | `reserve` | memory for when the system gives none |
//! | `runtime` | which real function a caller reaches |
//! | `sites` | what is known about call sites |
//! | `instances` | the runtime copies, and by which way the calls of each are seen |
//! | `table` | the dispatch tables of runtimes that have them |
//! | `lookup` | functions that programs look up by name |
//! | `status` | what others may read of the shim |
//! | `counters`, `summary`, `log` | what is counted, said and written |
//! | `env` | the environment variables |
//! | `process` | first call, fork, exit |
//!
//! Queues that hold commands back, and their way to the arbiter, are a crate of their own that knows no HIP: `xsched-xqueue`.
//!
//! The crate has no Rust interface: its interface is the symbols of the C library that it is built into.

mod abi;
mod api;
mod controller;
mod counters;
mod defer;
mod domain;
mod env;
mod exports;
mod gate;
mod hooks;
mod instances;
mod kernels;
mod log;
mod lookup;
mod planted;
mod process;
mod replay;
mod reserve;
mod runtime;
mod sites;
mod status;
mod summary;
mod table;
mod test_suspension;
mod verdict;

use xsched_xqueue as xqueue;
