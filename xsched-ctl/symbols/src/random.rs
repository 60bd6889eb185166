//! Random numbers for tests, with a seed that a failed test prints.

/// SplitMix64: small, and good enough to shake inputs.
pub(crate) struct Random(u64);

impl Random {
    /// Seeded by the clock, or by `XSCHED_TEST_SEED` to repeat a run.
    pub(crate) fn from_clock() -> Self {
        let given = std::env::var("XSCHED_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(crate::now_ns);
        println!("XSCHED_TEST_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Changes some bytes: single ones, or whole words to the values that overflow sums.
    pub(crate) fn damage(&mut self, bytes: &mut [u8]) {
        const WORDS: [u64; 6] = [0, 1, u64::MAX, u64::MAX - 7, 1 << 63, 0xffff_ffff];
        for _ in 0..=self.below(8) {
            let at = self.below(bytes.len() as u64) as usize;
            if self.below(2) == 0 {
                bytes[at] = self.next() as u8;
            } else {
                let word = WORDS[self.below(WORDS.len() as u64) as usize].to_le_bytes();
                let end = bytes.len().min(at + 8);
                bytes[at..end].copy_from_slice(&word[..end - at]);
            }
        }
    }
}
