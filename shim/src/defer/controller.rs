//! What the controller tells the shim, besides the queues, and all that it hears when it is new.

mod hints;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use xsched_protocol::wire::Verdicts;
use xsched_xqueue::{Connection, ControllerRules, Device, Host, Library, Origin, PageError, XQueues};

use crate::ground::reentry::stay_inside;
use crate::verdict::{self, connection, domain};

/// Starts the watcher of these queues, which talks to the controller.
pub(crate) fn start<D: Device>(queues: &Arc<XQueues<D>>) {
    xsched_xqueue::start_client(queues, hints::settings(), Box::new(Shim));
}

/// This library, as the queues' client sees it.
struct Shim;

impl Host for Shim {
    fn enter(&self) {
        stay_inside();
    }

    fn connect(&self, connection: Option<Arc<Connection>>) {
        let is_alone = connection.is_none();
        connection::set(connection);
        if is_alone {
            verdict::be_alone();
        }
    }

    fn forget_origins(&self) {
        verdict::forget_origins();
    }

    fn set_verdicts(&self, page: &OwnedFd, packet: Verdicts) -> Result<(), PageError> {
        if verdict::begin_asking(page, packet)? {
            tell_all();
        }
        Ok(())
    }

    fn set_rules(&self, rules: ControllerRules) {
        verdict::set_rules(Some(rules));
    }

    fn origins(&self) -> Vec<(Origin, Library)> {
        verdict::origins()
    }
}

/// The controller decides about calls from now on: it hears all that was said before.
fn tell_all() {
    connection::tell_rules(&verdict::own_rules());
    for (path, domain) in domain::of_libraries() {
        connection::tell_domain(&path, domain);
    }
    for (number, name) in verdict::kernel_names() {
        connection::tell_kernel(number, &name);
    }
}
