//! The process as the client of the controller sees it, besides its queues.

mod hints;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use xsched_protocol::wire::Verdicts;
use xsched_xqueue::{Device, HandedOut, Host, Library, Origin, PageError, Socket, XQueues};

use crate::ground::reentry::stay_inside;
use crate::verdict;

/// Starts the watcher of these queues, which talks to the controller.
pub(crate) fn start<D: Device>(queues: &Arc<XQueues<D>>) {
    xsched_xqueue::start_client(queues, hints::settings(), Box::new(Shim));
}

/// This library.
struct Shim;

impl Host for Shim {
    fn enter(&self) {
        stay_inside();
    }

    fn connect(&self, connection: Option<Arc<Socket>>) {
        verdict::connect(connection);
    }

    fn forget_origins(&self) {
        verdict::forget_origins();
    }

    fn set_verdicts(&self, page: &OwnedFd, packet: Verdicts) -> Result<(), PageError> {
        verdict::begin_asking(page, packet)
    }

    fn set_rules(&self, rules: HandedOut) {
        verdict::set_rules(Some(rules));
    }

    fn origins(&self) -> Vec<(Origin, Library)> {
        verdict::origins()
    }
}
