//! Serializes expensive requests, so that many of them do not keep the controller from its own work. A user's processes
//! wait for each other, those in a container for each other, and no other process waits for them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use xsched_control_api::peer::Container;

use super::controller::Actor;

/// A user outside of containers or in one: unrelated users may have the same number in several containers.
type Party = (u32, Option<Container>);

/// How many containers may have something done at once for users with one number. A user that may create namespaces can
/// have any number of containers.
const CONTAINERS_AT_ONCE: usize = 16;

/// Allows one thing at a time for each user.
#[derive(Debug, Default)]
pub(super) struct Turns {
    parties: Semaphores<Party>,
    /// By user: for processes in all its containers.
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
    /// Waits until this user may have something done.
    pub(super) async fn take(&self, actor: Actor) -> Turn {
        let own = self.parties.take((actor.uid, actor.container), 1).await;
        let common = match actor.container {
            Some(_) => Some(self.contained.take(actor.uid, CONTAINERS_AT_ONCE).await),
            None => None,
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

/// Log lines that a user may cause at once; hundreds of commands may start together on a large machine.
const LINES_AT_ONCE: u32 = 512;

/// How long one of them counts.
const LINE_COUNTS: Duration = Duration::from_millis(50);

/// How many log lines users have caused. Without a limit one user could fill the disk, or cause a service manager to
/// drop the lines of others.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// By user: until when its lines count.
    until: RefCell<BTreeMap<u32, Instant>>,
}

impl Lines {
    /// Counts a line; returns the time at which it is within the limit.
    fn count(&self, uid: u32, now: Instant) -> Instant {
        let mut users = self.until.borrow_mut();
        users.retain(|_, until| *until > now);
        let until = users.entry(uid).or_insert(now);
        *until += LINE_COUNTS;
        *until - LINE_COUNTS * LINES_AT_ONCE
    }

    /// Counts a line that was written; waits if the user has caused too many.
    pub(super) async fn pay(&self, uid: u32) {
        let now = Instant::now();
        let due = self.count(uid, now);
        if due > now {
            sleep_until(due).await;
        }
    }

    /// Counts a line unless the user has caused too many; returns false then.
    pub(super) fn have_room(&self, uid: u32) -> bool {
        let now = Instant::now();
        let has_room =
            self.until.borrow().get(&uid).is_none_or(|until| *until - LINE_COUNTS * LINES_AT_ONCE < now);
        if has_room {
            self.count(uid, now);
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
        drop(take(8, 1).await);
        held.pop();
        drop(take(7, 99).await);
    }

    #[test]
    fn a_user_that_caused_many_lines_waits_for_more() {
        let (lines, now) = (Lines::default(), Instant::now());
        let due: Vec<_> = (0..LINES_AT_ONCE + 2).map(|_| lines.count(7, now)).collect();
        assert!(due[..LINES_AT_ONCE as usize].iter().all(|due| *due <= now), "all of these at once");
        assert_eq!(due[LINES_AT_ONCE as usize] - now, LINE_COUNTS);
        assert_eq!(due[LINES_AT_ONCE as usize + 1] - now, 2 * LINE_COUNTS);
        assert!(!lines.have_room(7) && lines.have_room(8));
        let later = now + LINE_COUNTS * (LINES_AT_ONCE + 2);
        assert!(lines.count(7, later) < later);
    }
}
