//! What the programs know of what was decided. Each user's processes have a map of their own, in which what nobody has asked about
//! lately makes room: nobody's answers go because of another user.
//!
//! ```text
//!   VERDICTS   process ──► map of its user; beyond 32 users, one that all further ones share
//! ```

use std::collections::HashMap;

use aya::maps::{self, HashOfMaps, Map, MapData, MapError};
use xsched_abi::verdict::{Decided, VerdictKey};

use crate::bpf::{BpfError, map_value, sys};

map_value!(Key, VerdictKey);
map_value!(Value, Decided);

/// Users with a map of their own. A map takes 6 MiB.
const USERS_MAX: usize = 32;

/// Answers in a map.
const ANSWERS_PER_USER: u32 = 1 << 16;

/// A user's map.
type Answers = maps::HashMap<MapData, Key, Value>;

/// Where the programs look.
pub(super) type ByProcess = HashOfMaps<MapData, u32, Answers>;

/// Whose a map is; none: all further users'.
type Holder = Option<u32>;

/// All of them.
pub(super) struct DecidedMaps {
    by_process: ByProcess,
    /// With how many processes each has.
    maps: HashMap<Holder, (Answers, usize)>,
    /// By process.
    holders: HashMap<u32, Holder>,
    /// For the next user who comes: the kernel takes some milliseconds to make one.
    spare: Option<Answers>,
}

impl DecidedMaps {
    pub(super) fn new(by_process: ByProcess) -> Self {
        Self { by_process, maps: HashMap::new(), holders: HashMap::new(), spare: create().ok() }
    }

    /// Prepares for another user, when nobody waits.
    pub(super) fn prepare(&mut self) {
        // It fails again when it is needed, and then that is told.
        self.spare = self.spare.take().or_else(|| create().ok());
    }

    /// A process of a user will ask.
    pub(super) fn add(&mut self, tgid: u32, uid: u32) -> Result<(), BpfError> {
        self.remove(tgid, []);
        let failed = |cause| BpfError::Map { map: "VERDICTS", cause };
        let has_own = self.maps.contains_key(&Some(uid)) || self.maps.len() < USERS_MAX;
        let holder = has_own.then_some(uid);
        let (map, processes) = match self.maps.remove(&holder) {
            Some(known) => known,
            None => (self.spare.take().map_or_else(create, Ok).map_err(failed)?, 0),
        };
        let added = self.by_process.insert(tgid, &map, 0).map_err(failed);
        if added.is_ok() {
            self.holders.insert(tgid, holder);
        }
        let processes = processes + usize::from(added.is_ok());
        if processes > 0 {
            self.maps.insert(holder, (map, processes));
        }
        added
    }

    /// A process asks no more. What was decided for it goes.
    pub(super) fn remove(&mut self, tgid: u32, keys: impl IntoIterator<Item = VerdictKey>) {
        let Some(holder) = self.holders.remove(&tgid) else { return };
        // One that is not there is removed.
        let _ = self.by_process.remove(&tgid);
        let Some((map, processes)) = self.maps.get_mut(&holder) else { return };
        *processes -= 1;
        if *processes == 0 {
            self.maps.remove(&holder);
            return;
        }
        for key in keys {
            let _ = map.remove(&Key(key));
        }
    }

    /// Says what was decided for a process.
    pub(super) fn decide(&mut self, tgid: u32, key: VerdictKey, decided: Decided) {
        let Some((map, _)) = self.holders.get(&tgid).and_then(|holder| self.maps.get_mut(holder)) else {
            return;
        };
        // There is always room: what was not asked for lately goes.
        if let Err(error) = map.insert(Key(key), Value(decided), 0) {
            tracing::warn!("a verdict is not written: {error}");
        }
    }

    /// Has it asked for anew. Of a process that has left it is not known where it has asked.
    pub(super) fn forget(&mut self, tgid: u32, key: VerdictKey) {
        let holder = self.holders.get(&tgid);
        let maps = self.maps.iter_mut().filter(|(other, _)| holder.is_none_or(|holder| holder == *other));
        for (_, (map, _)) in maps {
            let _ = map.remove(&Key(key));
        }
    }
}

fn create() -> Result<Answers, MapError> {
    let (key, value) = (size_of::<VerdictKey>() as u32, size_of::<Decided>() as u32);
    let map = sys::create_lru_map(key, value, ANSWERS_PER_USER).map_err(MapError::IoError)?;
    Map::LruHashMap(MapData::from_fd(map)?).try_into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::programs::Programs;

    const DECIDED: Decided = Decided { verdict: 1, origin: 2, rule: 3 };

    fn key(number: u64) -> VerdictKey {
        VerdictKey { chain: number, subject: 7 }
    }

    fn knows(maps: &DecidedMaps, tgid: u32, number: u64) -> bool {
        let (map, _) = &maps.maps[&maps.holders[&tgid]];
        map.get(&Key(key(number)), 0).is_ok_and(|Value(decided)| decided == DECIDED)
    }

    #[test]
    #[ignore = "needs root"]
    fn answers_of_a_user_do_not_go_because_of_another() {
        let (programs, _) = Programs::load().unwrap();
        let mut maps = programs.decided;
        for (tgid, uid) in [(1, 1000), (2, 2000), (3, 1000)] {
            maps.add(tgid, uid).unwrap();
        }
        for tgid in [2, 3] {
            maps.decide(tgid, key(0), DECIDED);
        }
        for number in 1..u64::from(2 * ANSWERS_PER_USER) {
            maps.decide(1, key(number), DECIDED);
        }
        assert!(knows(&maps, 2, 0), "it is another user's");
        assert!(!knows(&maps, 3, 0), "there is no room for it");
        maps.remove(2, []);
        assert_eq!(maps.maps.len(), 1, "the user has no more processes");
        maps.decide(3, key(1), DECIDED);
        maps.remove(1, [key(1)]);
        assert!(!knows(&maps, 3, 1));
        for uid in 3000..3100 {
            maps.add(uid, uid).unwrap();
        }
        assert_eq!(maps.maps.len(), USERS_MAX + 1, "the others share one");
        assert!(maps.by_process.get(&3099, 0).is_ok());
    }
}
