//! The process's part of the arbiter: it reports what it uses, and learns when it is preempted.
//!
//! ```text
//!   application's threads            watcher (one thread)                       controller
//!   claim a device -------alarm----> connects, opens a queue ---socket--------> Opened
//!   report: has work --------------------probe, or socket-------------------->  arbiter
//!   read the page before launching <-----mapped memory------------------------  arbiter
//!                                    looks at markers, renews leases,
//!                                    wakes waiting threads <------epoll-------  masks changed
//! ```
//!
//! No program needs any of this to run. Without a controller, or with one that ends, is stopped or lies, everything is launched
//! as if the shim were not there. The application's threads never wait for the controller.

mod arbiter_page;
mod connection;
mod descriptor;
mod guard;
mod host;
mod link;
mod local;
mod outbox;
mod page_registration;
mod report_probe;
mod session;
mod settings;
mod usage;
mod watcher;

use std::sync::Arc;

use crate::device::Device;
use crate::xqueues::XQueues;

pub(crate) use descriptor::after_fork_in_child;

pub use arbiter_page::{PageError, check_seals};
pub use connection::Connection;
pub use guard::start_guard;
pub use host::{ControllerRules, Host, Library};
pub use outbox::About;
pub use report_probe::report_through;
pub use settings::{SchedulerChoice, Settings};

/// Starts the watcher of these queues.
pub fn start<D: Device>(queues: &Arc<XQueues<D>>, settings: Settings, host: Box<dyn Host>) {
    // Without a thread there is no controller for this process.
    let _ = watcher::start(queues, settings, host);
}
