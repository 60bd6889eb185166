//! What was found out about a word, without a lock: each launch asks, and nearly each has been there before.
//!
//! A table of the most recent answers. A word has one place there, and takes it from another. What is not found is asked under the lock
//! of the books that know it all, which fill this one and empty it: so an answer here was theirs at some time of the question.

use std::sync::atomic::{AtomicU64, Ordering};

use xsched_preload::hashing::MULTIPLIER;

const PLACES: usize = 1024;

/// Words that are not 0.
#[derive(Debug)]
pub(crate) struct Seen([AtomicU64; PLACES]);

impl Default for Seen {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; PLACES])
    }
}

impl Seen {
    #[inline]
    fn place(&self, key: u64) -> &AtomicU64 {
        &self.0[(key.wrapping_mul(MULTIPLIER) >> (u64::BITS - PLACES.ilog2())) as usize]
    }

    /// Whether a word is there, in the place of `key`.
    #[inline]
    pub(crate) fn has(&self, key: u64, word: u64) -> bool {
        // Acquire pairs with `note`: what was done before it was noted has been done.
        self.place(key).load(Ordering::Acquire) == word
    }

    /// Under the lock of the books.
    pub(crate) fn note(&self, key: u64, word: u64) {
        self.place(key).store(word, Ordering::Release);
    }

    /// Under the lock of the books.
    pub(crate) fn clear(&self) {
        for place in &self.0 {
            place.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_seen_until_another_has_its_place_or_all_are_forgotten() {
        let seen = Seen::default();
        assert!(!seen.has(64, 7));
        seen.note(64, 7);
        assert!(seen.has(64, 7) && !seen.has(64, 8));
        seen.note(64, 8);
        assert!(!seen.has(64, 7) && seen.has(64, 8));
        seen.clear();
        assert!(!seen.has(64, 8));
    }

    #[test]
    fn addresses_of_neighbours_have_places_of_their_own() {
        let seen = Seen::default();
        let words = || (1..=64).map(|number: u64| 0x7f00_0000_0000 + number * 256);
        words().for_each(|word| seen.note(word, word));
        assert!(words().filter(|&word| seen.has(word, word)).count() > 48, "few take the place of others");
    }
}
