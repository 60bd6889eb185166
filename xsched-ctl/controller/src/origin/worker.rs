//! The thread: handles messages, requests of programs, and changes of processes, and gives verdicts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use xsched_abi::ChainEnd;
use xsched_bpf::{Record, Ring};
use xsched_chains::{Chains, Label, Lookup, Names};
use xsched_protocol::verdict::Subject;
use xsched_rules::Rules;
use xsched_symbols::{Change, LostEvents, PerfEventKind, Processes, Sideband, now_ns};

use super::client::{Client, Reconsidered};
use super::kernel_names::KernelNames;
use super::numbered::Numbered;
use super::programs::{Ends, Programs, renew};
use super::questions::{Question, Questions, processor_time};
use super::{JoinError, Newcomer, Order, OriginError, Page, Told, answers};

/// How often the side-band is read when nothing else happens.
const TICK: Duration = Duration::from_millis(100);

/// The same while requests wait for chains, and chains for tables.
const SHORT_TICK: Duration = Duration::from_millis(2);

/// How often unused memory is freed.
const HOUSEKEEPING: Duration = Duration::from_secs(5);

/// How long data of an ended process is kept, for records that are still on their way.
const GRACE_NS: u64 = 4_000_000_000;

/// How long a request waits for a kernel's name, which comes over the socket.
const NAME_PATIENCE: Duration = Duration::from_millis(20);

/// How long a stack that is larger than its copy may be requested again: as soon as the tables are there, the programs
/// walk all of it.
const CUT_PATIENCE: Duration = Duration::from_secs(1);

/// Records that are handled before everything else is checked again.
const BATCH_MAX: usize = 4096;

/// How long messages are handled before everything else is checked again: processes can cause any number of them.
const ORDERS_TIME: Duration = Duration::from_millis(2);

/// How long verdicts of a process are given again at once, after a change of its rules; the others are forgotten, and asked for again.
const RECONSIDER_TIME: Duration = Duration::from_millis(50);

/// How long requests are handled before everything else is checked again.
const ANSWERS_TIME: Duration = Duration::from_millis(10);

pub(super) struct Worker {
    orders: Receiver<Order>,
    bell: Arc<OwnedFd>,
    programs: Programs,
    events: Ring,
    snapshots: Ring,
    chains: Chains,
    sideband: Sideband,
    lost: LostEvents,
    processes: Processes,
    names: Names,
    rules: Arc<Rules>,
    /// By id in the initial pid namespace.
    clients: BTreeMap<u32, Client>,
    /// The same by id in this pid namespace.
    tgids: HashMap<u32, u32>,
    questions: Questions,
    /// Chains of stacks that were cut, and since when they are requested.
    cut: HashMap<u64, Instant>,
    numbered: Numbered,
    kernels: KernelNames,
    /// Verdicts that the programs had evicted.
    answered_again: Arc<AtomicU64>,
    records: Vec<Record>,
    tidied: Instant,
}

impl Worker {
    pub(super) fn new(
        rules: Arc<Rules>,
        orders: Receiver<Order>,
        bell: Arc<OwnedFd>,
        told: Told,
    ) -> Result<Self, OriginError> {
        // Listening starts before running processes are read, so that none is missed in between.
        let sideband = Sideband::open()?;
        let (programs, Ends { events, snapshots, chains }) = Programs::load()?;
        Ok(Self {
            orders,
            bell,
            programs,
            events,
            snapshots,
            chains: Chains::new(chains, xsched_abi::chain::DEPTH_MAX as u32).map_err(OriginError::Thread)?,
            sideband,
            lost: LostEvents::default(),
            processes: Processes::new(),
            names: Names::new(Rules::clone(&rules), Label::Name),
            rules,
            clients: BTreeMap::new(),
            tgids: HashMap::new(),
            questions: Questions::default(),
            cut: HashMap::new(),
            numbered: Numbered::new(told.libraries, told.rule_names),
            kernels: KernelNames::default(),
            answered_again: told.answered_again,
            records: Vec::new(),
            tidied: Instant::now(),
        })
    }

    /// Works until `Order::End`.
    pub(super) fn run(mut self) {
        loop {
            self.wait();
            let began = Instant::now();
            while let Ok(order) = self.orders.try_recv() {
                if let Order::End = order {
                    return;
                }
                self.handle(order);
                if began.elapsed() > ORDERS_TIME {
                    // There may be more messages, but the eventfd was already read: signal it again.
                    let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
                    break;
                }
            }
            self.pump();
            if self.tidied.elapsed() > HOUSEKEEPING {
                self.tidied = Instant::now();
                self.tidy();
            }
        }
    }

