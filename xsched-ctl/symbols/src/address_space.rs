//! The executable mappings of one program, with their history.
//!
//! `current` holds the known present mappings; its pieces never overlap. `past` holds pieces that newer mappings
//! replaced, until the caller says that no record of that time can arrive any more. perf reports no unmapping
//! (<https://man7.org/linux/man-pages/man2/perf_event_open.2.html> has no such record): a library closed by
//! `dlclose` stays until another mapping covers it or all mappings are read again.
//!
//! Only executable mappings are kept. perf can report all others, too (`mmap_data`), at several times the number of events, but
//! `.bss` would still be missing: it is anonymous memory after the file's last mapping. An address in a library's data is found
//! as in a debugger. The executable mapping gives the load bias of the file; bias and `PT_LOAD` headers give every address of the
//! module (see `Elf::covers`).
//!
//! A forked child shares its parent's map until one of them changes (copy on write), because most children only
//! execute another program.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::mapping::{Backing, Mapping};

#[derive(Clone, Debug, Default)]
pub(crate) struct AddressSpace(Arc<History>);

#[derive(Clone, Debug, Default)]
struct History {
    /// By first address.
    current: BTreeMap<u64, Piece>,
    past: Vec<Past>,
}

/// The remaining part of a mapping, after other mappings replaced parts of it.
#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    from_ns: u64,
    /// Read from `/proc`, which has no time of the mapping; the kernel's event for it may arrive later.
    is_read: bool,
    mapping: Arc<Mapping>,
}

#[derive(Clone, Debug)]
struct Past {
    start: u64,
    until_ns: u64,
    piece: Piece,
}

impl AddressSpace {
    /// Adds a mapping that was made at `from_ns`. Returns false if it is known already.
    pub(crate) fn map(&mut self, from_ns: u64, mapping: &Arc<Mapping>) -> bool {
        self.insert(from_ns, mapping, false)
    }

    fn insert(&mut self, from_ns: u64, mapping: &Arc<Mapping>, is_read: bool) -> bool {
        if self.knows(mapping) {
            if !is_read {
                self.date(from_ns, mapping);
            }
            return false;
        }
        let history = Arc::make_mut(&mut self.0);
        let piece = Piece { end: mapping.end, from_ns, is_read, mapping: Arc::clone(mapping) };
        // Events of two CPUs may arrive in the wrong order. Then the other mapping is the newer one.
        let newer = history.overlapping(mapping.start, mapping.end).map(|(_, other)| other.from_ns).max();
        if let Some(until_ns) = newer.filter(|&newer_ns| newer_ns > from_ns) {
            history.past.push(Past { start: mapping.start, until_ns, piece });
        } else {
            history.retire(mapping.start, mapping.end, from_ns);
            history.current.insert(mapping.start, piece);
        }
        true
    }

    /// Sets the time of a mapping that was read from `/proc`. The mappings that it replaced ended at that time.
    fn date(&mut self, from_ns: u64, mapping: &Mapping) {
        let is_later = |piece: &Piece| piece.is_read && piece.from_ns > from_ns;
        if !self.0.current.get(&mapping.start).is_some_and(is_later) {
            return;
        }
        let history = Arc::make_mut(&mut self.0);
        if let Some(piece) = history.current.get_mut(&mapping.start) {
            (piece.from_ns, piece.is_read) = (from_ns, false);
        }
        for past in &mut history.past {
            let overlaps = past.start < mapping.end && past.piece.end > mapping.start;
            if overlaps && past.piece.from_ns < from_ns {
                past.until_ns = past.until_ns.min(from_ns);
            }
        }
    }

    fn knows(&self, mapping: &Mapping) -> bool {
        let known = self.0.current.get(&mapping.start);
        known.is_some_and(|piece| piece.end == mapping.end && piece.mapping.is_same_as(mapping))
    }

