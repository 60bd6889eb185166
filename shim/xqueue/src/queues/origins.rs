//! Whose commands take how much of the device's time: each command belongs to an *origin*, the library that made the call.
//!
//! Origins are numbers here; what they stand for knows whoever tells them ([`crate::Host::origins`]). A number can lose its meaning,
//! when another controller gives them: what was counted by then is nobody's, so that the parts of a claim's time are always
//! all of it.

use xsched_protocol::verdict::Judgement;
use xsched_sched::{Nanos, Payer};

use crate::queues::claim::ClaimId;
use crate::queues::contention::Place;
use crate::queues::state::State;
use crate::queues::{Device, Usage, XQueues};

/// To whom a command belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin(pub Payer);

impl Origin {
    /// Nobody has been asked, or knows.
    pub const UNKNOWN: Self = Self(0);
    /// All libraries together for which there is no number left. No larger number is given.
    pub const OTHERS: Self = Self(63);
}

/// What was decided about a command, and to whom it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What was decided.
    pub judgement: Judgement,
    /// To whom it belongs.
    pub origin: Origin,
}

impl From<Judgement> for Judged {
    fn from(judgement: Judgement) -> Self {
        Self { judgement, origin: Origin::UNKNOWN }
    }
}

/// Device time by origin: that of number `n` is the `n`-th.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginTimes(Vec<Nanos>);

impl OriginTimes {
    fn add(&mut self, Origin(origin): Origin, time: Nanos) {
        let index = usize::from(origin);
        if self.0.len() <= index {
            self.0.resize(index + 1, Nanos::ZERO);
        }
        self.0[index] += time;
    }

    /// All of it is nobody's.
    fn forget(&mut self) {
        let all = self.0.drain(..).fold(Nanos::ZERO, |sum, time| sum + time);
        self.add(Origin::UNKNOWN, all);
    }

    /// The device time of an origin.
    pub fn of(&self, Origin(origin): Origin) -> Nanos {
        self.0.get(usize::from(origin)).copied().unwrap_or_default()
    }

    /// All origins that there may be something of.
    pub fn origins(&self) -> impl Iterator<Item = Origin> {
        (0..self.0.len()).map(|index| Origin(index as Payer))
    }
}

impl<D: Device> State<D> {
    /// What has completed of a place took so long. Nobody is charged for a device that he has for himself.
    pub(super) fn charge(&mut self, place: Place, now: Nanos, took: Nanos) {
        let Some(claim) = self.claim_at(place) else { return };
        let is_charged = !self.claims[claim.0].is_alone() || self.journal.is_none();
        let claim = &mut self.claims[claim.0];
        let flight = match place {
            Place::Queue(queue) => self.queues.get_mut(&queue).map(|queue| &mut queue.flight),
            Place::Loose(_) => Some(&mut claim.loose),
        };
        // Also what is not charged is not asked for again.
        let Some(flight) = flight else { return };
        for (origin, part) in flight.take_charges() {
            if is_charged {
                claim.by_origin.add(origin, part);
            }
        }
        if is_charged {
            claim.completed(now, took);
        }
    }

    /// Origins' numbers have lost their meaning.
    fn forget_origins(&mut self) {
        for queue in self.queues.values_mut() {
            queue.flight.forget_origins();
            queue.buffer.iter_mut().for_each(|buffered| buffered.demand.origin = Origin::UNKNOWN);
        }
        for claim in &mut self.claims {
            claim.loose.forget_origins();
            claim.by_origin.forget();
        }
    }
}

impl<D: Device> XQueues<D> {
    /// What a claim has used so far, and the parts of its device time.
    pub fn usage_by_origin(&self, claim: ClaimId) -> (Usage, OriginTimes) {
        let state = self.lock();
        (state.usage(claim), state.claims[claim.0].by_origin.clone())
    }

    /// Origins' numbers have lost their meaning.
    pub fn forget_origins(&self) {
        self.lock().forget_origins();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_the_whole_when_their_names_are_forgotten() {
        let mut times = OriginTimes::default();
        for (origin, time) in [(3, 5), (1, 7), (3, 11)] {
            times.add(Origin(origin), Nanos(time));
        }
        let parts: Vec<_> = times.origins().map(|origin| times.of(origin).0).collect();
        assert_eq!(parts, [0, 7, 0, 16]);
        times.forget();
        assert_eq!((times.of(Origin::UNKNOWN), times.of(Origin(3))), (Nanos(23), Nanos::ZERO));
    }
}
