//! Quotas: no party, which is a user or a container, takes all of a resource, each is guaranteed a part, and privileged users
//! always find some.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use xsched_control_api::peer::{Party, Peer};

use super::controller::Actor;

/// Number of parties with a guaranteed part at the same time. Others cannot take from these parts.
const PARTIES: usize = 32;

/// How a limited resource is divided among unprivileged parties. Each is guaranteed a part, as long as at most [`PARTIES`]
/// have any. What is left beyond all these parts goes to the first that ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// For all of them together. The rest of the resource is reserved for privileged users.
    pub(super) room: usize,
    /// Guaranteed to each.
    pub(super) each: usize,
}

impl Division {
    /// Whether a party may have one more, given how many each has now.
    pub(super) fn allows(self, party: Party, counts: &BTreeMap<Party, usize>) -> bool {
        let own = counts.get(&party).copied().unwrap_or(0);
        let all: usize = counts.values().sum();
        let beyond: usize = counts.values().map(|count| count.saturating_sub(self.each)).sum();
        all < self.room && (own < self.each || beyond < self.room - PARTIES * self.each)
    }
}

/// Connections. Each costs one descriptor (a command) or three (a process).
const CONNECTIONS: Division = Division { room: 4096, each: 64 };

/// For each party: one connection for each process or `run`, and some for other commands.
const CONNECTIONS_PER_PARTY_MAX: usize = 1024 + 256;

/// Connected unprivileged parties, with the number of their connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Rc<RefCell<BTreeMap<Party, usize>>>);

/// An accepted connection. Dropping it frees its part of the quota.
#[derive(Debug)]
pub(super) struct Occupant {
    room: Room,
    /// The party that it counts for; none if it is not counted.
    party: Option<Party>,
}

/// Why a connection is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// Its process has ended already.
    Gone,
    /// Its party's quota is used up, or the controller has no descriptors left.
    Full,
}

impl NotTaken {
    /// Why there is no peer. Before Linux 6.16 there is no descriptor of a process that has ended.
    fn of(error: &io::Error) -> Self {
        if error.raw_os_error() == Some(libc::ESRCH) { Self::Gone } else { Self::Full }
    }
}

/// A new connection could not be accepted for lack of descriptors or another resource. That may last, and a client that
/// can open connections can make it last.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    /// When the log last said so.
    said: Option<Instant>,
}

impl Shortage {
    /// How long to wait before the next try.
    const AGAIN: Duration = Duration::from_millis(100);

    /// How often the log says so.
    const SAID_AGAIN: Duration = Duration::from_mins(1);

    /// Logs the shortage, at most once a minute, and waits.
    pub(super) async fn pass(&mut self, client: &str, error: &io::Error) {
        if self.must_log(Instant::now()) {
            tracing::warn!("cannot accept {client}, and perhaps others (logged once a minute): {error}");
        }
        tokio::time::sleep(Self::AGAIN).await;
    }

    fn must_log(&mut self, now: Instant) -> bool {
        let is_due = self.said.is_none_or(|said| now.duration_since(said) >= Self::SAID_AGAIN);
        if is_due {
            self.said = Some(now);
        }
        is_due
    }
}

