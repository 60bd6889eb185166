//! Random inputs for tests, from a seed that a failed test prints.

use fastrand::Rng;

/// A generator with a seed from `XSCHED_TEST_SEED`, to repeat a run, or a new seed.
pub(crate) fn seeded() -> Rng {
    let given = std::env::var("XSCHED_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("XSCHED_TEST_SEED={seed}");
    Rng::with_seed(seed)
}

/// Changes some bytes: single ones, or whole words to values that make sums overflow.
pub(crate) fn damage(rng: &mut Rng, bytes: &mut [u8]) {
    const WORDS: [u64; 6] = [0, 1, u64::MAX, u64::MAX - 7, 1 << 63, 0xffff_ffff];
    for _ in 0..=rng.u64(..8) {
        let at = rng.usize(..bytes.len());
        if rng.bool() {
            bytes[at] = rng.u8(..);
        } else {
            let word = WORDS[rng.usize(..WORDS.len())].to_le_bytes();
            let end = bytes.len().min(at + 8);
            bytes[at..end].copy_from_slice(&word[..end - at]);
        }
    }
}
