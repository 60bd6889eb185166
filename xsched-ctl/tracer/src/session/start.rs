//! The beginning of a session: loads the programs, tells them what to watch, and attaches them to what is already
//! loaded.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use xsched_abi::{Config, Watched};
use xsched_bpf::{RememberedWalks, Ring, namespace::PidNamespace};
use xsched_chains::{ChainMaps, Chains, Label};
use xsched_rules::Rules;
use xsched_symbols::{LostEvents, Processes, Sideband, lacks_main_thread, now_ns};
use xsched_terminal::Internal;

use super::Session;
use super::audience::{Audience, Targets};
use super::chainless::Chainless;
use super::driver::Driver;
use super::guardian::Guardian;
use super::input::Input;
use super::known::Known;
use super::late::Late;
use super::lives::Lives;
use super::own_calls::OwnCalls;
use super::resolve::Resolver;
use super::runtimes::Runtimes;
use super::selection::Selection;
use super::slow::Slow;
use super::unread::Unread;
use crate::bpf::{Features, Logs, Maps, Options, Probes, Programs, Reach};
use crate::driver::Queues;
use crate::error::TracerError;
use crate::filter::Filters;
use crate::recorder::Recorder;
use crate::scheduling::{Scheduling, SettingsWatch};

/// How long a process that is attached to is not probed yet, for the tables of its libraries. Those of PyTorch take some seconds, once:
/// they are kept on disk.
const TABLES_PATIENCE: Duration = Duration::from_secs(10);

/// Settings of a recording.
pub struct Settings {
    /// The kernel's side.
    pub options: Options,
    /// Which calls to record.
    pub filters: Filters,
    /// What determines the origin of calls.
    pub rules: Rules,
    /// How frames of chains are shown.
    pub label: Label,
    /// Copies of the runtime that will be loaded later.
    pub runtimes: Vec<PathBuf>,
    /// Whether processes that can may record launches themselves, without probes.
    pub own_calls: bool,
}

impl Session {
    /// Attaches the probes. From here on calls are recorded.
    ///
    /// Boxed, so that futures that hold a session stay small.
    pub fn start(targets: Targets, settings: Settings, recorder: Recorder) -> Result<Box<Self>, TracerError> {
        let Settings { options, filters, rules, label, runtimes, own_calls } = settings;
        let sees_all = filters.take_every_call();
        let filters = Rc::new(filters);
        // Listening starts before running processes are read, so that none is missed in between.
        let sideband = Sideband::open()?;
        let mut programs = Programs::create(&options)?;
        let features = Features::probe(&mut programs, options.uprobes)?;
        let driver = Driver::load(&mut programs, options.driver, &options.extra_devices)?;
        let maps = Maps::take(&mut programs)?;
        let logs =
            Logs::take(programs.object()).map_err(Internal::at("reading the log of the BPF programs"))?;
        let chains = Chains::new(ChainMaps::take(programs.object())?, options.depth)
            .map(Box::new)
            .map_err(Internal::at("starting threads"))?;
        let input = Input::new(Ring::events(programs.object())?, Ring::snapshots(programs.object())?)?;
        let walks = RememberedWalks::take(programs.object())?;
        let own_calls = OwnCalls::new(walks, own_calls && options.depth > 0 && filters.take_every_launch());
        let reach = match targets {
            // The kernel tells processes apart by the memory of their main threads, and an ended one has none: probes for such a
            // process are not placed. The programs tell them apart as well.
            Targets::Process(pid) if !lacks_main_thread(pid.get()) => Reach::Process(pid),
            Targets::Process(_) | Targets::Everybody | Targets::Children => Reach::Everybody,
        };
        let namespace = PidNamespace::own().map_err(Internal::at("reading the pid namespace"))?;
        let mut session = Box::new(Self {
            targets,
            audience: Audience::new(targets, namespace),
            namespace,
            runtimes: Runtimes::new(Probes::new(programs, features), reach, filters.clone()),
            selection: Selection::new(filters),
            driver,
            queues: Queues::default(),
            maps,
            logs,
            input,
            own_calls,
            chains,
            chainless: Chainless::default(),
            unread: Unread::default(),
            sideband,
            processes: Processes::new(),
            resolver: Resolver::new(rules, label, sees_all),
            recorder,
            scheduling: Scheduling::new(sees_all),
            settings: SettingsWatch::default(),
            known: Known::default(),
            lives: Lives::default(),
            lost: LostEvents::default(),
            late: Late::default(),
            slow: Slow::default(),
            housekeeping_ns: now_ns(),
            longest_turn: Duration::ZERO,
            guardian: None,
        });
        for path in &runtimes {
            session.runtimes.probe_named(path)?;
        }
        session.choose(options.depth)?;
        session.recorder.begin()?;
        Ok(session)
    }

