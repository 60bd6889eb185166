//! Starts the calling processes, with the shim or without, and reads their findings.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use xsched_tests::artifacts::{hip_sim, shim, switchable_shim};
use xsched_tests::serving::Serving;

use crate::caller::ENTERED;

/// How the shim is injected into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Without the shim.
    Absent,
    /// Preloaded, with a runtime that passes no tables to tools.
    Symbols,
    /// Preloaded, and given the runtime's tables.
    Tables,
    /// Named to the runtime as a tool, and given its tables.
    TablesAlone,
}

impl Way {
    /// The way's name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Absent => "without the shim",
            Self::Symbols => "symbols",
            Self::Tables => "tables",
            Self::TablesAlone => "tables alone",
        }
    }
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Calls every function while nothing is suspended.
    Calls,
    /// Launches on a stream of its own while nothing is suspended.
    Launches,
    /// The same after a signal to begin, because a controller has to know the process first.
    LaunchesWhenSignalled,
    /// Has launched once, and waits.
    IdleNeighbour,
    /// Launches likewise while the process is suspended.
    DeferredLaunches,
    /// The same beside a stream of another priority, both being scheduled.
    DeferredLaunchesBesideOthers,
    /// Launches by several threads while nothing is suspended.
    Threads,
    /// The same while another stream is suspended.
    ThreadsBesideSuspendedStream,
    /// Launches by many threads after a signal to begin, each on a stream of its own.
    ManyThreads,
    /// The same on so many streams that each thread has dozens, which it uses in turn.
    ManyThreadsAndStreams,
}

impl Scenario {
    const ALL: [Self; 10] = [
        Self::Calls,
        Self::Launches,
        Self::LaunchesWhenSignalled,
        Self::IdleNeighbour,
        Self::DeferredLaunches,
        Self::DeferredLaunchesBesideOthers,
        Self::Threads,
        Self::ThreadsBesideSuspendedStream,
        Self::ManyThreads,
        Self::ManyThreadsAndStreams,
    ];

    /// How long the shim defers launches at a time: many times the cost of deferring them.
    pub(crate) const HELD: Duration = Duration::from_millis(100);

    /// The scenario's name on the command line.
    fn word(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Launches => "launches",
            Self::LaunchesWhenSignalled => "launches-when-told",
            Self::IdleNeighbour => "company",
            Self::DeferredLaunches => "held-launches",
            Self::DeferredLaunchesBesideOthers => "held-launches-beside-others",
            Self::Threads => "threads",
            Self::ThreadsBesideSuspendedStream => "threads-beside-held-stream",
            Self::ManyThreads => "many-threads",
            Self::ManyThreadsAndStreams => "many-threads-and-streams",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.word() == word)
    }

    /// The library that is measured: the one that users have, unless it must be told to suspend something.
    fn shim(self) -> PathBuf {
        if self.suspension().is_some() { switchable_shim() } else { shim() }
    }

    /// The shim's setting for what to suspend.
    fn suspension(self) -> Option<String> {
        match self {
            Self::Calls
            | Self::Launches
            | Self::LaunchesWhenSignalled
            | Self::IdleNeighbour
            | Self::Threads
            | Self::ManyThreads
            | Self::ManyThreadsAndStreams => None,
            Self::DeferredLaunches | Self::DeferredLaunchesBesideOthers => {
                Some(format!("held:{}", Self::HELD.as_millis()))
            }
            // Until the process has ended.
            Self::ThreadsBesideSuspendedStream => Some("held-stream:60000".to_owned()),
        }
    }
}

/// Findings of a process: names and nanoseconds, in its order.
pub(crate) type Findings = Vec<(String, f64)>;

/// Runs a process and checks that its calls enter the right library first.
pub(crate) fn measure(way: Way, scenario: Scenario) -> Result<Findings, Box<dyn Error>> {
    heard(way, scenario, &command(way, scenario)?.output()?)
}

