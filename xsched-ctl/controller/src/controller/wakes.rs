//! How many epoll instances parties were given. A process can keep one for as long as it lives, or pass it on, and each that is kept
//! makes the wake-ups of its devices take longer.

use std::collections::BTreeMap;

use xsched_control_api::peer::Party;

/// Instances that a party may be given at once: four devices for each of its processes.
pub(super) const AT_ONCE: u64 = 4096;

/// How long one of them counts. A process needs one for each device on which it begins to have claims.
const COUNTS_NS: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Wakes {
    /// Until when those of each party count.
    until_ns: BTreeMap<Party, u64>,
}

impl Wakes {
    /// Counts another one, unless the party has had too many.
    pub(super) fn take(&mut self, party: Party, now_ns: u64) -> bool {
        self.until_ns.retain(|_, until_ns| *until_ns > now_ns);
        let until_ns = self.until_ns.entry(party).or_insert(now_ns);
        let is_allowed = *until_ns + COUNTS_NS <= now_ns + AT_ONCE * COUNTS_NS;
        if is_allowed {
            *until_ns += COUNTS_NS;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_is_given_many_at_once_and_then_one_a_second() {
        let mut wakes = Wakes::default();
        let mut given =
            |uid, at_ns| (0..10_000).filter(|_| wakes.take(Party::User(uid), at_ns)).count() as u64;
        assert_eq!(given(1, 5), AT_ONCE);
        assert_eq!((given(1, 5 + 3 * COUNTS_NS), given(2, 5 + 3 * COUNTS_NS)), (3, AT_ONCE));
        assert_eq!(given(1, 5 + 2 * AT_ONCE * COUNTS_NS), AT_ONCE);
    }
}
