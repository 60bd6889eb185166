//! Calls that a process records itself: memory that it shares with the tracer, behind its ring of events.
//!
//! ```text
//!   words   0 .. 64            64 ..              ..                     ..
//!         | who wants what   | ring of calls    | calls in progress    | walks
//!           each its own word  writers: threads   a place for a thread   tracer
//! ```
//!
//! The tracer says whether it wants calls, and publishes walks of the process's stack with the ids of their chains ([`walks`]). A
//! thread whose stack has the same words as a walk records its call itself; all other calls go through the tracer's probes. The
//! threads write the ring without a lock:
//!
//! ```text
//!   head    3 reserved by a compare-and-exchange     tail    1 read by the tracer
//!   entries   [ 0 | 1 complete | 2 being written | ... ]     an entry is complete when its first word is its number plus one
//! ```
//!
//! Neither side trusts the other: no index is taken from the memory, and the tracer validates every call.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::events::{Broken, RING_SIZE};

pub mod walks;

/// First word, so that other memory is not taken for this.
const MAGIC: u64 = u64::from_le_bytes(*b"XSCHCALL");

/// Changes whenever the layout or the meaning of words changes.
const VERSION: u64 = 1;

/// Whether the tracer wants calls.
const WANTED: usize = 8;
/// The tracer's: see [`Recorder::holds_under`].
const HOLDS: usize = 9;
/// The process's: see [`Recorder::has_seen`].
const SEEN: usize = 16;
const HEAD: usize = 24;
const TAIL: usize = 32;
const LOST: usize = 40;

const ENTRIES: usize = 64;
const ENTRY_WORDS: usize = 17;

/// Calls that fit into the ring: those of 40 ms at 800,000 a second.
pub const CALL_COUNT: usize = 1 << 15;

const PLACES: usize = ENTRIES + CALL_COUNT * ENTRY_WORDS;
const PLACE_WORDS: usize = 24;

/// Threads of a process that record their calls.
pub const PLACE_COUNT: usize = 64;

const WALKS: usize = PLACES + PLACE_COUNT * PLACE_WORDS;

/// Words of the memory.
pub const CALL_WORDS: usize = WALKS + walks::WORDS;

/// Bytes of the memory.
pub const CALLS_SIZE: usize = CALL_WORDS * size_of::<u64>();

/// Where it lies in the file that begins with a ring of events: on a page.
pub const CALLS_OFFSET: usize = RING_SIZE.next_multiple_of(4096);

/// Bytes of that file.
pub const FILE_SIZE: usize = CALLS_OFFSET + CALLS_SIZE;

/// The memory.
pub type CallMemory = [AtomicU64; CALL_WORDS];

/// Words of arguments: six registers, then the stack.
pub const ARGUMENTS: usize = 10;

/// A call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCall {
    /// Index into [`PROBES`](crate::probe::PROBES).
    pub probe: u32,
    /// The thread, in its own pid namespace.
    pub tid: u32,
    /// When it was entered.
    pub begin_ns: u64,
    /// When it returned; 0 while it is in progress.
    pub end_ns: u64,
    /// The return address.
    pub caller: u64,
    /// What it returned.
    pub ret: u64,
    /// Id of its chain.
    pub chain: u64,
    /// Its arguments.
    pub words: [u64; ARGUMENTS],
}

const CALL_FIELDS: usize = 6 + ARGUMENTS;
const _: () = assert!(CALL_FIELDS < ENTRY_WORDS && CALL_FIELDS < PLACE_WORDS);

