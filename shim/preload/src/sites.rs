//! The verdicts of known call sites: of any call that returns to this address and calls this function.
//!
//! Read without a lock, by every call while others use the device:
//!
//! ```text
//!   key    0 empty --> 1 being written --> the site's --> 1 being written --> another's ...
//!   word   judgement (16 bits), generation (32), kernel (10), origin (6)
//! ```
//!
//! A word of another generation counts as none. Mapping code changes the generation, so a site is never mistaken for
//! an earlier one at its address.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use xsched_protocol::verdict::Judgement;

use crate::hashing::MULTIPLIER;

/// log2 of the number of entries. Pages are touched as they are used.
const BITS: usize = 12;

/// How many entries in a row may have a site.
const ENTRIES_PER_SITE: usize = 4;

const EMPTY: u64 = 0;
const BEING_WRITTEN: u64 = 1;

/// A call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    key: u64,
    /// The handle of the kernel that is launched; 0: any.
    kernel: u64,
}

impl Site {
    /// `copy` and `id` identify the function and its runtime copy.
    pub fn new(return_address: u64, copy: usize, id: usize, kernel: u64) -> Self {
        // User addresses have 47 bits, functions fewer than 10.
        Self { key: return_address << 16 | (copy as u64) << 12 | id as u64, kernel }
    }

    fn first_index(self) -> usize {
        let mixed = (self.key ^ self.kernel.rotate_left(32)).wrapping_mul(MULTIPLIER);
        (mixed >> (u64::BITS as usize - BITS)) as usize
    }

    fn kernel_tag(self) -> u64 {
        self.kernel.wrapping_mul(MULTIPLIER) >> 54
    }

    fn word(self, Known { judgement, origin }: Known, generation: u64) -> u64 {
        judgement.bits() | generation << 32 >> 16 | self.kernel_tag() << 48 | u64::from(origin) << 58
    }
}

/// What is known of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The verdict.
    pub judgement: Judgement,
    /// The number of the library that its calls belong to; below 64.
    pub origin: u8,
}

impl Known {
    fn from_word(word: u64) -> Self {
        Self { judgement: Judgement::from_bits(word), origin: (word >> 58) as u8 }
    }
}

#[repr(C, align(32))]
struct Entry {
    key: AtomicU64,
    kernel: AtomicU64,
    word: AtomicU64,
}

/// What is known about call sites.
pub struct Cache([Entry; 1 << BITS]);

/// The process's cache.
pub static CACHE: Cache = Cache::empty();

impl Cache {
    /// An empty one, for a static: it is large.
    #[expect(clippy::large_stack_arrays, reason = "a static's value")]
    pub const fn empty() -> Self {
        Self(
            [const { Entry { key: AtomicU64::new(EMPTY), kernel: AtomicU64::new(0), word: AtomicU64::new(0) } };
                1 << BITS],
        )
    }

    fn candidates(&self, site: Site) -> impl Iterator<Item = &Entry> {
        let first = site.first_index();
        (first..first + ENTRIES_PER_SITE).map(|index| &self.0[index % self.0.len()])
    }

    /// What is known about calls from a site under this generation.
    #[inline]
    pub fn find(&self, site: Site, generation: u64) -> Option<Known> {
        self.candidates(site).find_map(|entry| {
            // Acquire pairs with the release in `insert`.
            if entry.key.load(Ordering::Acquire) != site.key {
                return None;
            }
            let word = entry.word.load(Ordering::Relaxed);
            let kernel = entry.kernel.load(Ordering::Relaxed);
            // If another thread has begun to write another site meanwhile, the key has changed, and this load sees
            // that.
            fence(Ordering::Acquire);
            let known = Known::from_word(word);
            let is_it = entry.key.load(Ordering::Relaxed) == site.key
                && kernel == site.kernel
                && word == site.word(known, generation);
            is_it.then_some(known)
        })
    }

