//! Tries every order in which the steps of several threads can happen.
//!
//! A step is one access to memory. An operation is an ordinary function. The progress of a thread within it is the list of
//! results of its accesses so far. To make the next step, the function runs again from its beginning, gets those results, and
//! makes one more access. Everything after that access is discarded: the function gets zeros, and its writes are ignored.
//!
//! Two orders that lead to the same memory and the same progress are explored once. Reading a word that no thread writes is no
//! step. The written words are found during the exploration; whenever one more is found, the exploration restarts.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash as _, Hasher as _};

use xsched_protocol::arbiter_page::{
    ArbiterEvent, CLAIM_MAX, ClaimWord, GATE_ALLOWED, GATE_QUIET, Host, PAGE_WORDS, Word, Words, gate,
    more_urgent,
};

/// The operations of a thread, in order.
pub(crate) type Operations<'a> = Vec<Box<dyn Fn(&Machine<'_>) + 'a>>;

/// Words that are not zero. Behind the page lie the words of the machine around it.
pub(crate) type Memory = BTreeMap<u64, u64>;

/// The word that says whether a waiter was woken.
const WAKE: u64 = PAGE_WORDS as u64;

/// The gates, by slot; the word of a claim without a gate is [`NO_GATE`].
const GATES: u64 = WAKE + 1;

const NO_GATE: u64 = u64::MAX;

/// The words behind this one say which processes live, by owner.
const OWNERS: u64 = GATES + CLAIM_MAX as u64;

/// The requests of claims' processes, by slot.
const WISHES: u64 = OWNERS + CLAIM_MAX as u64;

/// How far a thread has got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Progress {
    operation: usize,
    /// What the accesses of that operation have returned so far.
    results: Vec<u64>,
}

/// Runs an operation, and limits the accesses that it makes.
pub(crate) struct Machine<'a> {
    memory: RefCell<&'a mut Memory>,
    /// Words that some thread writes; none while there are no threads.
    written: Option<&'a RefCell<BTreeSet<u64>>>,
    results: &'a [u64],
    position: Cell<usize>,
    /// How many further accesses are made.
    budget: Cell<usize>,
    made: Cell<Option<u64>>,
    end: Cell<End>,
    now_ns: Cell<u64>,
    writes_gates_once: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Returned,
    /// There was no budget for another access.
    Cut,
    /// The access has to wait for another thread.
    Blocked,
}

impl<'a> Machine<'a> {
    fn new(memory: &'a mut Memory, results: &'a [u64], budget: usize) -> Self {
        Self {
            memory: RefCell::new(memory),
            written: None,
            results,
            position: Cell::new(0),
            budget: Cell::new(budget),
            made: Cell::new(None),
            end: Cell::new(End::Returned),
            now_ns: Cell::new(0),
            writes_gates_once: Cell::new(false),
        }
    }

