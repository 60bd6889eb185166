//! What the controller tells the shim about calls, and what the shim sends to each new controller.

use std::iter;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_preload::{asked, hints, kernel_names, told};
use xsched_protocol::probe::Runtime;
use xsched_protocol::shim_status::ShimScheduling;
use xsched_xqueue::{
    Connection, ControllerRules, Device, Host, Library, Origin, PageError, SchedulerChoice, Tuning, XQueues,
};

use crate::counters::{self, Trouble};
use crate::own_calls;
use crate::reentry::stay_inside;
use crate::status::xsched_shim_status;
use crate::verdict::{self, domain};

/// What schedules the process, as the program asks for and as it is.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    asked: Option<SchedulerChoice>,
    tuning: Tuning,
    started: Option<SchedulerChoice>,
}

impl Scheduler {
    /// Starts the watcher of these queues, which talks to the controller.
    pub(super) fn start<D: Device>(&mut self, queues: &Arc<XQueues<D>>) {
        let settings = hints::settings();
        let scheduler = self.asked.unwrap_or(settings.scheduler);
        let tuning = Tuning {
            slice: self.tuning.slice.or(settings.tuning.slice),
            side_by_side: self.tuning.side_by_side.or(settings.tuning.side_by_side),
        };
        self.started = Some(scheduler);
        let settings = xsched_xqueue::Settings { scheduler, tuning, ..settings };
        xsched_xqueue::start_client(queues, settings, Box::new(Shim));
    }

    /// The program asks for this scheduler. False if the process has another one already.
    pub(super) fn ask(&mut self, scheduler: SchedulerChoice) -> bool {
        if let Some(started) = self.started {
            return started == scheduler;
        }
        self.asked = Some(scheduler);
        true
    }

    /// The program tunes the policy before the process has a scheduler. False if it has one.
    pub(super) fn tune(&mut self, tuning: Tuning) -> bool {
        if self.started.is_some() {
            return false;
        }
        let Tuning { slice, side_by_side } = tuning;
        self.tuning.slice = slice.or(self.tuning.slice);
        self.tuning.side_by_side = side_by_side.or(self.tuning.side_by_side);
        true
    }

    /// What schedules the process, as far as that is decided.
    pub(super) fn choice(&self) -> SchedulerChoice {
        self.started.or(self.asked).unwrap_or_else(|| hints::settings().scheduler)
    }
}

/// The shim, as the queues' client sees it.
struct Shim;

impl Host for Shim {
    fn runtime(&self) -> Runtime {
        Runtime::Hip
    }

    fn enter(&self) {
        stay_inside();
    }

    fn connect(&self, connection: Option<Arc<Connection>>) {
        asked::connect(connection.as_ref());
        let is_alone = connection.is_none();
        told::set(connection);
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

    fn set_verdicts(&self, page: &OwnedFd) -> Result<(), PageError> {
        if verdict::use_programs(page)? {
            send_all();
        }
        Ok(())
    }

    fn set_rules(&self, rules: ControllerRules) {
        verdict::set_rules(Some(rules));
    }

    fn record_calls(&self, memory: Option<(&OwnedFd, i64)>) {
        own_calls::record(memory);
    }

    fn origins(&self) -> Vec<(Origin, Library)> {
        verdict::origins()
    }
}

/// The controller decides about calls from now on: sends it everything that was sent to an earlier one.
fn send_all() {
    let rules = iter::once(told::rules(&verdict::own_rules()));
    let domains = domain::of_libraries().into_iter().map(|(path, domain)| told::domain(&path, domain));
    let kernels = kernel_names::all().into_iter().map(|(number, name)| told::kernel(number, &name));
    for _ in rules.chain(domains).chain(kernels).filter(Result::is_err) {
        counters::trouble(Trouble::UnsentReport);
    }
}
