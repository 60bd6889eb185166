//! Call chains: provides what the programs need to walk stacks, and processes their results.
//!
//! ```text
//! programs                         here                                     builder's threads
//! Stack ────────────────────────► named, known by its id
//! Snapshot ─────────────────────► waits ◄──── table ──────────────────────── built
//!                                 walked, named, known by its id
//!                                 mappings ──► SPACES, MAPPINGS
//!                                 table ────► loader's thread ──► PAGES, CHUNKS
//! ```
//!
//! A table is requested when a stack first leads into a library. Until it is there, the programs send such stacks as
//! they are, once for each chain, and their calls wait here for a limited time.

mod known;
mod loader;
mod nameless;
mod ranges;
mod rows;
mod snapshot_walk;
mod spaces;
mod tables;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xsched_abi::{ChainEnd, Snapshot, Stack};
use xsched_symbols::{Change, Mapping, Process, Processes, has_own_files, hold_root};
use xsched_unwind::Need;

use crate::chain::Chain;
use crate::maps::{ChainMaps, ProcessMaps};
use crate::names::Names;
use known::{Added, KnownChains};
use loader::{Loader, Place};
use nameless::Nameless;
use rows::Rows;
use snapshot_walk::{Copied, Patience};
use spaces::Spaces;
use tables::{Known, Tables};

/// How long a stack waits for tables. Building those of a large library takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a call waits for its stack; then it is recorded with what is known. A stack may need several tables one
/// after the other, and a busy machine builds each slowly.
pub const CALL_PATIENCE: Duration = Duration::from_secs(15);

/// How long a call waits for the record of its chain, which another thread may be about to write.
const RECORD_PATIENCE: Duration = Duration::from_millis(200);

/// Most stacks that wait, and most bytes of them: the size of a batch, and the capacity of the largest usual ring buffer.
const WAITING_MAX: usize = 8192;
const WAITING_BYTES_MAX: usize = 256 << 20;

/// How long waiting stacks are walked at a time. A table may be what thousands waited for, and meanwhile the ring buffers are not read.
const WALKS_TIME: Duration = Duration::from_millis(10);

/// How often it is looked for tables while a process is prepared.
const PREPARED_EVERY: Duration = Duration::from_millis(5);

/// Libraries on nearly every stack, by the beginning of their names.
const COMMON: [&str; 5] = ["libc.so", "libpython", "libstdc++.so", "libamdhip64", "libcudart"];

/// All chains of the recorded processes.
pub struct Chains {
    maps: ProcessMaps,
    tables: Tables,
    spaces: Spaces,
    depth: usize,
    known: KnownChains,
    /// Processes whose chains were forgotten for those of others.
    forgotten: HashSet<u32>,
    waiting: Vec<Waiting>,
    /// Chains of waiting stacks, as far as they could be walked when a call needed them.
    partial: HashMap<u64, Option<Arc<Chain>>>,
    nameless: nameless::Waiting,
    /// Processes about which the programs know less than this does; true if their chains must be sent again.
    untold: HashMap<u32, bool>,
}

struct Waiting {
    copied: Copied,
    since: Instant,
    /// A walk has found that it needs a missing table.
    was_walked: bool,
}

/// What is known about a chain's id.
pub enum Lookup {
    /// The chain, or as much of it as could be found in reasonable time.
    Known(Arc<Chain>),
    /// It may be known soon.
    Waiting,
    /// Its record has not arrived, and will not.
    Lost,
}

impl Chains {
    /// Chains of at most `depth` frames.
    ///
    /// # Errors
    ///
    /// If the threads that build and load tables cannot be started.
    pub fn new(maps: ChainMaps, depth: u32) -> io::Result<Self> {
        let mut rows = Rows::new(maps.rows);
        let loader = Loader::start(move |table| rows.load(table))?;
        Ok(Self {
            maps: maps.processes,
            tables: Tables::new(loader)?,
            spaces: Spaces::new(),
            depth: depth as usize,
            known: KnownChains::new(),
            forgotten: HashSet::new(),
            waiting: Vec::new(),
            partial: HashMap::new(),
            nameless: nameless::Waiting::new(CALL_PATIENCE),
            untold: HashMap::new(),
        })
    }

