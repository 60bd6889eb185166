//! Multiplicative hashing: the upper bits of a key times [`MULTIPLIER`] are its hash.

/// 2^64 / golden ratio: spreads keys that differ in few bits. It is odd, so every bit of a key reaches the upper ones. The code of the
/// HIP shim's exports and table entries uses it as well.
pub const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