    fn wait(&self) {
        let is_busy = self.chains.is_waiting() || !self.questions.is_empty();
        let tick = if is_busy { SHORT_TICK } else { TICK };
        let timeout = Timespec { tv_sec: 0, tv_nsec: tick.as_nanos() as i64 };
        // SAFETY: the rings live as long as `self`, and keep their descriptors.
        let rings =
            unsafe { [&self.events, &self.snapshots].map(|ring| BorrowedFd::borrow_raw(ring.as_raw_fd())) };
        let mut fds =
            [self.bell.as_fd(), rings[0], rings[1]].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // An interrupted wait is only shorter.
        let _ = poll(&mut fds, Some(&timeout));
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
    }

    fn handle(&mut self, order: Order) {
        match order {
            Order::Join(newcomer, reply) => {
                let key = newcomer.key;
                if reply.send(self.join(*newcomer)).is_err() {
                    // The connection has ended meanwhile.
                    self.leave(key);
                }
            }
            Order::Leave(key) => self.leave(key),
            Order::Domain(key, library, domain) => {
                self.change(key, |client| client.set_domain(&library, domain));
            }
            Order::Kernel(key, id, name) => {
                if let Some(client) = self.clients.values_mut().find(|client| client.key == key) {
                    client.set_kernel(id, &name, &mut self.kernels);
                }
            }
            Order::Caller(key, caller) => {
                let rules = Arc::clone(&self.rules);
                self.change(key, |client| client.set_caller(*caller, &rules));
            }
            Order::Settings(key, settings) => {
                let rules = Arc::clone(&self.rules);
                self.change(key, |client| client.set_settings(*settings, &rules));
            }
            Order::Rules(rules, reply) => {
                self.rules = rules;
                for tgid in self.clients.keys().copied().collect::<Vec<_>>() {
                    let rules = Arc::clone(&self.rules);
                    self.change_of(tgid, |client| client.set_rules(&rules));
                }
                // A sender that has stopped waiting does not need the answer.
                let _ = reply.send(());
            }
            Order::LetGo(shim) => self.programs.unprobe(shim),
            // A sender that has stopped waiting does not need the answer.
            Order::Heard(reply) => _ = reply.send(()),
            Order::Explain(pid, reply) => {
                let client = self.tgids.get(&pid).and_then(|tgid| self.clients.get(tgid));
                let losses = self.programs.counters.losses();
                let _ = reply.send(client.map(|client| answers::explain(client, &losses)));
            }
            Order::End => {}
        }
    }

    fn join(&mut self, newcomer: Newcomer) -> Result<Page, JoinError> {
        let Newcomer { pid, tgid, party, shim, runtime, .. } = newcomer;
        let holder = self.clients.get(&tgid).map(|client| client.runtime);
        if let Some(holder) = holder.filter(|&holder| holder != runtime) {
            return Err(JoinError::Taken { pid, holder });
        }
        self.drop_client(tgid);
        self.programs.probe(pid, shim, || self.clients.values().map(|client| client.shim).collect())?;
        let map = self.programs.add_page(tgid, party)?;
        self.chains.know_as(pid, Some(tgid));
        self.tgids.insert(pid, tgid);
        self.clients.insert(tgid, Client::new(newcomer, &self.rules));
        // Scanned after the page exists: the programs mark what the process maps from then on.
        if self.processes.scan(pid).is_err() {
            self.drop_client(tgid);
            let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(JoinError::Unreadable { pid, cause });
        }
        let seen_ns = self.take_changes();
        if let Some(process) = self.processes.process(pid) {
            self.chains.expect(process);
            self.chains.secure(process);
        }
        self.chains.work(&mut self.processes, &mut self.names, seen_ns);
        Ok(Page { map })
    }

    /// A connection has ended.
    fn leave(&mut self, key: super::ClientKey) {
        let found = self.clients.iter().find(|(_, client)| client.key == key);
        if let Some(tgid) = found.map(|(tgid, _)| *tgid) {
            self.drop_client(tgid);
        }
    }

    fn drop_client(&mut self, tgid: u32) {
        let Some(mut client) = self.clients.remove(&tgid) else { return };
        client.release_kernels(&mut self.kernels);
        self.programs.remove_page(tgid, client.answers.keys().copied());
        self.chains.ended(client.pid);
        self.chains.know_as(client.pid, None);
        self.tgids.remove(&client.pid);
        // From now on its events are not taken in: its end would not be noticed, and what is known of it would stay for good.
        self.names.ended(client.pid);
        self.processes.forget(client.pid);
    }

