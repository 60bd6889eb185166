//! `libxsched_shim.so`: stands between an application and its HIP runtime.
//!
//! Preloaded into a process, it exports every function of HIP's API and counts each call. A hook sees the calls that
//! concern the order of streams. All calls are forwarded to the runtime copy that the caller would have reached without
//! the shim. `DESIGN.md` beside this crate says why it is built this way.
//!
//! A part uses only those below it in this table:
//!
//! | layer | module | responsible for |
//! | --- | --- | --- |
//! | entry | `entry` | how calls come in: exports, dispatch tables, `dlsym`, scheduling domains |
//! | life | `process` | puts the parts together: first call, fork, exit |
//! | | `summary` | the report at exit |
//! | decision | `hooks` | what is done with a call before the real function gets it |
//! | | `explicit` | queues that the program itself names, fills and suspends: XSched's functions |
//! | | `defer` | which calls are deferred, which wait in place, and how |
//! | recording | `own_calls` | launches that the process records itself, for a tracer |
//! | judgement | `verdict` | how the calls of different callers are treated |
//! | device | `hip` | HIP as the device of queues, and questions to the runtime |
//! | knowledge | `kernels` | how the arguments of kernels lie in memory |
//! | | `runtime` | the runtime copies, and which real function a call reaches |
//! | lists | `api` | the one list of functions |
//! | | `abi` | HIP's types and how the C ABI passes them |
//! | process | `counters` | what the summary counts |
//! | | `status` | what other processes may read of the shim |
//! | | `outcome` | what becomes of a call, and why |
//! | | `reentry` | threads that are inside a hook already |
//! | | `thread` | what each thread has of the shim's |
//!
//! Environment, log, memory, fork, `dlsym` and hints are `xsched-preload`, which the shim for CUDA shares.
//!
//! Queues that defer commands, and their client of the arbiter, are a crate that knows no HIP: `xsched-xqueue`.
//!
//! The crate has no Rust interface: its interface is the symbols of the C library that it is built into.

use xsched_preload::memory::OwnMemory;

mod abi;
mod api;
mod counters;
mod defer;
mod entry;
mod explicit;
mod hip;
mod hooks;
mod kernels;
mod outcome;
mod own_calls;
mod planted;
mod process;
mod reentry;
mod runtime;
mod status;
mod summary;
mod thread;
mod verdict;

#[global_allocator]
static MEMORY: OwnMemory = OwnMemory;