    /// Caches what is known, in place of an outdated entry or any other.
    pub fn insert(&self, site: Site, known: Known, generation: u64) {
        let is_stale = |entry: &&Entry| {
            let word = entry.word.load(Ordering::Relaxed);
            word << 16 >> 32 != generation << 32 >> 32
        };
        let is_same = |entry: &&Entry| {
            entry.key.load(Ordering::Relaxed) == site.key
                && entry.kernel.load(Ordering::Relaxed) == site.kernel
        };
        let is_empty = |entry: &&Entry| entry.key.load(Ordering::Relaxed) == EMPTY;
        let entry = self
            .candidates(site)
            .find(is_same)
            .or_else(|| self.candidates(site).find(is_empty))
            .or_else(|| self.candidates(site).find(is_stale))
            .or_else(|| self.candidates(site).next());
        let Some(entry) = entry else { return };
        let before = entry.key.load(Ordering::Relaxed);
        let reserved =
            entry.key.compare_exchange(before, BEING_WRITTEN, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // Another thread is writing there: what it knows is as good.
        if before != BEING_WRITTEN && reserved {
            // A thread that sees anything of the following also sees that the key is gone.
            fence(Ordering::Release);
            entry.word.store(site.word(known, generation), Ordering::Relaxed);
            entry.kernel.store(site.kernel, Ordering::Relaxed);
            entry.key.store(site.key, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use xsched_protocol::verdict::{Action, RuleId};

    use super::*;

    fn cache() -> Box<Cache> {
        // SAFETY: zero is a valid value of every field: an empty cache.
        unsafe { Box::<Cache>::new_zeroed().assume_init() }
    }

    fn site(number: u64) -> Site {
        Site::new(0x7f00_0000_0000 + number * 5, 0, number as usize % 500, 0)
    }

    const PASS: Known = Known { judgement: Judgement::new(Action::Passthrough, 0, RuleId::NONE), origin: 0 };
    const NEVER: Known =
        Known { judgement: Judgement::new(Action::NeverSuspend, 2, RuleId::DOMAIN), origin: 63 };

    #[test]
    fn a_verdict_holds_for_its_site_kernel_and_generation() {
        let cache = cache();
        let gemm = Site { kernel: 0x7f00_1234_5678, ..site(1) };
        assert_eq!(cache.find(site(1), 7), None);
        cache.insert(site(1), PASS, 7);
        cache.insert(gemm, NEVER, 7);
        assert_eq!((cache.find(site(1), 7), cache.find(gemm, 7)), (Some(PASS), Some(NEVER)));
        assert_eq!(cache.find(site(1), 8), None, "it is out of date");
        assert_eq!(cache.find(Site { kernel: 1, ..gemm }, 7), None);
        cache.insert(site(1), NEVER, 8);
        assert_eq!((cache.find(site(1), 8), cache.find(gemm, 7)), (Some(NEVER), Some(NEVER)));
    }

    #[test]
    fn a_copy_and_a_function_are_part_of_the_site() {
        let cache = cache();
        cache.insert(Site::new(0x1000, 1, 2, 0), PASS, 1);
        assert_eq!(cache.find(Site::new(0x1000, 1, 2, 0), 1), Some(PASS));
        for (copy, id) in [(0, 2), (1, 3), (2, 2)] {
            assert_eq!(cache.find(Site::new(0x1000, copy, id, 0), 1), None);
        }
    }

    #[test]
    fn a_full_neighbourhood_forgets_another_site() {
        let cache = cache();
        for number in 0..1 << 14 {
            cache.insert(site(number), PASS, 1);
            assert_eq!(cache.find(site(number), 1), Some(PASS), "{number}");
        }
        let known = (0..1 << 14).filter(|&number| cache.find(site(number), 1).is_some()).count();
        assert!(known > 1 << (BITS - 1), "{known}");
    }

    #[test]
    fn threads_that_write_together_never_read_another_site() {
        let cache = cache();
        // All in the same few entries.
        let sites: Vec<_> = (0..).map(site).filter(|site| site.first_index() < 2).take(24).collect();
        thread::scope(|scope| {
            for thread in 0..4_usize {
                let (cache, sites) = (&cache, &sites);
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let index = (round * 7 + thread) % sites.len();
                        // Each site has a rule of its own.
                        let judgement = Judgement::new(Action::Schedule, 0, RuleId::numbered(index));
                        let own = Known { judgement, origin: index as u8 };
                        match cache.find(sites[index], 3) {
                            Some(found) => assert_eq!(found, own),
                            None => cache.insert(sites[index], own, 3),
                        }
                    }
                });
            }
        });
    }
}
