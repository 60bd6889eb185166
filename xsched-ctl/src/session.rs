//! A recording session: from loading the programs to taking everything out of the kernel again.
//!
//! One task runs it. Every [`TICK`], or when a program asks for attention, it empties the ring buffer and then the
//! side-band (so that every mapping that a record can name is known), resolves the records and hands them to the
//! recorder.

mod audience;
pub(crate) mod chains;
mod driver;
mod graphs;
mod guardian;
mod held;
mod installed;
mod kernels;
mod perf_map;
pub(crate) mod resolve;
mod runtimes;

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use xsched_abi::{Call, ChainEnd, Config, Counter, Filter, Opened, Watched};
use xsched_rules::Rules;
use xsched_symbols::{Change, Processes, Sideband, now_ns};

use crate::bpf::{ChainMaps, Enlistment, Features, Maps, Options, Probes, Programs, Reach, Record, Ring};
use crate::call::HipCall;
use crate::chain::Label;
use crate::driver::Queues;
use crate::failure::Failure;
use crate::filter::{Decision, Filters, LeftOut, Reason};
use crate::namespace::PidNamespace;
use crate::recorder::{Recorded, Recorder};
use crate::scheduling::Scheduling;
use audience::Audience;
pub(crate) use audience::Targets;
use chains::Chains;
use driver::Driver;
pub(crate) use graphs::Nodes;
use guardian::{Guardian, go_on};
use held::{Held, Source};
use resolve::Resolver;
pub(crate) use runtimes::RuntimeError;
use runtimes::Runtimes;

/// How often the ring buffer is looked into when no program asks for it.
const TICK: Duration = Duration::from_millis(20);

/// The same while stacks wait for tables.
const SHORT_TICK: Duration = Duration::from_millis(2);

/// Records that are resolved between two looks at everything else.
const BATCH_MAX: usize = 8192;

/// How long the memory of an ended process is kept, for records that are still on their way.
const GRACE_NS: u64 = 4_000_000_000;

/// How often clocks are related to each other and memory of ended processes is freed.
const HOUSEKEEPING_NS: u64 = 5_000_000_000;

/// How to record.
pub(crate) struct Settings {
    /// The kernel's side.
    pub(crate) options: Options,
    /// Which calls.
    pub(crate) filters: Filters,
    /// Whose calls are.
    pub(crate) rules: Rules,
    /// What frames of chains are shown as.
    pub(crate) label: Label,
    /// Copies of the runtime that somebody is going to load.
    pub(crate) runtimes: Vec<PathBuf>,
}

/// A recording in progress.
pub(crate) struct Session {
    targets: Targets,
    audience: Audience,
    namespace: PidNamespace,
    filters: Rc<Filters>,
    /// What user space has left out itself.
    left_out: LeftOut,
    runtimes: Runtimes,
    driver: Driver,
    queues: Queues,
    maps: Maps,
    ring: AsyncFd<Ring>,
    snapshots: AsyncFd<Ring>,
    chains: Box<Chains>,
    held: Held,
    sideband: Sideband,
    processes: Processes,
    resolver: Resolver,
    recorder: Recorder,
    scheduling: Scheduling,
    /// Changes that happened after the records that have been resolved.
    changes: VecDeque<(u64, Change)>,
    /// Processes that have made calls: only these can have calls in progress.
    callers: HashSet<u32>,
    records: Vec<Record>,
    /// The last batch was full, so there may be more.
    has_more: bool,
    /// Calls that had returned by then were read.
    called_until_ns: u64,
    housekeeping_ns: u64,
    unreadable: u64,
    /// Processes that may have made calls before there were probes.
    late: u64,
    /// Calls by how their chains end.
    chain_ends: [u64; ChainEnd::ALL.len()],
    /// Processes that have ended, and when that was learnt: their chains are kept a while for calls that wait.
    ended: VecDeque<(u32, u64)>,
    guardian: Option<Guardian>,
}

