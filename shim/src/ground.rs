//! What every part of the shim stands on. Nothing here knows a HIP call, a queue or a controller.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `env` | the environment variables |
//! | `log` | writing to the place that `XSCHED_LOG` names |
//! | `counters` | what the summary counts |
//! | `outcome` | what becomes of a call, and why |
//! | `reentry` | threads that are inside a hook already |
//! | `fork` | state that a forked child replaces |
//! | `reserve` | memory for when the system gives none |
//! | `status` | what other processes may read of the shim |
//! | `program` | which file the process executes |
//! | `dlsym` | the C library's `dlsym` |
//! | `hashing` | the multiplier of all hash tables that assembly code reads |

pub(crate) mod counters;
pub(crate) mod dlsym;
pub(crate) mod env;
pub(crate) mod fork;
pub(crate) mod hashing;
pub(crate) mod log;
pub(crate) mod outcome;
pub(crate) mod program;
pub(crate) mod reentry;
pub(crate) mod reserve;
pub(crate) mod status;
