//! Levels of urgency, and the order in which queues change theirs.
//!
//! ```text
//!   0       a turn, see `starvation`
//!   1       the most urgent rank, if nothing but a turn will ever come before it: who is here needs no limit to what it
//!           has launched ahead
//!   2..63   the other ranks, without gaps; if there are more of them, near ones share a level
//! ```

use crate::QueueId;

/// How urgent a queue is: 0 is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// How many there are.
    pub const COUNT: usize = 64;

    /// Of a queue that has waited for too long.
    pub const TURN: Self = Self(0);

    /// Of the most urgent queues, where time does not take that away from them.
    pub const UNLIMITED: Self = Self(1);

    /// The least urgent.
    pub const LAST: Self = Self(Self::COUNT as u8 - 1);

    /// This number, or the last level if it is larger.
    pub const fn new(number: u64) -> Self {
        if number < Self::COUNT as u64 { Self(number as u8) } else { Self::LAST }
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0 as u64
    }

    /// Whether a queue of this level should limit what it has launched ahead while others use the device: somebody may
    /// come before it soon.
    pub const fn is_limited(self) -> bool {
        self.0 != Self::UNLIMITED.0
    }
}

/// A change on its way into effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) queue: QueueId,
    /// `None`: it has just been opened.
    pub(crate) from: Option<Level>,
    pub(crate) to: Level,
}

/// Puts changes, which take effect one after the other, in such an order that no two queues change places, or share
/// a level, for longer than they must: who rises goes first, from the top, so that there is always somebody in front;
/// who falls goes from the bottom.
pub(crate) fn order(moves: &mut [Move]) {
    moves.sort_by_key(|change| {
        let rises = change.from.is_none_or(|from| change.to < from);
        let place = i16::from(change.to.0);
        (!rises, if rises { place } else { -place })
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever was before another stays before it after each single change.
    #[test]
    fn a_newcomer_in_between_moves_others_from_the_bottom() {
        let change = |queue, from, to| Move { queue: QueueId(queue), from: Some(Level(from)), to: Level(to) };
        let mut moves = [change(2, 2, 3), change(3, 3, 4)];
        order(&mut moves);
        assert_eq!(moves.map(|change| change.queue.0), [3, 2]);
        let mut moves = [change(3, 4, 3), change(2, 3, 2)];
        order(&mut moves);
        assert_eq!(moves.map(|change| change.queue.0), [2, 3]);
        let mut moves = [change(1, 2, 3), change(2, 3, 2)];
        order(&mut moves);
        assert_eq!(moves.map(|change| change.queue.0), [2, 1]);
    }
}