impl Session {
    /// Puts the probes in. From here on calls are recorded.
    ///
    /// On the heap: what waits for a session would otherwise carry its kilobytes about.
    pub(crate) fn start(
        targets: Targets,
        settings: Settings,
        recorder: Recorder,
    ) -> Result<Box<Self>, Failure> {
        let Settings { options, filters, rules, label, runtimes } = settings;
        let sees_all = filters.take_every_call();
        let filters = Rc::new(filters);
        // Listen first, then look at what runs already: nothing falls between the two.
        let sideband = Sideband::open()?;
        let mut programs = Programs::create(&options)?;
        let features = Features::probe(&mut programs, options.uprobes)?;
        let driver = Driver::load(&mut programs, options.driver, &options.extra_devices)?;
        let maps = Maps::take(&mut programs)?;
        let chains = Chains::new(ChainMaps::take(programs.object())?, options.depth)
            .map(Box::new)
            .map_err(Failure::internal("starting threads"))?;
        let ring = wait_for(Ring::events(programs.object())?)?;
        let snapshots = wait_for(Ring::snapshots(programs.object())?)?;
        let reach = match targets {
            Targets::Process(pid) => Reach::Process(pid),
            Targets::Everybody | Targets::Children => Reach::Everybody,
        };
        let namespace = PidNamespace::own().map_err(Failure::internal("reading the pid namespace"))?;
        let mut session = Box::new(Self {
            targets,
            audience: Audience::new(targets, namespace),
            namespace,
            runtimes: Runtimes::new(Probes::new(programs, features), reach, filters.clone()),
            filters,
            left_out: LeftOut::default(),
            driver,
            queues: Queues::default(),
            maps,
            ring,
            snapshots,
            chains,
            held: Held::default(),
            sideband,
            processes: Processes::new(),
            resolver: Resolver::new(rules, label, sees_all),
            recorder,
            scheduling: Scheduling::new(),
            changes: VecDeque::new(),
            callers: HashSet::new(),
            records: Vec::new(),
            has_more: false,
            called_until_ns: 0,
            housekeeping_ns: now_ns(),
            unreadable: 0,
            late: 0,
            chain_ends: [0; ChainEnd::ALL.len()],
            ended: VecDeque::new(),
            guardian: None,
        });
        for path in &runtimes {
            session.runtimes.probe_named(path)?;
        }
        session.choose(options.depth)?;
        Ok(session)
    }

    /// Tells the programs whom to watch, and probes the runtimes that are loaded already.
    fn choose(&mut self, depth: u32) -> Result<(), Failure> {
        let own_tgid = std::process::id();
        match self.targets {
            Targets::Everybody => {
                self.processes.scan_running();
                self.runtimes.probe_installed();
            }
            Targets::Process(pid) => {
                self.processes.scan(pid.get()).map_err(|_| Failure::NoSuchProcess(pid.get()))?;
                self.maps.watch(pid.get(), Watched::Recorded)?;
            }
            Targets::Children if self.audience.selects() => {
                // The command enlists itself; those that it starts are found in the side-band.
                self.runtimes.probe_installed();
                self.runtimes.stop_in_loaders()?;
                self.guardian = Some(Guardian::start()?);
            }
            Targets::Children => {
                // Being on the list puts its children there, before they run their first instruction.
                self.maps.watch(own_tgid, Watched::Stoppable)?;
                self.runtimes.follow_children()?;
                self.guardian = Some(Guardian::start()?);
            }
        }
        let (pid_namespace_device, pid_namespace_inode) = self.namespace.for_programs();
        self.maps.configure(Config {
            scope: self.audience.scope() as u32,
            own_tgid,
            min_duration_ns: self.filters.min_duration_ns(),
            launch_share: self.filters.launch_share(),
            pid_namespace_device,
            pid_namespace_inode,
            depth,
            reserved: 0,
        })?;
        self.driver.start(&mut self.runtimes)?;
        let running: Vec<_> = self.processes.running().map(xsched_symbols::Process::pid).collect();
        for pid in running {
            // They have run for a while, and are recorded from now on.
            self.probe_mapped(pid, u64::MAX);
            self.driver.look_at(pid, &mut self.runtimes);
        }
        self.chains.work(&mut self.processes, &mut self.resolver, 0);
        match self.targets {
            Targets::Process(pid) if self.runtimes.paths().next().is_none() => Err(Failure::NoRuntime {
                pid: pid.get(),
                name: self
                    .processes
                    .process(pid.get())
                    .map(|p| p.display_name().into_owned())
                    .unwrap_or_default(),
            }),
            _ => Ok(()),
        }
    }

