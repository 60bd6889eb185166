//! An arbiter page without programs: shared memory that only this process can write.

use std::cell::RefCell;
use std::collections::hash_map::{Entry, HashMap};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use xsched_protocol::arbiter_page::{
    ArbiterEvent, AtomicWords, Control, Host, PAGE_MAGIC, PAGE_VERSION, PAGE_WORDS, Report, Word, Words,
    dispatch,
};
use xsched_symbols::now_ns;

use crate::gates::Gates;
use crate::page::Page;
use crate::times::Times;

/// The most events that are kept until the controller drains them.
const EVENTS_MAX: usize = 1 << 16;

/// The page and the state beside it.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) page: Page,
    pub(crate) file: OwnedFd,
    /// By device, what wakes processes. Never read, so that it stays readable, and never closed: see `wake.rs`.
    wake_ups: HashMap<u64, OwnedFd>,
    /// Wakes the controller. Never read, either.
    pub(crate) calls: OwnedFd,
    owners: HashSet<u64>,
    gates: Gates,
    events: RefCell<VecDeque<ArbiterEvent>>,
}

impl Memory {
    pub(crate) fn create(times: &Times) -> io::Result<Self> {
        let file = memfd_create("xsched-page", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, PAGE_WORDS as u64 * 8)?;
        let page = Page::map(file.as_fd(), true)?;
        // From now on no process can map it writable, even with the descriptor.
        fcntl_add_seals(
            &file,
            SealFlags::FUTURE_WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
        )?;
        let words = AtomicWords::new(page.words());
        words.store(Word::MAGIC, PAGE_MAGIC);
        words.store(Word::VERSION, PAGE_VERSION);
        words.store(Word::EPOCH, 1);
        words.store(Word::LEASE, times.lease_ns());
        words.store(Word::LINGER, times.linger_ns());
        words.store(Word::SILENCE, times.silence_ns());
        Ok(Self {
            file,
            page,
            wake_ups: HashMap::new(),
            calls: bell()?,
            owners: HashSet::new(),
            gates: Gates::default(),
            events: RefCell::default(),
        })
    }

    pub(crate) fn admit(&mut self, owner: u64) {
        self.owners.insert(owner);
    }

    pub(crate) fn dismiss(&mut self, owner: u64) {
        self.owners.remove(&owner);
    }

    pub(crate) fn owners(&self) -> Vec<u64> {
        self.owners.iter().copied().collect()
    }

    /// A gate page for the next claim of a slot.
    pub(crate) fn make_gate(&mut self, slot: u32) -> io::Result<OwnedFd> {
        self.gates.make(u64::from(slot))
    }

    /// What wakes the processes that wait for changes of a device.
    pub(crate) fn wake_ups(&mut self, device: u64) -> io::Result<BorrowedFd<'_>> {
        let bell: &OwnedFd = match self.wake_ups.entry(device) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(bell()?),
        };
        Ok(bell.as_fd())
    }

    pub(crate) fn control(&self, operation: Control, slot: u64, first: u64, second: u64) {
        dispatch::control(self, 0, operation, slot, first, second);
    }

    pub(crate) fn speak(&self, owner: u64, operation: Report, slot: u64, argument: u64) {
        dispatch::report(self, owner, operation, slot, argument);
    }

    pub(crate) fn drain(&mut self, events: &mut Vec<ArbiterEvent>) {
        events.extend(self.events.get_mut().drain(..));
    }

    fn words(&self) -> AtomicWords<'_> {
        AtomicWords::new(self.page.words())
    }
}

/// A counter whose every change wakes its pollers.
fn bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

fn ring(bell: &OwnedFd) {
    // The counter would block only at its maximum, 2^64 - 2.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

impl Words for Memory {
    fn load(&self, word: Word) -> u64 {
        self.words().load(word)
    }

    fn store(&self, word: Word, new: u64) {
        self.words().store(word, new);
    }

    fn replace(&self, word: Word, old: u64, new: u64) -> bool {
        self.words().replace(word, old, new)
    }

    fn add(&self, word: Word, count: u64) {
        self.words().add(word, count);
    }

    fn set(&self, word: Word, bits: u64) -> u64 {
        self.words().set(word, bits)
    }

    fn clear(&self, word: Word, bits: u64) -> u64 {
        self.words().clear(word, bits)
    }

    fn gate(&self, slot: u64) -> Option<u64> {
        self.gates.load(slot)
    }

    fn set_gate(&self, slot: u64, is_allowed: bool) {
        self.gates.set(slot, is_allowed);
    }

    fn is_quiet(&self, slot: u64) -> bool {
        self.gates.is_quiet(slot)
    }
}

impl Host for Memory {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn lives(&self, owner: u64) -> bool {
        self.owners.contains(&owner)
    }

    fn emit(&self, event: ArbiterEvent, calls: bool) {
        let mut events = self.events.borrow_mut();
        if events.len() < EVENTS_MAX {
            events.push_back(event);
        } else {
            self.add(Word::EVENTS_LOST, 1);
        }
        if calls && self.load(Word::LISTENS) != 0 {
            ring(&self.calls);
        }
    }

    fn wake(&self, device: u64) {
        if let Some(bell) = self.wake_ups.get(&device) {
            ring(bell);
        }
    }
}
