//! Shared parts of the end-to-end tests.

pub mod arbiter;
pub mod artifacts;
pub mod bench;
pub mod bpf_objects;
pub mod browser;
pub mod call_stacks;
pub mod chains;
pub mod device_load;
pub mod execution_log;
pub mod needs;
pub mod origin;
pub mod peer;
pub mod processor_time;
pub mod serving;
pub mod small_controller;
pub mod sql;
pub mod synthetic_timeline;
pub mod tracer;
pub mod witness;