impl Room {
    pub(super) fn new() -> Self {
        Self::default()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Accepts a connection.
    pub(super) fn take_in(&self, connection: impl AsFd) -> Result<(Peer, Occupant), NotTaken> {
        let peer = Peer::of(connection).map_err(|error| {
            tracing::debug!("a connection without a peer: {error}");
            NotTaken::of(&error)
        })?;
        let occupant = self.occupant(Actor::of(&peer)).ok_or(NotTaken::Full)?;
        Ok((peer, occupant))
    }

    pub(super) fn occupant(&self, actor: Actor) -> Option<Occupant> {
        let Some(party) = actor.counted() else {
            return Some(Occupant { room: self.clone(), party: None });
        };
        let mut counts = self.0.borrow_mut();
        let own = counts.get(&party).copied().unwrap_or(0);
        if own >= CONNECTIONS_PER_PARTY_MAX || !CONNECTIONS.allows(party, &counts) {
            return None;
        }
        counts.insert(party, own + 1);
        Some(Occupant { room: self.clone(), party: Some(party) })
    }
}

impl Occupant {
    /// Frees its part when its socket is closed, if that is still to come. Descriptors in a socket may keep it open for as long as
    /// their sender likes.
    pub(super) fn leave(occupant: Option<Self>, closing: Option<oneshot::Receiver<()>>) {
        if let (Some(occupant), Some(closing)) = (occupant, closing) {
            tokio::task::spawn_local(async move {
                // A socket that cannot be closed stays open.
                if closing.await.is_err() {
                    std::future::pending::<()>().await;
                }
                drop(occupant);
            });
        }
    }
}

impl Drop for Occupant {
    fn drop(&mut self) {
        let Some(party) = self.party else { return };
        let mut counts = self.room.0.borrow_mut();
        let left = counts.get(&party).map_or(0, |count| count - 1);
        if left == 0 {
            counts.remove(&party);
        } else {
            counts.insert(party, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test runs as this user, which is not root.
    const USER: u32 = 4_000_000_000;

    fn of(uid: u32) -> Actor {
        Actor::of(&Peer::unknown(1, uid))
    }

    #[test]
    fn a_process_that_has_ended_has_reached_no_limit() {
        let why = |number| NotTaken::of(&io::Error::from_raw_os_error(number));
        assert_eq!([libc::ESRCH, libc::EMFILE].map(why), [NotTaken::Gone, NotTaken::Full]);
    }

    #[test]
    fn a_lasting_shortage_is_logged_once_a_minute() {
        let (mut shortage, began) = (Shortage::default(), Instant::now());
        let said = (0..1200).filter(|tries| shortage.must_log(began + Shortage::AGAIN * *tries));
        assert_eq!(said.collect::<Vec<_>>(), [0, 600]);
    }

    #[test]
    fn a_user_that_takes_its_maximum_leaves_some_for_others() {
        let room = Room::new();
        let mut taken: Vec<_> = std::iter::from_fn(|| room.occupant(of(USER))).collect();
        assert_eq!(taken.len(), CONNECTIONS_PER_PARTY_MAX);
        assert!(room.occupant(of(USER + 1)).is_some() && room.occupant(of(0)).is_some());
        taken.pop();
        assert!(room.occupant(of(USER)).is_some(), "a dropped connection frees its part");
    }

    #[test]
    fn a_container_that_takes_its_maximum_leaves_some_for_those_with_the_same_user() {
        let room = Room::new();
        let contained = |uid, container| room.occupant(Actor::of(&Peer::contained(1, uid, container)));
        // Its root may become any user.
        let taken: Vec<_> = (0..10_000).filter_map(|number| contained(number % 64, 7)).collect();
        assert_eq!(taken.len(), CONNECTIONS_PER_PARTY_MAX);
        let others: Vec<_> = (0..10_000).filter_map(|_| contained(0, 8)).collect();
        let last: Vec<_> = (0..64).filter_map(|_| contained(0, 9)).collect();
        assert_eq!((others.len() >= 64, last.len()), (true, 64));
    }

    #[test]
    fn many_users_together_leave_some_for_others_and_for_root() {
        let room = Room::new();
        let of_users = |users: std::ops::Range<u32>, each| {
            let users = users.flat_map(move |user| std::iter::repeat_n(USER + user, each));
            users.filter_map(|uid| room.occupant(of(uid))).collect::<Vec<_>>()
        };
        let greedy = of_users(0..4, 2000);
        let others = of_users(4..32, CONNECTIONS.each);
        assert_eq!(others.len(), 28 * CONNECTIONS.each);
        assert_eq!(greedy.len() + others.len(), CONNECTIONS.room);
        let root: Vec<_> = (0..10_000).filter_map(|_| room.occupant(of(0))).collect();
        assert_eq!(root.len(), 10_000);
        drop((greedy, others));
        assert!(room.0.borrow().is_empty());
    }

    #[test]
    fn whatever_others_do_a_user_has_its_part() {
        let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
        eprintln!("seed {seed}");
        let mut state = seed | 1;
        // xorshift64
        let mut below = |end: usize| {
            for shift in [13, -7, 17] {
                state ^= if shift > 0 { state << shift } else { state >> -shift };
            }
            (state % end as u64) as usize
        };
        for _ in 0..100 {
            let each = 1 + below(5);
            let division = Division { each, room: PARTIES * each + below(50) };
            let mut users = BTreeMap::new();
            for _ in 0..1000 {
                // Some take more than others, and give back less.
                let number = below(PARTIES).min(below(PARTIES)) as u32;
                let party = Party::User(number);
                let own = users.get(&party).copied().unwrap_or(0);
                if own > 0 && below(PARTIES) < number as usize {
                    users.insert(party, own - 1);
                } else {
                    let allowed = division.allows(party, &users);
                    assert!(allowed || own >= each, "{division:?} {party:?} {users:?}");
                    users.insert(party, own + usize::from(allowed));
                }
                assert!(users.values().sum::<usize>() <= division.room);
            }
        }
    }
}
