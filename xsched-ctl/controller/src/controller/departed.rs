//! What was set for processes that are not connected at the moment: connecting again does not undo it.

use std::collections::BTreeMap;

use xsched_control_api::{parameters::Wish, peer::Peer};

use super::authority::Actor;

/// Most remembered processes of one party: each keeps a descriptor open.
const OF_PARTY_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Departed {
    by_pid: BTreeMap<u32, (Peer, Wish)>,
    /// The process that was checked last.
    looked_at: u32,
}

impl Departed {
    /// Remembers what was set for a process, if its id is known here and something was set.
    pub(super) fn keep(&mut self, peer: Peer, set: Wish) {
        let account = |peer| Actor::of(peer).account();
        let of_party = self.by_pid.values().filter(|(other, _)| account(other) == account(&peer)).count();
        if !set.is_empty() && peer.pid != 0 && of_party < OF_PARTY_MAX {
            self.by_pid.insert(peer.pid, (peer, set));
        }
    }

    /// What was set for a process during an earlier connection. It applies as long as the process lives and its user is
    /// the same.
    pub(super) fn take(&mut self, peer: &Peer) -> Wish {
        let before = self.by_pid.remove(&peer.pid);
        let is_same = |(before, _): &(Peer, Wish)| before.uid == peer.uid && before.is_alive();
        before.filter(is_same).map(|(_, set)| set).unwrap_or_default()
    }

    /// Checks one process, the next one each time, and forgets it if it has ended.
    pub(super) fn look_at_one(&mut self) {
        let mut later = self.by_pid.range(self.looked_at.saturating_add(1)..);
        let Some((&pid, (peer, _))) = later.next().or_else(|| self.by_pid.first_key_value()) else { return };
        let is_alive = peer.is_alive();
        self.looked_at = pid;
        if !is_alive {
            self.by_pid.remove(&pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const SET: Wish = Wish { priority: Some(-7), ..Wish::NONE };

    fn remembered(departed: &Departed) -> Vec<u32> {
        departed.by_pid.keys().copied().collect()
    }

    #[test]
    fn only_ended_processes_are_forgotten() {
        let mut departed = Departed::default();
        let mut ended = Command::new("true").spawn().unwrap();
        let first = Peer::by_pid(ended.id(), 7).unwrap();
        ended.wait().unwrap();
        let own = Peer::by_pid(std::process::id(), 7).unwrap();
        for peer in [&first, &own] {
            departed.keep(peer.clone(), SET);
        }
        for _ in 0..2 {
            departed.look_at_one();
        }
        assert_eq!(remembered(&departed), [own.pid]);
        assert_eq!(
            departed.take(&Peer::unknown(own.pid, 8)),
            Wish::default(),
            "it is another user's process"
        );
        departed.keep(own.clone(), SET);
        assert_eq!(departed.take(&own), SET);
        assert_eq!(departed.take(&own), Wish::default());
    }

    #[test]
    fn processes_of_a_user_are_limited_and_those_without_settings_are_not_kept() {
        let mut departed = Departed::default();
        departed.keep(Peer::unknown(3, 7), Wish::default());
        departed.keep(Peer::unknown(0, 7), SET);
        for pid in 1..=2_000 {
            departed.keep(Peer::unknown(pid, 7), SET);
        }
        departed.keep(Peer::unknown(5_000, 8), SET);
        assert_eq!(remembered(&departed).len(), OF_PARTY_MAX + 1);
    }
}
