//! The journal of a queue: launches beside other processes that went at once, without the process's lock.
//!
//! The state opens a queue's journal when nothing but the arbiter's page can keep the next launch, and closes it, both under the
//! lock. Between the two a launch enters by one compare-and-exchange, and writes when it has returned. A thread that needs to know
//! what is in flight collects that, under the lock, in the order in which launches have entered.
//!
//! ```text
//!   word    63            16 15        1    0
//!               entered       opening     open
//!
//!   entries     [ .. c4 c5 c6 .. ]
//!                 ^collected ^entered      c5 has not returned: collecting stops there
//! ```
//!
//! To enter and to find the journal open are one step, so no launch enters after the journal was closed: that is what the rules in
//! `DESIGN.md` rest on. Each opening has another number: a thread that has looked at one cannot enter at the next, for which other
//! things may hold.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use xsched_protocol::verdict::Judgement;
use xsched_sched::Nanos;

use crate::command::DurationClass;
use crate::origins::Origin;

/// Launches that have not been collected. Every so many launches one takes the lock, to collect them: fewer than one in a hundred.
pub(crate) const ENTRIES: u64 = 128;

const OPEN: u64 = 1;
const OPENING: u64 = 1 << 1;
const OPENINGS: u64 = 0xffff & !OPEN;
const ENTERED_SHIFT: u32 = 16;

/// A launch that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launched {
    /// When it was admitted, and when it had returned.
    pub(crate) admitted: Nanos,
    pub(crate) returned: Nanos,
    pub(crate) class: DurationClass,
    pub(crate) origin: Origin,
    pub(crate) judgement: Judgement,
    /// The runtime took it.
    pub(crate) on_device: bool,
}

/// What a thread has seen of an open journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening(u64);

/// A launch's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The process's launches on one queue that the state does not know yet.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Journal {
    word: AtomicU64,
    collected: AtomicU64,
    /// By which name the arbiter's side knows the claim.
    claim: AtomicU64,
    /// From when on a launch is to have a marker.
    marker_due: AtomicU64,
    /// Launches of a queue that had this memory before have not returned.
    has_strangers: AtomicBool,
    entries: OnceLock<Box<[Entry]>>,
}

#[derive(Debug, Default)]
struct Entry {
    admitted: AtomicU64,
    returned: AtomicU64,
    class: AtomicU64,
    /// Written last: its ticket and one (32 bits), judgement (16), origin (8), whether the runtime took it (8).
    done: AtomicU64,
}

impl Journal {
    /// What there is to see, if it is open and has space.
    #[inline]
    pub(crate) fn look(&self) -> Option<Opening> {
        // Acquire pairs with `collect`: what was there was read. Before the other word, which may only be further by now.
        let collected = self.collected.load(Ordering::Acquire);
        // Acquire pairs with `open`.
        let word = self.word.load(Ordering::Acquire);
        let has_space = (word >> ENTERED_SHIFT) - collected < ENTRIES;
        (word & OPEN != 0 && has_space).then_some(Opening(word))
    }

    /// The claim's name with the arbiter's side.
    #[inline]
    pub(crate) fn claim(&self) -> u64 {
        self.claim.load(Ordering::Relaxed)
    }

    /// A launch enters, if nothing has happened since this was seen.
    #[inline]
    pub(crate) fn enter(&self, Opening(seen): Opening) -> Option<Ticket> {
        let entered = seen + (1 << ENTERED_SHIFT);
        self.word
            .compare_exchange(seen, entered, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
            .then_some(Ticket(seen >> ENTERED_SHIFT))
    }

    /// A launch that has entered has returned.
    #[inline]
    pub(crate) fn leave(&self, Ticket(ticket): Ticket, launched: &Launched) {
        let Some(entry) = self.entry(ticket) else { return };
        let &Launched { admitted, returned, class, origin, judgement, on_device } = launched;
        entry.admitted.store(admitted.0, Ordering::Relaxed);
        entry.returned.store(returned.0, Ordering::Relaxed);
        entry.class.store(class.0, Ordering::Relaxed);
        let what = judgement.bits() << 16 | u64::from(origin.0) << 8 | u64::from(on_device);
        entry.done.store(mark_of(ticket) | what, Ordering::Release);
    }

    /// From when on a launch is to have a marker.
    #[inline]
    pub(crate) fn marker_due(&self) -> Nanos {
        Nanos(self.marker_due.load(Ordering::Relaxed))
    }

    pub(crate) fn set_marker_due(&self, at: Nanos) {
        self.marker_due.store(at.0, Ordering::Relaxed);
    }

    /// The next launch that has entered, if it has returned. Under the lock.
    pub(crate) fn collect(&self) -> Option<Launched> {
        let ticket = self.collected.load(Ordering::Relaxed);
        let entry = self.entry(ticket).filter(|_| self.pending() > 0)?;
        // Acquire pairs with `leave`.
        let done = entry.done.load(Ordering::Acquire);
        if done >> 32 << 32 != mark_of(ticket) {
            return None;
        }
        let launched = Launched {
            admitted: Nanos(entry.admitted.load(Ordering::Relaxed)),
            returned: Nanos(entry.returned.load(Ordering::Relaxed)),
            class: DurationClass(entry.class.load(Ordering::Relaxed)),
            origin: Origin((done >> 8) as u8),
            judgement: Judgement::from_bits(done >> 16),
            on_device: done & 1 != 0,
        };
        self.collected.store(ticket + 1, Ordering::Release);
        Some(launched)
    }

    /// Launches that have entered and were not collected. Under the lock; exact if it is closed.
    pub(crate) fn pending(&self) -> u64 {
        (self.word.load(Ordering::Acquire) >> ENTERED_SHIFT) - self.collected.load(Ordering::Relaxed)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.word.load(Ordering::Relaxed) & OPEN != 0
    }

    /// Launches may enter from now on. Under the lock.
    pub(crate) fn open(&self, claim: u64, marker_due: Nanos) {
        if self.has_strangers.load(Ordering::Relaxed) {
            while self.collect().is_some() {}
            if self.pending() > 0 {
                return;
            }
            self.has_strangers.store(false, Ordering::Relaxed);
        }
        self.entries.get_or_init(|| (0..ENTRIES).map(|_| Entry::default()).collect());
        self.claim.store(claim, Ordering::Relaxed);
        self.set_marker_due(marker_due);
        // It is closed, so no other thread changes it.
        let word = self.word.load(Ordering::Relaxed);
        let opening = word.wrapping_add(OPENING) & OPENINGS;
        self.word.store(word & !OPENINGS | opening | OPEN, Ordering::Release);
    }

    /// None may enter from now on. Under the lock.
    pub(crate) fn close(&self) {
        if self.is_open() {
            self.word.fetch_and(!OPEN, Ordering::AcqRel);
        }
    }

    /// It is another queue's from now on. Under the lock.
    pub(crate) fn assign(&self) {
        self.close();
        self.has_strangers.store(self.pending() > 0, Ordering::Relaxed);
    }

    fn entry(&self, ticket: u64) -> Option<&Entry> {
        self.entries.get()?.get((ticket % ENTRIES) as usize)
    }
}

/// What an entry's last word has for this ticket, in its upper half.
fn mark_of(ticket: u64) -> u64 {
    ticket.wrapping_add(1) << 32
}

#[cfg(test)]
mod tests;