    /// Makes the present state equal to `mappings`, which were read at `now_ns`. Returns those that were unknown.
    pub(crate) fn reconcile(
        &mut self,
        now_ns: u64,
        started_ns: u64,
        mappings: impl Iterator<Item = Mapping>,
    ) -> Vec<Arc<Mapping>> {
        let read: BTreeMap<u64, Mapping> = mappings.map(|mapping| (mapping.start, mapping)).collect();
        let gone: Vec<(u64, u64)> = (self.0.current.iter())
            .filter(|(start, piece)| {
                read.get(*start)
                    .is_none_or(|other| piece.end != other.end || !piece.mapping.is_same_as(other))
            })
            .map(|(&start, piece)| (start, piece.end))
            .collect();
        if !gone.is_empty() {
            let history = Arc::make_mut(&mut self.0);
            for (start, end) in gone {
                history.retire(start, end, now_ns);
            }
        }
        let mut unknown = Vec::new();
        for mapping in read.into_values() {
            let mapping = Arc::new(mapping);
            // The time of the mapping is not known. It counts for older records, too, except for times at which
            // another mapping is known there.
            let from_ns = self.0.free_since(mapping.start, mapping.end).unwrap_or(started_ns);
            if self.insert(from_ns, &mapping, true) {
                unknown.push(mapping);
            }
        }
        unknown
    }

    pub(crate) fn at(&self, address: u64, time_ns: u64) -> Option<&Arc<Mapping>> {
        let below = self.0.current.range(..=address).next_back();
        if let Some((_, piece)) = below
            && address < piece.end
            && piece.from_ns <= time_ns
        {
            return Some(&piece.mapping);
        }
        (self.0.past.iter())
            .filter(|past| past.was_at(time_ns) && (past.start..past.piece.end).contains(&address))
            .max_by_key(|past| past.piece.from_ns)
            .map(|past| &past.piece.mapping)
    }

    /// File mappings that may belong to the module around `address`. Address ranges of modules do not overlap, so
    /// it is the module of the nearest executable mapping below or above.
    pub(crate) fn neighbours(&self, address: u64, time_ns: u64) -> Vec<Arc<Mapping>> {
        let was_there = |piece: &Piece| piece.from_ns <= time_ns && piece.mapping.backing.is_file();
        let current = &self.0.current;
        let below = current.range(..=address).rev().map(|(_, piece)| piece).find(|piece| was_there(piece));
        let above = current.range(address..).map(|(_, piece)| piece).find(|piece| was_there(piece));
        let past = || {
            (self.0.past.iter())
                .filter(|past| past.was_at(time_ns) && past.piece.mapping.backing.is_file())
                .map(|past| &past.piece)
        };
        let past_below =
            past().filter(|piece| piece.mapping.start <= address).max_by_key(|piece| piece.mapping.start);
        let past_above =
            past().filter(|piece| piece.mapping.start >= address).min_by_key(|piece| piece.mapping.start);
        [below, above, past_below, past_above]
            .into_iter()
            .flatten()
            .map(|piece| Arc::clone(&piece.mapping))
            .collect()
    }

    /// Adds the parent's mappings below this process's own ones.
    pub(crate) fn inherit(&mut self, parent: &Self) {
        let own = std::mem::replace(self, parent.clone());
        for piece in own.0.current.values() {
            self.insert(piece.from_ns, &piece.mapping, piece.is_read);
        }
    }

    pub(crate) fn current(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        self.0.current.values().map(|piece| &piece.mapping)
    }

    /// Like [`current`](Self::current), with the remaining range of each mapping.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (Range<u64>, &Arc<Mapping>)> {
        self.0.current.iter().map(|(&start, piece)| (start..piece.end, &piece.mapping))
    }

    pub(crate) fn forget_before(&mut self, before_ns: u64) {
        if self.0.past.iter().any(|past| past.until_ns < before_ns) {
            Arc::make_mut(&mut self.0).past.retain(|past| past.until_ns >= before_ns);
        }
    }
}

impl History {
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Piece)> {
        // Pieces do not overlap, so at most one that begins before `start` reaches into the range.
        let first = self.current.range(..=start).next_back().map_or(start, |(&first, _)| first);
        self.current
            .range(first..end.max(first))
            .map(|(&first, piece)| (first, piece))
            .filter(move |(_, piece)| piece.end > start)
    }

    /// Moves the parts of mappings inside the range to the past, and keeps the parts outside, like the kernel.
    fn retire(&mut self, start: u64, end: u64, now_ns: u64) {
        let covered: Vec<u64> = self.overlapping(start, end).map(|(first, _)| first).collect();
        for first in covered {
            let Some(piece) = self.current.remove(&first) else { continue };
            if first < start {
                self.current.insert(first, Piece { end: start, ..piece.clone() });
            }
            if piece.end > end {
                self.current.insert(end, piece.clone());
            }
            let inside = Piece { end: piece.end.min(end), ..piece };
            self.past.push(Past { start: first.max(start), until_ns: now_ns, piece: inside });
        }
    }

    /// The last time at which a mapping in the range ended; None if there never was one.
    fn free_since(&self, start: u64, end: u64) -> Option<u64> {
        let overlaps = |past: &&Past| past.start < end && past.piece.end > start;
        self.past.iter().filter(overlaps).map(|past| past.until_ns).max()
    }
}

