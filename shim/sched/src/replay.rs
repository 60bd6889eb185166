//! The same decisions again, from what was recorded of a run.
//!
//! Two kinds of recordings will do. One of everything that a scheduler was told and asked, with the times that were given
//! to it, gives what it decided whatever its user did. One of events alone, say those of the arbiter's ring and what processes
//! have said of their use, gives it if its user kept to the events' own times: told each at the time at which it happened, asked right after it at the same
//! time, and asked at each time that the scheduler wanted, in order, however late all this was done.

use crate::{Event, Level, Nanos, PolicyKind, QueueId, Scheduler, Settings};

/// What was done with a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// [`Scheduler::handle`]
    Told(Event),
    /// [`Scheduler::decide`]
    Asked,
    /// [`Scheduler::set_policy`]
    Policy(PolicyKind),
    /// [`Scheduler::set_settings`]
    Settings(Settings),
}

/// What was decided, when.
pub type Decided = (Nanos, QueueId, Level);

/// Takes all the steps that a scheduler took which began with this policy and these settings.
pub fn replay(
    policy: PolicyKind,
    settings: Settings,
    steps: impl IntoIterator<Item = (Nanos, Step)>,
) -> Vec<Decided> {
    let mut scheduler = Scheduler::new(policy, settings);
    let mut decided = Vec::new();
    for (now, step) in steps {
        match step {
            Step::Told(event) => scheduler.handle(now, event),
            Step::Policy(policy) => scheduler.set_policy(now, policy),
            Step::Settings(settings) => scheduler.set_settings(now, settings),
            Step::Asked => drop(decide(&mut scheduler, now, &mut decided)),
        }
    }
    decided
}

/// Tells a scheduler the events, which are in the order of their times, and asks it when it wants to be asked.
pub fn replay_events(
    policy: PolicyKind,
    settings: Settings,
    events: impl IntoIterator<Item = (Nanos, Event)>,
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

/// Asks at each time that the scheduler wants, before this one.
fn pass(scheduler: &mut Scheduler, again: &mut Option<Nanos>, until: Nanos, decided: &mut Vec<Decided>) {
    while let Some(due) = again.filter(|due| *due < until) {
        *again = decide(scheduler, due, decided);
    }
}

fn decide(scheduler: &mut Scheduler, now: Nanos, decided: &mut Vec<Decided>) -> Option<Nanos> {
    let decisions = scheduler.decide(now);
    decided.extend(decisions.levels.iter().map(|(queue, level)| (now, *queue, *level)));
    decisions.again
}

#[cfg(test)]
mod tests;
