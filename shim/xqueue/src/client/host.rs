//! What the client needs of the library that the queues are built into.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use xsched_protocol::probe::Runtime;
use xsched_protocol::shim_status::ShimScheduling;

use crate::client::arbiter_page::PageError;
use crate::client::connection::Connection;
use crate::origins::Origin;

/// The process as the client sees it, besides its queues.
///
/// All functions are called on the watcher's thread, which holds none of this crate's locks meanwhile. They may take a moment,
/// but not wait for the controller, or for threads that may wait for it.
pub trait Host: Send + 'static {
    /// The runtime whose calls the library sees. The controller tells the connections of one process apart by it.
    fn runtime(&self) -> Runtime;

    /// The watcher's thread begins: its calls of the runtime are none of the application's.
    fn enter(&self);

    /// There is a controller at the other end from now on. None: there is none, and the process decides about calls by itself.
    /// Called with None at every failed attempt to reach a controller, too.
    fn connect(&self, connection: Option<Arc<Connection>>);

    /// What schedules the process from now on, or why no controller does.
    fn scheduled_by(&self, what: ShimScheduling);

    /// Another controller is there: what numbers of libraries stand for is forgotten.
    fn forget_origins(&self);

    /// A recording of the process begins. A tracer that has come just now has seen none of its calls.
    fn recording_begins(&self) {}

    /// Programs decide about calls from now on, and leave their answers on this page.
    ///
    /// # Errors
    /// It cannot be mapped: the connection ends.
    fn set_verdicts(&self, page: &OwnedFd) -> Result<(), PageError>;

    /// The controller's rules are these from now on.
    fn set_rules(&self, rules: ControllerRules);

    /// The process may record calls in the memory for them in this file, at times of [`now`](crate::now) plus so many nanoseconds;
    /// None: it is not recorded.
    fn record_calls(&self, _memory: Option<(&OwnedFd, i64)>) {}

    /// All libraries that have a number, by which queues count their time, in the order of the numbers, from 1 on.
    fn origins(&self) -> Vec<(Origin, Library)>;
}

/// What an origin's number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// The library that the controller gives this number.
    Controllers(u32),
    /// A file name that this process has found itself.
    Own(String),
}

/// A controller's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerRules {
    /// As they are written.
    pub text: String,
    /// Names of this process's user.
    pub users: Vec<String>,
    /// Number of the first; 0: they have none.
    pub first: u16,
}
