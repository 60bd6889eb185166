//! A claim's state in one word.

use super::{DEVICE_MAX, LEVEL_COUNT};

/// A claim's state in one word, changed by compare-and-exchange only.
///
/// ```text
///   63           32 31        16 15       8 7        2   1      0
///   generation      renewals     device     level      ready   open
/// ```
///
/// Renewals count the reports that the claim still has work. So a caller that ends a lease which was just renewed finds another
/// word than it has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ClaimWord(pub u64);

impl ClaimWord {
    const OPEN: u64 = 1;
    const READY: u64 = 1 << 1;
    const LEVEL_SHIFT: u32 = 2;
    const DEVICE_SHIFT: u32 = 8;
    const RENEWAL: u64 = 1 << 16;
    const RENEWALS: u64 = 0xffff << 16;
    const GENERATION_SHIFT: u32 = 32;

    /// An open claim that is not ready. Level and device are taken modulo their counts.
    #[inline]
    pub const fn new(generation: u32, device: u64, level: u64) -> Self {
        let device = (device & (DEVICE_MAX as u64 - 1)) << Self::DEVICE_SHIFT;
        let level = (level & (LEVEL_COUNT as u64 - 1)) << Self::LEVEL_SHIFT;
        Self((generation as u64) << Self::GENERATION_SHIFT | device | level | Self::OPEN)
    }

    /// Whether the slot is in use.
    #[inline]
    pub const fn is_open(self) -> bool {
        self.0 & Self::OPEN != 0
    }

    /// Whether the claim has work.
    #[inline]
    pub const fn is_ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    /// Below [`LEVEL_COUNT`].
    #[inline]
    pub const fn level(self) -> u64 {
        self.0 >> Self::LEVEL_SHIFT & (LEVEL_COUNT as u64 - 1)
    }

    /// Index of its device, below [`DEVICE_MAX`].
    #[inline]
    pub const fn device(self) -> u64 {
        self.0 >> Self::DEVICE_SHIFT & (DEVICE_MAX as u64 - 1)
    }

    /// How often the slot was opened. A report that names another generation is about a claim that is gone.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0 >> Self::GENERATION_SHIFT) as u32
    }

    /// The same claim, ready or not.
    #[inline]
    pub const fn with_ready(self, ready: bool) -> Self {
        if ready { Self(self.0 | Self::READY) } else { Self(self.0 & !Self::READY) }
    }

    /// The same claim, ready, as after one more report.
    #[inline]
    pub const fn renewed(self) -> Self {
        let renewals = self.0.wrapping_add(Self::RENEWAL) & Self::RENEWALS;
        Self(self.0 & !Self::RENEWALS | renewals | Self::READY)
    }

    /// The same claim at another level.
    #[inline]
    pub const fn with_level(self, level: u64) -> Self {
        let field = (LEVEL_COUNT as u64 - 1) << Self::LEVEL_SHIFT;
        Self(self.0 & !field | level << Self::LEVEL_SHIFT & field)
    }

    /// The slot after its claim was closed.
    #[inline]
    pub const fn closed(self) -> Self {
        Self(self.0 & !(Self::OPEN | Self::READY))
    }
}
