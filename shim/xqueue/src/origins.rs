//! Which libraries use how much of the device's time: each command belongs to an *origin*, the library that made the call.
//!
//! Origins are numbers here; the back end knows their libraries ([`crate::Host::origins`]). Numbers become void when another
//! controller gives new ones. Time that was counted by then belongs to no library, so the parts of a claim's time always add up
//! to the whole.

use xsched_protocol::verdict::Judgement;
use xsched_sched::{Nanos, Payer};

/// The library to which a command belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin(pub Payer);

impl Origin {
    /// Not looked up, or in no library.
    pub const UNKNOWN: Self = Self(0);
    /// All libraries that came after the numbers ran out. This is the largest number.
    pub const OTHERS: Self = Self(63);
}

/// The verdict on a command, and the library to which it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The verdict.
    pub judgement: Judgement,
    /// The library.
    pub origin: Origin,
}

impl From<Judgement> for Judged {
    fn from(judgement: Judgement) -> Self {
        Self { judgement, origin: Origin::UNKNOWN }
    }
}

/// Device time by origin: entry `n` is that of number `n`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginTimes(Vec<Nanos>);

impl OriginTimes {
    pub(crate) fn add(&mut self, Origin(origin): Origin, time: Nanos) {
        let index = usize::from(origin);
        if self.0.len() <= index {
            self.0.resize(index + 1, Nanos::ZERO);
        }
        self.0[index] += time;
    }

    /// Moves all time to the unknown origin.
    pub(crate) fn forget_origins(&mut self) {
        let all = self.0.drain(..).fold(Nanos::ZERO, |sum, time| sum + time);
        self.add(Origin::UNKNOWN, all);
    }

    /// The device time of an origin.
    pub(crate) fn of(&self, Origin(origin): Origin) -> Nanos {
        self.0.get(usize::from(origin)).copied().unwrap_or_default()
    }

    /// All origins that may have used device time.
    pub(crate) fn origins(&self) -> impl Iterator<Item = Origin> {
        (0..self.0.len()).map(|index| Origin(index as Payer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_still_add_up_after_their_names_are_forgotten() {
        let mut times = OriginTimes::default();
        for (origin, time) in [(3, 5), (1, 7), (3, 11)] {
            times.add(Origin(origin), Nanos(time));
        }
        let parts: Vec<_> = times.origins().map(|origin| times.of(origin).0).collect();
        assert_eq!(parts, [0, 7, 0, 16]);
        times.forget_origins();
        assert_eq!((times.of(Origin::UNKNOWN), times.of(Origin(3))), (Nanos(23), Nanos::ZERO));
    }
}
