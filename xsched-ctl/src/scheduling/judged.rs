//! How calls are treated, and by which rule: what processes write about their commands, brought to the calls.
//!
//! An event is written while its call lasts or just after; the call comes here by another way, sooner or later. So a call of
//! a process that writes events waits until all of that time were read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use xsched_abi::events::{Event, Record};
use xsched_abi::verdict::{DecidedBy, Judgement};
use xsched_rules::action_name;

use crate::call::HipCall;

/// How long a call waits that nothing was written about: the thread may have been kept from writing.
const PATIENCE_NS: u64 = 100_000_000;

/// How long before a call begins it may have been written that it passes through: where the shim's function is around the
/// call, it says so before it calls.
const EARLY_NS: u64 = 1_000_000;

/// How long it is remembered what was written.
const KEPT_NS: u64 = 10_000_000_000;

/// What is remembered of a thread.
const SAID_MAX: usize = 1 << 14;

/// Calls that wait, of all processes.
const WAITING_MAX: usize = 1 << 17;

/// How a call is treated, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// As files of rules name it.
    pub(crate) verdict: &'static str,
    /// The highest level of preemption; 0: no limit.
    pub(crate) level: u8,
    /// What the rule is called that says so.
    pub(crate) rule: Arc<str>,
}

/// Something that was written, and when its call was in progress.
#[derive(Debug)]
struct Said {
    from_ns: u64,
    to_ns: u64,
    /// It may have been written before its call began.
    is_early: bool,
    judgement: Judgement,
}

/// What was written, the calls that wait for it, and what rules are called.
#[derive(Debug, Default)]
pub(super) struct Judgements {
    threads: HashMap<(u32, u32), VecDeque<Said>>,
    waiting: VecDeque<HipCall>,
    names: HashMap<u16, Arc<str>>,
}

impl Judgements {
    /// The controller has told what a rule is called.
    pub(super) fn name(&mut self, number: u16, name: Arc<str>) {
        self.names.insert(number, name);
    }

    /// A process has written something.
    pub(super) fn take(&mut self, pid: u32, record: &Record, event: &Event) {
        let (to_ns, is_early, judgement) = match *event {
            Event::Waits { judgement, .. } => (record.time_ns, false, judgement),
            Event::Launched { number, position, returned_ns, judgement, .. } => {
                (returned_ns.max(record.time_ns), number == 0 && position == 0, judgement)
            }
            _ => return,
        };
        if judgement == Judgement::NONE {
            return;
        }
        let said = self.threads.entry((pid, record.thread)).or_default();
        if said.len() >= SAID_MAX {
            said.pop_front();
        }
        said.push_back(Said { from_ns: record.time_ns, to_ns, is_early, judgement });
    }

    /// Takes in a call that may be judged; gives it back if it need not wait.
    pub(super) fn hold(&mut self, mut call: HipCall) -> Option<HipCall> {
        if self.settle(&mut call) || self.waiting.len() >= WAITING_MAX {
            return Some(call);
        }
        self.waiting.push_back(call);
        None
    }

    /// The calls that need not wait any more, now that everything was taken in that was written until then.
    pub(super) fn release(&mut self, until_ns: u64) -> Vec<HipCall> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut ready = Vec::new();
        for mut call in waiting.drain(..) {
            let waits_until_ns = call.end_ns.unwrap_or(call.begin_ns).saturating_add(PATIENCE_NS);
            if self.settle(&mut call) || waits_until_ns <= until_ns {
                ready.push(call);
            } else {
                self.waiting.push_back(call);
            }
        }
        ready
    }

    /// Forgets what nobody will ask for.
    pub(super) fn forget_old(&mut self, now_ns: u64) {
        let before_ns = now_ns.saturating_sub(KEPT_NS);
        self.threads.retain(|_, all| {
            while all.front().is_some_and(|said| said.to_ns < before_ns) {
                all.pop_front();
            }
            !all.is_empty()
        });
    }

    /// Says how a call is treated, if that is known.
    fn settle(&mut self, call: &mut HipCall) -> bool {
        let Some(all) = self.threads.get_mut(&(call.pid, call.tid)) else { return false };
        let end_ns = call.end_ns.unwrap_or(u64::MAX);
        let is_of = |said: &Said| {
            let slack_ns = if said.is_early { EARLY_NS } else { 0 };
            said.from_ns <= end_ns && said.to_ns.saturating_add(slack_ns) >= call.begin_ns
        };
        // A thread makes one call after the other: what was written before the last that fits belongs to none.
        let Some(place) = all.iter().rposition(is_of) else { return false };
        let judgement = all[place].judgement;
        all.drain(..=place);
        call.judged = self.judged(judgement);
        true
    }

    /// A judgement as it is shown.
    pub(super) fn judged(&self, judgement: Judgement) -> Option<Judged> {
        let rule = match judgement.rule().decided() {
            DecidedBy::ByNobody => "none fits".into(),
            DecidedBy::ByRule(number) => {
                self.names.get(&number).cloned().unwrap_or_else(|| format!("number {number}").into())
            }
            DecidedBy::ByOwnRule(index) => format!("its own rule {}", index + 1).into(),
            DecidedBy::ByDomain => "domain".into(),
            DecidedBy::BySomeRule => "unnumbered".into(),
        };
        let action = judgement.action()?;
        Some(Judged { verdict: action_name(action), level: judgement.level(), rule })
    }
}

