//! `xsched-ctl serve`: the controller. It knows the processes with the shim, decides who goes first, and keeps the page
//! from which they see it.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `config`, `subject`, `users`, `directory` | what the file says, and about whom; what they are called |
//! | `asked`, `check` | what the command line says beside it; trying both without starting anything |
//! | `controller` | all that is known and decided; has no sockets and never waits |
//! | `place` | the folder of the sockets: one controller in it |
//! | `shims`, `socket` | one task for each process with the shim |
//! | `commands` | one task for each command that asks |
//! | `files` | reading all that anew |
//! | `cgroups` | processes that are moved to other cgroups |
//! | `rules`, `verdicts` | the rules on call chains, and how processes come to know what these say |
//! | `recorders` | one task for each recorder |
//! | `room`, `turns` | how many may be connected, and how much is done for a user at once |
//! | `peer` | who is at the other end |
//! | `notify` | the service manager |
//!
//! Everything runs on one thread: tasks share the controller and never hold it while they wait.

mod asked;
pub mod cgroup_version;
mod cgroups;
mod check;
mod commands;
mod config;
mod controller;
mod directory;
mod files;
mod notify;
mod origin;
mod place;
mod recorders;
mod room;
mod rules;
mod shims;
mod socket;
mod subject;
mod turns;
mod users;
mod verdicts;

pub use check::listed;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;
use xsched_arbiter::{Arbiter, ArbiterError, ProgramsError, Times, now_ns};
use xsched_bpf::Written;
use xsched_bpf::privilege;
use xsched_bpf::tracefs_with;
use xsched_control_api::answer::Answer;
use xsched_control_api::folder::Folder;
use xsched_control_api::readiness;
use xsched_sched::PolicyKind;
use xsched_terminal::Internal;
use xsched_terminal::unreadable;
use xsched_terminal::{Advice, ExitCode, StdoutError};
use xsched_terminal::{Request, Signals};
use xsched_terminal::{is_permission, with_causes};
use xsched_terminal::{print, say};

use asked::Asked;
use config::{Config, ConfigError};
use controller::{Controller, HEARTBEAT};
use directory::Directory;
use files::Reading;
use origin::{Origin, RuleNames};
use place::{Place, PlaceError};
use rules::{Loaded, RulesFileError};
use turns::{Lines, Turns};

/// Why there is no controller.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration is not to be had.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The sockets cannot be made.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// There is no page.
    #[error(transparent)]
    Arbiter(#[from] ArbiterError),
    /// The rules are not to be had.
    #[error(transparent)]
    Rules(#[from] RulesFileError),
    /// Nothing can be printed.
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    /// Something that should not happen.
    #[error(transparent)]
    Internal(#[from] Internal),
}

/// How the controller is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The configuration file; none for the usual one, if it is there.
    pub config: Option<PathBuf>,
    /// Goes before the policy of the configuration.
    pub policy: Option<PolicyKind>,
    /// Goes before the rules of the configuration.
    pub rules: Option<PathBuf>,
    /// Decide, and hold nobody back.
    pub observe: bool,
    /// Do without BPF programs.
    pub no_bpf: bool,
    /// Read the files, say what would hold, and start nothing.
    pub check: bool,
    /// Print as one JSON object how the controller is, as soon as processes can join.
    pub json: bool,
}

impl Advice for ServeError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Config(ConfigError::Wrong { .. }) | Self::Rules(RulesFileError::Wrong { .. }) => {
                format!("{}; `xsched-ctl serve --check` tries them and starts nothing", self.remedy()?)
            }
            Self::Place(error) => return error.hint(),
            Self::Arbiter(ArbiterError::Programs(ProgramsError::Occupied(folder))) => format!(
                "it has its sockets in another folder, or is a container's; end it first (`fuser -v {folder}` names its process)"
            ),
            Self::Arbiter(_) => "`--no-bpf` does without the kernel's help".to_owned(),
            Self::Config(ConfigError::Unreadable { path, cause })
            | Self::Rules(RulesFileError::Unreadable { path, cause }) => unreadable::hint(path, cause),
            Self::Stdout(error) => return error.hint(),
            Self::Internal(error) => return error.hint(),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(ConfigError::Unreadable { cause, .. })
            | Self::Rules(RulesFileError::Unreadable { cause, .. }) => unreadable::exit_code(cause),
            Self::Config(ConfigError::Wrong { .. }) | Self::Rules(RulesFileError::Wrong { .. }) => {
                ExitCode::BadData
            }
            Self::Place(error) => error.exit_code(),
            Self::Arbiter(_) => ExitCode::Unavailable,
            Self::Stdout(error) => error.exit_code(),
            Self::Internal(error) => error.exit_code(),
        }
    }
}

