//! Gates: packets that wait for a word, which host, streams and other devices may write.
//!
//! A gate whose word is a signal of the device (`signals`) stands in its hardware queue as a packet. Whoever plays the
//! schedule reads the word, so kernels behind an open gate follow each other without a thread in between. Nobody is told of
//! a host's write; a gate that was found shut opens when somebody looks, and its waiter looks often (`patience`).
//!
//! ```text
//! in PacketSlot::gate    63      36     35           34 33       32         31 .. 0
//!                        gate    0      upper half   condition   64 bits    index of the signal
//! ```

use core::sync::atomic::{AtomicU64, Ordering};

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    AtLeast,
    Equal,
    AnyBit,
    /// A bit that is neither in memory nor in the value.
    AnyClearBit,
}

impl Condition {
    /// By HIP's number for it.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        [Self::AtLeast, Self::Equal, Self::AnyBit, Self::AnyClearBit].get(code as usize).copied()
    }

    /// Of a word's bits under the mask.
    pub(crate) fn holds(self, word: u64, value: u64, mask: u64) -> bool {
        let word = word & mask;
        match self {
            Self::AtLeast => word >= value,
            Self::Equal => word == value,
            Self::AnyBit => word & value != 0,
            Self::AnyClearBit => !(word | value) & mask != 0,
        }
    }
}

/// What a packet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    /// Of the device's signals.
    pub(crate) signal: u32,
    /// Half of the signal, if it is one of 32 bits.
    pub(crate) half: Option<Half>,
    pub(crate) condition: Condition,
    pub(crate) value: u64,
    pub(crate) mask: u64,
}

/// Of a signal, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Lower,
    Upper,
}

const IS_GATE: u64 = 1 << 63;
const IS_UPPER: u64 = 1 << 35;
const CONDITION_SHIFT: u32 = 33;
const IS_64_BIT: u64 = 1 << 32;

impl Gate {
    /// The first of the three words that tell others of it; value and mask are the others.
    pub(super) fn code(&self) -> u64 {
        let width = match self.half {
            None => IS_64_BIT,
            Some(Half::Lower) => 0,
            Some(Half::Upper) => IS_UPPER,
        };
        IS_GATE | width | (self.condition as u64) << CONDITION_SHIFT | u64::from(self.signal)
    }

    /// None for a packet that waits for nothing.
    pub(super) fn from_words([code, value, mask]: [u64; 3]) -> Option<Self> {
        let condition = Condition::from_code((code >> CONDITION_SHIFT) as u32 & 3)?;
        let half = match (code & IS_64_BIT, code & IS_UPPER) {
            (0, 0) => Some(Half::Lower),
            (0, _) => Some(Half::Upper),
            _ => None,
        };
        (code & IS_GATE != 0).then_some(Self { signal: code as u32, half, condition, value, mask })
    }

    /// A signal that does not exist holds nobody up.
    pub(super) fn is_open(&self, signals: &[AtomicU64]) -> bool {
        let Some(signal) = signals.get(self.signal as usize) else { return true };
        let word = signal.load(Ordering::Acquire);
        let word = match self.half {
            None => word,
            Some(Half::Lower) => word & u64::from(u32::MAX),
            Some(Half::Upper) => word >> 32,
        };
        self.condition.holds(word, self.value, self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_look_at_the_masked_word() {
        let all = u64::MAX;
        assert!(Condition::AtLeast.holds(5, 5, all) && !Condition::AtLeast.holds(4, 5, all));
        assert!(Condition::Equal.holds(0x1_05, 5, 0xff) && !Condition::Equal.holds(0x1_05, 5, all));
        assert!(Condition::AnyBit.holds(6, 2, all) && !Condition::AnyBit.holds(6, 1, all));
        assert!(Condition::AnyClearBit.holds(0, 1, 3) && !Condition::AnyClearBit.holds(2, 1, 3));
    }

    #[test]
    fn a_gate_is_read_as_it_was_written_and_a_zero_is_none() {
        let conditions = [Condition::AtLeast, Condition::Equal, Condition::AnyBit, Condition::AnyClearBit];
        for (condition, half) in
            conditions.into_iter().zip([None, Some(Half::Lower), Some(Half::Upper), None])
        {
            let gate = Gate { signal: 4095, half, condition, value: 7, mask: 0xff };
            assert_eq!(Gate::from_words([gate.code(), 7, 0xff]), Some(gate));
        }
        assert_eq!(Gate::from_words([0; 3]), None);
    }

    #[test]
    fn a_half_is_a_word_of_its_own() {
        let signals = [AtomicU64::new(0), AtomicU64::new(5 << 32 | 2)];
        let gate = |half, value| Gate { signal: 1, half, condition: Condition::Equal, value, mask: u64::MAX };
        assert!(gate(Some(Half::Upper), 5).is_open(&signals) && gate(Some(Half::Lower), 2).is_open(&signals));
        assert!(!gate(None, 2).is_open(&signals) && gate(None, 5 << 32 | 2).is_open(&signals));
    }
}
