//! Calls that processes with the shim record themselves: what they may record, and reading it.
//!
//! The process decides for each call whether it records it or leaves it to the probe (`shim/src/own_calls.rs`), so none is seen twice.
//! From here it gets the walks of its stack that the programs remember, with the ids of their chains. They hold for code that is
//! mapped as this session knows it: see [`OwnCalls::publish`].

use std::cell::Cell;
use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::time::{Duration, Instant};

use xsched_abi::memo::{Start, Walk};
use xsched_abi::{Call, CallKey, Category, PROBES, Pending, RecordKind, WORD_COUNT};
use xsched_bpf::{Record, RememberedWalks};
use xsched_chains::Chains;
use xsched_control_api::call_memory::SharedCalls;
use xsched_protocol::calls::{self, Calls, OwnCall, walks};
use xsched_symbols::now_ns;

/// How long the memory of a process is read after its end, or its controller's, was noticed.
const LINGERS: Duration = Duration::from_secs(2);

/// How long a thread may take to write a call. After that the others' calls are read without it.
const WRITING_MAX: Duration = Duration::from_secs(1);

/// Clocks of processes differ by less.
const SKEW_NS: u64 = 500_000;

/// The processes that record calls, and their calls.
pub(super) struct OwnCalls {
    walks: RememberedWalks,
    processes: Vec<OwnProcess>,
    /// Calls that are kept back so that each thread's stay in order: they returned after the time up to which every source was read.
    /// They come from the processes' memory, and from the BPF programs for the same processes.
    early: Vec<Record>,
    /// Calls that did not fit, were not completed, or made no sense.
    lost: u64,
    /// Calls that were read.
    count: u64,
    /// Whether the programs report every launch with a chain, and no other recorder needs the probes to see them.
    are_wanted: bool,
}

/// A process that records calls.
struct OwnProcess {
    pid: u32,
    calls: Rc<SharedCalls>,
    reader: Calls,
    is_wanted: bool,
    /// The generation of its verdict page that it had shown before changes were taken in.
    seen: Option<u64>,
    /// The generations of page and space for which walks are published.
    holds: Option<(u64, u64)>,
    published: walks::Published,
    /// Digests of the walks among them: the programs may remember one again.
    digests: HashSet<u64>,
    /// All chains that were ever published.
    chains: HashSet<u64>,
    /// Its threads, as the kernel has named them.
    tids: HashSet<u32>,
    /// Where reading has stopped at a call that is being written, and since when.
    stopped: Option<(u64, Instant)>,
    /// Since when nothing is written to it any more.
    over: Cell<Option<Instant>>,
}

impl OwnCalls {
    pub(super) fn new(walks: RememberedWalks, are_wanted: bool) -> Self {
        Self { walks, processes: Vec::new(), early: Vec::new(), lost: 0, count: 0, are_wanted }
    }

    /// A process has this memory for calls.
    pub(super) fn begin(&mut self, pid: u32, calls: Rc<SharedCalls>) {
        if self.are_wanted && calls::is_prepared(calls.memory()) {
            self.processes.push(OwnProcess {
                pid,
                calls,
                reader: Calls::default(),
                is_wanted: false,
                seen: None,
                holds: None,
                published: walks::Published::default(),
                digests: HashSet::new(),
                chains: HashSet::new(),
                tids: HashSet::new(),
                stopped: None,
                over: Cell::new(None),
            });
        }
    }

    /// All calls are left to the probes from now on.
    ///
    /// Returns whether that is new.
    pub(super) fn want_none(&mut self) -> bool {
        let were_wanted = std::mem::replace(&mut self.are_wanted, false);
        for process in &mut self.processes {
            Calls::want(process.calls.memory(), false);
        }
        were_wanted
    }

    /// Asks processes for their calls that are to be recorded. Notes what they have shown, before changes are taken in.
    pub(super) fn look(&mut self, includes: impl Fn(u32) -> bool) {
        for process in &mut self.processes {
            if self.are_wanted && !process.is_wanted && includes(process.pid) {
                process.is_wanted = true;
                Calls::want(process.calls.memory(), true);
            }
            process.seen = Calls::seen(process.calls.memory());
        }
    }