    /// Probes what a process has mapped; returns whether it may have made calls before.
    fn probe_mapped(&mut self, pid: u32, mapped_ns: u64) -> bool {
        let Some(process) = self.processes.process(pid) else { return false };
        let mappings: Vec<_> = process.mappings().cloned().collect();
        mappings.iter().fold(false, |late, mapping| self.mapped(pid, mapping, mapped_ns) | late)
    }

    fn mapped(&mut self, pid: u32, mapping: &xsched_symbols::Mapping, mapped_ns: u64) -> bool {
        if !Runtimes::concerns(mapping) || !self.audience.includes(pid, &self.maps) {
            return false;
        }
        if mapping.is_hip_runtime() {
            self.driver.uses(pid, &mut self.runtimes);
        }
        if mapping.is_hip_runtime()
            && let Some(process) = self.processes.process(pid)
        {
            self.chains.expect(process);
        }
        self.runtimes.mapped(pid, mapping, mapped_ns).unwrap_or_else(|error| {
            tracing::warn!("process {pid} is not recorded: {error}");
            false
        })
    }

    /// Waits until there is something to do.
    pub(crate) async fn wait(&self) {
        if self.has_more {
            return tokio::task::yield_now().await;
        }
        let tick = if self.chains.is_waiting() { SHORT_TICK } else { TICK };
        // Nothing but a closed epoll fails here, and then the tick remains.
        tokio::select! {
            ready = self.ring.readable() => drop(ready.map(|mut guard| guard.clear_ready())),
            ready = self.snapshots.readable() => drop(ready.map(|mut guard| guard.clear_ready())),
            () = tokio::time::sleep(tick) => {}
        }
    }

    /// Takes in what has been reported so far, or a good deal of it: who calls this again and again looks at signals
    /// in between, however busy the traced processes are.
    pub(crate) async fn pump(&mut self) -> Result<(), Failure> {
        self.has_more = self.pump_batch().await?;
        let entries = self.scheduling.poll(self.called_until_ns);
        for call in self.scheduling.release() {
            self.write(&call)?;
        }
        self.recorder.scheduling(&self.processes, &entries)?;
        let now_ns = now_ns();
        self.report_losses(now_ns)?;
        if now_ns - self.housekeeping_ns > HOUSEKEEPING_NS {
            self.housekeeping_ns = now_ns;
            self.recorder.clocks()?;
            self.recorder.left_out(now_ns, self.left_out())?;
            self.driver.tidy()?;
            self.settle_queues()?;
            // People who watch the file see it grow.
            self.recorder.pass_on(true).await?;
            // Behind a full ring there are records of processes that ended any time ago.
            if !self.has_more {
                self.forget_before(now_ns.saturating_sub(GRACE_NS));
            }
        }
        Ok(())
    }

    /// Forgets what ended before a time since which no record can still be on its way.
    fn forget_before(&mut self, before_ns: u64) {
        self.processes.forget_exited(before_ns);
        self.recorder.forget_ended(before_ns);
        while let Some((pid, _)) = self.ended.pop_front_if(|(_, ended_ns)| *ended_ns < before_ns) {
            self.chains.ended(pid);
        }
        self.chains.forget_old();
    }

    fn report_losses(&mut self, now_ns: u64) -> Result<(), Failure> {
        let mut losses = self.maps.losses().plus(Counter::LateProbes, self.late);
        losses = losses.plus(Counter::ChainMapsFull, self.chains.refused());
        losses = losses.plus(Counter::KernelUnnamed, self.resolver.unnamed());
        for (cause, count) in self.scheduling.losses() {
            losses = losses.plus(cause, count);
        }
        if self.filters.take_every_call() {
            losses = losses.plus(Counter::SchedulingUncalled, self.scheduling.uncalled());
        }
        for (end, count) in ChainEnd::ALL.into_iter().zip(self.chain_ends) {
            if let Some(cause) = Counter::of_chain(end) {
                losses = losses.plus(cause, count);
            }
        }
        self.recorder.losses(now_ns, self.driver.add_losses(losses))
    }