impl OwnCall {
    #[inline]
    fn store(&self, to: &[AtomicU64]) {
        let &Self { probe, tid, begin_ns, end_ns, caller, ret, chain, ref words } = self;
        let fields = [u64::from(tid) << 32 | u64::from(probe), begin_ns, end_ns, caller, ret, chain];
        for (word, value) in to.iter().zip(fields.iter().chain(words)) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    fn load(from: &[AtomicU64]) -> Self {
        let word = |index: usize| from.get(index).map_or(0, |word| word.load(Ordering::Relaxed));
        Self {
            probe: word(0) as u32,
            tid: (word(0) >> 32) as u32,
            begin_ns: word(1),
            end_ns: word(2),
            caller: word(3),
            ret: word(4),
            chain: word(5),
            words: core::array::from_fn(|index| word(6 + index)),
        }
    }
}

/// Makes memory that is all zero into this.
pub fn prepare(memory: &CallMemory) {
    memory[0].store(MAGIC, Ordering::Relaxed);
    memory[1].store(VERSION, Ordering::Release);
}

/// Whether the memory is this, in this version.
pub fn is_prepared(memory: &CallMemory) -> bool {
    memory[1].load(Ordering::Acquire) == VERSION && memory[0].load(Ordering::Relaxed) == MAGIC
}

/// The process's side.
#[derive(Clone, Copy, Debug)]
pub struct Recorder<'a>(&'a CallMemory);

impl<'a> Recorder<'a> {
    /// In memory that [`is_prepared`].
    #[inline]
    pub const fn new(memory: &'a CallMemory) -> Self {
        Self(memory)
    }

    /// Whether a call that begins now is wanted, and there is space for it.
    #[inline]
    pub fn wants(self) -> bool {
        let used = self.0[HEAD].load(Ordering::Relaxed).wrapping_sub(self.0[TAIL].load(Ordering::Relaxed));
        self.0[WANTED].load(Ordering::Relaxed) != 0 && used < CALL_COUNT as u64 / 2
    }

    /// Whether the published walks hold for code that is mapped as it was under this generation of the verdict page.
    #[inline]
    pub fn holds_under(self, generation: u64) -> bool {
        self.0[HOLDS].load(Ordering::Acquire) == generation.wrapping_add(1)
    }

    /// The process has seen this generation of its verdict page.
    pub fn has_seen(self, generation: u64) {
        let seen = generation.wrapping_add(1);
        if self.0[SEEN].load(Ordering::Relaxed) != seen {
            self.0[SEEN].store(seen, Ordering::Release);
        }
    }

    /// The chain of a published walk with which the stack agrees.
    #[inline]
    pub fn find(self, at: walks::Start, word: impl Fn(u64) -> u64) -> Option<u64> {
        walks::find(&self.0[WALKS..], at, word)
    }

    /// A thread enters a call. `place` is its own, below [`PLACE_COUNT`].
    #[inline]
    pub fn begin(self, place: usize, call: &OwnCall) {
        let Some((state, fields)) = place_of(self.0, place) else { return };
        let before = state.load(Ordering::Relaxed);
        // A reader that has seen the end of an earlier call does not mix it with this one.
        fence(Ordering::Release);
        call.store(fields);
        state.store(before.wrapping_add(1) | 1, Ordering::Release);
    }

    /// The call has returned, or is not recorded after all.
    #[inline]
    pub fn end(self, place: usize) {
        let Some((state, _)) = place_of(self.0, place) else { return };
        state.store((state.load(Ordering::Relaxed) | 1).wrapping_add(1), Ordering::Release);
    }

    /// Writes a call that has returned, or counts it as lost.
    #[inline]
    pub fn write(self, call: &OwnCall) {
        let mut head = self.0[HEAD].load(Ordering::Relaxed);
        loop {
            // Pairs with the release in `Calls::read`: an entry is written again only after it was copied.
            let tail = self.0[TAIL].load(Ordering::Acquire);
            if head.wrapping_sub(tail) >= CALL_COUNT as u64 {
                self.0[LOST].fetch_add(1, Ordering::Relaxed);
                return;
            }
            let next = head.wrapping_add(1);
            match self.0[HEAD].compare_exchange_weak(head, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => head = other,
            }
        }
        let (number, fields) = entry(self.0, head);
        call.store(fields);
        number.store(head.wrapping_add(1), Ordering::Release);
    }
}

