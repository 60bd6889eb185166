//! Builds of the shim that are probed: which parties brought them, and which are no longer used.

use std::collections::{BTreeMap, BTreeSet};

use xsched_arbiter::SHIMS_MAX;
use xsched_control_api::peer::Party;
use xsched_symbols::FileId;

use crate::room::Division;

/// Files that declare themselves the shim, used or not.
const BUILDS: Division = Division { room: SHIMS_MAX - 64, each: 4 };

/// Up to this many, unused builds stay probed.
const KEPT: usize = 32;

/// How long a build must be unused before its probe is removed.
const UNUSED_NS: u64 = 60 * 1_000_000_000;

/// How often a probe is removed: removal keeps the kernel from changing other probes for a tenth of a second.
const PERIOD_NS: u64 = 10 * 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Builds {
    files: BTreeMap<FileId, Build>,
    looked_ns: u64,
}

#[derive(Debug)]
struct Build {
    /// The party that it counts for.
    brought_by: Option<Party>,
    used_ns: u64,
}

impl Builds {
    /// A process has mapped a build: returns whether it may be probed. `party` is none if it is not counted.
    pub(super) fn bring(&mut self, now_ns: u64, file: FileId, party: Option<Party>) -> bool {
        if let Some(build) = self.files.get_mut(&file) {
            build.used_ns = now_ns;
            return true;
        }
        let mut counts = BTreeMap::new();
        for party in self.files.values().filter_map(|build| build.brought_by) {
            *counts.entry(party).or_default() += 1;
        }
        let may = self.files.len() < SHIMS_MAX && party.is_none_or(|party| BUILDS.allows(party, &counts));
        if may {
            self.files.insert(file, Build { brought_by: party, used_ns: now_ns });
        }
        may
    }

    /// A build is no longer probed. Returns the party that it counted for.
    pub(super) fn remove(&mut self, file: FileId) -> Option<Party> {
        self.files.remove(&file)?.brought_by
    }

    /// A build that was unused for a while, if there are many: its probe is to be removed.
    pub(super) fn spare(&mut self, now_ns: u64, used: impl FnOnce() -> BTreeSet<FileId>) -> Option<FileId> {
        if self.files.len() <= KEPT || now_ns.saturating_sub(self.looked_ns) < PERIOD_NS {
            return None;
        }
        self.looked_ns = now_ns;
        for file in used() {
            if let Some(build) = self.files.get_mut(&file) {
                build.used_ns = now_ns;
            }
        }
        let oldest = self.files.iter().min_by_key(|(_, build)| build.used_ns);
        oldest.filter(|(_, build)| now_ns.saturating_sub(build.used_ns) > UNUSED_NS).map(|(&file, _)| file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn user(number: u32) -> Party {
        Party::User(1000 + number)
    }

    fn file(inode: u64) -> FileId {
        FileId { device_major: 8, device_minor: 1, inode, generation: None }
    }

    #[test]
    fn users_that_bring_their_maximum_leave_some_for_others() {
        let mut builds = Builds::default();
        let mut bring = |uid, inodes: std::ops::Range<u64>| {
            inodes.filter(|&inode| builds.bring(0, file(inode), uid)).count()
        };
        let greedy: Vec<_> = (0..3)
            .map(|number| bring(Some(user(number)), u64::from(number) * 300..u64::from(number + 1) * 300))
            .collect();
        assert_eq!(greedy, [64 + 4, 4, 4]);
        for number in 3..32 {
            let first = 1000 + 10 * u64::from(number);
            assert_eq!(bring(Some(user(number)), first..first + 5), 4, "user {number}");
            assert_eq!(bring(Some(user(number)), 0..20), 20, "they are there already");
        }
        assert_eq!(bring(None, 3000..3100), 64);
    }

    #[test]
    fn unused_builds_are_removed_one_after_the_other() {
        const SECOND: u64 = 1_000_000_000;
        let mut builds = Builds::default();
        assert!((0..40).all(|inode| builds.bring(0, file(inode), None)));
        assert!(!(0..60).any(|at| builds.spare(at * SECOND, BTreeSet::new).is_some()), "they may come back");
        let used = || BTreeSet::from([file(1)]);
        assert!(builds.bring(50 * SECOND, file(2), None));
        let mut gone = Vec::new();
        for at in 61..700 {
            if let Some(spare) = builds.spare(at * SECOND, used) {
                builds.remove(spare);
                gone.push((at, spare.inode));
            }
        }
        assert_eq!(gone.len(), 40 - KEPT, "{gone:?}");
        assert!(gone.iter().all(|(_, inode)| ![1, 2].contains(inode)), "{gone:?}");
        assert!(gone.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 10), "{gone:?}");
        assert!(
            builds.bring(700 * SECOND, file(gone[0].1), Some(user(0))),
            "it is probed again like any other"
        );
    }
}