    /// Whether chains are recorded.
    pub fn are_recorded(&self) -> bool {
        self.depth > 0
    }

    /// [`Space::generation`](xsched_abi::Space::generation) of a process of which the programs have all mappings that are known
    /// here.
    pub fn generation(&self, pid: u32) -> Option<u64> {
        self.spaces.generation(pid).filter(|_| !self.untold.contains_key(&pid))
    }

    /// The programs only get processes that this names, by the id that they use for it.
    pub fn know_as(&mut self, pid: u32, tgid: Option<u32>) {
        self.maps.know_as(pid, tgid);
    }

    /// A process's chains must be sent again: some that the programs refer to are unknown.
    pub fn renew(&mut self, pid: u32) {
        self.untold.insert(pid, true);
    }

    /// A process uses a GPU runtime, or is about to: prepares the tables that its stacks are likely to need.
    pub fn expect(&mut self, process: &Process) {
        if !self.are_recorded() {
            return;
        }
        let pid = process.pid();
        hold_root(pid);
        for (_, mapping) in process.code() {
            let is_program = process.executable().is_some_and(|path| *path == mapping.path);
            if is_program || COMMON.iter().any(|name| mapping.library().starts_with(name)) {
                self.tables.want(pid, mapping, Need::Expected);
            }
        }
        self.untold.entry(pid).or_insert(false);
    }

    /// A process that uses a GPU runtime is about to be probed: gives the programs its mappings up to `seen_ns`, with the tables of all of
    /// them, before its first call comes. Each stack that leads into a library without a table is copied, and what a busy process launches
    /// from is more than can be copied. Waits for the tables until `patience` is over.
    pub fn prepare(&mut self, process: &Process, seen_ns: u64, patience: Duration) {
        if !self.are_recorded() {
            return;
        }
        self.expect(process);
        let (pid, since) = (process.pid(), Instant::now());
        let code: Vec<_> = process.code().map(|(_, mapping)| Arc::clone(mapping)).collect();
        self.tables.hurry(true);
        loop {
            self.tables.collect();
            let missing = code.iter().filter(|mapping| self.awaits(pid, mapping)).count();
            if missing == 0 || since.elapsed() >= patience {
                tracing::debug!(pid, missing, took = ?since.elapsed(), "prepared chains");
                break;
            }
            thread::sleep(PREPARED_EVERY);
        }
        self.tables.hurry(false);
        self.introduce(process, seen_ns);
    }

    /// Requests the table of a mapping. Returns whether the programs may get it soon.
    fn awaits(&mut self, pid: u32, mapping: &Arc<Mapping>) -> bool {
        match self.tables.want(pid, mapping, Need::Waiting) {
            Known::Building | Known::Opening => true,
            Known::Table(table) => self.tables.place(&table) == Place::Coming,
            Known::Tableless | Known::Gone | Known::Generated => false,
        }
    }

    /// A process uses a GPU runtime and is stopped. Files that are visible in its own mount namespace or root only become unreachable
    /// when it ends, so all of them are opened now.
    pub fn secure(&mut self, process: &Process) {
        if !self.are_recorded() || !has_own_files(process.pid()) {
            return;
        }
        for (_, mapping) in process.code() {
            self.tables.want(process.pid(), mapping, Need::Expected);
        }
    }

    /// A stopped process is about to continue, and its first calls will come before anything else is done here. So the
    /// programs get its mappings up to `seen_ns` at once. Without them, every word that looks like an address
    /// distinguishes stacks, and nearly every call sends a copy.
    pub fn introduce(&mut self, process: &Process, seen_ns: u64) {
        if self.are_recorded() && self.untold.get(&process.pid()) == Some(&false) {
            self.untold.remove(&process.pid());
            self.spaces.tell(&mut self.maps, &mut self.tables, process, seen_ns, false);
        }
    }

    /// Notes a change in a process.
    pub fn changed(&mut self, change: &Change) {
        match *change {
            Change::Mapped { pid, .. } | Change::Found { pid } | Change::Executed { pid }
                if self.spaces.contains(pid) =>
            {
                self.untold.entry(pid).or_insert(false);
            }
            Change::Forked { pid, parent } if self.spaces.contains(parent) => {
                self.untold.entry(pid).or_insert(false);
            }
            _ => {}
        }
    }