#[cfg(test)]
mod tests {
    use xsched_abi::verdict::{Action, RuleId};

    use super::*;
    use crate::call::tests::call;

    const PID: u32 = 1;
    const TID: u32 = 2;

    fn launch(begin_ns: u64, end_ns: u64) -> HipCall {
        HipCall { pid: PID, tid: TID, begin_ns, end_ns: Some(end_ns), ..call("hipLaunchKernel") }
    }

    fn by_rule(index: usize) -> Judgement {
        Judgement::new(Action::Passthrough, 0, RuleId::numbered(index))
    }

    fn launched(number: u64, returned_ns: u64, judgement: Judgement) -> Event {
        Event::Launched {
            queue: 1,
            number,
            returned_ns,
            position: 0,
            waited_since_ns: 0,
            ahead_ns: 0,
            judgement,
        }
    }

    impl Judgements {
        fn is_empty(&self) -> bool {
            self.waiting.is_empty()
        }

        fn said(&mut self, time_ns: u64, event: &Event) {
            self.take(PID, &event.record(time_ns, TID), event);
        }
    }

    fn rule(call: &HipCall) -> Option<&str> {
        call.judged.as_ref().map(|judged| &*judged.rule)
    }

    #[test]
    fn a_call_is_judged_by_what_was_written_while_it_lasted_or_around_it() {
        let mut judgements = Judgements::default();
        judgements.name(1, "mine".into());
        judgements.said(20, &launched(1, 25, by_rule(0)));
        judgements.said(45, &Event::Waits { queue: 1, position: 1, judgement: by_rule(1) });
        // A function around the call, and one within.
        assert_eq!(rule(&judgements.hold(launch(22, 24)).unwrap()), Some("mine"));
        assert_eq!(rule(&judgements.hold(launch(40, 50)).unwrap()), Some("number 2"));
        assert!(judgements.hold(launch(60, 70)).is_none(), "nothing was written yet");
        assert!(judgements.release(75).is_empty());
        judgements.said(72, &launched(2, 80, by_rule(0)));
        assert!(judgements.release(75).is_empty(), "it was written about a later call");
        let released = judgements.release(70 + PATIENCE_NS);
        assert_eq!((released.len(), rule(&released[0]), judgements.is_empty()), (1, None, true));
    }

    #[test]
    fn a_call_waits_for_what_is_read_later() {
        let mut judgements = Judgements::default();
        assert!(judgements.hold(launch(10, 20)).is_none() && !judgements.is_empty());
        judgements.said(12, &launched(1, 15, by_rule(0)));
        let released = judgements.release(15);
        assert_eq!((released.len(), rule(&released[0])), (1, Some("number 1")));
    }

    #[test]
    fn what_passes_through_may_be_told_of_before_its_call() {
        let mut judgements = Judgements::default();
        judgements.said(9, &launched(0, 9, by_rule(0)));
        assert_eq!(rule(&judgements.hold(launch(10, 20)).unwrap()), Some("number 1"));
        assert!(judgements.hold(launch(21, 30)).is_none(), "it belongs to one call");
        judgements.said(35, &launched(7, 36, by_rule(0)));
        assert!(judgements.hold(launch(37, 40)).is_none(), "this one was told of when it had returned");
    }

    #[test]
    fn who_has_decided_is_called_by_name() {
        let judgements = Judgements::default();
        let shown = |action, level, rule| judgements.judged(Judgement::new(action, level, rule)).unwrap();
        let by_nobody = shown(Action::Schedule, 1, RuleId::NOBODY);
        assert_eq!((by_nobody.verdict, by_nobody.level, &*by_nobody.rule), ("schedule", 1, "none fits"));
        assert_eq!(&*shown(Action::NeverSuspend, 0, RuleId::own(2)).rule, "its own rule 3");
        assert_eq!(&*shown(Action::NeverSuspend, 0, RuleId::DOMAIN).rule, "domain");
        assert_eq!(judgements.judged(Judgement::NONE), None);
    }
}
