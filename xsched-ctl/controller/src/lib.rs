//! `xsched-ctl serve`: the controller. It knows the processes with the shim, decides which of them may launch, and
//! maintains the arbiter page that they map.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `config`, `subject`, `users`, `directory` | the configuration; the processes it applies to; user names |
//! | `asked`, `check` | what the command line overrides; `--check`, which tests both and starts nothing |
//! | `controller` | all state and decisions; has no sockets and never waits |
//! | `place` | the folder of the sockets: one controller for each folder |
//! | `shims`, `socket` | one task for each process with the shim |
//! | `commands` | one task for each connected command |
//! | `files` | reads the files again |
//! | `timer` | the scheduler's deadlines, to the microsecond |
//! | `cgroups` | detects processes that are moved to other cgroups |
//! | `metrics` | answers the endpoint for metrics |
//! | `pods` | asks the container runtime to which pods processes belong |
//! | `rules`, `verdicts` | the rules on call chains, and how processes get the verdicts |
//! | `recorders` | one task for each recorder |
//! | `room`, `turns` | limits on connections, and on concurrent work for one user |
//! | `peer` | identity of the process at the other end of a socket |
//! | `notify` | the service manager |
//!
//! Everything runs on one thread. Tasks share the controller and never hold a borrow of it while they wait.

mod asked;
pub mod cgroup_version;
mod cgroups;
mod check;
mod commands;
mod config;
mod controller;
mod directory;
mod error;
mod files;
mod foreign;
mod metrics;
mod notify;
mod options;
mod origin;
mod place;
mod pods;
mod recorders;
mod room;
mod rules;
mod shared;
mod shims;
mod socket;
mod subject;
mod timer;
mod turns;
mod users;
mod verdicts;

pub use check::listed;
pub use error::ServeError;
pub use options::Options;
pub use timer::Timer;

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;
use xsched_arbiter::{Arbiter, ArbiterError, ProgramsError, Times};
use xsched_bpf::{Written, privilege, tracefs_with};
use xsched_control_api::{answer::Answer, folder::Folder, readiness};
use xsched_symbols::now_ns;
use xsched_terminal::{Internal, Request, Shortage, Signals, is_permission, print, say, with_causes};

use asked::Asked;
use config::Config;
use controller::{Controller, HEARTBEAT};
use directory::Directory;
use files::Reading;
use origin::{Origin, RuleNames};
use place::{Place, PlaceError};
use rules::Loaded;
use shared::Shared;
use turns::{Lines, Turns};

/// Runs the verb; returns the exit code.
pub async fn run(arguments: Options) -> Result<u8, ServeError> {
    let asked = Asked::of(&arguments);
    if arguments.check {
        return check::check(&asked);
    }
    let Reading { config, users, rules, source } = Reading::read(&asked).map_err(first_of)?;
    let manager = notify::Manager::of_environment().map_err(Internal::at("reading NOTIFY_SOCKET"))?;
    let (mut signals, hangups) = (Signals::catch_for_service()?, files::hangups()?);
    let names = config.user_names();
    let (directory, answers) = Directory::start(users::name_service::name)?;
    let folder = Folder::own().ok_or(PlaceError::NoFolder).map_err(ServeError::from)?;
    let place = Place::claim(folder).map_err(ServeError::from)?;
    let arbiter = make_arbiter(&config, arguments.no_bpf).map_err(ServeError::from)?;
    let sockets = place.listen().map_err(ServeError::from)?;
    let endpoint = metrics::start(&config)?;
    let listen = config.metrics.listen.clone();
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
    if let Some(listen) = listen {
        shared.controller.borrow_mut().measure();
        tracing::info!("metrics at {listen}");
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
                failure = pods::follow(&shared) => failure.map(|never| match never {}),
                never = metrics::follow(&shared, endpoint) => match never {},
                never = directory::follow(&shared, answers) => match never {},
                failure = cgroups::follow(&shared) => failure.map(|never| match never {}),
                never = send_watchdog(&manager, watchdog) => match never {},
            }
        })
        .await;
    manager.tell("STOPPING=1");
    // Open all gates first. What the remaining tasks then do has no effect.
    shared.controller.borrow_mut().release();
    place.remove_sockets();
    drop(tasks);
    if let Ok(shared) = Rc::try_unwrap(shared) {
        shared.controller.into_inner().end();
    }
    tracing::info!("all processes are released");
    outcome.map(|()| 0)
}