/// Runs a process that launches after it, and all others there, have joined a controller.
pub(crate) fn measure_under(
    controller: &Serving,
    way: Way,
    scenario: Scenario,
    others: usize,
) -> Result<Findings, Box<dyn Error>> {
    let mut caller = command(way, scenario)?;
    let caller = caller.env(SOCKETS, controller.folder()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut caller = caller.stderr(Stdio::piped()).spawn()?;
    let joined = controller.wait_for_queues(others + 1);
    // It begins at the end of its input.
    drop(caller.stdin.take());
    let output = caller.wait_with_output()?;
    joined?;
    heard(way, scenario, &output)
}

/// An idle process beside the measured ones: it has a queue on the device, but no work. Ended when dropped.
pub(crate) struct IdleNeighbour(Child);

impl IdleNeighbour {
    pub(crate) fn join(controller: &Serving, way: Way, priority: i32) -> Result<Self, Box<dyn Error>> {
        let mut company = command(way, Scenario::IdleNeighbour)?;
        let company = company.env(SOCKETS, controller.folder()).stdin(Stdio::piped()).stdout(Stdio::null());
        let company = company.env("XSCHED_AUTO_XQUEUE_PRIORITY", priority.to_string());
        let company = Self(company.spawn()?);
        controller.wait_for_queues(1)?;
        Ok(company)
    }
}

impl Drop for IdleNeighbour {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The variable by which processes find their controller.
const SOCKETS: &str = "XSCHED_SOCKET_DIR";

fn command(way: Way, scenario: Scenario) -> Result<Command, Box<dyn Error>> {
    let shim = scenario.shim();
    let mut caller = Command::new(env::current_exe()?);
    caller.args([crate::CALLER, scenario.word()]).env("HIP_SIM_NULL", "1");
    for variable in [
        "LD_PRELOAD",
        "ROCPROFILER_REGISTER_LIBRARY",
        "ROCPROFILER_REGISTER_ENABLED",
        "XSCHED_TEST_SUSPEND",
        "XSCHED_SCHEDULER",
    ] {
        caller.env_remove(variable);
    }
    match way {
        Way::Absent => &mut caller,
        Way::Symbols => caller.env("LD_PRELOAD", &shim).env("ROCPROFILER_REGISTER_ENABLED", "0"),
        Way::Tables => caller.env("LD_PRELOAD", &shim),
        Way::TablesAlone => caller.env("ROCPROFILER_REGISTER_LIBRARY", &shim),
    };
    if let Some(suspension) = scenario.suspension() {
        caller.env("XSCHED_TEST_SUSPEND", suspension);
    }
    if scenario == Scenario::DeferredLaunchesBesideOthers {
        caller.env("XSCHED_SCHEDULER", "LCL");
    }
    Ok(caller)
}

/// The findings of a process that has ended.
fn heard(way: Way, scenario: Scenario, output: &Output) -> Result<Findings, Box<dyn Error>> {
    let (shim, runtime) = (scenario.shim(), hip_sim(6).join("libamdhip64.so.6"));
    let entered = if matches!(way, Way::Symbols | Way::Tables) { &shim } else { &runtime };
    if !output.status.success() {
        return Err(format!("caller: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    read(str::from_utf8(&output.stdout)?, entered)
}

fn read(said: &str, expected: &Path) -> Result<Findings, Box<dyn Error>> {
    let expected = expected.canonicalize()?;
    let mut findings = Findings::new();
    for line in said.lines() {
        let (name, value) = line.split_once('\t').ok_or("caller: a line without fields")?;
        if name != ENTERED {
            findings.push((name.to_owned(), value.parse()?));
        } else if PathBuf::from(value).canonicalize()? != expected {
            return Err(format!("a call entered {value}, not {}", expected.display()).into());
        }
    }
    Ok(findings)
}

/// The values of a finding, one pair for each round.
pub(crate) fn pairs(rounds: &[(Findings, Findings)], name: &str) -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
    let find = |findings: &Findings| {
        let findings: BTreeMap<_, _> = findings.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        findings.get(name).copied().ok_or_else(|| format!("caller: no finding `{name}`"))
    };
    Ok(rounds
        .iter()
        .map(|(without, with)| Ok((find(without)?, find(with)?)))
        .collect::<Result<_, String>>()?)
}
