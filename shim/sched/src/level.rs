//! Levels of urgency, and the order in which claims change theirs.
//!
//! ```text
//!   0       a starving claim in its time slice, see `starvation`
//!   1       the most urgent rank, if only starving claims can ever come before it: it needs no limit of what is in flight
//!   2..63   the other ranks, without gaps; if there are more of them, near ones share a level
//! ```

use crate::ClaimId;

/// How urgent a claim is: 0 is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// How many there are.
    pub const COUNT: usize = 64;

    /// Of a starving claim, for a time slice.
    pub const STARVED: Self = Self(0);

    /// Of the most urgent claims, unless another rank can come before theirs later.
    pub const UNLIMITED: Self = Self(1);

    /// The least urgent.
    pub const LAST: Self = Self(Self::COUNT as u8 - 1);

    /// The level with this number, or the last level if the number is larger.
    pub const fn new(number: u64) -> Self {
        if number < Self::COUNT as u64 { Self(number as u8) } else { Self::LAST }
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0 as u64
    }

    /// Whether a claim of this level should limit what it has in flight while others use the device: another claim may come
    /// before it soon.
    pub const fn is_limited(self) -> bool {
        self.0 != Self::UNLIMITED.0
    }
}

/// A change of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) claim: ClaimId,
    /// `None`: the claim has just been opened.
    pub(crate) from: Option<Level>,
    pub(crate) to: Level,
}

/// Orders changes that take effect one after the other, so that two claims swap or share levels no longer than necessary. Claims
/// that rise come first, from the top, so that some claim is always at the front. Claims that fall follow, from the bottom.
pub(crate) fn order(moves: &mut [Move]) {
    moves.sort_by_key(|change| {
        let rises = change.from.is_none_or(|from| change.to < from);
        let level = i16::from(change.to.0);
        (!rises, if rises { level } else { -level })
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each single change keeps the order of all other claims.
    #[test]
    fn a_newcomer_in_between_moves_others_from_the_bottom() {
        let change = |claim, from, to| Move { claim: ClaimId(claim), from: Some(Level(from)), to: Level(to) };
        let mut moves = [change(2, 2, 3), change(3, 3, 4)];
        order(&mut moves);
        assert_eq!(moves.map(|change| change.claim.0), [3, 2]);
        let mut moves = [change(3, 4, 3), change(2, 3, 2)];
        order(&mut moves);
        assert_eq!(moves.map(|change| change.claim.0), [2, 3]);
        let mut moves = [change(1, 2, 3), change(2, 3, 2)];
        order(&mut moves);
        assert_eq!(moves.map(|change| change.claim.0), [2, 1]);
    }
}
