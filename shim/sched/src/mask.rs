//! A device's ready mask, as the scheduler computes it.

use crate::Level;

/// The levels at which claims are ready.
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    bits: u64,
    counts: [u32; Level::COUNT],
}

impl Mask {
    pub(crate) fn new() -> Self {
        Self { bits: 0, counts: [0; Level::COUNT] }
    }

    /// A claim of this level is ready now.
    pub(crate) fn add(&mut self, level: Level) {
        let level = level.number();
        self.counts[level as usize] += 1;
        self.bits |= 1 << level;
    }

    /// A claim of this level is no longer ready.
    pub(crate) fn remove(&mut self, level: Level) {
        let level = level.number();
        let count = &mut self.counts[level as usize];
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.bits &= !(1 << level);
        }
    }

    /// The most urgent level at which a claim is ready.
    pub(crate) fn front(&self) -> Option<Level> {
        (self.bits != 0).then(|| Level::new(self.bits.trailing_zeros().into()))
    }

    /// Number of ready claims at a level.
    pub(crate) fn count(&self, level: Level) -> u32 {
        self.counts[level.number() as usize]
    }

    /// Whether a claim of this level may launch: no more urgent claim is ready.
    pub(crate) fn allows(&self, level: Level) -> bool {
        self.bits & ((1 << level.number()) - 1) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_ready_as_long_as_one_of_its_claims_is() {
        let mut mask = Mask::new();
        mask.add(Level::new(3));
        mask.add(Level::new(3));
        assert_eq!(mask.count(Level::new(3)), 2);
        mask.remove(Level::new(3));
        assert_eq!(mask.front(), Some(Level::new(3)));
        assert!(!mask.allows(Level::new(4)) && mask.allows(Level::new(3)));
        mask.remove(Level::new(3));
        assert!(mask.allows(Level::LAST));
        assert_eq!(mask.front(), None);
    }
}
