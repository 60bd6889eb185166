//! Published walks of a process's stack: if the stack has all words of a walk, its chain is the walk's.
//!
//! Walks with one start are in one bucket. A walk has a number in its first word, odd while the tracer writes it. A reader compares the
//! number before it reads the stack at any offset: so it never reads where only a mixture of two walks says that something is.

use core::sync::atomic::{AtomicU64, Ordering, fence};

const BUCKETS: usize = 256;

/// Walks with starts of one bucket.
const WALKS_OF_BUCKET: usize = 8;

/// Words that a walk may depend on.
pub const WALK_WORDS_MAX: usize = 128;

const NUMBER: usize = 0;
const RIP: usize = 1;
const RSP: usize = 2;
const RBP: usize = 3;
/// Whether the walk depended on the frame pointer.
const USES_RBP: usize = 4;
const CHAIN: usize = 5;
const COUNT: usize = 6;
const PAIRS: usize = 8;
const WALK_WORDS: usize = PAIRS + 2 * WALK_WORDS_MAX;

/// Words of all walks.
pub const WORDS: usize = BUCKETS * WALKS_OF_BUCKET * WALK_WORDS;

/// The registers of a call's caller, as of the call's return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The return address.
    pub rip: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The frame pointer.
    pub rbp: u64,
}

impl Start {
    #[inline]
    fn bucket(&self) -> usize {
        let mixed = (self.rip ^ self.rsp.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 56) as usize % BUCKETS
    }
}

/// Finds a walk from this start with which the stack agrees; `word` reads the stack. Returns its chain.
///
/// Words are compared in the order of the walk. If those so far are the same, the stack has the next frame, and so the next word.
#[inline]
pub fn find(walks: &[AtomicU64], at: Start, word: impl Fn(u64) -> u64) -> Option<u64> {
    let first = at.bucket() * WALKS_OF_BUCKET * WALK_WORDS;
    let bucket = walks.get(first..)?.chunks_exact(WALK_WORDS).take(WALKS_OF_BUCKET);
    for walk in bucket {
        // Acquire pairs with the release in `Published::publish`.
        let number = walk[NUMBER].load(Ordering::Acquire);
        if number == 0 {
            return None;
        }
        if number & 1 == 0 && starts_at(walk, at) && agrees(walk, number, at.rsp, &word) {
            let chain = walk[CHAIN].load(Ordering::Relaxed);
            if is_still(walk, number) {
                return Some(chain);
            }
        }
    }
    None
}

#[inline]
fn starts_at(walk: &[AtomicU64], at: Start) -> bool {
    let is = |field: usize, value: u64| walk[field].load(Ordering::Relaxed) == value;
    is(RIP, at.rip) && is(RSP, at.rsp) && (is(USES_RBP, 0) || is(RBP, at.rbp))
}

#[inline]
fn agrees(walk: &[AtomicU64], number: u64, rsp: u64, word: impl Fn(u64) -> u64) -> bool {
    let count = (walk[COUNT].load(Ordering::Relaxed) as usize).min(WALK_WORDS_MAX);
    walk[PAIRS..].chunks_exact(2).take(count).all(|pair| {
        let (offset, value) = (pair[0].load(Ordering::Relaxed), pair[1].load(Ordering::Relaxed));
        is_still(walk, number) && word(rsp.wrapping_add(offset)) == value
    })
}

#[inline]
fn is_still(walk: &[AtomicU64], number: u64) -> bool {
    fence(Ordering::Acquire);
    walk[NUMBER].load(Ordering::Relaxed) == number
}

/// A walk to publish.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    /// Where it began.
    pub start: Start,
    /// Whether it depended on the frame pointer.
    pub uses_rbp: bool,
    /// Id of the chain.
    pub chain: u64,
    /// The words: distance from the stack pointer, and value, in the order of the walk.
    pub words: &'a [(u32, u64)],
}

/// What the tracer has published.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    counts: [u8; BUCKETS],
}