/// The tracer's side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    tail: u64,
    lost: u64,
}

impl Calls {
    /// Whether calls are wanted from now on.
    pub fn want(memory: &CallMemory, is_wanted: bool) {
        memory[WANTED].store(is_wanted.into(), Ordering::Release);
    }

    /// The newest generation of its verdict page that the process has shown.
    pub fn seen(memory: &CallMemory) -> Option<u64> {
        memory[SEEN].load(Ordering::Acquire).checked_sub(1)
    }

    /// The walks hold under this generation, or not any more.
    pub fn hold(memory: &CallMemory, generation: Option<u64>) {
        memory[HOLDS].store(generation.map_or(0, |generation| generation.wrapping_add(1)), Ordering::Release);
    }

    /// The published walks.
    pub fn walks(memory: &CallMemory) -> &[AtomicU64] {
        &memory[WALKS..]
    }

    /// Takes the calls that are there, at most as many as fit; returns how many were lost since the last call.
    ///
    /// # Errors
    /// The writers claim to have written more than fits.
    pub fn read(&mut self, memory: &CallMemory, mut take: impl FnMut(OwnCall)) -> Result<u64, Broken> {
        let count = self.unread(memory)?;
        for _ in 0..count {
            let (number, fields) = entry(memory, self.tail);
            if number.load(Ordering::Acquire) != self.tail.wrapping_add(1) {
                break;
            }
            take(OwnCall::load(fields));
            self.tail = self.tail.wrapping_add(1);
        }
        memory[TAIL].store(self.tail, Ordering::Release);
        let lost = memory[LOST].load(Ordering::Relaxed);
        let before = core::mem::replace(&mut self.lost, lost);
        Ok(lost.saturating_sub(before))
    }

    /// Entries that were reserved and not read: after [`Self::read`], the first of them was not completed.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn unread(&self, memory: &CallMemory) -> Result<u64, Broken> {
        let count = memory[HEAD].load(Ordering::Acquire).wrapping_sub(self.tail);
        if count > CALL_COUNT as u64 { Err(Broken) } else { Ok(count) }
    }

    /// How far it has read.
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Gives up the first unread entry: its thread will not complete it.
    pub fn skip(&mut self) {
        self.tail = self.tail.wrapping_add(1);
    }

    /// The calls in progress.
    pub fn in_progress(memory: &CallMemory) -> impl Iterator<Item = OwnCall> {
        (0..PLACE_COUNT).filter_map(|place| {
            let (state, fields) = place_of(memory, place)?;
            let before = state.load(Ordering::Acquire);
            let call = OwnCall::load(fields);
            fence(Ordering::Acquire);
            (before & 1 != 0 && state.load(Ordering::Relaxed) == before).then_some(call)
        })
    }
}

#[inline]
fn entry(memory: &CallMemory, number: u64) -> (&AtomicU64, &[AtomicU64]) {
    let at = ENTRIES + (number as usize % CALL_COUNT) * ENTRY_WORDS;
    (&memory[at], &memory[at + 1..at + ENTRY_WORDS])
}

