//! Repeats the decisions of a run from a recording of it.
//!
//! Two kinds of recordings suffice. A recording of every call of a scheduler, with its time, gives the decisions of any run. A
//! recording of events alone, say from the arbiter's ring and from reports of use, gives them if the caller kept to the events'
//! own times. It must have handled each event at its time, decided right after it at the same time, and decided at each time that
//! the scheduler asked for, in order. How late these calls were made does not matter.

use crate::{ClaimChange, ClaimId, Level, Nanos, PolicyKind, Scheduler, Settings};

/// A call of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// [`Scheduler::handle`]
    Change(ClaimChange),
    /// [`Scheduler::decide`]
    Decide,
    /// [`Scheduler::set_policy`]
    Policy(PolicyKind),
}

/// A decision and its time.
type Decided = (Nanos, ClaimId, Level);

/// Repeats the steps of a scheduler that began with this policy and these settings.
fn replay(
    policy: PolicyKind,
    settings: Settings,
    steps: impl IntoIterator<Item = (Nanos, Step)>,
) -> Vec<Decided> {
    let mut scheduler = Scheduler::new(policy, settings);
    let mut decided = Vec::new();
    for (now, step) in steps {
        match step {
            Step::Change(event) => scheduler.handle(now, event),
            Step::Policy(policy) => scheduler.set_policy(now, policy),
            Step::Decide => drop(decide(&mut scheduler, now, &mut decided)),
        }
    }
    decided
}

/// Handles events, which are in the order of their times, and decides after each and whenever the scheduler asks for it.
fn replay_events(
    policy: PolicyKind,
    settings: Settings,
    events: impl IntoIterator<Item = (Nanos, ClaimChange)>,
    until: Nanos,
) -> Vec<Decided> {
    let mut scheduler = Scheduler::new(policy, settings);
    let mut decided = Vec::new();
    let mut again = None;
    for (now, event) in events.into_iter().take_while(|(now, _)| *now <= until) {
        pass(&mut scheduler, &mut again, now, &mut decided);
        scheduler.handle(now, event);
        again = decide(&mut scheduler, now, &mut decided);
    }
    pass(&mut scheduler, &mut again, until, &mut decided);
    decided
}

/// Decides at each time that the scheduler asks for, up to this one.
fn pass(scheduler: &mut Scheduler, again: &mut Option<Nanos>, until: Nanos, decided: &mut Vec<Decided>) {
    while let Some(due) = again.filter(|due| *due < until) {
        *again = decide(scheduler, due, decided);
    }
}

fn decide(scheduler: &mut Scheduler, now: Nanos, decided: &mut Vec<Decided>) -> Option<Nanos> {
    let decisions = scheduler.decide(now);
    decided.extend(decisions.levels.iter().map(|(claim, level)| (now, *claim, *level)));
    decisions.again
}

mod tests;
