//! The journal of a queue: launches that were made beside other processes without the process's lock.
//!
//! The state opens a queue's journal when only the arbiter's page could keep the next launch, and closes it later. It does both
//! under the lock. In between, a launch enters by one compare-and-exchange, and writes its entry when it has returned. A thread
//! that must know what is in flight collects the entries under the lock, in the order in which launches entered.
//!
//! ```text
//!   word    63            16 15        1    0
//!               entered       opening     open
//!
//!   entries     [ .. c4 c5 c6 .. ]
//!                 ^collected ^entered      c5 has not returned: collecting stops there
//! ```
//!
//! A launch enters and finds the journal open in one step, so none enters after it was closed. The rules in `DESIGN.md` rest on
//! that. Each opening has another number: a thread that looked during one opening cannot enter during the next, for which other
//! conditions may hold.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use xsched_protocol::verdict::Judgement;
use xsched_sched::Nanos;

use crate::command::DurationClass;
use crate::origins::Origin;

/// How many launches fit without being collected. When the journal is full, a launch takes the lock and collects: fewer than one
/// launch in a hundred.
pub(crate) const ENTRIES: u64 = 128;

/// How many classes' durations are known. One that has another's place takes the lock.
const DURATIONS: u64 = 512;

/// A known duration: the upper bits of the class, and tenths of a microsecond.
const TENTH_US: u64 = 100;
const TENTHS: u64 = (1 << 20) - 1;

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
    /// Whether the runtime took the launch.
    pub(crate) on_device: bool,
}

/// An opening of a journal, as a thread has seen it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening(u64);

/// The number of a launch in its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The launches of one queue that the state does not know yet.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Journal {
    word: AtomicU64,
    collected: AtomicU64,
    /// The name by which the process's arbiter client knows the claim.
    claim: AtomicU64,
    /// From what time on a launch gets a marker.
    marker_due: AtomicU64,
    /// How many launches had not returned when the journal was last collected.
    counted: AtomicU64,
    /// An earlier queue had this memory, and some of its launches have not returned.
    has_strangers: AtomicBool,
    /// It was opened below more urgent neighbours, which have no work. Then so many nanoseconds of work may still enter.
    is_below: AtomicBool,
    left: AtomicI64,
    durations: OnceLock<Box<[AtomicU64]>>,
    entries: OnceLock<Box<[Entry]>>,
}

/// For what a journal is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing is limited.
    Beside,
    /// More urgent neighbours have no work now. So much work may enter before a launch takes the lock.
    Below {
        /// Device time.
        left: Nanos,
    },
}

#[derive(Debug, Default)]
struct Entry {
    admitted: AtomicU64,
    returned: AtomicU64,
    class: AtomicU64,
    /// Written last: the ticket plus one (32 bits), judgement (16), origin (8), whether the runtime took the launch (8).
    done: AtomicU64,
}

impl Journal {
    /// The current opening, if the journal is open and has space.
    #[inline]
    pub(crate) fn look(&self) -> Option<Opening> {
        // Acquire pairs with `collect`: the entry was read before it is written again. Read before `word`, which may only have
        // advanced since.
        let collected = self.collected.load(Ordering::Acquire);
        // Acquire pairs with `open`.
        let word = self.word.load(Ordering::Acquire);
        let has_space = (word >> ENTERED_SHIFT) - collected < ENTRIES;
        (word & OPEN != 0 && has_space).then_some(Opening(word))
    }

    /// The name by which the arbiter client knows the claim.
    #[inline]
    pub(crate) fn claim(&self) -> u64 {
        self.claim.load(Ordering::Relaxed)
    }

    /// Whether it was opened below more urgent neighbours.
    #[inline]
    pub(crate) fn is_below(&self) -> bool {
        self.is_below.load(Ordering::Relaxed)
    }

    /// How long a command of this class takes, if that is known and as much work may still enter.
    #[inline]
    pub(crate) fn fits(&self, class: DurationClass) -> Option<Nanos> {
        let (place, mark) = place_of(class);
        let known = self.durations.get()?.get(place)?.load(Ordering::Relaxed);
        let took = Nanos((known & TENTHS) * TENTH_US);
        (known & !TENTHS == mark && took.0 as i64 <= self.left.load(Ordering::Relaxed)).then_some(took)
    }

    /// Work has entered. Threads that enter together may exceed what is left, by a command each.
    #[inline]
    pub(crate) fn spend(&self, work: Nanos) {
        self.left.fetch_sub(work.0 as i64, Ordering::Relaxed);
    }

    /// So much work may enter from now on. Call under the lock.
    pub(crate) fn allow(&self, left: Nanos) {
        self.left.store(left.0 as i64, Ordering::Relaxed);
    }

