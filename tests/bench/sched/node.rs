//! A machine with simulated devices for one measurement, and its scheduler.

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
    client::{Client, Parameters, Plan},
    controller::{self, Controller, Scheduling},
    result::Result,
};

/// The regime that decides what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Regime {
    /// The device alone: its hardware queues are served round-robin.
    Native,
    /// The scheduler in preemption mode 1, which stops launching.
    Mode1,
    /// The scheduler in preemption mode 2, which also gates queued commands.
    Mode2,
}

/// Mode 1 has no goal for shorter kernels, since a thread must wake for every second of them.
const MODE_1_FROM_US: u32 = 100;
/// Allowed preemption time in addition to the kernels in flight.
const REACTION_US: f64 = 10.0;

impl Regime {
    /// All regimes that this machine can run; the first is the one that others are compared with.
    pub(crate) fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Regime>> = OnceLock::new();
        ALL.get_or_init(|| match controller::try_out() {
            Ok(()) => vec![Self::Native, Self::Mode1, Self::Mode2],
            Err(error) => {
                eprintln!("bench-sched: native rows only: {error}");
                vec![Self::Native]
            }
        })
    }

    /// The regime's name in metrics, which stay comparable with earlier runs; tables say "mode".
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Mode1 => "level 1",
            Self::Mode2 => "level 2",
        }
    }

    /// The regimes that are useful if the preempted kernels have this duration.
    pub(crate) fn for_kernels_of(kernel_us: u32) -> Vec<Self> {
        let is_of_use = |regime: &Self| *regime != Self::Mode1 || kernel_us >= MODE_1_FROM_US;
        Self::all().iter().copied().filter(is_of_use).collect()
    }

    fn mode(self) -> Option<u32> {
        match self {
            Self::Native => None,
            Self::Mode1 => Some(1),
            Self::Mode2 => Some(2),
        }
    }

    /// Kernels of others that may run before urgent work; none natively, where there is no limit.
    pub(crate) fn kernels_ahead(self) -> Option<f64> {
        match self {
            Self::Native => None,
            Self::Mode1 => Some(2.0),
            Self::Mode2 => Some(1.0),
        }
    }

    /// Goal for the kernels that start after urgent work has arrived: in mode 2 only the running one precedes
    /// it.
    pub(crate) fn count_goal(self) -> Option<Goal> {
        match self {
            Self::Native => None,
            Self::Mode1 => Some(Goal::ValueAtMost(2.0)),
            Self::Mode2 => Some(Goal::ValueAtMost(0.0)),
        }
    }

    /// A goal for every regime that schedules.
    pub(crate) fn scheduled(self, goal: Goal) -> Option<Goal> {
        self.mode().map(|_| goal)
    }

    /// Goal for the time that urgent work waits for kernels of this duration.
    pub(crate) fn latency_goal(self, kernel_us: u32) -> Option<Goal> {
        Some(Goal::ValueAtMost(self.kernels_ahead()? * f64::from(kernel_us) + REACTION_US))
    }
}

/// The machine.
pub(crate) struct Node {
    controller: Option<RefCell<Controller>>,
    /// In memory, because processes append to the log there.
    folder: TempDir,
    name: String,
    devices: u32,
}

impl Node {
    /// With one device, under fixed priorities.
    pub(crate) fn new(regime: Regime) -> Result<Self> {
        Self::with(regime, "priority", 1)
    }

    /// The same, where no process gets a time slice because it was kept waiting.
    pub(crate) fn without_starvation_bound(regime: Regime) -> Result<Self> {
        Self::of(regime, "priority", 1, Some("0s"))
    }

    pub(crate) fn with(regime: Regime, policy: &'static str, devices: u32) -> Result<Self> {
        Self::of(regime, policy, devices, None)
    }

    fn of(
        regime: Regime,
        policy: &'static str,
        devices: u32,
        starvation: Option<&'static str>,
    ) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-sched-{}-{number}", std::process::id());
        let folder = tempfile::tempdir_in("/dev/shm")?;
        let scheduling = regime.mode().map(|mode| Scheduling { policy, mode, starvation });
        let controller =
            scheduling.map(|scheduling| Controller::start(folder.path(), scheduling)).transpose()?;
        Ok(Self { controller: controller.map(RefCell::new), folder, name, devices })
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("executions")
    }

    /// Starts clients, which are ready then and do nothing yet.
    pub(crate) fn start(&self, plans: &[(Plan, Parameters)]) -> Result<Vec<Client>> {
        let clients = plans
            .iter()
            .map(|(plan, parameters)| self.spawn(plan, *parameters))
            .collect::<Result<Vec<_>>>()?;
        if let Some(controller) = &self.controller {
            // A client that has not used the device has not joined.
            let users = plans.iter().filter(|(plan, _)| !plan.is_cold).count();
            let mut controller = controller.borrow_mut();
            controller.wait_for_clients(users)?;
            let of_users = plans.iter().zip(&clients).filter(|((plan, _), _)| !plan.is_cold);
            of_users
                .map(|(_, client)| client.pid())
                .try_for_each(|pid| controller.wait_for_call_chains(pid))?;
        }
        Ok(clients)
    }

    /// Starts a client, whether it joins the controller or not.
    pub(crate) fn spawn(&self, plan: &Plan, parameters: Parameters) -> Result<Client> {
        let arguments = plan.arguments();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut command = app_command("sched_client", &arguments);
        if let Some(controller) = &self.controller {
            command = controller.borrow().command(parameters, &command);
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

    /// The controller.
    pub(crate) fn controller(&self) -> Result<RefMut<'_, Controller>> {
        Ok(self.controller.as_ref().ok_or("there is no controller in the native regime")?.borrow_mut())
    }

    /// The devices' timeline so far.
    pub(crate) fn timeline(&self) -> Result<Timeline> {
        Ok(Timeline::read(&self.log())?)
    }
}
