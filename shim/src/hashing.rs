//! Multiplicative hashing: the upper bits of a key times [`MULTIPLIER`] are its hash.

/// 2^64 / golden ratio: spreads keys that differ in few bits. The code of exports and table entries uses it as well.
pub(crate) const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