    /// Commands of this class take so long, rounded up; None: that is not known. Call under the lock.
    pub(crate) fn note_duration(&self, class: DurationClass, took: Option<Nanos>) {
        let (place, mark) = place_of(class);
        let Some(known) = self.durations.get().and_then(|durations| durations.get(place)) else { return };
        let tenths = took.map(|took| took.0.div_ceil(TENTH_US)).filter(|&tenths| tenths <= TENTHS);
        known.store(tenths.map_or(0, |tenths| mark | tenths), Ordering::Relaxed);
    }

    /// Enters a launch, if nothing has changed since this opening was seen.
    #[inline]
    pub(crate) fn enter(&self, Opening(seen): Opening) -> Option<Ticket> {
        let entered = seen + (1 << ENTERED_SHIFT);
        self.word
            .compare_exchange(seen, entered, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
            .then_some(Ticket(seen >> ENTERED_SHIFT))
    }

    /// Writes the entry of a launch that has returned.
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

    /// From what time on a launch gets a marker.
    #[inline]
    pub(crate) fn marker_due(&self) -> Nanos {
        Nanos(self.marker_due.load(Ordering::Relaxed))
    }

    pub(crate) fn set_marker_due(&self, at: Nanos) {
        self.marker_due.store(at.0, Ordering::Relaxed);
    }

    /// The next launch in order, if it has returned. Call under the lock.
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

    /// How many launches have entered and were not collected. Call under the lock. Exact while the journal is closed.
    pub(crate) fn pending(&self) -> u64 {
        (self.word.load(Ordering::Acquire) >> ENTERED_SHIFT) - self.collected.load(Ordering::Relaxed)
    }

    /// Whether there is anything to collect for its queue, or was at the last count. Call under the lock.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        let is_own = !self.has_strangers.load(Ordering::Relaxed);
        is_own && self.pending() > 0 || self.counted() > 0
    }

    /// Counts the launches that have not returned. Returns the count before and the count now. Call under the lock.
    pub(crate) fn count_pending(&self) -> (u64, u64) {
        let pending = self.pending();
        (self.counted.swap(pending, Ordering::Relaxed), pending)
    }

    /// The count that [`Self::count_pending`] last made.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Sets that count to zero. Returns what it was. Call under the lock.
    pub(crate) fn forget_count(&self) -> u64 {
        self.counted.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.word.load(Ordering::Relaxed) & OPEN != 0
    }

    /// Lets launches enter, unless some of an earlier queue have not returned. Returns whether they may enter. Call under the lock.
    #[must_use]
    pub(crate) fn open(&self, claim: u64, marker_due: Nanos, standing: Standing) -> bool {
        if self.has_strangers.load(Ordering::Relaxed) {
            while self.collect().is_some() {}
            if self.pending() > 0 {
                return false;
            }
            self.has_strangers.store(false, Ordering::Relaxed);
        }
        self.entries.get_or_init(|| (0..ENTRIES).map(|_| Entry::default()).collect());
        self.claim.store(claim, Ordering::Relaxed);
        self.set_marker_due(marker_due);
        self.is_below.store(standing != Standing::Beside, Ordering::Relaxed);
        if let Standing::Below { left } = standing {
            self.durations.get_or_init(|| (0..DURATIONS).map(|_| AtomicU64::new(0)).collect());
            self.allow(left);
        }
        // The journal is closed, so no other thread changes it.
        let word = self.word.load(Ordering::Relaxed);
        let opening = word.wrapping_add(OPENING) & OPENINGS;
        self.word.store(word & !OPENINGS | opening | OPEN, Ordering::Release);
        true
    }

    /// Lets no launch enter any more. Call under the lock.
    pub(crate) fn close(&self) {
        if self.is_open() {
            self.word.fetch_and(!OPEN, Ordering::AcqRel);
        }
    }

    /// Gives the journal to another queue. Call under the lock.
    pub(crate) fn assign(&self) {
        self.close();
        self.forget_count();
        self.has_strangers.store(self.pending() > 0, Ordering::Relaxed);
    }

    fn entry(&self, ticket: u64) -> Option<&Entry> {
        self.entries.get()?.get((ticket % ENTRIES) as usize)
    }
}

/// Where a class's duration is, and the bits that say whose it is. These are never 0.
fn place_of(DurationClass(class): DurationClass) -> (usize, u64) {
    ((class % DURATIONS) as usize, (class / DURATIONS) << TENTHS.count_ones() | 1 << 63)
}

/// What the upper half of an entry's last word is for this ticket.
fn mark_of(ticket: u64) -> u64 {
    ticket.wrapping_add(1) << 32
}

#[cfg(test)]
mod tests;
