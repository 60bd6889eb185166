//! Starting the processes that call: with the shim or without, and what they found.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use xsched_tests::artifacts::{hip_sim, shim};

use crate::caller::ENTERED;

/// How the shim comes into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Not at all.
    Absent,
    /// Preloaded, with a runtime that hands out no tables.
    Symbols,
    /// Preloaded, and handed the runtime's tables.
    Tables,
    /// Named to the runtime, and handed its tables.
    TablesAlone,
}

impl Way {
    /// What the rows call it.
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
    /// Calls every function, nothing being suspended.
    Calls,
    /// Launches on a stream of its own, nothing being suspended.
    Launches,
    /// The same while the process is suspended.
    HeldLaunches,
    /// The same beside a stream of another priority, both being scheduled.
    HeldLaunchesBesideOthers,
    /// Launches by several threads, nothing being suspended.
    Threads,
    /// The same while another stream is suspended.
    ThreadsBesideHeldStream,
}

impl Scenario {
    const ALL: [Self; 6] = [
        Self::Calls,
        Self::Launches,
        Self::HeldLaunches,
        Self::HeldLaunchesBesideOthers,
        Self::Threads,
        Self::ThreadsBesideHeldStream,
    ];

    /// How long the shim holds launches back at a time: many times what holding them back takes.
    pub(crate) const HELD: Duration = Duration::from_millis(100);

    /// The word that names it to a process.
    fn word(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Launches => "launches",
            Self::HeldLaunches => "held-launches",
            Self::HeldLaunchesBesideOthers => "held-launches-beside-others",
            Self::Threads => "threads",
            Self::ThreadsBesideHeldStream => "threads-beside-held-stream",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.word() == word)
    }

    /// What the shim is told to suspend.
    fn suspension(self) -> Option<String> {
        match self {
            Self::Calls | Self::Launches | Self::Threads => None,
            Self::HeldLaunches | Self::HeldLaunchesBesideOthers => {
                Some(format!("held:{}", Self::HELD.as_millis()))
            }
            // Until the process has ended.
            Self::ThreadsBesideHeldStream => Some("held-stream:60000".to_owned()),
        }
    }
}

/// What a process found: names and nanoseconds, in its order.
pub(crate) type Findings = Vec<(String, f64)>;

/// Runs a process whose calls are expected to enter the right library first.
pub(crate) fn measure(way: Way, scenario: Scenario) -> Result<Findings, Box<dyn Error>> {
    let (shim, runtime) = (shim(), hip_sim(6).join("libamdhip64.so.6"));
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
    if scenario == Scenario::HeldLaunchesBesideOthers {
        caller.env("XSCHED_SCHEDULER", "LCL");
    }
    let entered = if matches!(way, Way::Symbols | Way::Tables) { &shim } else { &runtime };
    let output = caller.output()?;
    if !output.status.success() {
        return Err(format!("caller: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    read(&String::from_utf8(output.stdout)?, entered)
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

/// The values of a finding, one pair a round.
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