    /// A process has ended, and all its records have been read. No call waits for its chains any more.
    pub fn ended(&mut self, pid: u32) {
        self.spaces.forget(&mut self.maps, pid);
        self.untold.remove(&pid);
        // Named later, they would bring back what is known of it.
        let waiting = self.waiting.extract_if(.., |waiting| waiting.copied.snapshot.tgid == pid);
        for id in waiting.map(|waiting| waiting.copied.snapshot.chain).chain(self.nameless.forget(pid)) {
            self.partial.remove(&id);
        }
        self.known.forget(pid);
    }

    /// A program has walked a stack.
    pub fn walked(&mut self, processes: &mut Processes, names: &mut Names, stack: &Stack, addresses: &[u64]) {
        let is_interrupted = |index: usize| {
            stack.interrupted.get(index / 64).is_some_and(|bits| bits >> (index % 64) & 1 != 0)
        };
        let frames: Vec<_> =
            addresses.iter().enumerate().map(|(index, &address)| (address, is_interrupted(index))).collect();
        let end = ChainEnd::from_number(stack.end).unwrap_or(ChainEnd::Lost);
        let &Stack { chain: id, tgid: pid, generation, time_ns, .. } = stack;
        let nameless = Nameless { id, pid, generation, time_ns, frames, end, since: Instant::now() };
        self.name(processes, names, nameless);
    }

    /// Names a chain, now or when the files of its functions are open.
    fn name(&mut self, processes: &mut Processes, names: &mut Names, nameless: Nameless) {
        let Nameless { id, pid, generation, time_ns, ref frames, end, .. } = nameless;
        names.take_unanswered();
        let chain = names.chain(processes, pid, time_ns, frames, end);
        if names.take_unanswered() && self.nameless.has_room_for(&nameless) {
            self.partial.insert(id, Some(Arc::new(chain)));
            self.nameless.push(nameless);
        } else {
            self.partial.remove(&id);
            self.know(id, pid, generation, chain);
        }
    }

    /// A program could not walk a stack.
    pub fn copied(&mut self, snapshot: Box<Snapshot>, words: Box<[u64]>) {
        // Either the process is new, or one of its mappings or a requested table is.
        self.untold.entry(snapshot.tgid).or_insert(false);
        self.partial.insert(snapshot.chain, None);
        let copied = Copied::new(snapshot, words);
        self.waiting.push(Waiting { copied, since: Instant::now(), was_walked: false });
    }

    /// Does what can be done now. `processes` has everything that was mapped up to `seen_ns`.
    pub fn work(&mut self, processes: &mut Processes, names: &mut Names, seen_ns: u64) {
        let any_table = self.tables.collect();
        if any_table {
            for pid in self.spaces.pids().collect::<Vec<_>>() {
                self.untold.entry(pid).or_insert(false);
            }
        }
        for nameless in self.nameless.take_due() {
            self.name(processes, names, nameless);
        }
        // Walks request tables, so they come first.
        self.walk_waiting(processes, names, any_table);
        for (pid, renew) in std::mem::take(&mut self.untold) {
            match processes.process(pid).filter(|process| process.ended_ns().is_none()) {
                Some(process) => {
                    self.spaces.tell(&mut self.maps, &mut self.tables, process, seen_ns, renew);
                }
                None => self.spaces.forget(&mut self.maps, pid),
            }
        }
    }

