//! A machine with simulated devices that one measurement has for itself, and who schedules it.

use std::{
    cell::{RefCell, RefMut},
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use tempfile::TempDir;
use xsched_tests::{artifacts::app_command, bench::Goal, execution_log::Timeline};

use crate::{
    Result,
    client::{Client, Plan, Standing},
    controller::{self, Controller, Scheduling},
};

/// Who decides what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Regime {
    /// The device alone: its hardware queues take turns.
    Native,
    /// The scheduler, which stops launching.
    Level1,
    /// The scheduler, which also gates what is queued.
    Level2,
}

/// Level 1 makes no promise where kernels are shorter: a thread must wake for every other of them.
const LEVEL_1_FROM_US: u32 = 100;
/// What preemption may take beyond the kernels that are ahead.
const REACTION_US: f64 = 10.0;

impl Regime {
    /// All that this machine can show, the one first that others are compared with.
    pub(crate) fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Regime>> = OnceLock::new();
        ALL.get_or_init(|| match controller::try_out() {
            Ok(()) => vec![Self::Native, Self::Level1, Self::Level2],
            Err(error) => {
                eprintln!("bench-sched: native rows only: {error}");
                vec![Self::Native]
            }
        })
    }

    /// What the rows call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Level1 => "level 1",
            Self::Level2 => "level 2",
        }
    }

    /// Those of use where the kernels to give way take this long.
    pub(crate) fn for_kernels_of(kernel_us: u32) -> Vec<Self> {
        let is_of_use = |regime: &Self| *regime != Self::Level1 || kernel_us >= LEVEL_1_FROM_US;
        Self::all().iter().copied().filter(is_of_use).collect()
    }

    fn level(self) -> Option<u32> {
        match self {
            Self::Native => None,
            Self::Level1 => Some(1),
            Self::Level2 => Some(2),
        }
    }

    /// Kernels of the others that may be ahead of urgent work; none natively, where nobody promises anything.
    pub(crate) fn kernels_ahead(self) -> Option<f64> {
        match self {
            Self::Native => None,
            Self::Level1 => Some(2.0),
            Self::Level2 => Some(1.0),
        }
    }

    /// Of the kernels that start after urgent work is there: at level 2 only the running one is ahead.
    pub(crate) fn count_goal(self) -> Option<Goal> {
        match self {
            Self::Native => None,
            Self::Level1 => Some(Goal::ValueAtMost(2.0)),
            Self::Level2 => Some(Goal::ValueAtMost(0.0)),
        }
    }

    /// A goal of every regime that schedules.
    pub(crate) fn scheduled(self, goal: Goal) -> Option<Goal> {
        self.level().map(|_| goal)
    }

    /// Of the time for which urgent work waits for kernels of this time.
    pub(crate) fn latency_goal(self, kernel_us: u32) -> Option<Goal> {
        Some(Goal::ValueAtMost(self.kernels_ahead()? * f64::from(kernel_us) + REACTION_US))
    }
}

/// See the module.
pub(crate) struct Node {
    controller: Option<RefCell<Controller>>,
    /// In memory: processes append to the log there.
    folder: TempDir,
    name: String,
    devices: u32,
}

impl Node {
    /// With one device, under fixed priorities.
    pub(crate) fn new(regime: Regime) -> Result<Self> {
        Self::with(regime, "priority", 1)
    }

    pub(crate) fn with(regime: Regime, policy: &'static str, devices: u32) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-sched-{}-{number}", std::process::id());
        let folder = tempfile::tempdir_in("/dev/shm")?;
        let scheduling = regime.level().map(|level| Scheduling { policy, level });
        let controller =
            scheduling.map(|scheduling| Controller::start(folder.path(), scheduling)).transpose()?;
        Ok(Self { controller: controller.map(RefCell::new), folder, name, devices })
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("executions")
    }

    /// Starts clients, which are ready then and do nothing yet.
    pub(crate) fn start(&self, plans: &[(Plan, Standing)]) -> Result<Vec<Client>> {
        let clients =
            plans.iter().map(|(plan, standing)| self.spawn(plan, *standing)).collect::<Result<Vec<_>>>()?;
        if let Some(controller) = &self.controller {
            // Who has not used the device has had no reason to join.
            let users = plans.iter().filter(|(plan, _)| !plan.is_cold).count();
            let mut controller = controller.borrow_mut();
            controller.wait_for_clients(users)?;
            let of_users = plans.iter().zip(&clients).filter(|((plan, _), _)| !plan.is_cold);
            of_users.map(|(_, client)| client.pid()).try_for_each(|pid| controller.wait_for_sight(pid))?;
        }
        Ok(clients)
    }

    /// Starts one, whether the controller sees it or not.
    pub(crate) fn spawn(&self, plan: &Plan, standing: Standing) -> Result<Client> {
        let arguments = plan.arguments();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut command = app_command("sched_client", &arguments);
        if let Some(controller) = &self.controller {
            command = controller.borrow().command(standing, &command);
        }
        if let Some(device) = plan.visible {
            command.env("HIP_VISIBLE_DEVICES", device.to_string());
        }
        command
            .env("HIP_SIM_SHARED", &self.name)
            .env("HIP_SIM_DEVICES", self.devices.to_string())
            .env("HIP_SIM_DURATIONS", "device_step=arg1us")
            .env("HIP_SIM_EXECUTION_LOG", self.log());
        Client::start(&mut command)
    }

    /// Who schedules it.
    pub(crate) fn controller(&self) -> Result<RefMut<'_, Controller>> {
        Ok(self.controller.as_ref().ok_or("nobody schedules natively")?.borrow_mut())
    }

    /// What its devices have done so far.
    pub(crate) fn timeline(&self) -> Result<Timeline> {
        Ok(Timeline::read(&self.log())?)
    }
}