    /// One batch; returns whether there is more.
    async fn pump_batch(&mut self) -> Result<bool, Failure> {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        let drained_ns = now_ns();
        let mut has_more = false;
        for ring in [&mut self.ring, &mut self.snapshots] {
            let drained = ring.get_mut().drain(&mut records, BATCH_MAX);
            self.unreadable += drained.unreadable;
            has_more |= drained.has_more;
        }
        // They come about in order of time.
        let read_ns = records.iter().filter_map(Record::returned_ns).max().unwrap_or(self.called_until_ns);
        self.called_until_ns = if has_more { read_ns } else { drained_ns };
        self.scheduling.hear();
        for record in &records {
            match record {
                Record::Opened(opened) => self.opening(opened),
                Record::DeviceOpened(opened) => {
                    self.driver.opened(opened, &mut self.runtimes);
                    if opened.is_stopped != 0 {
                        go_on(opened.tgid);
                    }
                }
                _ => {}
            }
        }
        let seen_ns = self.take_changes(&records);
        self.resolver.begin_batch(self.maps.losses().calls());

        // Programs on several processors write; what they write belongs in order of time.
        records.sort_by_key(Record::time_ns);
        for record in &mut records {
            match record {
                Record::Stack { stack, addresses } => {
                    self.chains.walked(&mut self.processes, &mut self.resolver, stack, addresses);
                }
                Record::Snapshot { snapshot, bytes } => {
                    self.chains.copied(snapshot.clone(), std::mem::take(bytes));
                }
                _ => {}
            }
        }
        self.chains.work(&mut self.processes, &mut self.resolver, seen_ns);
        for record in &records {
            match record {
                Record::Call { call, text } => self.hip_returned(call, text)?,
                Record::Ioctl(ioctl) => self.driver_returned(ioctl)?,
                Record::Opened(_)
                | Record::LoaderStop(_)
                | Record::DeviceOpened(_)
                | Record::Stack { .. }
                | Record::Snapshot { .. }
                | Record::Wanted(_) => {}
            }
        }
        self.release(false)?;
        if !has_more {
            self.settle_changes(drained_ns)?;
        }
        self.recorder.pass_on(false).await?;
        self.records = records;
        Ok(has_more)
    }

    fn hip_returned(&mut self, call: &Call, text: &[u8]) -> Result<(), Failure> {
        self.settle_changes(call.end_ns)?;
        if !self.is_selected(call.tgid) {
            return Ok(());
        }
        self.callers.insert(call.tgid);
        match self.resolver.returned(&mut self.processes, call, text) {
            Some(mut resolved) => {
                self.scheduling.called(&mut resolved);
                self.record(resolved, call.chain)
            }
            None => Ok(()),
        }
    }

    /// Whether a record of a process is wanted: the programs may report more than was asked for.
    fn is_selected(&self, pid: u32) -> bool {
        !self.audience.selects() || self.audience.includes(pid, &self.maps)
    }

    /// Hands a call on, at once or when its chain is known.
    fn record(&mut self, mut call: HipCall, chain: u64) -> Result<(), Failure> {
        let settled = self.queues.hip_returned(&mut call);
        self.record_driver_calls(settled)?;
        let source =
            Source { chains: &mut self.chains, processes: &mut self.processes, resolver: &mut self.resolver };
        match self.held.take(source, call, chain) {
            Some(call) => self.pass_on(call),
            None => Ok(()),
        }
    }

    /// Hands on the calls whose chains have become known, or all.
    fn release(&mut self, all: bool) -> Result<(), Failure> {
        if self.held.is_empty() {
            return Ok(());
        }
        let source =
            Source { chains: &mut self.chains, processes: &mut self.processes, resolver: &mut self.resolver };
        for call in self.held.release(source, all) {
            self.pass_on(call)?;
        }
        Ok(())
    }

    /// Hands a call on, at once or when it is known how its process treats it.
    fn pass_on(&mut self, call: HipCall) -> Result<(), Failure> {
        match self.scheduling.hold(call) {
            Some(call) => self.write(&call),
            None => Ok(()),
        }
    }

    /// Records a call that the filters let through.
    fn write(&mut self, call: &HipCall) -> Result<(), Failure> {
        let mut is_written = false;
        match self.filters.decide(call) {
            Decision::Record => {
                if let Some(chain) = &call.chain {
                    self.chain_ends[chain.end as usize] += 1;
                }
                self.recorder.call(&mut self.processes, call)?;
                is_written = true;
            }
            Decision::NamesOnly => {}
            Decision::LeaveOut(reason) => self.left_out.add(reason, 1),
        }
        if let Some(followed) = &call.followed {
            followed.settle(&call.origin, is_written);
        }
        Ok(())
    }