    /// Publishes the walks that programs remember of these processes. All changes of mappings from before [`Self::look`] were taken
    /// in since, and the programs have been told.
    ///
    /// The page's generation changes before a system call returns that has mapped code. So a process that finds the published
    /// one has mapped none since `look` that it could run, and a walk that ends at one of the programs' spaces holds for it.
    pub(super) fn publish(&mut self, chains: &Chains) {
        let is_new = |process: &OwnProcess| process.holds != process.now(chains);
        let is_renewed = self.processes.iter().any(|process| is_new(process) && process.renews(chains));
        for process in self.processes.iter_mut().filter(|process| process.is_wanted) {
            if is_renewed {
                process.take_back();
            }
            let now = process.now(chains);
            if process.holds != now {
                process.holds = now;
                Calls::hold(process.calls.memory(), now.map(|now| now.0));
            }
        }
        if self.processes.iter().any(|process| process.holds.is_some()) {
            self.publish_walks(is_renewed);
        }
    }

    /// Publishes the walks that are new, or all.
    fn publish_walks(&mut self, all: bool) {
        let Self { walks, processes, .. } = self;
        let owner = |start: &Start| processes.iter().position(|process| process.owns(start));
        let mut found = Vec::new();
        walks.read(
            all,
            |start| owner(start).is_some(),
            |walk| found.extend(owner(&walk.start).zip(Some(*walk))),
        );
        for (owner, walk) in found {
            processes[owner].publish(&walk);
        }
    }

    /// Adds the processes' calls to what the programs have written. What returned after `until_ns` waits, so that each thread's
    /// calls stay in order.
    pub(super) fn read(&mut self, records: &mut Vec<Record>, until_ns: u64) {
        if self.processes.is_empty() && self.early.is_empty() {
            return;
        }
        self.note_threads(records);
        let early = &mut self.early;
        let before = early.len();
        for process in &mut self.processes {
            self.lost += process.read(early);
        }
        let processes = &self.processes;
        let is_early = |record: &mut Record| match record {
            Record::Call { call, .. } => {
                call.end_ns > until_ns && processes.iter().any(|process| process.pid == call.tgid)
            }
            _ => false,
        };
        let later: Vec<_> = records.extract_if(.., is_early).collect();
        self.count += (early.len() - before) as u64;
        records.extend(early.extract_if(.., |record| record.time_ns() <= until_ns));
        early.extend(later);
        self.processes.retain(|process| !process.is_done());
    }

    /// Whether a call waits for others that returned before it.
    pub(super) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// The calls in progress of the processes that `whose` selects.
    pub(super) fn in_progress(&self, whose: impl Fn(u32) -> bool) -> Vec<(CallKey, Pending)> {
        let of = |process: &OwnProcess| -> Vec<_> {
            let calls = Calls::in_progress(process.calls.memory());
            calls
                .filter(|call| process.is_sensible(call, now_ns()))
                .map(|call| (process.key(&call), pending(&call)))
                .collect()
        };
        self.processes.iter().filter(|process| whose(process.pid)).flat_map(of).collect()
    }

    /// Calls that processes have recorded themselves.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Calls that did not fit, were not completed, or made no sense.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    fn note_threads(&mut self, records: &[Record]) {
        for record in records {
            if let Record::Call { call, .. } = record {
                let its = self.processes.iter_mut().filter(|process| process.pid == call.tgid);
                its.for_each(|process| {
                    process.tids.insert(call.tid);
                });
            }
        }
    }
}

impl OwnProcess {
    /// The generations for which walks may be published now.
    fn now(&self, chains: &Chains) -> Option<(u64, u64)> {
        self.seen.zip(chains.generation(self.pid)).filter(|_| self.is_wanted)
    }

    /// Whether its chains have other ids now.
    fn renews(&self, chains: &Chains) -> bool {
        self.holds.map(|holds| holds.1) != self.now(chains).map(|now| now.1)
    }

    /// Takes all published walks back.
    fn take_back(&mut self) {
        Calls::hold(self.calls.memory(), None);
        self.holds = None;
        self.published.take_back(Calls::walks(self.calls.memory()));
        self.digests.clear();
    }

    /// Whether a walk that begins there is of its stack, and holds now.
    fn owns(&self, start: &Start) -> bool {
        u64::from(self.pid) == start.tgid
            && self.over.get().is_none()
            && self.holds.is_some_and(|holds| holds.1 == start.generation)
    }