    /// Tells the programs what to watch, and probes the runtimes that are already loaded.
    fn choose(&mut self, depth: u32) -> Result<(), TracerError> {
        let own_tgid = std::process::id();
        let seen_ns = now_ns();
        match self.targets {
            Targets::Everybody => {
                self.processes.scan_running();
                self.runtimes.probe_installed();
            }
            Targets::Process(pid) => {
                self.processes.scan(pid.get()).map_err(|_| TracerError::NoSuchProcess(pid.get()))?;
                self.maps.watch(pid.get(), Watched::Recorded)?;
            }
            Targets::Children if self.audience.selects() => {
                // The command adds itself to the targets; processes that it starts are found by the side-band.
                self.runtimes.probe_installed();
                self.runtimes.stop_in_loaders()?;
                self.guardian = Some(Guardian::start()?);
            }
            Targets::Children => {
                // The programs add the children of a listed process before their first instruction runs.
                self.maps.watch(own_tgid, Watched::Stoppable)?;
                self.runtimes.follow_children()?;
                self.guardian = Some(Guardian::start()?);
            }
        }
        let (pid_namespace_device, pid_namespace_inode) = self.namespace.for_programs();
        self.maps.configure(Config {
            scope: self.audience.scope() as u32,
            own_tgid,
            min_duration_ns: self.selection.filters().min_duration_ns(),
            launch_share: self.selection.filters().launch_share(),
            pid_namespace_device,
            pid_namespace_inode,
            depth,
            reserved: 0,
        })?;
        self.driver.start(&mut self.runtimes)?;
        if let Targets::Process(pid) = self.targets
            && let Some(process) = self.processes.process(pid.get())
            && process.runtimes().next().is_some()
        {
            self.chains.prepare(process, seen_ns, TABLES_PATIENCE);
        }
        let running: Vec<_> = self.processes.running().map(xsched_symbols::Process::pid).collect();
        for pid in running {
            // They have been running, and are recorded from now on.
            self.probe_mapped(pid, u64::MAX);
            self.driver.look_at(pid, &mut self.known, &mut self.runtimes);
        }
        self.chains.work(&mut self.processes, &mut self.resolver.names, 0);
        if matches!(self.targets, Targets::Process(_)) {
            self.await_slow();
        }
        match self.targets {
            Targets::Process(pid) if self.runtimes.paths().next().is_none() => {
                Err(self.why_unprobed(pid.get()))
            }
            _ => Ok(()),
        }
    }

    /// Why no runtime of a process is probed.
    fn why_unprobed(&mut self, pid: u32) -> TracerError {
        let process = self.processes.process(pid);
        let mapped = process.and_then(|process| process.runtimes().next().cloned());
        let outcome = mapped.map(|mapping| self.runtimes.mapped(pid, &mapping, u64::MAX));
        if let Some(Err(cause)) = outcome {
            return TracerError::NotProbed { pid, cause };
        }
        let process = self.processes.process(pid);
        let name = process.map(|process| process.display_name().into_owned()).unwrap_or_default();
        TracerError::NoRuntime { pid, name }
    }
}
