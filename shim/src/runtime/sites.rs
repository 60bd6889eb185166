//! Which real function a call site reaches: looked up once, then read without a lock.
//!
//! A process can hold several runtime copies, and the caller determines which of them a call reaches. So the answer
//! is kept per call site: the return address distinguishes callers. If a second copy is loaded later, known sites
//! stay as they are, and the sites that it brings are not known yet.
//!
//! The table is open-addressed and read without a lock:
//!
//! ```text
//!   key    0 empty --> 1 being written --> the key --> 2 forgotten --> 1 being written ...
//!   rest   undefined      undefined         valid       undefined
//! ```
//!
//! A full neighbourhood is no error: the call is then answered by its library (`objects.rs`) at some ten times the price, and
//! that is counted. Registrations of compiled code are so from the start: a library makes thousands, each from a place of its
//! own and once.
//!
//! Sites must not outlive their code: otherwise another library that is mapped there later would reach the copy of
//! its predecessor. Compiled code unregisters its fat binaries when it is unloaded; then the sites of its library are
//! forgotten. No thread can be calling from there at that time, so no reader sees an entry change under it. Libraries
//! without kernels are unloaded unnoticed: their sites are forgotten when the next new site is looked up, see `DESIGN.md`.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};

use crate::api::COUNT;
use crate::runtime::copies::{RuntimeCopy, Way, way_numbered};
use xsched_preload::hashing::MULTIPLIER;

/// log2 of the number of entries: enough for every launch site of a large framework. Pages are touched as they are used.
pub(crate) const TABLE_BITS: usize = 14;

/// How far from its first index an entry may lie.
const PROBES: usize = 32;

const EMPTY: u64 = 0;
const BEING_WRITTEN: u64 = 1;
const FORGOTTEN: u64 = 2;

const _: () = assert!(COUNT <= 1 << Key::ADDRESS_SHIFT);

/// A call site and the function it calls, since one site may call through a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    /// How far the return address is shifted to leave bits for the number of the function. User addresses have 47
    /// bits.
    pub(crate) const ADDRESS_SHIFT: usize = 16;

    pub(crate) fn new(return_address: u64, id: u64) -> Self {
        Self(return_address << Self::ADDRESS_SHIFT | id)
    }

    /// Where the call returns to.
    fn return_address(self) -> usize {
        (self.0 >> Self::ADDRESS_SHIFT) as usize
    }

    fn first_index(self) -> usize {
        (self.0.wrapping_mul(MULTIPLIER) >> (u64::BITS as usize - TABLE_BITS)) as usize
    }
}

/// One call site. The exports read the first three fields in assembly.
#[repr(C, align(32))]
pub(crate) struct Site {
    pub(crate) key: AtomicU64,
    pub(crate) address: AtomicPtr<c_void>,
    /// A [`Way`].
    pub(crate) way: AtomicU8,
    /// The copy's index plus one; 0 for none.
    copy: AtomicU8,
    pub(crate) caller_is_runtime: AtomicBool,
}

/// log2 of a site's size.
pub(crate) const SITE_SHIFT: usize = 5;
const _: () = assert!(size_of::<Site>() == 1 << SITE_SHIFT);

/// The real function behind a call site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Original {
    /// The function's code.
    pub(crate) address: *mut c_void,
    /// The call comes from inside a runtime copy: the runtime using its own API.
    pub(crate) caller_is_runtime: bool,
    /// The copy that the function belongs to.
    pub(crate) copy: Option<&'static RuntimeCopy>,
    /// How the shim sees calls of this function of that copy.
    pub(crate) way: Way,
}

impl PartialEq for Original {
    fn eq(&self, other: &Self) -> bool {
        let key = |original: &Self| {
            let copy = original.copy.map(RuntimeCopy::index);
            (original.address, original.caller_is_runtime, copy, original.way)
        };
        key(self) == key(other)
    }
}

/// All known call sites.
pub(crate) struct Sites([Site; 1 << TABLE_BITS]);

/// The table's own address, which the exports add to an offset: an operand in memory saves them a register.
pub(crate) static SITES: &Sites = &TABLE;

static TABLE: Sites = Sites(
    [const {
        Site {
            key: AtomicU64::new(EMPTY),
            address: AtomicPtr::new(std::ptr::null_mut()),
            way: AtomicU8::new(0),
            copy: AtomicU8::new(0),
            caller_is_runtime: AtomicBool::new(false),
        }
    }; 1 << TABLE_BITS],
);

/// The process's table.
pub(crate) fn sites() -> &'static Sites {
    &TABLE
}

impl Sites {
    fn candidates(&self, key: Key) -> impl Iterator<Item = &Site> {
        let first = key.first_index();
        (first..first + PROBES).map(|index| &self.0[index % self.0.len()])
    }

    /// What is known about a call site.
    pub(crate) fn find(&self, key: Key) -> Option<Original> {
        for site in self.candidates(key) {
            // Acquire: pairs with the release in `insert`, so that the fields are seen that were written
            // before.
            match site.key.load(Ordering::Acquire) {
                EMPTY => return None,
                found if found == key.0 => {
                    return Some(Original {
                        address: site.address.load(Ordering::Relaxed),
                        caller_is_runtime: site.caller_is_runtime.load(Ordering::Relaxed),
                        copy: site
                            .copy
                            .load(Ordering::Relaxed)
                            .checked_sub(1)
                            .map(|index| RuntimeCopy::at(index.into())),
                        way: way_numbered(site.way.load(Ordering::Relaxed).into()),
                    });
                }
                _ => {}
            }
        }
        None
    }

