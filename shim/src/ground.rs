//! What every part of the shim stands on. Nothing here knows a HIP call, a queue or a controller.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `counters` | what the summary counts |
//! | `outcome` | what becomes of a call, and why |
//! | `reentry` | threads that are inside a hook already |
//! | `reserve` | memory for when the system gives none |
//! | `status` | what other processes may read of the shim |
//! | `program` | which file the process executes |
//! | `hashing` | the multiplier of all hash tables that assembly code reads |
//!
//! Environment, log, fork, `dlsym` and hints are `xsched-ground`, which the shim for CUDA shares.

pub(crate) mod counters;
pub(crate) mod hashing;
pub(crate) mod outcome;
pub(crate) mod program;
pub(crate) mod reentry;
pub(crate) mod reserve;
pub(crate) mod status;

pub(crate) use xsched_ground::{asked, dlsym, env, fork, hints, log};
