//! Gates: packets that wait for a word in memory, which the host, streams and other devices may write.
//!
//! A gate is a packet in its hardware queue. Every process that advances the schedule reads the word
//! (`device::words`), so kernels behind an open gate follow each other without a thread in between. A host's
//! write notifies no process. A gate that was found closed opens when a process reads its word again; its
//! waiting process polls it (`poll_interval`).
//!
//! A packet describes its gate in three words. The first says where the word is and what the condition is;
//! the others are value and mask.
//!
//! ```text
//! in PacketSlot::gate    63      62   61 60       59         58 .. 53   52 .. 0
//! word in a signal       gate    0    condition   64 bits    0          52: upper half; 31 .. 0: index of the signal
//! word in memory         gate    1    condition   64 bits    member     its address there / 4
//! ```

/// The condition of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    AtLeast,
    Equal,
    AnyBit,
    /// Any bit that is clear in both the word and the value.
    AnyClearBit,
}

impl Condition {
    /// The condition with HIP's number `code`.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        [Self::AtLeast, Self::Equal, Self::AnyBit, Self::AnyClearBit].get(code as usize).copied()
    }

    /// Whether the condition holds for the word's bits under the mask.
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

/// The wait of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) location: WordLocation,
    pub(crate) is_64_bit: bool,
    pub(crate) condition: Condition,
    pub(crate) value: u64,
    pub(crate) mask: u64,
}

/// Location of a gate's word, in a form that all processes on a device understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordLocation {
    /// One of the device's signals. A 32-bit word may be its upper half (little-endian).
    Signal { index: u32, is_upper: bool },
    /// An address in the memory of one member.
    Memory { member: usize, address: usize },
}

const IS_GATE: u64 = 1 << 63;
const IS_MEMORY: u64 = 1 << 62;
const CONDITION_SHIFT: u32 = 60;
const IS_64_BIT: u64 = 1 << 59;
const MEMBER_SHIFT: u32 = 53;
/// Number of members that fit into the bits.
pub(super) const MEMBERS_MAX: usize = 1 << (59 - MEMBER_SHIFT);
const LOCATION_MASK: u64 = (1 << MEMBER_SHIFT) - 1;
const IS_UPPER: u64 = 1 << 52;
/// Alignment of words.
const ALIGNMENT: usize = 4;

impl WordLocation {
    /// None for an address beyond those that x86 gives out by default.
    pub(super) fn in_memory(member: usize, address: usize) -> Option<Self> {
        let fits = (address / ALIGNMENT) as u64 <= LOCATION_MASK;
        (fits && address.is_multiple_of(ALIGNMENT)).then_some(Self::Memory { member, address })
    }

    fn code(self) -> u64 {
        match self {
            Self::Signal { index, is_upper } => u64::from(index) | if is_upper { IS_UPPER } else { 0 },
            Self::Memory { member, address } => {
                IS_MEMORY | (member as u64) << MEMBER_SHIFT | (address / ALIGNMENT) as u64
            }
        }
    }

    fn from_code(code: u64) -> Self {
        if code & IS_MEMORY == 0 {
            return Self::Signal { index: code as u32, is_upper: code & IS_UPPER != 0 };
        }
        let member = (code >> MEMBER_SHIFT) as usize % MEMBERS_MAX;
        Self::Memory { member, address: (code & LOCATION_MASK) as usize * ALIGNMENT }
    }
}

impl Gate {
    /// The form in a packet, which other processes read.
    pub(super) fn words(&self) -> [u64; 3] {
        let width = if self.is_64_bit { IS_64_BIT } else { 0 };
        let code = IS_GATE | width | (self.condition as u64) << CONDITION_SHIFT | self.location.code();
        [code, self.value, self.mask]
    }

    /// None for a packet that is not a gate.
    pub(super) fn from_words([code, value, mask]: [u64; 3]) -> Option<Self> {
        let condition = Condition::from_code((code >> CONDITION_SHIFT) as u32 & 3)?;
        let (location, is_64_bit) = (WordLocation::from_code(code), code & IS_64_BIT != 0);
        (code & IS_GATE != 0).then_some(Self { location, is_64_bit, condition, value, mask })
    }

    /// Whether the gate is open if its word has this value.
    pub(super) fn is_open(&self, word: u64) -> bool {
        self.condition.holds(word, self.value, self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_use_the_masked_word() {
        let all = u64::MAX;
        assert!(Condition::AtLeast.holds(5, 5, all) && !Condition::AtLeast.holds(4, 5, all));
        assert!(Condition::Equal.holds(0x1_05, 5, 0xff) && !Condition::Equal.holds(0x1_05, 5, all));
        assert!(Condition::AnyBit.holds(6, 2, all) && !Condition::AnyBit.holds(6, 1, all));
        assert!(Condition::AnyClearBit.holds(0, 1, 3) && !Condition::AnyClearBit.holds(2, 1, 3));
    }

    #[test]
    fn a_gate_survives_its_encoding_and_zero_is_no_gate() {
        let conditions = [Condition::AtLeast, Condition::Equal, Condition::AnyBit, Condition::AnyClearBit];
        let locations = [
            WordLocation::Signal { index: 4095, is_upper: false },
            WordLocation::Signal { index: u32::MAX, is_upper: true },
            WordLocation::in_memory(0, 8).unwrap(),
            WordLocation::in_memory(MEMBERS_MAX - 1, (1 << 55) - 4).unwrap(),
        ];
        for (number, location) in locations.into_iter().enumerate() {
            for condition in conditions {
                let gate = Gate { location, is_64_bit: number % 2 == 0, condition, value: 7, mask: 0xff };
                assert_eq!(Gate::from_words(gate.words()), Some(gate));
            }
        }
        assert_eq!(Gate::from_words([0; 3]), None);
    }

    #[test]
    fn an_address_that_cannot_be_encoded_has_no_location() {
        assert_eq!([1 << 55, 6].map(|address| WordLocation::in_memory(0, address)), [None; 2]);
    }
}