impl Default for Published {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Published {
    /// Publishes a walk. False if there is no space for it.
    pub fn publish(&mut self, walks: &[AtomicU64], published: &Walk<'_>) -> bool {
        let &Walk { start, uses_rbp, chain, words } = published;
        let bucket = start.bucket();
        let index = usize::from(self.counts[bucket]);
        let at = (bucket * WALKS_OF_BUCKET + index) * WALK_WORDS;
        let has_space = index < WALKS_OF_BUCKET && words.len() <= WALK_WORDS_MAX;
        let Some(walk) = walks.get(at..at + WALK_WORDS).filter(|_| has_space) else { return false };
        self.counts[bucket] += 1;
        let number = walk[NUMBER].load(Ordering::Relaxed) | 1;
        walk[NUMBER].store(number, Ordering::Relaxed);
        fence(Ordering::Release);
        let store = |field: usize, value: u64| walk[field].store(value, Ordering::Relaxed);
        let fields = [(RIP, start.rip), (RSP, start.rsp), (RBP, start.rbp), (USES_RBP, uses_rbp.into())];
        for (field, value) in fields {
            store(field, value);
        }
        store(CHAIN, chain);
        store(COUNT, words.len() as u64);
        for (pair, &(offset, value)) in walk[PAIRS..].chunks_exact(2).zip(words) {
            pair[0].store(offset.into(), Ordering::Relaxed);
            pair[1].store(value, Ordering::Relaxed);
        }
        walk[NUMBER].store(number.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes all walks back. A reader may still be comparing one, and does not find it.
    pub fn take_back(&mut self, walks: &[AtomicU64]) {
        for (bucket, count) in self.counts.iter_mut().enumerate() {
            for index in 0..usize::from(core::mem::take(count)) {
                let number = &walks[(bucket * WALKS_OF_BUCKET + index) * WALK_WORDS + NUMBER];
                number.store(number.load(Ordering::Relaxed) | 1, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    const START: Start = Start { rip: 0x1000, rsp: 0x7fff_0000, rbp: 0x7fff_0100 };

    fn memory() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn walk(words: &[(u32, u64)], chain: u64) -> Walk<'_> {
        Walk { start: START, uses_rbp: false, chain, words }
    }

    /// A stack that has these words, and no others.
    fn stack(words: &[(u32, u64)]) -> impl Fn(u64) -> u64 {
        |address| {
            let offset = (address - START.rsp) as u32;
            words.iter().find(|word| word.0 == offset).expect("it reads no word that is not there").1
        }
    }

    #[test]
    fn a_stack_with_all_words_has_the_walks_chain() {
        let (memory, mut published) = (memory(), Published::default());
        let (one, other) = ([(8, 1), (64, 2), (4096, 3)], [(8, 1), (24, 9)]);
        assert!(published.publish(&memory, &walk(&one, 11)) && published.publish(&memory, &walk(&other, 13)));
        // The second walk's words are read only where it may be the stack's.
        let both = [(8, 1), (24, 0), (64, 2), (4096, 3)];
        assert_eq!(find(&memory, START, stack(&both)), Some(11));
        assert_eq!(find(&memory, START, stack(&[(8, 1), (24, 9), (64, 0)])), Some(13));
        assert_eq!(find(&memory, START, stack(&[(8, 0)])), None, "the first word differs: no other is read");
        assert_eq!(find(&memory, Start { rip: 0x1001, ..START }, stack(&both)), None);
        assert_eq!(find(&memory, Start { rsp: 0x7fff_0010, ..START }, |_| 0), None);
        published.take_back(&memory);
        assert_eq!(find(&memory, START, stack(&both)), None);
        assert!(published.publish(&memory, &walk(&one, 17)));
        assert_eq!(find(&memory, START, stack(&both)), Some(17));
    }

    #[test]
    fn the_frame_pointer_counts_where_the_walk_depended_on_it() {
        let (memory, mut published) = (memory(), Published::default());
        let with_rbp = Walk { uses_rbp: true, ..walk(&[(8, 1)], 11) };
        assert!(published.publish(&memory, &with_rbp));
        let other = Start { rbp: 1, ..START };
        assert_eq!(find(&memory, START, stack(&[(8, 1)])), Some(11));
        assert_eq!(find(&memory, other, stack(&[(8, 1)])), None);
    }

    #[test]
    fn a_full_bucket_takes_no_more() {
        let (memory, mut published) = (memory(), Published::default());
        let words: Vec<_> = (0..=WALKS_OF_BUCKET as u64).map(|value| [(8, value)]).collect();
        let taken = words.iter().filter(|words| published.publish(&memory, &walk(*words, 3))).count();
        assert_eq!(taken, WALKS_OF_BUCKET);
        assert!(!published.publish(&memory, &walk(&[(8, 0); WALK_WORDS_MAX + 1], 3)));
    }

    #[test]
    fn a_walk_that_is_replaced_meanwhile_is_never_mixed_with_another() {
        let memory = memory();
        // Each stack belongs to one of two walks; a mixture of them would read an offset that the stack lacks.
        let walks = [[(8, 1), (16, 1)], [(8, 2), (4096, 2)]];
        let is_over = &AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (index, words) in walks.iter().enumerate() {
                let memory = &memory;
                scope.spawn(move || {
                    while is_over.load(Ordering::Relaxed) == 0 {
                        let found = find(memory, START, stack(words));
                        assert!(found.is_none_or(|chain| chain == index as u64));
                    }
                });
            }
            let mut published = Published::default();
            for round in 0..100_000 {
                published.take_back(&memory);
                assert!(published.publish(&memory, &walk(&walks[round % 2], round as u64 % 2)));
            }
            is_over.store(1, Ordering::Relaxed);
        });
    }
}