impl ServeError {
    /// The hint for a command that has just tried the files.
    fn remedy(&self) -> Option<String> {
        let document = match self {
            Self::Config(ConfigError::Wrong { .. }) => "docs/configuration.md",
            Self::Rules(RulesFileError::Wrong { .. }) => "docs/rules.md",
            _ => return self.hint(),
        };
        Some(format!("change the lines that are named; {document} has an example"))
    }
}

/// What all tasks share.
struct Shared {
    controller: RefCell<Controller>,
    /// The time of the next decision may be another one now.
    decided: Notify,
    /// Processes may have joined.
    joined: Notify,
    rules: watch::Sender<Loaded>,
    rule_names: RuleNames,
    /// Rules may fit processes otherwise now.
    subjects: watch::Sender<()>,
    /// Programs that say whose calls are; none where processes have to find out themselves.
    origin: Option<Origin>,
    /// Somebody records, or nobody does any more.
    recording: Notify,
    /// The log has said that processes come which have no id here.
    has_strangers: Cell<bool>,
    /// What users are called.
    directory: Directory,
    /// Looking for the shims of processes.
    searches: Turns,
    /// Orders.
    orders: Turns,
    /// Reading the rules of processes' own.
    readings: Turns,
    lines: Lines,
    /// Shims that are probed; nothing where the kernel does not say what is written.
    written: Option<AsyncFd<Written>>,
}

impl Shared {
    /// Does something with the controller that knows what has happened until now, and puts into effect what follows.
    fn with<T>(&self, change: impl FnOnce(&mut Controller) -> T) -> T {
        let mut controller = self.controller.borrow_mut();
        let has_joined = controller.take_events(now_ns());
        let result = change(&mut controller);
        controller.settle(now_ns());
        self.decided.notify_one();
        if has_joined {
            self.joined.notify_waiters();
        }
        result
    }
}

/// Runs the verb; returns the exit code.
pub async fn run(arguments: Options) -> Result<u8, ServeError> {
    let asked = Asked::of(&arguments);
    if arguments.check {
        return check::check(&asked);
    }
    let Reading { config, users, rules, source } = Reading::read(&asked).map_err(first_of)?;
    let manager = notify::Manager::of_environment().map_err(Internal::at("reading NOTIFY_SOCKET"))?;
    raise_descriptor_limit();
    let (mut signals, hangups) = (Signals::catch_for_service()?, files::hangups()?);
    let names = config.user_names();
    let (directory, answers) = Directory::start(users::name_service::name)?;
    let folder = Folder::own().ok_or(PlaceError::NoFolder).map_err(ServeError::from)?;
    let place = Place::claim(folder).map_err(ServeError::from)?;
    let arbiter = make_arbiter(&config, arguments.no_bpf).map_err(ServeError::from)?;
    let sockets = place.listen().map_err(ServeError::from)?;
    let rule_names = RuleNames::new();
    let origin = make_origin(&arbiter, &rules, &rule_names);
    let shared = Rc::new(Shared {
        controller: RefCell::new(Controller::new(arbiter, config, users)),
        decided: Notify::new(),
        joined: Notify::new(),
        rules: watch::Sender::new(rules),
        rule_names,
        subjects: watch::Sender::new(()),
        origin,
        recording: Notify::new(),
        has_strangers: Cell::new(false),
        directory,
        searches: Turns::default(),
        orders: Turns::default(),
        readings: Turns::default(),
        lines: Lines::default(),
        written: Written::new(),
    });
    if let Some(origin) = &shared.origin {
        shared.controller.borrow_mut().see_chains(origin);
    }
    let (greeting, watchdog) = (shared.controller.borrow().describe(), notify::watchdog());
    let tasks = LocalSet::new();
    tasks.spawn_local(shims::accept(Rc::clone(&shared), sockets.shims));
    tasks.spawn_local(commands::accept(Rc::clone(&shared), sockets.commands));
    tasks.spawn_local(recorders::accept(Rc::clone(&shared), sockets.recorders));
    tracing::info!("{greeting}; sockets in {}", place.folder().path().display());
    for warning in shared.controller.borrow().warnings(&shared.rules.borrow()) {
        tracing::warn!("{warning}");
    }
    manager.tell("READY=1");
    if arguments.json {
        let status = shared.controller.borrow().status();
        print(&Answer::Status(status).to_line())?;
    }
    let outcome = tasks
        .run_until(async {
            tokio::select! {
                () = end(&mut signals) => Ok(()),
                failure = attend(&shared) => failure,
                failure = files::follow(&shared, &manager, asked, source, names, hangups) => {
                    failure.map(|never| match never {})
                }
                never = directory::follow(&shared, answers) => match never {},
                failure = cgroups::follow(&shared) => failure.map(|never| match never {}),
                never = reassure(&manager, watchdog) => match never {},
            }
        })
        .await;
    manager.tell("STOPPING=1");
    // First of all nobody is held back any more; what then remains of the tasks has nothing to decide.
    shared.controller.borrow_mut().release();
    place.remove_sockets();
    drop(tasks);
    if let Ok(shared) = Rc::try_unwrap(shared) {
        shared.controller.into_inner().end();
    }
    tracing::info!("everybody is released");
    outcome.map(|()| 0)
}