    fn publish(&mut self, walk: &Walk) {
        let words: Vec<_> = walk.words.pairs().collect();
        let start = walks::Start { rip: walk.start.rip, rsp: walk.start.rsp, rbp: walk.rbp };
        let uses_rbp = walk.uses_rbp != 0;
        let mut digest = DefaultHasher::new();
        (start.rip, start.rsp, uses_rbp.then_some(start.rbp), &words).hash(&mut digest);
        let published = walks::Walk { start, uses_rbp, chain: walk.chain, words: &words };
        let digest = digest.finish();
        // Only of those that have found space, so that the digests are as few as these.
        if !words.is_empty()
            && !self.digests.contains(&digest)
            && self.published.publish(Calls::walks(self.calls.memory()), &published)
        {
            self.digests.insert(digest);
            self.chains.insert(walk.chain);
        }
    }

    /// Reads its calls; returns how many were lost.
    fn read(&mut self, into: &mut Vec<Record>) -> u64 {
        let mut taken = Vec::new();
        let memory = Rc::clone(&self.calls);
        let mut lost = match self.reader.read(memory.memory(), |call| taken.push(call)) {
            Ok(lost) => lost,
            Err(broken) => {
                tracing::warn!("calls of process {} are not read any more: {broken}", self.pid);
                Calls::want(memory.memory(), false);
                self.over.set(Instant::now().checked_sub(2 * LINGERS));
                return 1;
            }
        };
        // Not before: calls have returned while others were read.
        let read_ns = now_ns();
        for call in taken {
            self.meet(call.tid);
            if self.is_sensible(&call, read_ns) && call.begin_ns <= call.end_ns {
                into.push(Record::Call { call: self.record(&call), text: Box::default() });
            } else {
                lost += 1;
            }
        }
        lost + u64::from(self.skips_stopped(memory.memory()))
    }

    /// Gives up a call that is not completed. Returns whether it did.
    fn skips_stopped(&mut self, memory: &calls::CallMemory) -> bool {
        if self.reader.unread(memory).unwrap_or(0) == 0 {
            self.stopped = None;
            return false;
        }
        let position = self.reader.position();
        let since = match self.stopped {
            Some((at, since)) if at == position => since,
            _ => Instant::now(),
        };
        self.stopped = Some((position, since));
        let skips = since.elapsed() > WRITING_MAX;
        if skips {
            self.reader.skip();
        }
        skips
    }

    /// A thread that the programs have not reported may be another process's.
    fn meet(&mut self, tid: u32) {
        if !self.tids.contains(&tid) && fs::exists(format!("/proc/{}/task/{tid}", self.pid)).unwrap_or(false)
        {
            self.tids.insert(tid);
        }
    }

    /// Whether the process may have made this call: it can lie about itself only.
    fn is_sensible(&self, call: &OwnCall, read_ns: u64) -> bool {
        let probe = PROBES.get(call.probe as usize);
        probe.is_some_and(|probe| probe.category == Category::Launch && probe.pointee.is_none())
            && self.chains.contains(&call.chain)
            && self.tids.contains(&call.tid)
            && call.begin_ns.max(call.end_ns) <= read_ns.saturating_add(SKEW_NS)
    }

    fn key(&self, call: &OwnCall) -> CallKey {
        CallKey { return_slot: 0, tgid: self.pid, tid: call.tid, probe: call.probe, reserved: 0 }
    }

    fn record(&self, call: &OwnCall) -> Call {
        let &OwnCall { probe, tid, begin_ns, end_ns, caller, ret, chain, .. } = call;
        Call {
            kind: RecordKind::Call as u32,
            probe,
            tgid: self.pid,
            tid,
            begin_ns,
            end_ns,
            caller,
            ret,
            out: 0,
            chain,
            words: words(call),
            cpu: 0,
            text_len: 0,
        }
    }

    /// Whether nothing more will come.
    fn is_done(&self) -> bool {
        // The source has dropped its own: the process has ended, or its controller.
        if Rc::strong_count(&self.calls) == 1 && self.over.get().is_none() {
            self.over.set(Some(Instant::now()));
        }
        self.over.get().is_some_and(|since| since.elapsed() > LINGERS)
    }
}

fn words(call: &OwnCall) -> [u64; WORD_COUNT] {
    let mut words = [0; WORD_COUNT];
    words[..call.words.len()].copy_from_slice(&call.words);
    words
}

fn pending(call: &OwnCall) -> Pending {
    let &OwnCall { begin_ns, caller, chain, .. } = call;
    Pending { begin_ns, caller, chain, words: words(call) }
}
