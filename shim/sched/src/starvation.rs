//! The bound on waiting, around every policy.
//!
//! A claim that was ready for longer than the bound without being allowed to launch gets a time slice: the most urgent level for
//! a quantum. All claims of the device that have waited for half the bound get it, too. So the next slice is at least half a
//! bound away. However many claims starve, used slices take at most two quanta per bound from urgent claims.
//!
//! While a claim is allowed, its waiting time decreases at such a rate that a quantum cancels the whole bound. A moment without
//! more urgent work is not enough. Waiting time is reset after a slice, and when the claim has finished its work while allowed.
//! So a claim that always has work never waits for longer than the bound at a stretch. In the long run it is allowed for a
//! quantum per bound of waiting.
//!
//! A claim that is allowed may still not be served: on a busy machine its process may not get a processor in time to launch. So
//! waiting time is taken back on trust. All of it returns if the claim then waits for `patience` without a report of use, even if
//! it is allowed for moments meanwhile. With it returns the time for which the claim was allowed. After a slice at most three
//! quarters of a bound return: claims that do not use their slices must not get slices all the time. The same holds for claims
//! that would get a slice but have no work at that time. So slices begin at least a quarter of a bound apart, however many claims
//! do not use theirs.

mod patience;

pub(crate) use patience::Patience;

use crate::claim::Claim;
use crate::turns::{Happening, What};
use crate::{Level, Nanos, Settings};

/// Ends the slices that are over, and begins one if a claim starves. Returns whether any claim has a slice.
pub(crate) fn grant_slices(
    now: Nanos,
    settings: &Settings,
    claims: &mut [Claim],
    happenings: &mut Option<Vec<Happening>>,
) -> bool {
    let bound = settings.starvation_bound;
    let mut starves = false;
    for Claim { patience, ready, .. } in &mut *claims {
        if bound.is_zero() {
            *patience = Patience::default();
        } else if patience.slice_until.is_some_and(|until| until <= now) {
            patience.end_slice(settings);
        } else {
            // The settings may have changed.
            patience.doubt(settings);
        }
        starves |= *ready && patience.starves(settings);
    }
    let concerns = |patience: &Patience| !patience.has_slice() && patience.waited_at_worst() >= bound / 2;
    for Claim { id, patience, ready, .. } in claims.iter_mut().filter(|claim| concerns(&claim.patience)) {
        match (starves, *ready) {
            (true, true) => {
                patience.slice_until = Some(now + settings.quantum);
                if let Some(happenings) = happenings {
                    happenings.push(Happening { claim: *id, what: What::StarvationSlice });
                }
            }
            (true, false) => patience.end_slice(settings),
            (false, _) => {}
        }
    }
    claims.iter().any(|claim| claim.patience.has_slice())
}

/// When the next slice ends or begins, if no change comes before.
pub(crate) fn next(now: Nanos, settings: &Settings, claims: &[Claim], front: Option<Level>) -> Option<Nanos> {
    let waits = |claim: &Claim| claim.ready && claim.level != front;
    let concerned = claims.iter().filter(|claim| claim.patience.has_slice() || waits(claim));
    concerned.filter_map(|claim| claim.patience.due(now, settings)).min()
}