impl Past {
    fn was_at(&self, time_ns: u64) -> bool {
        self.piece.from_ns <= time_ns && time_ns < self.until_ns
    }
}

impl Backing {
    pub(crate) fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Memfd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::FileId;

    fn mapping(start: u64, end: u64, inode: u64) -> Arc<Mapping> {
        let file = FileId { device_major: 8, device_minor: 1, inode, generation: None };
        Arc::new(Mapping::new(start, end, 0, Some(file), format!("/lib/{inode}.so").as_bytes()))
    }

    fn inode_at(space: &AddressSpace, address: u64, time_ns: u64) -> Option<u64> {
        space.at(address, time_ns).and_then(|mapping| mapping.file).map(|file| file.inode)
    }

    #[test]
    fn lookups_use_the_mapping_of_the_time() {
        let mut space = AddressSpace::default();
        space.map(10, &mapping(0x1000, 0x3000, 1));
        space.map(20, &mapping(0x1000, 0x3000, 2));
        assert_eq!(inode_at(&space, 0x2000, 5), None);
        assert_eq!(inode_at(&space, 0x2000, 10), Some(1));
        assert_eq!(inode_at(&space, 0x2000, 19), Some(1));
        assert_eq!(inode_at(&space, 0x2000, 20), Some(2));
        space.forget_before(21);
        assert_eq!(inode_at(&space, 0x2000, 19), None, "the past is forgotten");
        assert_eq!(inode_at(&space, 0x2000, 25), Some(2));
    }

    #[test]
    fn a_mapping_in_the_middle_keeps_both_ends() {
        let mut space = AddressSpace::default();
        space.map(10, &mapping(0x1000, 0x5000, 1));
        space.map(20, &mapping(0x2000, 0x3000, 2));
        for (address, inode) in [(0x1fff, 1), (0x2000, 2), (0x2fff, 2), (0x3000, 1), (0x4fff, 1)] {
            assert_eq!(inode_at(&space, address, 30), Some(inode), "{address:#x}");
            assert_eq!(inode_at(&space, address, 15), Some(1), "{address:#x} before");
        }
        assert_eq!(inode_at(&space, 0x5000, 30), None);
        assert_eq!(inode_at(&space, 0xfff, 30), None);
    }

    #[test]
    fn events_in_the_wrong_order_give_the_same_state() {
        let mut space = AddressSpace::default();
        space.map(20, &mapping(0x1000, 0x3000, 2));
        space.map(10, &mapping(0x1000, 0x3000, 1));
        assert_eq!(inode_at(&space, 0x2000, 15), Some(1));
        assert_eq!(inode_at(&space, 0x2000, 25), Some(2));
    }

    #[test]
    fn a_repeated_event_changes_nothing() {
        let mut space = AddressSpace::default();
        assert!(space.map(10, &mapping(0x1000, 0x3000, 1)));
        assert!(!space.map(30, &mapping(0x1000, 0x3000, 1)));
        assert_eq!(inode_at(&space, 0x2000, 15), Some(1), "the older time stays");
    }

    #[test]
    fn a_child_keeps_its_parents_mappings_of_the_fork() {
        let mut parent = AddressSpace::default();
        parent.map(10, &mapping(0x1000, 0x3000, 1));
        let mut child = parent.clone();
        parent.map(20, &mapping(0x1000, 0x3000, 2));
        child.map(30, &mapping(0x8000, 0x9000, 3));
        assert_eq!(inode_at(&child, 0x2000, 40), Some(1));
        assert_eq!(inode_at(&parent, 0x2000, 40), Some(2));
        assert_eq!(inode_at(&parent, 0x8000, 40), None);
    }

    #[test]
    fn an_event_after_the_scan_sets_the_time() {
        let mut space = AddressSpace::default();
        space.map(10, &mapping(0x1000, 0x3000, 1));
        let read = Arc::into_inner(mapping(0x1000, 0x3000, 2)).unwrap();
        space.reconcile(50, 5, [read].into_iter());
        assert_eq!(inode_at(&space, 0x2000, 30), Some(1), "as far as is known");
        assert!(!space.map(20, &mapping(0x1000, 0x3000, 2)), "only its time is new");
        assert_eq!(inode_at(&space, 0x2000, 30), Some(2));
        assert_eq!(inode_at(&space, 0x2000, 19), Some(1));
        space.map(60, &mapping(0x1000, 0x3000, 1));
        assert_eq!(inode_at(&space, 0x2000, 59), Some(2));
        assert_eq!(inode_at(&space, 0x2000, 60), Some(1));
    }

