//! Which gates a process has, for other processes that read the shim's status: `xsched-ctl doctor --pid`.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use xsched_protocol::shim_status::GateCounts;
use xsched_xqueue::Tried;

/// [`GateCounts`] in a shim's status.
#[derive(Debug)]
#[repr(transparent)]
pub struct PublishedGates([AtomicU32; 5]);

const _: () = assert!(size_of::<PublishedGates>() == size_of::<GateCounts>());

impl PublishedGates {
    /// No gate.
    pub const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; 5])
    }

    fn publish(&self, GateCounts { shared, own, beyond, none, tried }: GateCounts) {
        for (field, value) in self.0.iter().zip([shared, own, beyond, none, tried]) {
            field.store(value, Ordering::Relaxed);
        }
    }

    /// In a forked child, which has none.
    pub fn clear(&self) {
        self.publish(GateCounts::default());
    }
}

impl Default for PublishedGates {
    fn default() -> Self {
        Self::new()
    }
}

/// What gate a context or a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateState {
    /// In a page that the arbiter writes.
    Shared,
    /// In memory of the process's own.
    Own,
    /// None so far, since a page has no room.
    Beyond,
    /// None that works.
    None,
    /// One that is being tried.
    Tried,
}

/// The gates of the process, as they were tried last, by what has them.
#[derive(Debug)]
pub struct Gates<K> {
    known: Mutex<HashMap<K, Known>>,
    published: &'static PublishedGates,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    state: GateState,
    /// A page had no room, and it has a gate of its own for that reason.
    is_beyond: bool,
}

impl<K: Copy + Eq + Hash> Gates<K> {
    /// None is known.
    pub fn new(published: &'static PublishedGates) -> Self {
        Self { known: Mutex::default(), published }
    }

    /// A gate is another.
    pub fn note(&self, of: K, state: GateState) {
        self.change(|known| {
            let before = known.get(&of).is_some_and(|known| known.is_beyond);
            let is_beyond = match state {
                GateState::Beyond => true,
                GateState::Shared => false,
                GateState::Own | GateState::None | GateState::Tried => before,
            };
            known.insert(of, Known { state, is_beyond });
        });
    }

    /// A trial was looked at, of a gate in a page that the arbiter writes or not.
    pub fn note_trial<G>(&self, of: K, tried: &Tried<G>, is_shared: bool) {
        let state = match tried {
            Tried::Works(_) if is_shared => GateState::Shared,
            Tried::Works(_) => GateState::Own,
            Tried::Refused if !is_shared => GateState::None,
            // After a page comes memory of the process's own.
            Tried::Refused | Tried::Pending { .. } | Tried::Undecided => return,
        };
        self.note(of, state);
    }

    /// What had a gate is gone.
    pub fn forget(&self, of: K) {
        self.change(|known| known.retain(|known, _| *known != of));
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<K, Known>)) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut known);
        self.published.publish(count(&known));
    }
}

fn count<K>(known: &HashMap<K, Known>) -> GateCounts {
    let mut counts = GateCounts::default();
    for known in known.values() {
        *match known.state {
            GateState::Shared => &mut counts.shared,
            GateState::Own if known.is_beyond => &mut counts.beyond,
            GateState::Own => &mut counts.own,
            GateState::None => &mut counts.none,
            GateState::Tried | GateState::Beyond => &mut counts.tried,
        } += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_counted_by_their_gates() {
        static PUBLISHED: PublishedGates = PublishedGates::new();
        let gates = Gates::new(&PUBLISHED);
        let counted = || {
            let counts = count(&gates.known.lock().unwrap());
            let GateCounts { shared, own, beyond, none, tried } = counts;
            let published = PUBLISHED.0.each_ref().map(|field| field.load(Ordering::Relaxed));
            assert_eq!(published, [shared, own, beyond, none, tried]);
            counts
        };
        gates.note(1, GateState::Tried);
        assert_eq!(counted(), GateCounts { tried: 1, ..GateCounts::default() });
        gates.note(1, GateState::Shared);
        gates.note(2, GateState::Beyond);
        gates.note(2, GateState::Tried);
        gates.note(2, GateState::Own);
        gates.note(3, GateState::Own);
        gates.note(4, GateState::None);
        assert_eq!(counted(), GateCounts { shared: 1, own: 1, beyond: 1, none: 1, tried: 0 });
        gates.note(2, GateState::Shared);
        gates.forget(3);
        assert_eq!(counted(), GateCounts { shared: 2, own: 0, beyond: 0, none: 1, tried: 0 });
    }
}