#[inline]
fn place_of(memory: &CallMemory, place: usize) -> Option<(&AtomicU64, &[AtomicU64])> {
    let at = PLACES + place * PLACE_WORDS;
    (place < PLACE_COUNT).then(|| (&memory[at], &memory[at + 1..at + PLACE_WORDS]))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::boxed::Box;
    use std::vec::Vec;

    use super::*;

    pub(super) fn memory() -> Box<CallMemory> {
        let words: Vec<AtomicU64> = (0..CALL_WORDS).map(|_| AtomicU64::new(0)).collect();
        let memory: Box<CallMemory> = words.into_boxed_slice().try_into().unwrap();
        prepare(&memory);
        memory
    }

    fn call(number: u64) -> OwnCall {
        OwnCall {
            probe: 1,
            tid: 2,
            begin_ns: number,
            end_ns: number + 1,
            caller: 5,
            ret: number,
            chain: 7,
            words: [number; ARGUMENTS],
        }
    }

    fn drain(calls: &mut Calls, memory: &CallMemory) -> (Vec<OwnCall>, u64) {
        let mut taken = Vec::new();
        let lost = calls.read(memory, |call| taken.push(call)).unwrap();
        (taken, lost)
    }

    #[test]
    fn calls_of_many_threads_come_whole_and_once() {
        const EACH: u64 = 50_000;
        const THREADS: u64 = 4;
        let memory = memory();
        let (mut calls, mut lost, mut seen) = (Calls::default(), 0, [0; THREADS as usize]);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let recorder = Recorder::new(&memory);
                scope.spawn(move || {
                    for number in 0..EACH {
                        recorder.write(&call(thread << 32 | number));
                    }
                });
            }
            while seen.iter().sum::<u64>() + lost < EACH * THREADS {
                let (taken, missed) = drain(&mut calls, &memory);
                lost += missed;
                for one in taken {
                    assert_eq!(one, call(one.begin_ns), "it is whole");
                    let count = &mut seen[(one.begin_ns >> 32) as usize];
                    assert!((one.begin_ns & 0xffff_ffff) >= *count, "a thread's calls are in order");
                    *count += 1;
                }
            }
        });
        assert_eq!(calls.unread(&memory), Ok(0));
    }

    #[test]
    fn a_call_that_does_not_fit_is_counted_and_probes_are_used_long_before() {
        let memory = memory();
        let (recorder, mut calls) = (Recorder::new(&memory), Calls::default());
        assert!(!recorder.wants(), "nothing is wanted at first");
        Calls::want(&memory, true);
        (0..CALL_COUNT as u64 / 2).for_each(|number| recorder.write(&call(number)));
        assert!(!recorder.wants(), "the rest is for calls in progress");
        (0..CALL_COUNT as u64 / 2 + 3).for_each(|number| recorder.write(&call(number)));
        let (taken, lost) = drain(&mut calls, &memory);
        assert_eq!((taken.len(), lost), (CALL_COUNT, 3));
        assert!(recorder.wants());
    }

    #[test]
    fn a_thread_that_dies_within_a_call_holds_up_no_others_for_good() {
        let memory = memory();
        let (recorder, mut calls) = (Recorder::new(&memory), Calls::default());
        recorder.write(&call(1));
        // It has reserved an entry.
        memory[HEAD].fetch_add(1, Ordering::Relaxed);
        recorder.write(&call(3));
        assert_eq!(drain(&mut calls, &memory).0, [call(1)]);
        assert_eq!(calls.unread(&memory), Ok(2));
        calls.skip();
        assert_eq!(drain(&mut calls, &memory).0, [call(3)]);
    }

    #[test]
    fn a_process_that_lies_is_not_followed() {
        let memory = memory();
        let mut calls = Calls::default();
        for head in [u64::MAX, CALL_COUNT as u64 + 1] {
            memory[HEAD].store(head, Ordering::Relaxed);
            assert_eq!(calls.read(&memory, |_| panic!("nothing is there")), Err(Broken));
        }
        memory[HEAD].store(0, Ordering::Relaxed);
        memory[TAIL].store(99, Ordering::Relaxed);
        assert_eq!(drain(&mut calls, &memory), (Vec::new(), 0));
    }

    #[test]
    fn a_call_in_progress_is_seen_until_it_ends() {
        let memory = memory();
        let recorder = Recorder::new(&memory);
        let all = || Calls::in_progress(&memory).collect::<Vec<_>>();
        recorder.begin(3, &call(1));
        recorder.begin(PLACE_COUNT, &call(2));
        assert_eq!(all(), [call(1)]);
        recorder.end(3);
        assert_eq!(all(), []);
        recorder.begin(3, &call(4));
        // A thread that ended within a call has left its place to another.
        recorder.begin(3, &call(5));
        assert_eq!(all(), [call(5)]);
    }
}