    /// Runs an operation at once, without other threads.
    pub(crate) fn alone(memory: &mut Memory, operation: impl Fn(&Machine<'_>)) {
        operation(&Machine::new(memory, &[], usize::MAX));
    }

    /// Sets the clock.
    pub(crate) fn at(&self, now_ns: u64) -> &Self {
        self.now_ns.set(now_ns);
        self
    }

    /// Plants a fault: from now on gates are written without checking their sources again.
    pub(crate) fn write_gates_once(&self) {
        self.writes_gates_once.set(true);
    }

    /// Sets whether a process exists.
    pub(crate) fn set_lives(&self, owner: u64, lives: bool) {
        self.access(OWNERS + owner, |_| u64::from(lives));
    }

    /// Gives the next claim of a slot a new gate page, or none.
    pub(crate) fn make_gate(&self, slot: u64, is_there: bool) {
        self.access(GATES + slot, |_| if is_there { GATE_ALLOWED } else { NO_GATE });
    }

    /// A process requests not to be woken when it is preempted.
    pub(crate) fn ask_for_quiet(&self, slot: u64) {
        self.access(WISHES + slot, |old| old | GATE_QUIET);
    }

    /// Waits until a wake-up since the last wait.
    pub(crate) fn wait(&self) {
        let position = self.position.get();
        let would_be_made = position >= self.results.len() && self.budget.get() > 0;
        if would_be_made && !self.memory.borrow().contains_key(&WAKE) {
            self.budget.set(0);
            self.end.set(End::Blocked);
        }
        self.access(WAKE, |_| 0);
    }

    /// Discards a wake-up.
    pub(crate) fn wait_is_over(&self) {
        self.access(WAKE, |_| 0);
    }

    fn read(&self, at: u64) -> u64 {
        if self.end.get() != End::Returned {
            return 0;
        }
        if self.written.is_some_and(|written| !written.borrow().contains(&at)) {
            return self.memory.borrow().get(&at).copied().unwrap_or(0);
        }
        self.step(at, |old| old)
    }

    /// Reads and writes; returns the old value.
    fn access(&self, at: u64, change: impl FnOnce(u64) -> u64) -> u64 {
        // An access after the end of the budget may be wrong.
        let is_real = self.budget.get() > 0 || self.position.get() < self.results.len();
        if let Some(written) = self.written.filter(|_| is_real) {
            written.borrow_mut().insert(at);
        }
        self.step(at, change)
    }

    fn step(&self, at: u64, change: impl FnOnce(u64) -> u64) -> u64 {
        let position = self.position.replace(self.position.get() + 1);
        if let Some(&result) = self.results.get(position) {
            return result;
        }
        let Some(left) = self.budget.get().checked_sub(1) else {
            if self.end.get() == End::Returned {
                self.end.set(End::Cut);
            }
            return 0;
        };
        self.budget.set(left);
        let mut memory = self.memory.borrow_mut();
        let old = memory.get(&at).copied().unwrap_or(0);
        match change(old) {
            0 => memory.remove(&at),
            new => memory.insert(at, new),
        };
        self.made.set(Some(old));
        old
    }
}

impl Words for Machine<'_> {
    fn load(&self, word: Word) -> u64 {
        self.read(word.index() as u64)
    }

    fn store(&self, word: Word, new: u64) {
        self.access(word.index() as u64, |_| new);
    }

    fn replace(&self, word: Word, old: u64, new: u64) -> bool {
        self.access(word.index() as u64, |found| if found == old { new } else { found }) == old
    }

    fn add(&self, word: Word, count: u64) {
        self.access(word.index() as u64, |old| old.wrapping_add(count));
    }

    fn set(&self, word: Word, bits: u64) -> u64 {
        self.access(word.index() as u64, |old| old | bits)
    }

    fn clear(&self, word: Word, bits: u64) -> u64 {
        self.access(word.index() as u64, |old| old & !bits)
    }

    fn gate(&self, slot: u64) -> Option<u64> {
        Some(self.read(GATES + slot)).filter(|&word| word != NO_GATE)
    }

    fn set_gate(&self, slot: u64, is_allowed: bool) {
        self.access(GATES + slot, |old| match old {
            NO_GATE => NO_GATE,
            old if is_allowed => old | GATE_ALLOWED,
            old => old & !GATE_ALLOWED,
        });
    }

    fn is_quiet(&self, slot: u64) -> bool {
        self.read(WISHES + slot) & GATE_QUIET != 0
    }

    fn follow_gate(&self, slot: u64) -> bool {
        if !self.writes_gates_once.get() {
            return gate::follow(self, slot);
        }
        let level = ClaimWord(self.load(Word::claim(slot))).level();
        self.set_gate(slot, self.load(Word::ready(0)) & more_urgent(level) == 0);
        true
    }
}

impl Host for Machine<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn lives(&self, owner: u64) -> bool {
        self.read(OWNERS + owner) != 0
    }

    fn emit(&self, _event: ArbiterEvent, _calls: bool) {}

    fn wake(&self, device: u64) {
        // The only device with claims.
        if device == 0 {
            self.access(WAKE, |_| 1);
        }
    }
}

/// Whether a wake-up has not been taken.
pub(crate) fn is_woken(memory: &Memory) -> bool {
    memory.contains_key(&WAKE)
}

