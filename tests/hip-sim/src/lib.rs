//! A simulated `libamdhip64`: HIP's functions, symbol versions and host-side rules, with a device made of threads.
//!
//! Built as a static library and linked once per HIP major (see `README.md`). The path of a call:
//!
//! 1. `trampolines`: the exported symbol jumps through a dispatch table and leaves the arguments untouched.
//!    The very first call goes through `first_call`, which offers the table to a profiling tool
//!    (`registration`) before it activates it.
//! 2. `api`: the tables, with the functions implemented here and counting fallbacks.
//! 3. A module named after HIP's noun (`launch`, `copy`, `stream`, ..): checks and converts, inside
//!    `boundary`.
//! 4. `engine`: in-order queues on real threads, and a timeline for the device. It knows nothing of HIP.
//! 5. `twin`: a kernel's work on the CPU, which reads the marshalled argument buffer.
//!
//! State is static: two copies of the library in one process are two runtimes.

mod abi;
mod api;
mod array;
mod boundary;
mod capture;
mod code_object;
mod config;
mod context;
mod copy;
mod copy_time;
mod counters;
mod device;
mod devices;
mod durations;
mod engine;
mod error;
mod event;
mod execution_log;
mod executor;
mod fat_binary;
mod fault;
mod first_call;
mod fork;
mod function;
mod graph;
mod handles;
mod host_function;
#[cfg(test)]
mod isolated;
mod kernel;
mod launch;
mod library;
mod memory;
mod module;
mod occupancy;
mod operation;
mod peer;
mod pointer;
mod proc_address;
mod properties;
mod registration;
mod runtime;
mod set;
mod stream;
mod stream_value;
mod symbol;
mod trampolines;
mod twin;
mod version;
