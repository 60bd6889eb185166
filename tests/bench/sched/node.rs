//! A machine with simulated devices that one measurement has for itself, and who schedules it.

use std::{
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use tempfile::TempDir;
use xsched_tests::{artifacts::app_command, bench::Goal};

use crate::{
    Result,
    client::{Client, Plan},
    truth::Truth,
};

/// Who decides what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Regime {
    /// The device alone: its hardware queues take turns.
    Native,
}

impl Regime {
    /// What the rows call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
        }
    }

    /// All that there are, the one first that others are compared with.
    pub(crate) const ALL: [Self; 1] = [Self::Native];

    /// Those of use where the kernels to give way take this long.
    pub(crate) fn for_kernels_of(_kernel_us: u32) -> Vec<Self> {
        Self::ALL.to_vec()
    }

    /// Kernels of the others that may be ahead of urgent work; none natively, where nobody promises anything.
    pub(crate) fn kernels_ahead(self) -> Option<f64> {
        match self {
            Self::Native => None,
        }
    }

    /// A goal of every regime that schedules.
    pub(crate) fn scheduled(self, goal: Goal) -> Option<Goal> {
        self.kernels_ahead().map(|_| goal)
    }

    /// Of the time beyond alone for which urgent work waits for kernels of this time.
    pub(crate) fn latency_goal(self, kernel_us: u32) -> Option<Goal> {
        Some(Goal::ValueAtMost(self.kernels_ahead()? * f64::from(kernel_us) + 10.0))
    }

    /// Of the kernels that start after urgent work is there.
    pub(crate) fn count_goal(self) -> Option<Goal> {
        match self {
            Self::Native => None,
        }
    }
}

/// How urgent a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    High,
    Normal,
    Low,
}

/// See the module.
pub(crate) struct Node {
    regime: Regime,
    /// In memory: processes append to the log there.
    folder: TempDir,
    name: String,
    devices: u32,
}

impl Node {
    pub(crate) fn new(regime: Regime, devices: u32) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-sched-{}-{number}", std::process::id());
        Ok(Self { regime, folder: tempfile::tempdir_in("/dev/shm")?, name, devices })
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("executions")
    }

    /// Starts a client, which is ready then and does nothing yet.
    pub(crate) fn start(&self, plan: &Plan, _urgency: Urgency) -> Result<Client> {
        let arguments = plan.arguments();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut command: Command = match self.regime {
            Regime::Native => app_command("sched_client", &arguments),
        };
        command
            .env("HIP_SIM_SHARED", &self.name)
            .env("HIP_SIM_DEVICES", self.devices.to_string())
            .env("HIP_SIM_DURATIONS", "device_step=arg1us")
            .env("HIP_SIM_EXECUTION_LOG", self.log());
        Client::start(&mut command)
    }

    /// What its devices have done so far.
    pub(crate) fn truth(&self) -> Result<Truth> {
        Truth::read(&self.log())
    }
}