/// Whether a process exists.
pub(crate) fn lives(memory: &Memory, owner: u64) -> bool {
    memory.contains_key(&(OWNERS + owner))
}

/// The word of a gate.
pub(crate) fn gate_word(memory: &Memory, slot: u64) -> Option<u64> {
    let word = memory.get(&(GATES + slot)).copied().unwrap_or(0);
    (word != NO_GATE).then_some(word)
}

/// A word of the page.
pub(crate) fn word(memory: &Memory, word: Word) -> u64 {
    memory.get(&(word.index() as u64)).copied().unwrap_or(0)
}

/// The result of an exploration.
#[derive(Debug, Default)]
pub(crate) struct Explored {
    /// Different states.
    pub(crate) states: usize,
    /// Different states in which no thread can continue.
    pub(crate) ends: usize,
    /// A violation, with the number of the thread that made each step.
    pub(crate) violation: Option<(String, Vec<usize>)>,
}

/// Tries all orders, until the first violation. `always` checks every state; `finally` checks every state in which no thread can
/// continue, and gets which threads wait.
pub(crate) fn explore(
    begin: &Memory,
    threads: &[Operations<'_>],
    always: impl Fn(&Memory) -> Result<(), String>,
    finally: impl Fn(&Memory, &[bool]) -> Result<(), String>,
) -> Explored {
    let written = RefCell::<BTreeSet<u64>>::default();
    loop {
        let known = written.borrow().len();
        let explored = explore_with(begin, threads, &written, &always, &finally);
        if written.borrow().len() == known {
            return explored;
        }
    }
}

fn explore_with(
    begin: &Memory,
    threads: &[Operations<'_>],
    written: &RefCell<BTreeSet<u64>>,
    always: impl Fn(&Memory) -> Result<(), String>,
    finally: impl Fn(&Memory, &[bool]) -> Result<(), String>,
) -> Explored {
    let known = written.borrow().len();
    let mut explored = Explored::default();
    let mut seen = HashSet::new();
    let mut open = vec![(begin.clone(), vec![Progress::default(); threads.len()], Vec::new())];
    while let Some((memory, all_progress, path)) = open.pop() {
        if !seen.insert(digest(&memory, &all_progress)) {
            continue;
        }
        explored.states += 1;
        let mut waiting = vec![false; threads.len()];
        let mut is_end = true;
        for (index, operations) in threads.iter().enumerate() {
            let Some(operation) = operations.get(all_progress[index].operation) else { continue };
            let mut next = memory.clone();
            let Some(progress) = step(&mut next, written, &all_progress[index], operation) else {
                waiting[index] = true;
                continue;
            };
            is_end = false;
            let mut all_progress = all_progress.clone();
            all_progress[index] = progress;
            let mut path = path.clone();
            path.push(index);
            open.push((next, all_progress, path));
        }
        let mut verdict = always(&memory);
        if is_end {
            explored.ends += 1;
            verdict = verdict.and_then(|()| finally(&memory, &waiting));
        }
        if let Err(why) = verdict {
            explored.violation = Some((why, path));
            break;
        }
        if written.borrow().len() != known {
            break;
        }
    }
    explored
}

/// Makes one step of an operation; none if it has to wait.
fn step(
    memory: &mut Memory,
    written: &RefCell<BTreeSet<u64>>,
    progress: &Progress,
    operation: &dyn Fn(&Machine<'_>),
) -> Option<Progress> {
    let machine = Machine { written: Some(written), ..Machine::new(memory, &progress.results, 1) };
    operation(&machine);
    let mut progress = progress.clone();
    match machine.end.get() {
        End::Blocked => return None,
        End::Returned => progress = Progress { operation: progress.operation + 1, results: Vec::new() },
        End::Cut => progress.results.push(machine.made.get().expect("it was cut at the next access")),
    }
    Some(progress)
}

/// A digest of 128 bits: among some millions of states, two different ones practically never have the same digest.
fn digest(memory: &Memory, all_progress: &[Progress]) -> (u64, u64) {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, memory, all_progress).hash(&mut hasher);
        hasher.finish()
    };
    (half(1), half(2))
}