    /// What filters have left out so far.
    fn left_out(&self) -> LeftOut {
        let mut left_out = self.left_out;
        left_out.add(Reason::Short, self.maps.left_out(Filter::Short));
        left_out.add(Reason::Unsampled, self.maps.left_out(Filter::Unsampled));
        if !self.filters.take_every_call() {
            left_out.add(Reason::Uncalled, self.scheduling.uncalled());
        }
        left_out
    }

    /// A process opens what may be a runtime: with luck it is probed before it is mapped.
    fn opening(&mut self, opened: &Opened) {
        let len = opened.path.iter().position(|&byte| byte == 0).unwrap_or(opened.path.len());
        let path = Path::new(OsStr::from_bytes(&opened.path[..len]));
        if self.runtimes.opening(opened.tgid, path) {
            self.maps.know(opened.hash);
        }
    }

    /// Reads the side-band; new runtimes are probed at once. Processes that are stopped in their loader go on after
    /// that.
    ///
    /// Everything that was mapped before the returned time has been told.
    fn take_changes(&mut self, records: &[Record]) -> u64 {
        let seen_ns = now_ns();
        let stopped: HashSet<u32> = records
            .iter()
            .filter_map(|record| match record {
                Record::LoaderStop(stop) => Some(stop.tgid),
                _ => None,
            })
            .collect();
        let mut changes = Vec::new();
        let (processes, maps, audience) = (&mut self.processes, &self.maps, &mut self.audience);
        self.sideband.drain(|event| {
            if audience.concerns(&event, maps) {
                let time_ns = event.time_ns;
                changes.extend(processes.apply(&event).map(|change| (time_ns, change)));
            }
        });
        for (time_ns, change) in changes {
            match &change {
                Change::Mapped { pid, mapping } => {
                    let is_late = self.mapped(*pid, mapping, time_ns);
                    self.late += u64::from(is_late && !self.is_stopped_in_time(*pid, time_ns));
                }
                Change::Found { pid } => {
                    let is_late = self.probe_mapped(*pid, time_ns);
                    self.late += u64::from(is_late && !self.is_stopped_in_time(*pid, time_ns));
                }
                Change::Lost { .. } => self.catch_up(),
                _ => {}
            }
            self.chains.changed(&change);
            self.changes.push_back((time_ns, change));
        }
        for pid in stopped {
            // The side-band has told what it maps, unless it lost something.
            let told = self.processes.process(pid).is_some_and(|process| process.runtimes().next().is_some());
            if !told && self.processes.scan(pid).is_ok() {
                self.probe_mapped(pid, 0);
            }
            if let Some(process) = self.processes.process(pid) {
                self.chains.secure(process);
            }
            go_on(pid);
        }
        seen_ns
    }

    /// Whether a process that maps a runtime at `time_ns` runs none of its code before it has been probed.
    fn is_stopped_in_time(&self, pid: u32, time_ns: u64) -> bool {
        self.maps.may_stop(pid)
            && self.processes.find(pid, time_ns).is_some_and(|process| self.runtimes.stops(process, time_ns))
    }

    /// The side-band has lost events: look at what is there.
    fn catch_up(&mut self) {
        // Only what is probed from here on may have come too late.
        let before_ns = now_ns();
        match self.targets {
            Targets::Process(pid) => drop(self.processes.scan(pid.get())),
            Targets::Everybody | Targets::Children => drop(self.processes.scan_running()),
        }
        // The ends of some may be among what was lost.
        let has_ended = |pid: u32| self.processes.process(pid).is_none_or(|process| process.end().is_some());
        let ended: Vec<_> = self.callers.iter().copied().filter(|&pid| has_ended(pid)).collect();
        self.changes.extend(ended.into_iter().map(|pid| (before_ns, Change::Exited { pid })));
        let running: Vec<_> = self.processes.running().map(xsched_symbols::Process::pid).collect();
        for pid in running {
            self.late += u64::from(self.probe_mapped(pid, before_ns));
        }
    }