/// The error that ends the start. Others are said before it.
fn first_of(mut errors: Vec<ServeError>) -> ServeError {
    let first = errors.remove(0);
    for error in errors {
        say!("xsched-ctl: {error}");
    }
    first
}

/// Programs keep the page where they can. Without the rights or the kernel for that, the controller does.
fn make_arbiter(config: &Config, no_bpf: bool) -> Result<Arbiter, ArbiterError> {
    let times = Times { lease: config.lease, linger: config.linger, ..Times::default() };
    if no_bpf {
        return Arbiter::in_memory(&times);
    }
    match Arbiter::programs(&times) {
        Err(ArbiterError::Programs(error)) if !matches!(error, ProgramsError::Occupied(_)) => {
            tracing::warn!(
                "the controller keeps the page itself, and reports are slower: {}",
                with_causes(&error)
            );
            if is_permission(&error) {
                tracing::warn!("for BPF programs, {}; `--no-bpf` does without", privilege::advice());
            }
            Arbiter::in_memory(&times)
        }
        made => made,
    }
}

/// Programs say whose calls are where they also keep the page: a process is known to both by its id there.
fn make_origin(arbiter: &Arbiter, rules: &Loaded, names: &RuleNames) -> Option<Origin> {
    if arbiter.keeper() != xsched_protocol::wire::Keeper::Programs {
        return None;
    }
    // Each process would find out for itself, and say so.
    if tracefs_with(&["syscalls/sys_enter_mmap"]).is_none() {
        tracing::warn!(
            "processes decide about their calls by the immediate caller only: tracefs is not mounted here, at /sys/kernel/tracing"
        );
        return None;
    }
    Origin::start(Arc::clone(&rules.rules), names.clone())
        .inspect_err(|error| {
            tracing::warn!(
                "processes decide about their calls by the immediate caller only: {}",
                with_causes(error)
            );
        })
        .ok()
}

/// Waits until somebody wants the controller to end.
async fn end(signals: &mut Signals) {
    while signals.next().await == Request::Dump {}
}

/// Does what has to be done in time: shows that the controller lives, takes in what happened, decides.
async fn attend(shared: &Shared) -> Result<(), ServeError> {
    let mut beats = tokio::time::interval(Duration::from_nanos(HEARTBEAT.0));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut events = None;
    loop {
        let again = shared.controller.borrow().again();
        listen(shared, &mut events).map_err(Internal::at("waiting for the arbiter's events"))?;
        tokio::select! {
            _ = beats.tick() => {
                if let Some(shim) = shared.with(|controller| controller.beat(now_ns())) {
                    shims::let_go(shared, shim);
                }
            }
            () = shims::next_written(shared) => {}
            heard = next_events(events.as_ref()) => {
                heard.map_err(Internal::at("waiting for the arbiter's events"))?;
                shared.with(|_| ());
            }
            () = until(again) => shared.with(|_| ()),
            // What it waits for may be something else now.
            () = shared.decided.notified() => {}
        }
    }
}

/// Listens to the arbiter's events from now on, or does not.
fn listen(shared: &Shared, events: &mut Option<AsyncFd<OwnedFd>>) -> io::Result<()> {
    let mut controller = shared.controller.borrow_mut();
    let listens = controller.listens();
    if listens == events.is_some() {
        return Ok(());
    }
    *events = controller.listen(listens)?.map(readiness::watch).transpose()?;
    drop(controller);
    if listens {
        // Nobody has called for what happened until now.
        shared.with(|_| ());
    }
    Ok(())
}

/// Waits until something happens to the page; for ever if nobody listens.
async fn next_events(events: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    let Some(events) = events else { return std::future::pending().await };
    events.readable().await?.clear_ready();
    Ok(())
}

/// Waits until it is so late on the arbiter's clock; for ever if no time is given.
async fn until(time_ns: Option<u64>) {
    let Some(time_ns) = time_ns else { return std::future::pending().await };
    tokio::time::sleep(Duration::from_nanos(time_ns.saturating_sub(now_ns()))).await;
}

/// Tells the service manager that the controller lives, if it wants to know.
async fn reassure(manager: &notify::Manager, every: Option<Duration>) -> std::convert::Infallible {
    let Some(every) = every else { return std::future::pending().await };
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        manager.tell("WATCHDOG=1");
    }
}

/// Each process takes four descriptors, and the usual limit is 1024. It stays as it is where it cannot be raised.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!("the limit of open files stays: {error}");
    }
}
