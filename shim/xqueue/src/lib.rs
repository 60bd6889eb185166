//! XQueues: software queues in front of a device's streams, and the process's side of the arbiter.
//!
//! The crate knows no runtime. A back end implements two traits: [`Device`] launches commands and looks at what has completed
//! ([the contract](mod@device)), and [`Host`] passes on what the controller says of calls. It puts each command through
//! [`XQueues`]. `libxsched_shim.so` is the back end for HIP, `libxsched_cuda.so` the one for CUDA. `DESIGN.md` says why queues
//! work as they do.
//!
//! A module uses only those above it:
//!
//! | module | responsible for |
//! | --- | --- |
//! | `trouble`, `planted`, `tuning` | what goes wrong unseen; bugs for tests to find; what a program asks of a policy |
//! | `threads`, `clock` | threads that an application does not notice; the time of launches and completions |
//! | `ids` | names of queues, claims and commands |
//! | `launching` | the queue whose command a thread is launching |
//! | `event_writer` | scheduling events of the process, while it is recorded |
//! | `gate_page`, `registration` | a gate that the arbiter closes; a claim's registration with the arbiter |
//! | [`mod@device`] | what queues ask of a runtime: the contract of a back end |
//! | `trial` | whether a gate works: the steps that are the same for all runtimes |
//! | `origins`, `command` | the library that a command belongs to; what queues know of a command |
//! | `journal`, `status` | launches that went at once without the lock; what can be read without it |
//! | `flight` | what one source has in flight |
//! | `claim`, `queue` | one claim; one queue |
//! | `state` | all of them under one lock: parts with fields of their own, and rules |
//! | `xqueues` | [`XQueues`]: admission, deferral, launch workers, waiting callers, the watcher's part |
//! | `client` | the watcher thread, and what process and controller send each other |
//!
//! Unsafe code is in the modules that map shared memory, or call the C library where nothing safe does what is needed:
//! `gate_page`, `event_writer`, `threads`, `client::{arbiter_page, connection, descriptor, report_probe}`. The compiler refuses
//! it elsewhere.

#![deny(unsafe_code)]

mod claim;
mod client;
mod clock;
mod command;
pub mod device;
mod event_writer;
mod flight;
mod gate_page;
mod ids;
mod journal;
mod launching;
mod origins;
mod planted;
mod queue;
mod registration;
mod state;
mod status;
pub mod threads;
mod trial;
mod trouble;
mod tuning;
mod xqueues;

pub use claim::Usage;
pub use client::{
    About, Connection, ControllerRules, Host, Library, PageError, SchedulerChoice, Settings, check_seals,
    report_through, start as start_client, start_guard,
};
pub use clock::now;
pub use command::{CallState, Demand, DurationClass, KnownEnd, Load, PendingLaunch, Treatment};
pub use device::{Device, Tried};
pub use event_writer::thread_id;
pub use gate_page::GatePage;
pub use ids::{ClaimId, ClaimKey, Position, QueueHints, QueueId, RuntimeId};
pub use launching::launching_queue;
pub use origins::{Judged, Origin};
pub use planted::Bugs;
pub use state::Refused;
pub use status::{AdmissionMode, QueueStatus};
pub use trial::{Trial, TriedGate};
pub use trouble::Trouble;
pub use tuning::Tuning;
pub use xqueues::{Admission, AdmissionAtOnce, JournalledLaunch, Setup, XQueues};

/// In a forked child: connection and threads are its parent's. Async-signal-safe.
pub fn after_fork_in_child() {
    client::after_fork_in_child();
    event_writer::after_fork_in_child();
}
