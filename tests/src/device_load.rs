//! Processes that put load on the simulated device: `tests/apps/device_load`. Its source lists the modes.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::artifacts::app_command;

/// One such process; killed when dropped.
pub struct DeviceLoad {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The values that a process printed at its end, by name; times are in microseconds.
pub type Findings = BTreeMap<String, f64>;

/// The command for a mode such as `single --launches 10`, on a device of this name. The kernel's argument is its duration.
#[must_use]
pub fn command(device: &str, mode: &str) -> Command {
    let arguments: Vec<_> = mode.split(' ').collect();
    let mut command = app_command("device_load", &arguments);
    command.env("HIP_SIM_SHARED", device).env("HIP_SIM_DURATIONS", "device_step=arg1us");
    command
}

impl DeviceLoad {
    /// Starts a process and waits until it is ready to begin.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or ends before it is ready.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("device_load has no pipes"));
        };
        let mut load = Self { child, input, output: BufReader::new(output) };
        load.await_ready()?;
        Ok(load)
    }

    /// Waits until it is ready, which some say more than once.
    ///
    /// # Errors
    ///
    /// If it says something else, or ends.
    pub fn await_ready(&mut self) -> io::Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line == "ready\n" { Ok(()) } else { Err(io::Error::other("device_load is not ready")) }
    }

    /// Makes it start its work.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn begin(&mut self) -> io::Result<()> {
        self.input.write_all(b"\n")
    }

    /// Process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    ///
    /// # Errors
    ///
    /// If the kernel does not report its state.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for its end. Lines whose value is not a number are ignored.
    ///
    /// # Errors
    ///
    /// If it failed.
    pub fn findings(mut self) -> io::Result<Findings> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(io::Error::other(format!("device_load ended with {status}: {text}")));
        }
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Ok(lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }
}

impl Drop for DeviceLoad {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

/// Starts one process for each command, makes them all start work at the same time, and waits for all.
///
/// # Errors
///
/// If one of them failed.
pub fn run_all(commands: &mut [Command]) -> io::Result<Vec<Findings>> {
    let mut loads = commands.iter_mut().map(DeviceLoad::start).collect::<Result<Vec<_>, _>>()?;
    loads.iter_mut().try_for_each(DeviceLoad::begin)?;
    loads.into_iter().map(DeviceLoad::findings).collect()
}