    #[test]
    fn a_scan_adds_missed_mappings_and_drops_closed_ones() {
        let mut space = AddressSpace::default();
        space.map(10, &mapping(0x1000, 0x2000, 1));
        space.map(10, &mapping(0x4000, 0x5000, 2));
        let read = [(0x4000, 0x5000, 2), (0x7000, 0x8000, 3)];
        let read = read.map(|(start, end, inode)| Arc::into_inner(mapping(start, end, inode)).unwrap());
        let unknown = space.reconcile(50, 5, read.into_iter());
        assert_eq!(unknown.iter().map(|mapping| mapping.start).collect::<Vec<_>>(), [0x7000]);
        assert_eq!(inode_at(&space, 0x1000, 60), None, "closed");
        assert_eq!(inode_at(&space, 0x1000, 40), Some(1), "open at the time");
        assert_eq!(inode_at(&space, 0x7000, 6), Some(3), "it may be as old as the program");
        assert_eq!(inode_at(&space, 0x4000, 60), Some(2));
    }

    #[test]
    fn a_missed_replacement_counts_from_the_scan() {
        let mut space = AddressSpace::default();
        space.map(10, &mapping(0x1000, 0x2000, 1));
        let read = Arc::into_inner(mapping(0x1000, 0x2000, 9)).unwrap();
        space.reconcile(50, 5, [read].into_iter());
        assert_eq!(inode_at(&space, 0x1000, 40), Some(1));
        assert_eq!(inode_at(&space, 0x1000, 50), Some(9));
    }

    #[test]
    fn neighbours_are_the_nearest_files_below_and_above() {
        let mut space = AddressSpace::default();
        for (start, inode) in [(0x1000, 1), (0x4000, 2), (0x8000, 3)] {
            space.map(10, &mapping(start, start + 0x1000, inode));
        }
        space.map(10, &Arc::new(Mapping::new(0x6000, 0x7000, 0, None, b"//anon")));
        let near: Vec<_> = space.neighbours(0x7800, 20).iter().map(|mapping| mapping.start).collect();
        assert_eq!(near, [0x4000, 0x8000]);
    }

    /// The oracle: a list of all mappings in order, of which the newest at the time is the answer.
    fn inode_by_search(history: &[(u64, u64, u64, u64)], address: u64, time_ns: u64) -> Option<u64> {
        let covers = |&&(from_ns, start, end, _): &&(u64, u64, u64, u64)| {
            from_ns <= time_ns && (start..end).contains(&address)
        };
        history.iter().rev().find(covers).map(|&(.., inode)| inode)
    }

    #[test]
    fn lookups_agree_with_an_exhaustive_search() {
        let mut rng = crate::tests::seeded();
        for _ in 0..300 {
            let mut space = AddressSpace::default();
            let mut history = Vec::new();
            for round in 1..40 {
                let start = rng.u64(..64) * 0x1000;
                let end = start + (1 + rng.u64(..16)) * 0x1000;
                space.map(round * 10, &mapping(start, end, round));
                history.push((round * 10, start, end, round));
                for _ in 0..20 {
                    let (address, time_ns) = (rng.u64(..0x52000), rng.u64(..round * 10 + 10));
                    let expected = inode_by_search(&history, address, time_ns);
                    assert_eq!(
                        inode_at(&space, address, time_ns),
                        expected,
                        "{address:#x} at {time_ns}: {history:x?}"
                    );
                }
            }
        }
    }

    #[test]
    fn inherited_mappings_are_below_the_childs_own() {
        let mut parent = AddressSpace::default();
        parent.map(10, &mapping(0x1000, 0x5000, 1));
        let mut child = AddressSpace::default();
        child.map(30, &mapping(0x2000, 0x3000, 2));
        child.inherit(&parent);
        assert_eq!(inode_at(&child, 0x2000, 40), Some(2));
        assert_eq!(inode_at(&child, 0x2000, 20), Some(1));
        assert_eq!(inode_at(&child, 0x4000, 40), Some(1));
    }
}
