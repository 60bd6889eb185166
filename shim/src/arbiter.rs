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
mod client;
mod descriptors;
mod hints;
mod link;
mod local;
mod page;
mod report;
mod seat;
mod socket;
mod told;
mod watcher;

use std::sync::Arc;

use crate::xqueue::{Device, XQueues};

pub(crate) use page::{PageError, check_seals};
pub(crate) use told::{tell_domain, tell_kernel};

/// In a forked child: everything here is its parent's.
pub(crate) fn begin_afresh() {
    descriptors::begin_afresh();
    told::begin_afresh();
}

/// Starts the watcher of these queues.
pub(crate) fn start<D: Device>(queues: &Arc<XQueues<D>>) {
    // Without a thread there is no controller for this process.
    let _ = watcher::start(queues);
}
