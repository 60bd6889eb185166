//! The ways to run a program: which runtime, with the shim or without, and what the shim is told to do.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the shim comes between a program and its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not at all.
    Native,
    /// Preloaded, by its symbols.
    Symbols,
    /// By the runtime's dispatch table.
    Table,
}

/// With whom a program's streams share their devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rivals {
    /// Nobody.
    None,
    /// The streams of each device are scheduled among each other, by their priorities.
    Streams,
    /// Somebody more urgent, who comes and goes as the controller at [`Places::controller`] has it.
    Others,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// HIP's major version.
    pub major: u32,
    /// How the shim gets in.
    pub way: Way,
    /// Whether queues are suspended and resumed at random, from this seed.
    pub suspended: Option<u64>,
    /// Whether calls are treated in all ways at random, from this seed: scheduled, passed through, never suspended.
    pub treated: Option<u64>,
    /// Whom the shim has to do with.
    pub rivals: Rivals,
    /// A bug that the shim was compiled with, by name.
    pub bug: Option<&'static str>,
}

/// Where the things to run are.
#[derive(Clone, Debug)]
pub struct Places {
    /// The folder of the clients, `differential-N`.
    pub clients: PathBuf,
    /// The library to preload.
    pub shim: PathBuf,
    /// The folder with the socket of a controller, for runs beside others.
    pub controller: Option<PathBuf>,
}

const PRELOAD: &str = "LD_PRELOAD";
const TOOL: &str = "ROCPROFILER_REGISTER_LIBRARY";
const TOOLS_ENABLED: &str = "ROCPROFILER_REGISTER_ENABLED";
const SUSPEND: &str = "XSCHED_TEST_SUSPEND";
const TREAT: &str = "XSCHED_TEST_VERDICTS";
/// Ten times the default: programs are short.
const SUSPENSIONS_PER_SECOND: u32 = 200_000;
const SCHEDULER: &str = "XSCHED_SCHEDULER";
const CONTROLLER: &str = "XSCHED_SOCKET_DIR";
const BUG: &str = "XSCHED_PLANTED_BUG";

impl Mode {
    /// The runtime alone.
    #[must_use]
    pub fn native(major: u32) -> Self {
        Self { major, way: Way::Native, suspended: None, treated: None, rivals: Rivals::None, bug: None }
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

    /// The same while calls are treated in all ways at random.
    #[must_use]
    pub fn treated(self, seed: u64) -> Self {
        Self { treated: Some(seed), ..self }
    }

    /// The same while streams are scheduled among each other: by their priorities, and little launched ahead.
    #[must_use]
    pub fn scheduled(self) -> Self {
        Self { rivals: Rivals::Streams, ..self }
    }

    /// The same beside somebody more urgent who comes and goes.
    #[must_use]
    pub fn beside(self) -> Self {
        Self { rivals: Rivals::Others, ..self }
    }

    /// Every way to have the shim in, over all runtimes; tables are handed out from HIP 6 on.
    #[must_use]
    pub fn all() -> Vec<Self> {
        use Way::{Symbols, Table};
        let ways = [(5, Symbols), (6, Symbols), (6, Table), (7, Symbols), (7, Table)];
        let plain = ways.map(|(major, way)| Self::with_shim(major, way));
        let suspended = plain.clone().map(|mode| mode.suspended(1));
        let treated = suspended.clone().map(|mode| mode.treated(1));
        [plain, suspended, treated].concat()
    }

    /// The modes in which the shim schedules: the streams among each other, and the process beside others.
    #[must_use]
    pub fn scheduling() -> Vec<Self> {
        use Way::{Symbols, Table};
        let ways = [(5, Symbols), (6, Table), (7, Symbols)];
        let alone = ways.map(|(major, way)| Self::with_shim(major, way));
        let treated = alone.clone().map(|mode| mode.treated(1));
        let rivals = alone.iter().cloned().flat_map(|mode| [mode.clone().scheduled(), mode.beside()]);
        rivals.chain(treated.map(Self::beside)).collect()
    }

    /// A command that runs the client with these words.
    pub fn command(&self, places: &Places, words: &[&str]) -> Command {
        let mut command = Command::new(places.clients.join(format!("differential-{}", self.major)));
        command.args(words);
        // Variables that change what is run, whoever set them.
        for variable in [PRELOAD, TOOL, TOOLS_ENABLED, SUSPEND, TREAT, SCHEDULER, BUG] {
            command.env_remove(variable);
        }
        // Where nobody listens.
        command.env(CONTROLLER, &places.clients);
        command.env("HIP_SIM_DEVICES", "2").env("HIP_SIM_SHARED", "off");
        // One for each stream: in a shared hardware queue, a stream that is held up would hold up others.
        command.env("HIP_SIM_QUEUES", "64");
        match self.way {
            Way::Native => {}
            Way::Symbols => {
                command.env(PRELOAD, &places.shim).env(TOOLS_ENABLED, "0");
            }
            Way::Table => {
                command.env(TOOL, &places.shim);
            }
        }
        if let Some(seed) = self.suspended {
            command.env(SUSPEND, format!("random:{seed}:{SUSPENSIONS_PER_SECOND}"));
        }
        if let Some(seed) = self.treated {
            command.env(TREAT, format!("random:{seed}"));
        }
        match (self.rivals, &places.controller) {
            (Rivals::Streams, _) => {
                command.env(SCHEDULER, "LCL");
            }
            (Rivals::Others, Some(controller)) => {
                command.env(CONTROLLER, controller);
            }
            (Rivals::Others | Rivals::None, _) => {}
        }
        if let Some(bug) = self.bug {
            command.env(BUG, bug);
        }
        command
    }
}

impl Places {
    /// From a folder of artifacts and the library to preload.
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
        if self.treated.is_some() {
            write!(f, " treated")?;
        }
        match self.rivals {
            Rivals::None => {}
            Rivals::Streams => write!(f, " scheduled")?,
            Rivals::Others => write!(f, " beside others")?,
        }
        self.bug.map_or(Ok(()), |bug| write!(f, " {bug}"))
    }
}
