//! XQueues: software queues in front of a device's streams, and what a process and its controller tell each other of them.
//!
//! The crate knows no runtime. A back end for one implements [`Device`], which launches commands and looks at what has
//! completed, and [`Host`], which passes on what the controller says of calls; then it puts each command through
//! [`XQueues`]. `libxsched_shim.so` is the back end for HIP.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `device` | what queues ask of a runtime: the contract of a back end |
//! | `queues` | queues that hold commands back, their claims and gates, and what they know of the device |
//! | `client` | what the process and the controller tell each other, and the thread that does it |
//! | `gate_page` | a gate in memory that the arbiter shares with the process |
//! | `journal` | events, while somebody records |
//! | `clock` | the time by which launches and completions are followed |
//! | `threads` | threads that an application does not notice |
//! | `trouble` | what goes wrong without anybody's being told |
//! | `planted` | bugs for tests to find |
//!
//! Unsafe code is in the modules that map shared memory or call the C library where nothing safe does what is needed:
//! `gate_page`, `journal`, `threads`, `client::{descriptors, page, report, socket}`; the compiler refuses it elsewhere.

#![deny(unsafe_code)]

mod client;
mod clock;
mod device;
mod gate_page;
mod journal;
mod planted;
mod queues;
pub mod threads;
mod trouble;

pub use client::{
    HandedOut, Host, Library, PageError, SchedulerChoice, Settings, Socket, check_seals,
    start as start_client,
};
pub use clock::now;
pub use device::Device;
pub use gate_page::GatePage;
pub use planted::Bugs;
pub use queues::{
    Admission, Begun, ClaimId, ClaimKey, Class, Course, Demand, End, Face, Judged, Load, Origin, Position,
    QueueId, Refused, Setup, Treatment, Usage, XQueues,
};
pub use trouble::Trouble;

/// In a forked child: connection and threads are its parent's. Async-signal-safe.
pub fn begin_afresh() {
    client::begin_afresh();
    journal::begin_afresh();
}
