//! Room for connections: nobody takes all of it, and whoever may do anything finds some.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::rc::Rc;

use super::controller::Actor;
use super::peer::Peer;

/// Connections at once of all users that are not privileged. Each costs a descriptor or four.
const CONNECTIONS_MAX: usize = 4096;

/// Of each of them: one for each of its processes or for each `run`, and some for other commands.
const CONNECTIONS_PER_USER_MAX: usize = 1024 + 256;

/// Who is connected: users that are not privileged, with their connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Rc<RefCell<BTreeMap<u32, usize>>>);

/// Somebody has been taken in; there is room for another when this is dropped.
#[derive(Debug)]
pub(super) struct Occupant {
    room: Room,
    /// Whose it is; none if he need not be counted.
    uid: Option<u32>,
}

impl Room {
    /// With nobody in it.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Takes in whoever has connected. None if there is no room for him, or he has ended already.
    pub(super) fn take_in(&self, connection: impl AsFd) -> Option<(Peer, Occupant)> {
        let peer = Peer::of(connection)
            .inspect_err(|error| tracing::debug!("a connection without a peer: {error}"))
            .ok()?;
        let occupant = self.occupant(Actor { pid: peer.pid, uid: peer.uid })?;
        Some((peer, occupant))
    }

    fn occupant(&self, actor: Actor) -> Option<Occupant> {
        if actor.is_privileged() {
            return Some(Occupant { room: self.clone(), uid: None });
        }
        let mut users = self.0.borrow_mut();
        let all: usize = users.values().sum();
        let own = users.get(&actor.uid).copied().unwrap_or(0);
        if all >= CONNECTIONS_MAX || own >= CONNECTIONS_PER_USER_MAX {
            return None;
        }
        users.insert(actor.uid, own + 1);
        Some(Occupant { room: self.clone(), uid: Some(actor.uid) })
    }
}

impl Drop for Occupant {
    fn drop(&mut self) {
        let Some(uid) = self.uid else { return };
        let mut users = self.room.0.borrow_mut();
        let left = users.get(&uid).map_or(0, |count| count - 1);
        if left == 0 {
            users.remove(&uid);
        } else {
            users.insert(uid, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody runs these tests as this user, and he is not root.
    const USER: u32 = 4_000_000_000;

    fn of(uid: u32) -> Actor {
        Actor { pid: 1, uid }
    }

    #[test]
    fn who_takes_all_that_he_can_leaves_room_for_others() {
        let room = Room::new();
        let mut taken: Vec<_> = std::iter::from_fn(|| room.occupant(of(USER))).collect();
        assert_eq!(taken.len(), CONNECTIONS_PER_USER_MAX);
        assert!(room.occupant(of(USER + 1)).is_some() && room.occupant(of(0)).is_some());
        taken.pop();
        assert!(room.occupant(of(USER)).is_some(), "there is room again");
    }

    #[test]
    fn many_users_together_leave_room_for_root() {
        let room = Room::new();
        let users = (0..10).flat_map(|user| std::iter::repeat_n(USER + user, 1000));
        let taken: Vec<_> = users.filter_map(|uid| room.occupant(of(uid))).collect();
        assert_eq!(taken.len(), CONNECTIONS_MAX);
        let root: Vec<_> = (0..10_000).filter_map(|_| room.occupant(of(0))).collect();
        assert_eq!(root.len(), 10_000);
        drop(taken);
        assert!(room.0.borrow().is_empty());
    }
}
