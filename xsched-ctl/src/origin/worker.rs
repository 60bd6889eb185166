//! The thread: takes in orders, what programs ask, and what happens to processes, and answers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use xsched_abi::ChainEnd;
use xsched_protocol::verdict::{Subject, VerdictKey};
use xsched_rules::Rules;
use xsched_symbols::{Change, PerfEventKind, Processes, Sideband, now_ns};

use super::client::Client;
use super::numbered::Numbered;
use super::programs::{Ends, Programs, renew};
use super::{JoinError, Newcomer, Order, OriginError, Page, Told, answers};
use crate::bpf::{Record, Ring};
use crate::chain::Label;
use crate::session::chains::{Chains, Lookup};
use crate::session::resolve::Resolver;

/// How often the side-band is read when nothing else happens.
const TICK: Duration = Duration::from_millis(100);

/// The same while questions wait for chains, and chains for tables.
const SHORT_TICK: Duration = Duration::from_millis(2);

/// How often memory is freed that nobody needs.
const HOUSEKEEPING: Duration = Duration::from_secs(5);

/// How long the memory of an ended process is kept, for records that are still on their way.
const GRACE_NS: u64 = 4_000_000_000;

/// How long a question waits for a kernel's name, which comes over the socket.
const NAME_PATIENCE: Duration = Duration::from_millis(20);

/// How long a stack that was copied and is larger than its copy may be asked about anew: as soon as the tables are there
/// the programs walk all of it.
const CUT_PATIENCE: Duration = Duration::from_secs(1);

/// Records that are taken in between two looks at everything else.
const BATCH_MAX: usize = 4096;

/// How long orders are followed between two looks at everything else: processes can have as many given as they like.
const ORDERS_TIME: Duration = Duration::from_millis(2);

pub(super) struct Worker {
    orders: Receiver<Order>,
    bell: Arc<OwnedFd>,
    programs: Programs,
    events: Ring,
    snapshots: Ring,
    chains: Chains,
    sideband: Sideband,
    processes: Processes,
    resolver: Resolver,
    rules: Arc<Rules>,
    /// By id in the initial pid namespace.
    clients: BTreeMap<u32, Client>,
    /// The same by id here.
    tgids: HashMap<u32, u32>,
    questions: Vec<Question>,
    /// Chains of stacks that were cut, and since when they are asked about.
    cut: HashMap<u64, Instant>,
    numbered: Numbered,
    /// Answers that the programs had forgotten.
    answered_again: Arc<AtomicU64>,
    records: Vec<Record>,
    tidied: Instant,
}

struct Question {
    tgid: u32,
    key: VerdictKey,
    since: Instant,
}