    /// Remembers a call site. False if there was no free entry for it.
    ///
    /// If two threads insert one site at once, both succeed, with equal contents in two entries.
    pub(crate) fn insert(&self, key: Key, original: Original) -> bool {
        for site in self.candidates(key) {
            let free = site.key.load(Ordering::Relaxed);
            if !matches!(free, EMPTY | FORGOTTEN) {
                continue;
            }
            // Relaxed: the exchange only reserves the entry; nothing that other threads wrote there is read.
            let reserved =
                site.key.compare_exchange(free, BEING_WRITTEN, Ordering::Relaxed, Ordering::Relaxed);
            if reserved.is_ok() {
                site.address.store(original.address, Ordering::Relaxed);
                site.way.store(original.way as u8, Ordering::Relaxed);
                let copy = original.copy.map_or(0, |copy| copy.index() as u8 + 1);
                site.copy.store(copy, Ordering::Relaxed);
                site.caller_is_runtime.store(original.caller_is_runtime, Ordering::Relaxed);
                site.key.store(key.0, Ordering::Release);
                return true;
            }
        }
        false
    }

    /// Forgets the call sites at these return addresses.
    pub(crate) fn forget(&self, is_gone: impl Fn(usize) -> bool) {
        for site in &self.0 {
            let key = Key(site.key.load(Ordering::Relaxed));
            if !matches!(key.0, EMPTY | BEING_WRITTEN | FORGOTTEN) && is_gone(key.return_address()) {
                // Relaxed: a thread that takes the entry reserves it again. If another thread did since the load,
                // the exchange fails, as it should.
                let _ = site.key.compare_exchange(key.0, FORGOTTEN, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original(address: usize) -> Original {
        Original {
            address: std::ptr::without_provenance_mut(address),
            caller_is_runtime: address % 2 == 1,
            copy: address.is_multiple_of(3).then(|| RuntimeCopy::at(address % 4)),
            way: way_numbered(address as u32 % 3),
        }
    }

    fn table() -> Box<Sites> {
        // On the heap: the table is larger than a test thread's stack should be asked for.
        // SAFETY: zero is a valid value of every field: an empty table.
        unsafe { Box::<Sites>::new_zeroed().assume_init() }
    }

    #[test]
    fn unknown_sites_are_not_found() {
        let sites = table();
        assert_eq!(sites.find(Key::new(0x7f00_1234_5678, 3)), None);
    }

    #[test]
    fn one_site_may_call_several_functions() {
        let sites = table();
        for id in 0..20 {
            assert!(sites.insert(Key::new(0x7f00_1234_5678, id), original(0x1000 + id as usize)));
        }
        for id in 0..20 {
            assert_eq!(
                sites.find(Key::new(0x7f00_1234_5678, id)),
                Some(original(0x1000 + id as usize)),
                "function {id}"
            );
        }
    }

    #[test]
    fn a_full_neighbourhood_refuses_and_loses_nothing() {
        let sites = table();
        let crowded: Vec<Key> = (0..)
            .map(|n| Key::new(0x7f00_0000_0000 + n * 5, 7))
            .filter(|key| key.first_index() == (1 << TABLE_BITS) - 1)
            .take(PROBES + 1)
            .collect();
        let (refused, kept) = crowded.split_last().unwrap();
        for (n, &key) in kept.iter().enumerate() {
            assert!(sites.insert(key, original(n)), "site {n}");
        }
        assert!(!sites.insert(*refused, original(99)));
        assert_eq!(sites.find(*refused), None);
        for (n, &key) in kept.iter().enumerate() {
            assert_eq!(sites.find(key), Some(original(n)), "site {n}");
        }
    }

    #[test]
    fn forgotten_sites_leave_free_entries_and_others_stay() {
        let sites = table();
        let (gone, stays) = (Key::new(0x7f00_0000_1000, 1), Key::new(0x7f00_0000_9000, 1));
        for key in [gone, stays] {
            assert!(sites.insert(key, original(8)));
        }
        sites.forget(|address| (0x7f00_0000_0000..0x7f00_0000_2000).contains(&address));
        assert_eq!(sites.find(gone), None);
        assert_eq!(sites.find(stays), Some(original(8)));
        assert!(sites.insert(gone, original(16)));
        assert_eq!(sites.find(gone), Some(original(16)));
    }

    #[test]
    fn threads_that_insert_together_all_find_theirs() {
        let sites = table();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let sites = &sites;
                scope.spawn(move || {
                    for n in 0..1000 {
                        let key = Key::new(0x7f00_0000_0000 + n * 9, thread % 2);
                        assert!(sites.insert(key, original((n * 2 + thread % 2) as usize)));
                        assert_eq!(sites.find(key), Some(original((n * 2 + thread % 2) as usize)));
                    }
                });
            }
        });
    }
}
