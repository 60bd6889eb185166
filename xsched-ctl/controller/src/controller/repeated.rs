//! Log messages that are not repeated for a while.

use std::collections::BTreeMap;

/// When something was last logged, by what it is about.
pub(super) struct Repeated<K> {
    quiet_ns: u64,
    logged: BTreeMap<K, u64>,
}

impl<K: Ord> Repeated<K> {
    /// Nothing has been logged. Messages about the same `K` are `quiet_ns` apart.
    pub(super) fn every(quiet_ns: u64) -> Self {
        Self { quiet_ns, logged: BTreeMap::new() }
    }

    /// Whether to log a message now; it counts as logged then.
    pub(super) fn is_due(&mut self, about: K, now_ns: u64) -> bool {
        self.logged.retain(|_, at_ns| now_ns.saturating_sub(*at_ns) < self.quiet_ns);
        if self.logged.contains_key(&about) {
            return false;
        }
        self.logged.insert(about, now_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<K> Repeated<K> {
        /// By what they are about: when messages were last logged.
        pub(crate) fn logged(&self) -> &BTreeMap<K, u64> {
            &self.logged
        }
    }

    #[test]
    fn a_message_is_repeated_after_the_interval_only() {
        let mut repeated = Repeated::every(10);
        assert!(repeated.is_due("a", 5) && !repeated.is_due("a", 14) && repeated.is_due("b", 14));
        assert!(repeated.is_due("a", 15), "the interval begins with the message that was logged");
        assert_eq!(repeated.logged().len(), 2);
    }
}