impl Worker {
    pub(super) fn new(
        rules: Arc<Rules>,
        orders: Receiver<Order>,
        bell: Arc<OwnedFd>,
        told: Told,
    ) -> Result<Self, OriginError> {
        // Listen first, then look at what runs already: nothing falls between the two.
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
            processes: Processes::new(),
            resolver: Resolver::new(Rules::clone(&rules), Label::Name, true),
            rules,
            clients: BTreeMap::new(),
            tgids: HashMap::new(),
            questions: Vec::new(),
            cut: HashMap::new(),
            numbered: Numbered::new(told.libraries, told.rule_names),
            answered_again: told.answered_again,
            records: Vec::new(),
            tidied: Instant::now(),
        })
    }

    /// Works until it is told to end.
    pub(super) fn run(mut self) {
        loop {
            self.wait();
            let began = Instant::now();
            while let Ok(order) = self.orders.try_recv() {
                if let Order::End = order {
                    return;
                }
                self.obey(order);
                if began.elapsed() > ORDERS_TIME {
                    // There may be more, and the bell was heard already.
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
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, Some(&timeout));
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Join(newcomer, reply) => {
                let tgid = newcomer.tgid;
                if reply.send(self.join(*newcomer)).is_err() {
                    // The connection has ended meanwhile.
                    self.drop_client(tgid);
                }
            }
            Order::Leave(key) => {
                let found = self.clients.iter().find(|(_, client)| client.key == key);
                if let Some(tgid) = found.map(|(tgid, _)| *tgid) {
                    self.drop_client(tgid);
                }
            }
            Order::Domain(key, library, domain) => {
                self.change(key, |client| client.set_domain(&library, domain));
            }
            Order::Kernel(key, id, name) => {
                if let Some(client) = self.clients.values_mut().find(|client| client.key == key) {
                    client.set_kernel(id, name);
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
                // Whoever does not wait for it need not know.
                let _ = reply.send(());
            }
            Order::LetGo(shim) => self.programs.unprobe(shim),
            // Whoever does not wait for it need not know.
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
        let Newcomer { pid, tgid, uid, shim, .. } = newcomer;
        self.drop_client(tgid);
        self.programs.probe(pid, shim, || self.clients.values().map(|client| client.shim).collect())?;
        let map = self.programs.add_page(tgid, uid)?;
        self.chains.know_as(pid, Some(tgid));
        self.tgids.insert(pid, tgid);
        self.clients.insert(tgid, Client::new(newcomer, &self.rules));
        // After the page is there: what it maps from now on is marked by the programs.
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
        self.chains.work(&mut self.processes, &mut self.resolver, seen_ns);
        Ok(Page { map })
    }

    fn drop_client(&mut self, tgid: u32) {
        let Some(client) = self.clients.remove(&tgid) else { return };
        self.programs.remove_page(tgid, client.answers.keys().copied());
        self.chains.ended(client.pid);
        self.chains.know_as(client.pid, None);
        self.tgids.remove(&client.pid);
    }

    /// Changes what is known of a process, and decides anew.
    fn change(&mut self, key: super::ClientKey, change: impl FnOnce(&mut Client)) {
        let found = self.clients.iter().find(|(_, client)| client.key == key);
        if let Some(tgid) = found.map(|(tgid, _)| *tgid) {
            self.change_of(tgid, change);
        }
    }

    fn change_of(&mut self, tgid: u32, change: impl FnOnce(&mut Client)) {
        let Some(client) = self.clients.get_mut(&tgid) else { return };
        change(client);
        for (key, decided) in client.reconsider(&mut self.numbered) {
            self.programs.decided.decide(tgid, key, decided);
        }
        // Also if nothing that was asked has another answer: what is asked next may not be kept as it would have been.
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
                        self.chains.walked(&mut self.processes, &mut self.resolver, stack, addresses);
                    }
                }
                Record::Snapshot { snapshot, bytes } => {
                    if let Some(client) = self.clients.get(&snapshot.tgid) {
                        snapshot.tgid = client.pid;
                        self.chains.copied(snapshot.clone(), std::mem::take(bytes));
                    }
                }
                Record::Wanted(wanted) => {
                    self.questions.push(Question {
                        tgid: wanted.tgid,
                        key: wanted.key,
                        since: Instant::now(),
                    });
                }
                // The tracer's.
                _ => {}
            }
        }
        self.chains.work(&mut self.processes, &mut self.resolver, seen_ns);
        self.answer_all();
        self.records = records;
    }

    fn answer_all(&mut self) {
        for question in std::mem::take(&mut self.questions) {
            if !self.answer(&question) {
                self.questions.push(question);
            }
        }
    }

    /// Answers a question; false if it has to wait.
    fn answer(&mut self, question: &Question) -> bool {
        let &Question { tgid, key, since } = question;
        let waited = since.elapsed();
        let Some(client) = self.clients.get_mut(&tgid) else {
            self.programs.decided.forget(tgid, key);
            return true;
        };
        if waited < NAME_PATIENCE && client.wants_name_of_kernel(Subject(key.subject)) {
            return false;
        }
        let chain = match self.chains.find(&mut self.processes, &mut self.resolver, key.chain, waited) {
            Lookup::Known(chain) => chain,
            Lookup::Waiting => return false,
            Lookup::Lost => {
                // Its record was lost, or forgotten here: all are shipped anew, and the question is asked again.
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
            for old in std::mem::take(&mut client.answers).into_keys() {
                self.programs.decided.forget(tgid, old);
            }
            tracing::info!(
                "process {}: what was decided about its calls is forgotten, and decided anew",
                client.pid
            );
        }
        let is_again = client.answers.contains_key(&key);
        self.answered_again.fetch_add(u64::from(is_again), Ordering::Relaxed);
        self.programs.decided.decide(tgid, key, client.answer(key, chain, &mut self.numbered));
        true
    }

    /// Reads the side-band. Everything that was mapped before the returned time has been told.
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
                // What it was before it joined has ended before.
                Change::Exited { pid } | Change::Executed { pid } if self.joined_before(pid, time_ns) => {
                    ended.insert(pid);
                }
                Change::Lost { .. } => {
                    for (pid, tgid) in self.tgids.clone() {
                        if self.processes.scan(pid).is_err() {
                            ended.insert(pid);
                        } else if let Some(process) = self.processes.process(pid) {
                            self.chains.expect(process);
                            renew(tgid);
                        }
                    }
                }
                _ => {}
            }
            self.chains.changed(&change);
            self.resolver.changed(&change);
        }
        for pid in ended {
            if let Some(&tgid) = self.tgids.get(&pid) {
                self.drop_client(tgid);
            }
        }
        seen_ns
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