/// Returns the first error, which ends the start, and prints the others.
fn first_of(mut errors: Vec<ServeError>) -> ServeError {
    let first = errors.remove(0);
    for error in errors {
        say!("xsched-ctl: {error}");
    }
    first
}

/// BPF programs maintain the arbiter page where possible. Without the privileges or kernel support, the controller
/// does.
fn make_arbiter(config: &Config, no_bpf: bool) -> Result<Arbiter, ArbiterError> {
    let times = Times { lease: config.lease, linger: config.linger, ..Times::default() };
    if no_bpf {
        return Arbiter::in_memory(&times);
    }
    match Arbiter::programs(&times) {
        Err(ArbiterError::Programs(error)) if !matches!(error, ProgramsError::Occupied(_)) => {
            tracing::warn!(
                "the controller maintains the arbiter page itself, and reports are slower: {}",
                with_causes(&error)
            );
            if let Some(shortage) = Shortage::behind(&error) {
                tracing::warn!("{}", shortage.hint());
            }
            if is_permission(&error) {
                tracing::warn!("for BPF programs, {}; `--no-bpf` runs without them", privilege::advice());
            }
            Arbiter::in_memory(&times)
        }
        made => made,
    }
}

/// What `serve` would find on this machine.
#[derive(Debug)]
pub struct Tried {
    /// Whether programs can keep the arbiter page.
    pub arbiter: Result<(), Box<dyn Error>>,
    /// Whether programs can see the chains of calls.
    pub verdicts: Result<(), Box<dyn Error>>,
}

/// Loads and attaches a controller's programs for a moment, beside those of one that may be running.
pub fn try_programs() -> Tried {
    Tried {
        arbiter: xsched_arbiter::try_programs().map_err(Into::into),
        verdicts: origin::try_programs().map_err(Into::into),
    }
}

/// Origins are determined by BPF programs only where these also maintain the arbiter page: both identify a process by
/// the same id.
fn make_origin(arbiter: &Arbiter, rules: &Loaded, names: &RuleNames) -> Option<Origin> {
    if arbiter.keeper() != xsched_protocol::wire::Keeper::Programs {
        return None;
    }
    // Otherwise each process would find out and log this on its own.
    if let Err(why) = tracefs_with(&["syscalls/sys_enter_mmap"]) {
        tracing::warn!(
            "processes decide about their calls by the immediate caller only: {why} ({})",
            why.remedy()
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

async fn end(signals: &mut Signals) {
    while matches!(signals.next().await, Request::Dump | Request::Other) {}
}

/// The controller's periodic work: writes the heartbeat, takes in events, decides.
async fn attend(shared: &Shared) -> Result<(), ServeError> {
    let mut beats = tokio::time::interval(Duration::from_nanos(HEARTBEAT.0));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut events = None;
    let mut timer = Timer::new().map_err(Internal::at("making a timer"))?;
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
            reached = timer.reach(again) => {
                reached.map_err(Internal::at("waiting for the time of the next decision"))?;
                shared.with(|_| ());
            }
            // The time to wait for may have changed.
            () = shared.decided.notified() => {}
        }
    }
}

/// Starts or stops listening to the arbiter's events.
fn listen(shared: &Shared, events: &mut Option<AsyncFd<OwnedFd>>) -> io::Result<()> {
    let mut controller = shared.controller.borrow_mut();
    let listens = controller.listens();
    if listens == events.is_some() {
        return Ok(());
    }
    *events = controller.listen(listens)?.map(readiness::watch).transpose()?;
    drop(controller);
    if listens {
        // Events until now caused no wake-up, so take them in.
        shared.with(|_| ());
    }
    Ok(())
}

/// Waits until something happens to the arbiter page; forever if the controller does not listen.
async fn next_events(events: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    let Some(events) = events else { return std::future::pending().await };
    events.readable().await?.clear_ready();
    Ok(())
}

/// Sends the service manager its watchdog messages, if it wants them.
async fn send_watchdog(manager: &notify::Manager, every: Option<Duration>) -> std::convert::Infallible {
    let Some(every) = every else { return std::future::pending().await };
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        manager.tell("WATCHDOG=1");
    }
}
