//! Levels of urgency, and the order in which queues change theirs.
//!
//! ```text
//!   0       a starving queue in its time slice, see `starvation`
//!   1       the most urgent rank, if only starving queues can ever come before it: it needs no limit of what is in flight
//!   2..63   the other ranks, without gaps; if there are more of them, near ones share a level
//! ```

use crate::QueueId;

/// How urgent a queue is: 0 is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// How many there are.
    pub const COUNT: usize = 64;

    /// Of a starving queue, for a time slice.
    pub const STARVED: Self = Self(0);

    /// Of the most urgent queues, unless another rank can come before theirs later.
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

    /// Whether a queue of this level should limit what it has in flight while others use the device: another queue may come
    /// before it soon.
    pub const fn is_limited(self) -> bool {
        self.0 != Self::UNLIMITED.0
    }
}

/// A change of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) queue: QueueId,
    /// `None`: the queue has just been opened.
    pub(crate) from: Option<Level>,
    pub(crate) to: Level,
}

/// Orders changes that take effect one after the other, so that two queues swap or share levels no longer than necessary. Queues
/// that rise come first, from the top, so that some queue is always at the front. Queues that fall follow, from the bottom.
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

    /// Each single change keeps the order of all other queues.
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
