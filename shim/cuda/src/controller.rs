//! The process as the queues' client sees it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_preload::{asked, hints, origins, told};
use xsched_protocol::probe::Runtime;
use xsched_protocol::shim_status::ShimScheduling;
use xsched_xqueue::{Connection, ControllerRules, Host, Library, Origin, PageError, XQueues};

use crate::device::Cuda;
use crate::driver;
use crate::rules;
use crate::scheduling::SCHEDULING;
use crate::status::xsched_cuda_status;

/// Starts the watcher of these queues, which talks to the controller.
pub(crate) fn start(queues: &Arc<XQueues<Cuda>>) {
    xsched_xqueue::start_client(queues, hints::settings(), Box::new(Shim));
    xsched_xqueue::start_guard(queues);
}

/// The process, as the queues' client sees it.
struct Shim;

impl Host for Shim {
    fn runtime(&self) -> Runtime {
        Runtime::Cuda
    }

    fn enter(&self) {
        driver::ignore_captures();
    }

    fn connect(&self, connection: Option<Arc<Connection>>) {
        asked::connect(connection.as_ref());
        let is_alone = connection.is_none();
        told::set(connection);
        if is_alone {
            rules::controller_gone();
        }
    }

    fn scheduled_by(&self, by: ShimScheduling) {
        xsched_cuda_status.scheduling.store(by as u32, Ordering::Relaxed);
    }

    fn forget_origins(&self) {
        rules::forget_origins();
    }

    fn recording_begins(&self) {
        if let Some(scheduling) = SCHEDULING.existing() {
            scheduling.ask_names_again();
        }
    }

    fn set_verdicts(&self, page: &OwnedFd) -> Result<(), PageError> {
        rules::use_programs(page)
    }

    fn set_rules(&self, rules: ControllerRules) {
        rules::set(Some(rules));
    }

    fn origins(&self) -> Vec<(Origin, Library)> {
        origins::all()
    }
}
