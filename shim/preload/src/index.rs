//! An index that any thread reads without a lock: what belongs to a handle of the runtime.
//!
//! Each launch looks up its stream, from any thread, and programs have thousands of streams. So a lookup writes nothing, and what it
//! finds lives as long as the process. A removed key's node stays in its bucket, for the next key there, so no lookup loses its way.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

use crate::hashing::MULTIPLIER;

/// Two words that name a thing. The first is not 0.
pub type Key = [usize; 2];

/// log2 of the number of buckets. With more keys than that, a lookup passes several nodes.
const BUCKET_BITS: u32 = 10;

/// Things by their keys. One thread writes at a time.
pub struct Index<T: 'static>(Box<[AtomicPtr<Node<T>>]>);

struct Node<T: 'static> {
    /// The first word is 0 while the node has no key.
    key: [AtomicUsize; 2],
    value: AtomicPtr<T>,
    next: Option<&'static Node<T>>,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self((0..1 << BUCKET_BITS).map(|_| AtomicPtr::new(ptr::null_mut())).collect())
    }
}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}

impl<T: Sync> Index<T> {
    /// What has this key.
    #[inline]
    pub fn find(&self, key: Key) -> Option<&'static T> {
        self.nodes(key).find_map(|node| node.value_of(key))
    }

    /// Gives this key to a thing, in place of what has it. The caller makes sure that no other thread writes.
    pub fn insert(&self, key: Key, value: &'static T) {
        let spare = || self.nodes(key).find(|node| node.key[0].load(Ordering::Relaxed) == 0);
        if let Some(node) = self.nodes(key).find(|node| node.has(key)).or_else(spare) {
            return node.set(key, value);
        }
        let Some(bucket) = self.0.get(bucket_of(key)) else { return };
        let node =
            Node { key: Default::default(), value: AtomicPtr::default(), next: self.nodes(key).next() };
        let node: &'static Node<T> = Box::leak(Box::new(node));
        node.set(key, value);
        bucket.store(ptr::from_ref(node).cast_mut(), Ordering::Release);
    }

    /// Takes a key away. The caller makes sure that no other thread writes.
    pub fn remove(&self, key: Key) {
        if let Some(node) = self.nodes(key).find(|node| node.has(key)) {
            node.key[0].store(0, Ordering::Release);
        }
    }

    /// The nodes of a key's bucket.
    #[inline]
    fn nodes(&self, key: Key) -> impl Iterator<Item = &'static Node<T>> {
        let first =
            self.0.get(bucket_of(key)).map_or(ptr::null_mut(), |bucket| bucket.load(Ordering::Acquire));
        // SAFETY: null, or made of a reference for as long as the process lives.
        std::iter::successors(unsafe { first.as_ref() }, |node| node.next)
    }
}

impl<T: Sync> Node<T> {
    fn has(&self, key: Key) -> bool {
        self.key[0].load(Ordering::Acquire) == key[0] && self.key[1].load(Ordering::Acquire) == key[1]
    }

    /// Its thing, if it has this key. If the node gets another key meanwhile, its first word changes before the rest.
    #[inline]
    fn value_of(&self, key: Key) -> Option<&'static T> {
        if !self.has(key) {
            return None;
        }
        let value = self.value.load(Ordering::Acquire);
        fence(Ordering::Acquire);
        let is_still = self.key[0].load(Ordering::Relaxed) == key[0];
        // SAFETY: null, or made of a reference for as long as the process lives.
        unsafe { value.as_ref() }.filter(|_| is_still)
    }

    fn set(&self, key: Key, value: &'static T) {
        self.key[0].store(0, Ordering::Relaxed);
        // A thread that sees one of the next two stores sees that the node has no key.
        fence(Ordering::Release);
        self.key[1].store(key[1], Ordering::Relaxed);
        self.value.store(ptr::from_ref(value).cast_mut(), Ordering::Relaxed);
        self.key[0].store(key[0], Ordering::Release);
    }
}

#[inline]
fn bucket_of(key: Key) -> usize {
    let mixed = key[0] as u64 ^ (key[1] as u64).rotate_left(u64::BITS / 2);
    (mixed.wrapping_mul(MULTIPLIER) >> (u64::BITS - BUCKET_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    fn leaked(value: usize) -> &'static usize {
        Box::leak(Box::new(value))
    }

    #[test]
    fn what_was_inserted_is_found_until_it_is_removed() {
        let index = Index::default();
        let keys = || (1..=5_000).flat_map(|handle| [[handle * 64, 0], [handle * 64, 1]]);
        for key in keys() {
            index.insert(key, leaked(key[0] + key[1]));
        }
        assert!(keys().all(|key| index.find(key).is_some_and(|&value| value == key[0] + key[1])));
        keys().filter(|key| key[1] == 0).for_each(|key| index.remove(key));
        assert!(keys().all(|key| index.find(key).is_some() == (key[1] == 1)));
        assert_eq!(index.find([7, 0]), None, "never inserted");
    }

    #[test]
    fn a_key_has_what_was_inserted_last() {
        let index = Index::default();
        for value in [5, 6] {
            index.insert([64, 0], leaked(value));
        }
        assert_eq!(index.find([64, 0]), Some(&6));
        index.remove([64, 0]);
        assert_eq!(index.find([64, 0]), None);
    }

    #[test]
    fn nodes_of_removed_keys_serve_the_next_ones() {
        let index = Index::default();
        for round in 0..100 {
            index.insert([64, round], leaked(round));
            index.remove([64, round]);
        }
        let nodes: usize = (0..100).map(|round| index.nodes([64, round]).count()).max().unwrap_or(0);
        assert!(nodes <= 2, "{nodes} nodes of a bucket that has had one key at a time");
    }

    /// Threads look up while keys come and go: no lookup finds another key's thing, and a key that stays is always found.
    #[test]
    fn lookups_beside_changes_find_the_right_thing() {
        const ROUNDS: usize = 20_000;
        let (index, is_over) = (Index::default(), AtomicBool::new(false));
        let things: Vec<_> = (0..64).map(leaked).collect();
        // All in one bucket: keys that differ in what the hash drops.
        let bucket = bucket_of([64, 0]);
        let keys: Vec<_> =
            (1..).map(|n| [n * 64, 0]).filter(|&key| bucket_of(key) == bucket).take(64).collect();
        index.insert(keys[0], things[0]);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        assert_eq!(index.find(keys[0]), Some(&0), "it stays");
                        for (key, &thing) in keys.iter().zip(&things) {
                            assert!(index.find(*key).is_none_or(|found| found == thing));
                        }
                    }
                });
            }
            for round in 0..ROUNDS {
                let number = 1 + round % 63;
                index.insert(keys[number], things[number]);
                index.remove(keys[1 + (round + 7) % 63]);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
