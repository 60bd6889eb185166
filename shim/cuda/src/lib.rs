//! `libxsched_cuda.so`: stands between an application and libcuda, the driver library of CUDA.
//!
//! Preloaded into a process, it exports the functions that put work on streams, wait for it, or take streams and contexts away.
//! All calls are passed on to the process's libcuda. While their process must wait, launches, fills and copies within devices are
//! deferred. Other calls that put work on a stream wait in place. `DESIGN.md` beside this crate says why it is built this way.
//!
//! A part uses only those below it in this table:
//!
//! | layer | module | responsible for |
//! | --- | --- | --- |
//! | entry | `entry` | how calls come in: exports, `dlsym` |
//! | decision | `hooks` | what is done with a call of each class |
//! | life | `process` | first call, fork, exit |
//! | judgement | `scheduling` | queues, streams, captures; when work may go, and what is deferred |
//! | | `controller` | the process as the queues' client sees it |
//! | | `claims`, `collectives` | claims on devices; kernels that are never suspended |
//! | | `rules` | how calls are treated by the library that makes them, or by their thread's domain |
//! | | `graphs` | executable graphs that have such kernels, and those that can be deferred |
//! | | `kernels` | which calls can be deferred, and parameters of kernels |
//! | device | `device` | libcuda as the device of queues |
//! | | `gate`, `marker` | gates and their trials; events of the shim's own |
//! | | `command` | deferred calls, and failures of them |
//! | | `status` | the gates of contexts, and what else `doctor --pid` reads |
//! | | `registration` | which context has which mapping of a gate page |
//! | knowledge | `seen` | answers that most launches need, without a lock |
//! | | `green` | green contexts and what stands behind them |
//! | | `driver` | the real functions |
//! | lists | `counters`, `api` | what the summary counts; the one list of functions |
//!
//! Queues, gates and the client of the arbiter are `xsched-xqueue`, which the shim for HIP uses too.

use xsched_preload::memory::OwnMemory;

mod api;
mod claims;
mod collectives;
mod command;
mod controller;
mod counters;
mod device;
mod driver;
mod entry;
mod gate;
mod graphs;
mod green;
mod hooks;
mod kernels;
mod marker;
mod process;
mod registration;
mod rules;
mod scheduling;
mod seen;
mod status;
#[cfg(feature = "test-switches")]
mod test_suspension;

#[global_allocator]
static MEMORY: OwnMemory = OwnMemory;
