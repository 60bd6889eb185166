//! Serializes expensive requests, so that many of them do not keep the controller from its own work. A user's processes
//! wait for each other, those in a container for each other, and no other process waits for them: see [`Party`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use xsched_control_api::peer::Party;

use super::controller::Actor;

/// How many of root's containers may have something done at once for users with one number. A user that may have root
/// create them can have any number of containers.
const CONTAINERS_AT_ONCE: usize = 16;

/// Allows one thing at a time for each party.
#[derive(Debug, Default)]
pub(super) struct Turns {
    parties: Semaphores<Party>,
    /// By user: for its processes in all of root's containers.
    contained: Semaphores<u32>,
}

/// The right to have something done; ends when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    #[expect(dead_code, reason = "it is its end that says something")]
    held: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

#[derive(Debug)]
struct Semaphores<K>(RefCell<BTreeMap<K, Arc<Semaphore>>>);

impl Turns {
    /// Waits until this process's party may have something done.
    pub(super) async fn take(&self, actor: Actor) -> Turn {
        let own = self.parties.take(actor.party, 1).await;
        let common = match actor.party {
            Party::Container(_) => Some(self.contained.take(actor.uid, CONTAINERS_AT_ONCE).await),
            Party::User(_) => None,
        };
        Turn { held: (own, common) }
    }
}

impl<K: Ord> Semaphores<K> {
    async fn take(&self, whose: K, at_once: usize) -> OwnedSemaphorePermit {
        let own = self.of(whose, at_once);
        own.acquire_owned().await.expect("it is never closed")
    }

    fn of(&self, whose: K, at_once: usize) -> Arc<Semaphore> {
        let mut known = self.0.borrow_mut();
        // Entries that only this map refers to are not in use.
        known.retain(|_, turns| Arc::strong_count(turns) > 1);
        Arc::clone(known.entry(whose).or_insert_with(|| Arc::new(Semaphore::new(at_once))))
    }
}

impl<K> Default for Semaphores<K> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

/// Log lines that a party may cause at once; hundreds of commands may start together on a large machine.
const LINES_AT_ONCE: u32 = 512;

/// How long one of them counts.
const LINE_COUNTS: Duration = Duration::from_millis(50);

/// How many log lines parties have caused. Without a limit one of them could fill the disk, or cause a service manager to
/// drop the lines of others.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Until when their lines count.
    until: RefCell<BTreeMap<Party, Instant>>,
}

impl Lines {
    /// Counts a line; returns the time at which it is within the limit.
    fn count(&self, party: Party, now: Instant) -> Instant {
        let mut parties = self.until.borrow_mut();
        parties.retain(|_, until| *until > now);
        let until = parties.entry(party).or_insert(now);
        *until += LINE_COUNTS;
        *until - LINE_COUNTS * LINES_AT_ONCE
    }

    /// Counts a line that was written; waits if the party has caused too many.
    pub(super) async fn pay(&self, party: Party) {
        let now = Instant::now();
        let due = self.count(party, now);
        if due > now {
            sleep_until(due).await;
        }
    }

    /// Counts a line unless the party has caused too many; returns false then.
    pub(super) fn have_room(&self, party: Party) -> bool {
        let now = Instant::now();
        let has_room =
            self.until.borrow().get(&party).is_none_or(|until| *until - LINE_COUNTS * LINES_AT_ONCE < now);
        if has_room {
            self.count(party, now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;
    use xsched_control_api::peer::Peer;

    use super::*;

    #[tokio::test]
    async fn one_of_a_users_processes_at_a_time() {
        let turns = Turns::default();
        let user = |uid| Actor::of(&Peer::unknown(1, uid));
        let first = turns.take(user(7)).await;
        assert!(timeout(Duration::from_millis(20), turns.take(user(7))).await.is_err());
        drop(turns.take(user(8)).await);
        drop(turns.take(Actor::of(&Peer::contained(1, 7, 9))).await);
        drop(first);
        drop(turns.take(user(7)).await);
        assert!(turns.parties.0.borrow().len() <= 1, "{turns:?}");
    }

    #[tokio::test]
    async fn many_containers_do_not_multiply_a_users_turns() {
        let turns = Turns::default();
        let take = |uid, container| turns.take(Actor::of(&Peer::contained(1, uid, container)));
        let mut held = Vec::new();
        while let Ok(turn) = timeout(Duration::from_millis(20), take(7, held.len() as u64)).await {
            held.push(turn);
            assert!(held.len() <= CONTAINERS_AT_ONCE, "one for each container");
        }
        assert_eq!(held.len(), CONTAINERS_AT_ONCE);
        drop(turns.take(Actor::of(&Peer::unknown(1, 7))).await);
        drop(take(8, 98).await);
        held.pop();
        drop(take(7, 99).await);
    }

    #[tokio::test]
    async fn a_containers_users_have_one_turn_together() {
        let turns = Turns::default();
        let first = turns.take(Actor::of(&Peer::contained(1, 7, 9))).await;
        let other = turns.take(Actor::of(&Peer::contained(2, 8, 9)));
        assert!(timeout(Duration::from_millis(20), other).await.is_err());
        drop(first);
    }

    #[test]
    fn a_party_that_caused_many_lines_waits_for_more() {
        let (lines, now) = (Lines::default(), Instant::now());
        let [user, other] = [7, 8].map(Party::User);
        let due: Vec<_> = (0..LINES_AT_ONCE + 2).map(|_| lines.count(user, now)).collect();
        assert!(due[..LINES_AT_ONCE as usize].iter().all(|due| *due <= now), "all of these at once");
        assert_eq!(due[LINES_AT_ONCE as usize] - now, LINE_COUNTS);
        assert_eq!(due[LINES_AT_ONCE as usize + 1] - now, 2 * LINE_COUNTS);
        assert!(!lines.have_room(user) && lines.have_room(other));
        let later = now + LINE_COUNTS * (LINES_AT_ONCE + 2);
        assert!(lines.count(user, later) < later);
    }
}
