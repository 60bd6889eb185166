//! The modes in which a program runs: the runtime, whether the shim is in, and the shim's settings.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the shim intercepts the program's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without the shim.
    Native,
    /// Preloaded, through its symbols.
    Symbols,
    /// Through the runtime's dispatch table.
    Table,
}

/// What else uses the devices of a program's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Competition {
    /// Nothing.
    None,
    /// The streams of each device are scheduled among each other, by their priorities.
    Streams,
    /// A more urgent process that comes and goes, as simulated by the controller at [`Paths::controller`].
    Others,
}

/// One mode of running a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// HIP's major version.
    pub major: u32,
    /// How the shim intercepts calls.
    pub way: Way,
    /// Whether queues are suspended and resumed at random, from this seed.
    pub suspended: Option<u64>,
    /// Whether calls get random verdicts, from this seed: schedule, pass through, never suspend.
    pub random_verdicts: Option<u64>,
    /// What else uses the devices.
    pub competition: Competition,
    /// Name of a bug that is compiled into the shim.
    pub bug: Option<&'static str>,
}

/// Files and folders that runs need.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The folder of the clients, `differential-N`.
    pub clients: PathBuf,
    /// The library to preload.
    pub shim: PathBuf,
    /// The folder of a controller's socket, for runs beside others.
    pub controller: Option<PathBuf>,
}

const PRELOAD: &str = "LD_PRELOAD";
const TOOL: &str = "ROCPROFILER_REGISTER_LIBRARY";
const TOOLS_ENABLED: &str = "ROCPROFILER_REGISTER_ENABLED";
const SUSPEND: &str = "XSCHED_TEST_SUSPEND";
const VERDICTS: &str = "XSCHED_TEST_VERDICTS";
/// Ten times the default, because programs are short.
const SUSPENSIONS_PER_SECOND: u32 = 200_000;
const SCHEDULER: &str = "XSCHED_SCHEDULER";
const CONTROLLER: &str = "XSCHED_SOCKET_DIR";
const BUG: &str = "XSCHED_PLANTED_BUG";

impl Mode {
    /// The runtime alone.
    #[must_use]
    pub fn native(major: u32) -> Self {
        Self {
            major,
            way: Way::Native,
            suspended: None,
            random_verdicts: None,
            competition: Competition::None,
            bug: None,
        }
    }

    /// With the shim, which has nothing to schedule.
    #[must_use]
    pub fn with_shim(major: u32, way: Way) -> Self {
        Self { way, ..Self::native(major) }
    }

    /// The same while queues are suspended at random.
    #[must_use]
    pub fn suspended(self, seed: u64) -> Self {
        Self { suspended: Some(seed), ..self }
    }

    /// The same while calls get random verdicts.
    #[must_use]
    pub fn with_random_verdicts(self, seed: u64) -> Self {
        Self { random_verdicts: Some(seed), ..self }
    }

    /// The same while streams are scheduled among each other: by their priorities, with few launches in
    /// flight.
    #[must_use]
    pub fn scheduled(self) -> Self {
        Self { competition: Competition::Streams, ..self }
    }

    /// The same beside a more urgent process that comes and goes.
    #[must_use]
    pub fn beside(self) -> Self {
        Self { competition: Competition::Others, ..self }
    }

    /// Every way to inject the shim, over all runtimes; runtimes pass their tables to tools from HIP 6 on.
    #[must_use]
    pub fn all() -> Vec<Self> {
        use Way::{Symbols, Table};
        let ways = [(5, Symbols), (6, Symbols), (6, Table), (7, Symbols), (7, Table)];
        let plain = ways.map(|(major, way)| Self::with_shim(major, way));
        let suspended = plain.clone().map(|mode| mode.suspended(1));
        let random_verdicts = suspended.clone().map(|mode| mode.with_random_verdicts(1));
        [plain, suspended, random_verdicts].concat()
    }

    /// The modes in which the shim schedules: streams among each other, and the process beside others.
    #[must_use]
    pub fn scheduling() -> Vec<Self> {
        use Way::{Symbols, Table};
        let ways = [(5, Symbols), (6, Table), (7, Symbols)];
        let alone = ways.map(|(major, way)| Self::with_shim(major, way));
        let random_verdicts = alone.clone().map(|mode| mode.with_random_verdicts(1));
        let competition = alone.iter().cloned().flat_map(|mode| [mode.clone().scheduled(), mode.beside()]);
        competition.chain(random_verdicts.map(Self::beside)).collect()
    }

    /// A command that runs the client with these arguments.
    pub fn command(&self, paths: &Paths, words: &[&str]) -> Command {
        let mut command = Command::new(paths.clients.join(format!("differential-{}", self.major)));
        command.args(words);
        // Removes variables that would change what is run.
        for variable in [PRELOAD, TOOL, TOOLS_ENABLED, SUSPEND, VERDICTS, SCHEDULER, BUG] {
            command.env_remove(variable);
        }
        // No controller listens there.
        command.env(CONTROLLER, &paths.clients);
        command.env("HIP_SIM_DEVICES", "2").env("HIP_SIM_SHARED", "off");
        // One for each stream, because a blocked stream blocks the others in a shared hardware queue.
        command.env("HIP_SIM_QUEUES", "64");
        match self.way {
            Way::Native => {}
            Way::Symbols => {
                command.env(PRELOAD, &paths.shim).env(TOOLS_ENABLED, "0");
            }
            Way::Table => {
                command.env(TOOL, &paths.shim);
            }
        }
        if let Some(seed) = self.suspended {
            command.env(SUSPEND, format!("random:{seed}:{SUSPENSIONS_PER_SECOND}"));
        }
        if let Some(seed) = self.random_verdicts {
            command.env(VERDICTS, format!("random:{seed}"));
        }
        match (self.competition, &paths.controller) {
            (Competition::Streams, _) => {
                command.env(SCHEDULER, "LCL");
            }
            (Competition::Others, Some(controller)) => {
                command.env(CONTROLLER, controller);
            }
            (Competition::Others | Competition::None, _) => {}
        }
        if let Some(bug) = self.bug {
            command.env(BUG, bug);
        }
        command
    }
}

impl Paths {
    /// From the clients' folder and the library to preload.
    #[must_use]
    pub fn new(clients: &Path, shim: &Path) -> Self {
        Self { clients: clients.to_owned(), shim: shim.to_owned(), controller: None }
    }

    /// The same with a controller that listens in this folder.
    #[must_use]
    pub fn with_controller(self, folder: &Path) -> Self {
        Self { controller: Some(folder.to_owned()), ..self }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::Native => "native",
            Way::Symbols => "symbols",
            Way::Table => "table",
        };
        write!(f, "{way} {}", self.major)?;
        if self.suspended.is_some() {
            write!(f, " suspended")?;
        }
        if self.random_verdicts.is_some() {
            write!(f, " random verdicts")?;
        }
        match self.competition {
            Competition::None => {}
            Competition::Streams => write!(f, " scheduled")?,
            Competition::Others => write!(f, " beside others")?,
        }
        self.bug.map_or(Ok(()), |bug| write!(f, " {bug}"))
    }
}