    /// Changes what is known of a process, and decides again.
    fn change(&mut self, key: super::ClientKey, change: impl FnOnce(&mut Client)) {
        let found = self.clients.iter().find(|(_, client)| client.key == key);
        if let Some(tgid) = found.map(|(tgid, _)| *tgid) {
            self.change_of(tgid, change);
        }
    }

    fn change_of(&mut self, tgid: u32, change: impl FnOnce(&mut Client)) {
        let Some(client) = self.clients.get_mut(&tgid) else { return };
        change(client);
        let Reconsidered { changed, forgotten } = client.reconsider(&mut self.numbered, RECONSIDER_TIME);
        for (key, decided) in changed {
            self.programs.decided.decide(tgid, key, decided);
        }
        for key in forgotten {
            self.programs.decided.forget(tgid, key);
        }
        // Needed even if no existing verdict changes: later verdicts may differ in whether the process may keep them.
        renew(tgid);
    }

    fn pump(&mut self) {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        self.events.drain(&mut records, BATCH_MAX);
        self.snapshots.drain(&mut records, BATCH_MAX);
        let seen_ns = self.take_changes();
        records.sort_by_key(Record::time_ns);
        for record in &mut records {
            match record {
                Record::Stack { stack, addresses } => {
                    if let Some(client) = self.clients.get(&stack.tgid) {
                        stack.tgid = client.pid;
                        self.chains.walked(&mut self.processes, &mut self.names, stack, addresses);
                    }
                }
                Record::Snapshot { snapshot, words } => {
                    if let Some(client) = self.clients.get(&snapshot.tgid) {
                        snapshot.tgid = client.pid;
                        self.chains.copied(snapshot.clone(), std::mem::take(words));
                    }
                }
                Record::Wanted(wanted) => {
                    let (tgid, key) = (wanted.tgid, wanted.key);
                    let party = self.clients.get(&tgid).map(Client::party);
                    let since = Instant::now();
                    let is_kept =
                        party.is_some_and(|party| self.questions.add(Question { tgid, party, key, since }));
                    if !is_kept {
                        self.programs.decided.forget(tgid, key);
                    }
                }
                // Those are the tracer's.
                _ => {}
            }
        }
        self.chains.work(&mut self.processes, &mut self.names, seen_ns);
        // Their verdicts keep chains, too.
        for pid in self.chains.take_forgotten() {
            if let Some(&tgid) = self.tgids.get(&pid)
                && let Some(client) = self.clients.get_mut(&tgid)
            {
                forget_answers(tgid, client, &mut self.programs);
            }
        }
        self.answer_all();
        self.records = records;
    }

    fn answer_all(&mut self) {
        let until = Instant::now() + ANSWERS_TIME;
        while Instant::now() < until
            && let Some(question) = self.questions.take(Instant::now())
        {
            let began = processor_time();
            let is_answered = self.answer(&question);
            self.questions.looked(question, is_answered, processor_time().saturating_sub(began));
        }
        self.questions.end_turn(Instant::now());
    }

    /// Answers a request; false if it must wait.
    fn answer(&mut self, question: &Question) -> bool {
        let &Question { tgid, key, since, .. } = question;
        let waited = since.elapsed();
        let Some(client) = self.clients.get_mut(&tgid) else {
            self.programs.decided.forget(tgid, key);
            return true;
        };
        if waited < NAME_PATIENCE && client.wants_name_of_kernel(Subject(key.subject)) {
            return false;
        }
        let chain = match self.chains.find(&mut self.processes, &mut self.names, key.chain, waited) {
            Lookup::Known(chain) => chain,
            Lookup::Waiting => return false,
            Lookup::Lost => {
                // Its record was lost, or forgotten here: all chains are sent again, and the verdict is requested
                // again.
                self.chains.renew(client.pid);
                self.programs.decided.forget(tgid, key);
                return true;
            }
        };
        if chain.end == ChainEnd::Unreadable
            && self.cut.entry(key.chain).or_insert_with(Instant::now).elapsed() < CUT_PATIENCE
        {
            self.programs.decided.forget(tgid, key);
            return true;
        }
        if client.is_full() {
            forget_answers(tgid, client, &mut self.programs);
            tracing::info!(
                "process {}: the verdicts on its calls are forgotten, and given again",
                client.pid
            );
        }
        let is_again = client.answers.contains_key(&key);
        self.answered_again.fetch_add(u64::from(is_again), Ordering::Relaxed);
        self.programs.decided.decide(tgid, key, client.answer(key, chain, &mut self.numbered));
        true
    }

