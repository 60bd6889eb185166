//! Whose turn it is, where much asking would keep the controller from its own work: a user's processes wait for each other, and
//! nobody else for any of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// What is done for one of a user's processes at a time.
#[derive(Debug, Default)]
pub(super) struct Turns(RefCell<BTreeMap<u32, Arc<Semaphore>>>);

/// A user's turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(
    #[expect(dead_code, reason = "it is its end that says something")] OwnedSemaphorePermit,
);

impl Turns {
    /// Waits for a user's turn.
    pub(super) async fn take(&self, uid: u32) -> Turn {
        let own = self.of(uid);
        Turn(own.acquire_owned().await.expect("nobody closes it"))
    }

    fn of(&self, uid: u32) -> Arc<Semaphore> {
        let mut users = self.0.borrow_mut();
        // Nobody has a turn or waits for one where nobody else has it.
        users.retain(|_, turns| Arc::strong_count(turns) > 1);
        Arc::clone(users.entry(uid).or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}

/// Lines of the log that a user can have written at once; hundreds of commands may start together on a large machine.
const LINES_AT_ONCE: u32 = 512;

/// How long one of them counts.
const LINE_COUNTS: Duration = Duration::from_millis(50);

/// How much of the log users have had written: one who does nothing else would fill the disk, or have a service manager leave out
/// what others do.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// By user: until when his lines count.
    until: RefCell<BTreeMap<u32, Instant>>,
}

impl Lines {
    /// Counts a line; returns when there is room for it.
    fn count(&self, uid: u32, now: Instant) -> Instant {
        let mut users = self.until.borrow_mut();
        users.retain(|_, until| *until > now);
        let until = users.entry(uid).or_insert(now);
        *until += LINE_COUNTS;
        *until - LINE_COUNTS * LINES_AT_ONCE
    }

    /// Counts a line that was written; who has had too many of them waits.
    pub(super) async fn pay(&self, uid: u32) {
        let now = Instant::now();
        let due = self.count(uid, now);
        if due > now {
            sleep_until(due).await;
        }
    }

    /// Counts a line unless the user has had too many; false if so.
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

    use super::*;

    #[tokio::test]
    async fn one_of_a_users_processes_at_a_time() {
        let turns = Turns::default();
        let first = turns.take(7).await;
        assert!(timeout(Duration::from_millis(20), turns.take(7)).await.is_err());
        drop(turns.take(8).await);
        drop(first);
        drop(turns.take(7).await);
        assert!(turns.0.borrow().len() <= 1, "{turns:?}");
    }

    #[test]
    fn who_has_had_many_lines_written_has_to_wait_for_more() {
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