    /// Lets changes up to `time_ns` take effect on what calls after them mean.
    fn settle_changes(&mut self, time_ns: u64) -> Result<(), Failure> {
        while let Some((change_ns, change)) = self.changes.front()
            && *change_ns <= time_ns
        {
            if let Change::Exited { pid } | Change::Executed { pid } = *change
                && self.callers.contains(&pid)
            {
                let change_ns = *change_ns;
                self.record_pending(Some(change_ns), |tgid| tgid == pid)?;
                let settled = self.queues.forget(pid);
                self.record_driver_calls(settled)?;
            }
            let Some((_, change)) = self.changes.pop_front() else { break };
            if let Change::Forked { pid, parent } = change {
                self.driver.forked(parent, pid);
            }
            self.resolver.changed(&change);
            self.recorder.changed(&change);
            if let Change::Exited { pid } = change {
                self.callers.remove(&pid);
                self.maps.unwatch(pid);
                self.audience.ended(pid);
                self.ended.push_back((pid, now_ns()));
                self.driver.ended(pid);
            }
        }
        Ok(())
    }

    /// Records calls that have not returned, up to `cut_ns` where something ended them.
    fn record_pending(&mut self, cut_ns: Option<u64>, whose: impl Fn(u32) -> bool) -> Result<(), Failure> {
        let mut driver_calls = self.driver.take_pending(&whose);
        for call in &mut driver_calls {
            call.cut_ns = cut_ns;
        }
        self.record_driver_calls(driver_calls)?;
        for (key, pending) in self.maps.take_pending(whose) {
            if !self.is_selected(key.tgid) {
                continue;
            }
            if let Some(mut call) = self.resolver.in_progress(&mut self.processes, &key, &pending) {
                call.cut_ns = cut_ns;
                self.record(call, pending.chain)?;
            }
        }
        Ok(())
    }

    /// How a command becomes one of the targets, where the programs do not see to it.
    pub(crate) fn enlistment(&self) -> Option<Enlistment> {
        self.audience.selects().then(|| self.maps.enlistment())
    }

    /// Whether the process that is recorded has ended. Never true of several.
    pub(crate) fn target_has_ended(&self) -> bool {
        let Targets::Process(pid) = self.targets else { return false };
        self.processes.process(pid.get()).is_none_or(|process| process.end().is_some())
    }

    /// Whether the output has its largest size.
    pub(crate) fn is_full(&self) -> bool {
        self.recorder.is_full()
    }

    /// Asks for a dump of what is kept.
    pub(crate) fn dump(&mut self, reason: &str) {
        self.recorder.dump(reason);
    }

    /// What people should be told.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        let mut notices = self.recorder.take_notices();
        notices.extend(self.scheduling.take_notices());
        notices
    }

    /// Notes in the timeline why recording ends before what was to be recorded does.
    pub(crate) fn ends_because(&mut self, reason: &str) -> Result<(), Failure> {
        self.recorder.ends_because(now_ns(), reason)
    }

    /// The recorder.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Paths of the probed runtimes.
    pub(crate) fn runtimes(&self) -> impl Iterator<Item = &Path> {
        self.runtimes.paths()
    }

    /// Takes the probes out and records what is left.
    pub(crate) async fn finish(mut self: Box<Self>) -> Result<Recorded, Failure> {
        let started = std::time::Instant::now();
        self.driver.detach();
        self.runtimes.detach();
        tracing::debug!(took_us = started.elapsed().as_micros(), "probes taken out");
        // Nothing is added any more, but calls may wait for their chains.
        loop {
            self.pump().await?;
            if !self.has_more && self.held.is_empty() {
                break;
            }
            self.wait().await;
        }
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
        self.record_pending(None, |_| true)?;
        let settled = self.queues.give_up(|_| false);
        self.record_driver_calls(settled)?;
        self.release(true)?;
        for call in self.scheduling.release_all() {
            self.write(&call)?;
        }
        let entries = self.scheduling.finish();
        self.recorder.scheduling(&self.processes, &entries)?;
        self.report_losses(now_ns())?;
        if self.unreadable > 0 {
            tracing::warn!("{} records in the ring buffer were not readable", self.unreadable);
        }
        self.recorder.left_out(now_ns(), self.left_out())?;
        // The future has the recorder in it.
        Box::pin(self.recorder.finish()).await
    }
}

/// Makes a ring buffer something to wait for.
fn wait_for(ring: Ring) -> Result<AsyncFd<Ring>, Failure> {
    // SAFETY: the ring keeps its descriptor open, and unchanged, for as long as it lives in the `AsyncFd`.
    unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) }
        .map_err(|error| Failure::internal("waiting for the ring buffer")(error.into()))
}