    /// Reads the side-band. Everything that was mapped before the returned time is known.
    fn take_changes(&mut self) -> u64 {
        let seen_ns = now_ns();
        let (processes, tgids) = (&mut self.processes, &self.tgids);
        let mut changes = Vec::new();
        self.sideband.drain(|event| {
            let concerns = matches!(event.kind, PerfEventKind::Lost { .. }) || tgids.contains_key(&event.pid);
            if concerns {
                changes.extend(processes.apply(&event).map(|change| (event.time_ns, change)));
            }
        });
        let mut ended = HashSet::new();
        for (time_ns, change) in changes {
            match change {
                // The program before the process joined had ended earlier.
                Change::Exited { pid } | Change::Executed { pid } if self.joined_before(pid, time_ns) => {
                    ended.insert(pid);
                }
                Change::Lost { .. } => self.lost.note(),
                _ => {}
            }
            self.chains.changed(&change);
            self.names.changed(&change);
        }
        let now = Instant::now();
        if self.lost.take_due(now) {
            ended.extend(self.catch_up());
            self.lost.made_up(now.elapsed());
        }
        for pid in ended {
            if let Some(&tgid) = self.tgids.get(&pid) {
                self.drop_client(tgid);
            }
        }
        seen_ns
    }

    /// Reads all processes again. Returns those that have ended.
    fn catch_up(&mut self) -> Vec<u32> {
        let mut ended = Vec::new();
        for (pid, tgid) in self.tgids.clone() {
            if self.processes.scan(pid).is_err() {
                ended.push(pid);
            } else if let Some(process) = self.processes.process(pid) {
                self.chains.expect(process);
                renew(tgid);
            }
        }
        ended
    }

    fn joined_before(&self, pid: u32, time_ns: u64) -> bool {
        let client = self.tgids.get(&pid).and_then(|tgid| self.clients.get(tgid));
        client.is_some_and(|client| client.since_ns < time_ns)
    }

    fn tidy(&mut self) {
        self.programs.decided.prepare();
        self.processes.forget_exited(now_ns().saturating_sub(GRACE_NS));
        self.chains.forget_old();
        self.cut.retain(|_, since| since.elapsed() < 10 * CUT_PATIENCE);
    }
}

/// Forgets a process's verdicts. Its calls ask for them again.
fn forget_answers(tgid: u32, client: &mut Client, programs: &mut Programs) {
    for key in std::mem::take(&mut client.answers).into_keys() {
        programs.decided.forget(tgid, key);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::channel;

    use rustix::event::{EventfdFlags, eventfd};
    use tokio::sync::{oneshot, watch};
    use xsched_protocol::verdict::CLASSIFY_SYMBOL;
    use xsched_symbols::{MappedFunction, find_function};

    use super::super::rule_names::RuleNames;
    use super::*;

    fn worker() -> Worker {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
        let told = Told {
            rule_names: RuleNames::new(),
            libraries: watch::channel(Vec::new()).0,
            answered_again: Arc::default(),
        };
        Worker::new(Arc::default(), channel().1, bell, told).unwrap()
    }

    /// The kernel closes its connection before it reports its end.
    #[test]
    #[ignore = "needs root"]
    fn nothing_of_a_process_stays_after_its_connection() {
        let folder = tempfile::tempdir().unwrap();
        let (source, shim) = (folder.path().join("shim.c"), folder.path().join("libxsched_shim.so"));
        let code =
            format!("__attribute__((naked)) void {CLASSIFY_SYMBOL}(void) {{ __asm__(\"nop; ret\"); }}");
        std::fs::write(&source, code).unwrap();
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&shim, &source]).status();
        assert!(compiled.unwrap().success());
        let mut child = Command::new("sleep").arg("60").env("LD_PRELOAD", &shim).spawn().unwrap();
        let pid = child.id();
        let began = Instant::now();
        let shim = loop {
            match find_function(pid, CLASSIFY_SYMBOL, |_| false) {
                Ok(MappedFunction::New { id, .. }) => break id,
                _ => assert!(began.elapsed() < Duration::from_mins(1), "it does not load the library"),
            }
        };

        let mut worker = worker();
        let (reply, mut page) = oneshot::channel();
        worker.handle(Order::Join(Box::new(Newcomer::with_shim(pid, shim)), reply));
        page.try_recv().unwrap().unwrap();
        assert!(worker.processes.process(pid).is_some());
        worker.handle(Order::Leave(7));
        child.kill().unwrap();
        child.wait().unwrap();
        worker.pump();
        worker.tidy();
        assert!(worker.processes.process(pid).is_none());
    }
}
