//! The process's part of the arbiter: it says what it uses, and learns who must give way.
//!
//! ```text
//!   application's threads            watcher (one thread)                       controller
//!   claim a device -------alarm----> connects, opens a queue ---socket--------> Opened
//!   report: has work --------------------probe, or socket-------------------->  arbiter
//!   read the page before launching <-----mapped memory------------------------  arbiter
//!                                    looks at markers, renews leases,
//!                                    wakes those that wait <------epoll-------  masks changed
//! ```
//!
//! Nothing here is needed for a program to run: without a controller, or with one that ends, is stopped or lies, everything
//! is launched as if the shim were not there. The application's threads never wait for the controller.

mod account;
mod conversation;
mod descriptors;
mod host;
mod link;
mod local;
mod page;
mod report;
mod seat;
mod settings;
mod socket;
mod watcher;

use std::sync::Arc;

use crate::queues::{Device, XQueues};

pub(crate) use descriptors::begin_afresh;

pub use host::{HandedOut, Host, Library};
pub use page::{PageError, check_seals};
pub use settings::{SchedulerChoice, Settings};
pub use socket::Socket;

/// Starts the watcher of these queues.
pub fn start<D: Device>(queues: &Arc<XQueues<D>>, settings: Settings, host: Box<dyn Host>) {
    // Without a thread there is no controller for this process.
    let _ = watcher::start(queues, settings, host);
}
