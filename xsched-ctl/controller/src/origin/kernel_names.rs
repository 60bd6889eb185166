//! Names of kernels, by which rules may go. Processes of one program have the same ones, so each name is there once for its party.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use xsched_control_api::peer::Party;

use crate::room::Division;

/// Bytes of memory. A party is sure of a process with 25,000 kernels whose names have 400 bytes each; 100 processes with 20,000
/// kernels of one program take 112 MiB.
const NAMES: Division = Division { room: 512 << 20, each: 12 << 20 };

/// What it costs that a process knows a kernel: its entry in a hash table that is half full.
const ENTRY_COST: usize = 48;

/// What a name costs beside its text: its entry in a hash table, its counts of references, and its block of memory.
const NAME_COST: usize = 64;

pub(super) struct KernelNames {
    room: Division,
    names: HashMap<Party, HashSet<Arc<str>>>,
    /// What each party's names and entries cost.
    costs: BTreeMap<Party, usize>,
    /// Parties of which the log has said that they have too many.
    reported: HashSet<Party>,
}

impl Default for KernelNames {
    fn default() -> Self {
        Self { room: NAMES, names: HashMap::new(), costs: BTreeMap::new(), reported: HashSet::new() }
    }
}

impl KernelNames {
    /// A name for this process of this party. None if the party has too many.
    pub(super) fn keep(&mut self, party: Party, pid: u32, name: &str) -> Option<Arc<str>> {
        if !self.room.allows(party, &self.costs) {
            if self.reported.insert(party) {
                tracing::warn!(
                    "process {pid}: the processes of its user or container have too many kernels: rules that go by kernels apply to no further ones"
                );
            }
            return None;
        }
        let names = self.names.entry(party).or_default();
        let known = names.get(name).map(Arc::clone);
        let cost = ENTRY_COST + if known.is_none() { NAME_COST + name.len() } else { 0 };
        *self.costs.entry(party).or_default() += cost;
        Some(known.unwrap_or_else(|| {
            let name: Arc<str> = name.into();
            names.insert(Arc::clone(&name));
            name
        }))
    }

    /// A process of this party has no more use for a name that it was given.
    pub(super) fn release(&mut self, party: Party, name: &Arc<str>) {
        let (Some(names), Some(costs)) = (self.names.get_mut(&party), self.costs.get_mut(&party)) else {
            return;
        };
        *costs -= ENTRY_COST;
        // The other reference is in the set.
        if Arc::strong_count(name) == 2 {
            names.remove(name);
            *costs -= NAME_COST + name.len();
        }
        if *costs == 0 {
            self.names.remove(&party);
            self.costs.remove(&party);
            self.reported.remove(&party);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_party_share_names_until_the_last_one_has_gone() {
        let (mut names, party) = (KernelNames::default(), Party::User(7));
        let one = names.keep(party, 1, "gemm").unwrap();
        let other = names.keep(party, 1, "gemm").unwrap();
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(names.costs[&party], 2 * ENTRY_COST + NAME_COST + 4);
        assert!(!Arc::ptr_eq(&one, &names.keep(Party::User(8), 1, "gemm").unwrap()));
        names.release(party, &one);
        drop(one);
        assert_eq!(names.costs[&party], ENTRY_COST + NAME_COST + 4);
        names.release(party, &other);
        assert!(!names.costs.contains_key(&party) && !names.names.contains_key(&party));
    }

    #[test]
    fn a_party_cannot_have_names_without_end_and_takes_none_of_the_others_part() {
        let room = Division { room: 1 << 20, each: 24 << 10 };
        let mut names = KernelNames { room, ..KernelNames::default() };
        let mut count = |party, most| {
            (0..most)
                .take_while(|number| names.keep(Party::User(party), 1, &format!("{number:0400}")).is_some())
                .count()
        };
        let cost = ENTRY_COST + NAME_COST + 400;
        let kept = count(1, usize::MAX);
        assert_eq!(kept, (room.room - 31 * room.each).div_ceil(cost));
        for other in 2..=32 {
            assert_eq!(count(other, 40), 40, "{other}");
        }
    }
}
