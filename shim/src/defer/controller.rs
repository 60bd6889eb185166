//! What the controller sends to the shim, besides what concerns queues, and everything that a new controller is sent.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_protocol::shim_status::ShimScheduling;
use xsched_protocol::wire::Verdicts;
use xsched_xqueue::{Connection, ControllerRules, Device, Host, Library, Origin, PageError, XQueues};

use crate::ground::asked;
use crate::ground::hints;
use crate::ground::reentry::stay_inside;
use crate::ground::status::xsched_shim_status;
use crate::verdict::{self, connection, domain};

/// Starts the watcher of these queues, which talks to the controller.
pub(crate) fn start<D: Device>(queues: &Arc<XQueues<D>>) {
    xsched_xqueue::start_client(queues, hints::settings(), Box::new(Shim));
}

/// The shim, as the queues' client sees it.
struct Shim;

impl Host for Shim {
    fn enter(&self) {
        stay_inside();
    }

    fn connect(&self, connection: Option<Arc<Connection>>) {
        asked::connect(connection.as_ref());
        let is_alone = connection.is_none();
        connection::set(connection);
        if is_alone {
            verdict::controller_gone();
        }
    }

    fn scheduled_by(&self, what: ShimScheduling) {
        xsched_shim_status.scheduling.store(what as u32, Ordering::Relaxed);
    }

    fn forget_origins(&self) {
        verdict::forget_origins();
    }

    fn set_verdicts(&self, page: &OwnedFd, packet: Verdicts) -> Result<(), PageError> {
        if verdict::use_programs(page, packet)? {
            send_all();
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

/// The controller decides about calls from now on: sends it everything that was sent to an earlier one.
fn send_all() {
    connection::send_rules(&verdict::own_rules());
    for (path, domain) in domain::of_libraries() {
        connection::send_domain(&path, domain);
    }
    for (number, name) in verdict::kernel_names() {
        connection::send_kernel(number, &name);
    }
}