    /// A stack that was already walked waits for a table. It is walked again only if there is `any_table` new, because
    /// the threads that build tables need the processor. Those for which there is no time are walked the next time.
    fn walk_waiting(&mut self, processes: &mut Processes, names: &mut Names, any_table: bool) {
        let excess = self.waiting.len().saturating_sub(WAITING_MAX);
        let bytes: usize = self.waiting.iter().map(|waiting| waiting.copied.bytes()).sum();
        let mut excess_bytes = bytes.saturating_sub(WAITING_BYTES_MAX);
        let until = Instant::now() + WALKS_TIME;
        let mut still = Vec::new();
        for (index, mut waiting) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            let is_in_excess = index < excess || excess_bytes > 0;
            excess_bytes = excess_bytes.saturating_sub(waiting.copied.bytes());
            let is_last_try = is_in_excess || waiting.since.elapsed() > PATIENCE;
            if waiting.was_walked && !any_table && !is_last_try {
                still.push(waiting);
                continue;
            }
            if !is_last_try && Instant::now() >= until {
                waiting.was_walked = false;
                still.push(waiting);
                continue;
            }
            waiting.was_walked = true;
            let patience = if is_last_try { Patience::End } else { Patience::Wait };
            let Snapshot { tgid, time_ns, chain: id, generation, .. } = *waiting.copied.snapshot;
            let process = processes.find(tgid, time_ns);
            let requested = self.tables.requested();
            let walked = waiting.copied.walk(process, &mut self.tables, self.depth, patience);
            let Some((frames, end)) = walked else {
                // It waits for a table that was not requested before, and will for those behind it.
                if let Some(process) = process.filter(|_| self.tables.requested() > requested) {
                    waiting.copied.expect_tables(process, &mut self.tables);
                }
                still.push(waiting);
                continue;
            };
            if let (ChainEnd::Unreadable, Some(process)) = (end, process) {
                // The copy was cut. A program that walks the stack itself may get further. Which tables it will need cannot be
                // determined here.
                for (_, mapping) in process.code() {
                    self.tables.want(tgid, mapping, Need::Expected);
                }
            }
            let (pid, since) = (tgid, Instant::now());
            self.name(processes, names, Nameless { id, pid, generation, time_ns, frames, end, since });
        }
        self.waiting = still;
        self.tables.hurry(!self.waiting.is_empty());
    }

    fn know(&mut self, id: u64, pid: u32, generation: u64, chain: Chain) {
        match self.known.add(id, pid, generation, chain) {
            Added::Fits => {}
            Added::Many => self.renew(pid),
            Added::Forgot(pid) => {
                tracing::info!("process {pid}: its call chains take too much memory, and are sent again");
                self.renew(pid);
                self.forgotten.insert(pid);
            }
        }
    }

    /// Processes of which all chains were forgotten since the last call, as all processes had too many.
    pub fn take_forgotten(&mut self) -> HashSet<u32> {
        std::mem::take(&mut self.forgotten)
    }

    /// The chain with this id, for a call that has waited this long for it.
    pub fn find(
        &mut self,
        processes: &mut Processes,
        names: &mut Names,
        id: u64,
        waited: Duration,
    ) -> Lookup {
        if let Some(chain) = self.known.find(id) {
            return Lookup::Known(chain);
        }
        match self.partial.get(&id) {
            Some(_) if waited < CALL_PATIENCE => Lookup::Waiting,
            Some(Some(chain)) => Lookup::Known(Arc::clone(chain)),
            Some(None) => self.find_part(processes, names, id).map_or(Lookup::Lost, Lookup::Known),
            None if waited < RECORD_PATIENCE => Lookup::Waiting,
            None => Lookup::Lost,
        }
    }

    /// As much of a chain as can be found without the missing tables.
    fn find_part(&mut self, processes: &mut Processes, names: &mut Names, id: u64) -> Option<Arc<Chain>> {
        let waiting = self.waiting.iter_mut().find(|waiting| waiting.copied.snapshot.chain == id)?;
        let Snapshot { tgid, time_ns, .. } = *waiting.copied.snapshot;
        let process = processes.find(tgid, time_ns);
        let (frames, end) = waiting.copied.walk(process, &mut self.tables, self.depth, Patience::End)?;
        let chain = Arc::new(names.chain(processes, tgid, time_ns, &frames, end));
        self.partial.insert(id, Some(Arc::clone(&chain)));
        Some(chain)
    }

    /// Whether a stack waits for a walk.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Forgets chains that no call can refer to any more.
    pub fn forget_old(&mut self) {
        self.known.forget_old(|pid| self.spaces.generation(pid));
    }

    /// Processes and tables for which there was no space.
    pub fn refused(&self) -> u64 {
        self.spaces.refused() + self.tables.refused()
    }
}
