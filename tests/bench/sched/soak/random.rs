//! Lots, the same in every run.

#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Less than this.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end.max(1)
    }

    pub(super) fn one_of(&mut self, all: &[&'static str]) -> &'static str {
        all[self.below(all.len() as u64) as usize]
    }
}
