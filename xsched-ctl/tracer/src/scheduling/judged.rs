//! Verdicts on calls and their rules: matches what processes write about their commands with the calls.
//!
//! An event is written during its call or just after; the call arrives independently, earlier or later. So a call of a
//! process that writes events waits until all events of its time have been read. A call that has put something on the
//! device also waits for its start and end there, so that its delay is known.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use xsched_protocol::{
    events::{Event, Record},
    verdict::{DecidedBy, Judgement, SETTINGS},
};
use xsched_rules::action_name;

use crate::call::{Judged, RuntimeCall};

/// How long a call waits for an event about it: its thread may have been kept from writing.
const PATIENCE_NS: u64 = 100_000_000;

/// How long a call waits for the device to complete what it has put there.
pub(crate) const DEVICE_PATIENCE_NS: u64 = 3_000_000_000;

/// How long before a call its passthrough event may be written: where the shim's function is around the call, it writes
/// the event before it calls.
const EARLY_NS: u64 = 1_000_000;

/// How long events are remembered.
const KEPT_NS: u64 = 10_000_000_000;

/// Most remembered events of a thread.
const SAID_MAX: usize = 1 << 14;

/// Most waiting calls of all processes.
const WAITING_MAX: usize = 1 << 17;

/// An event, and the interval in which its call was in progress.
#[derive(Debug)]
struct Said {
    from_ns: u64,
    to_ns: u64,
    /// It may have been written before its call began.
    is_early: bool,
    /// Its call is followed to the device.
    is_followed: bool,
    judgement: Judgement,
    /// The latest end of a call that this event or an earlier one of its thread may be about.
    latest_ns: u64,
}

impl Said {
    /// The latest end of a call that it may be about.
    fn reach_ns(&self) -> u64 {
        self.to_ns.saturating_add(if self.is_early { EARLY_NS } else { 0 })
    }
}

#[derive(Debug)]
struct Waiting {
    call: RuntimeCall,
    /// It waits for the device; otherwise for an event about it.
    for_device: bool,
}

/// Events, the calls that wait for them, and names of rules.
#[derive(Debug, Default)]
pub(super) struct Judgements {
    /// Events of each thread, by the begins of their calls.
    threads: HashMap<(u32, u32), VecDeque<Said>>,
    waiting: VecDeque<Waiting>,
    names: HashMap<u16, Arc<str>>,
}

impl Waiting {
    fn waits_until_ns(&self) -> u64 {
        let patience_ns = if self.for_device { DEVICE_PATIENCE_NS } else { PATIENCE_NS };
        self.call.end_ns.unwrap_or(self.call.begin_ns).saturating_add(patience_ns)
    }
}

impl Judgements {
    /// The controller has named a rule.
    pub(super) fn name(&mut self, number: u16, name: Arc<str>) {
        self.names.insert(number, name);
    }

    /// A process has written an event.
    pub(super) fn take(&mut self, pid: u32, record: &Record, event: &Event) {
        let (to_ns, is_followed, is_early, judgement) = match *event {
            Event::Waits { judgement, .. } => (record.time_ns, true, false, judgement),
            Event::Launched { number, position, returned_ns, judgement, .. } => {
                let is_followed = number != 0;
                (returned_ns.max(record.time_ns), is_followed, !is_followed && position == 0, judgement)
            }
            _ => return,
        };
        if judgement == Judgement::NONE {
            return;
        }
        let all = self.threads.entry((pid, record.thread)).or_default();
        if all.len() >= SAID_MAX {
            all.pop_front();
        }
        let said = Said { from_ns: record.time_ns, to_ns, is_early, is_followed, judgement, latest_ns: 0 };
        // Nearly always the last.
        let place = all.partition_point(|other| other.from_ns <= said.from_ns);
        let mut latest_ns = place.checked_sub(1).map_or(0, |before| all[before].latest_ns);
        all.insert(place, said);
        for said in all.range_mut(place..) {
            latest_ns = latest_ns.max(said.reach_ns());
            said.latest_ns = latest_ns;
        }
    }

    /// Takes in a call that may get a verdict; returns it if it need not wait.
    pub(super) fn hold(&mut self, call: RuntimeCall) -> Option<RuntimeCall> {
        let mut waiting = Waiting { call, for_device: false };
        if self.is_settled(&mut waiting) || self.waiting.len() >= WAITING_MAX {
            return Some(waiting.call);
        }
        self.waiting.push_back(waiting);
        None
    }

    /// The calls that need not wait any more, given that all events until then have been taken in. `is_gone` says which
    /// processes have nothing on a device any more.
    pub(super) fn release(&mut self, until_ns: u64, is_gone: impl Fn(u32) -> bool) -> Vec<RuntimeCall> {
        let all = std::mem::take(&mut self.waiting);
        let mut ready = Vec::new();
        for mut waiting in all {
            let is_ready = self.is_settled(&mut waiting) || waiting.for_device && is_gone(waiting.call.pid);
            if is_ready || waiting.waits_until_ns() <= until_ns {
                ready.push(waiting.call);
            } else {
                self.waiting.push_back(waiting);
            }
        }
        ready
    }

    /// Forgets events that are too old for any call.
    pub(super) fn forget_old(&mut self, now_ns: u64) {
        let before_ns = now_ns.saturating_sub(KEPT_NS);
        self.threads.retain(|_, all| {
            while all.front().is_some_and(|said| said.to_ns < before_ns) {
                all.pop_front();
            }
            !all.is_empty()
        });
    }

    /// Whether everything that a call waits for is known.
    fn is_settled(&mut self, waiting: &mut Waiting) -> bool {
        if !waiting.for_device {
            match self.settle(&mut waiting.call) {
                None => return false,
                Some(is_followed) => waiting.for_device = is_followed,
            }
        }
        !waiting.for_device || waiting.call.queue_delay_ns().is_some()
    }

    /// Sets the verdict of a call, if known; returns whether it is followed to the device.
    fn settle(&mut self, call: &mut RuntimeCall) -> Option<bool> {
        let all = self.threads.get_mut(&(call.pid, call.tid))?;
        let end_ns = call.end_ns.unwrap_or(u64::MAX);
        let begun = all.partition_point(|said| said.from_ns <= end_ns);
        let mut near =
            all.range(..begun).enumerate().rev().take_while(|(_, said)| said.latest_ns >= call.begin_ns);
        // A thread makes one call after the other: earlier events than the last match belong to no call.
        let (place, _) = near.find(|(_, said)| said.reach_ns() >= call.begin_ns)?;
        let Said { judgement, is_followed, .. } = all[place];
        all.drain(..=place);
        call.judged = self.judged(judgement);
        Some(is_followed)
    }

    /// The verdict as it is shown.
    pub(super) fn judged(&self, judgement: Judgement) -> Option<Judged> {
        let rule = match judgement.rule().decided() {
            DecidedBy::ByDefault => "none fits".into(),
            DecidedBy::ByRule(number) => {
                self.names.get(&number).cloned().unwrap_or_else(|| format!("number {number}").into())
            }
            DecidedBy::BySetting(place) => {
                let name = SETTINGS.get(usize::from(place)).copied();
                name.unwrap_or("a setting").into()
            }
            DecidedBy::ByOwnRule(index) => format!("its own rule {}", index + 1).into(),
            DecidedBy::ByDomain => "domain".into(),
            DecidedBy::ByUnnumberedRule => "unnumbered".into(),
        };
        let action = judgement.action()?;
        Some(Judged { verdict: action_name(action), mode: judgement.mode(), rule })
    }
}

#[cfg(test)]
mod tests {
    use xsched_protocol::verdict::{Action, RuleId};

    use super::*;
    use crate::call::tests::call;
    use crate::scheduling::calls::{Calls, Told};

    const PID: u32 = 1;
    const TID: u32 = 2;

    /// A call that has not begun on the device yet.
    fn early(begin_ns: u64, end_ns: u64) -> RuntimeCall {
        let mut call =
            RuntimeCall { pid: PID, tid: TID, begin_ns, end_ns: Some(end_ns), ..call("hipLaunchKernel") };
        Calls::default().note(&mut call, Told::Since(0));
        call
    }

    /// A call that has begun on the device.
    fn launch(begin_ns: u64, end_ns: u64) -> RuntimeCall {
        let call = early(begin_ns, end_ns);
        call.followed.as_ref().unwrap().begun(5);
        call
    }

    fn none_is_gone(_pid: u32) -> bool {
        false
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
            is_gated: false,
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

    fn rule(call: &RuntimeCall) -> Option<&str> {
        call.judged.as_ref().map(|judged| &*judged.rule)
    }

    #[test]
    fn a_call_is_judged_by_what_was_written_while_it_lasted_or_around_it() {
        let mut judgements = Judgements::default();
        judgements.name(1, "mine".into());
        judgements.said(20, &launched(1, 25, by_rule(0)));
        judgements.said(45, &Event::Waits { queue: 1, position: 1, judgement: by_rule(1) });
        // A hook around the call, and one inside it.
        assert_eq!(rule(&judgements.hold(launch(22, 24)).unwrap()), Some("mine"));
        assert_eq!(rule(&judgements.hold(launch(40, 50)).unwrap()), Some("number 2"));
        assert!(judgements.hold(launch(60, 70)).is_none(), "no event was written yet");
        assert!(judgements.release(75, none_is_gone).is_empty());
        judgements.said(72, &launched(2, 80, by_rule(0)));
        assert!(judgements.release(75, none_is_gone).is_empty(), "the event is about a later call");
        let released = judgements.release(70 + PATIENCE_NS, none_is_gone);
        assert_eq!((released.len(), rule(&released[0]), judgements.is_empty()), (1, None, true));
    }

    #[test]
    fn the_last_event_of_a_call_counts_in_whatever_order_they_come_and_end() {
        let mut judgements = Judgements::default();
        // A long call around short ones, read in another order than written.
        judgements.said(30, &launched(1, 35, by_rule(2)));
        judgements.said(10, &launched(1, 90, by_rule(0)));
        judgements.said(20, &launched(1, 25, by_rule(1)));
        assert_eq!(rule(&judgements.hold(launch(19, 26)).unwrap()), Some("number 2"));
        assert_eq!(rule(&judgements.hold(launch(29, 40)).unwrap()), Some("number 3"));
        judgements.said(50, &launched(1, 90, by_rule(0)));
        judgements.said(60, &launched(1, 65, by_rule(1)));
        assert_eq!(
            rule(&judgements.hold(launch(80, 95)).unwrap()),
            Some("number 1"),
            "the short one ended before"
        );
    }

    #[test]
    fn a_call_waits_for_what_is_read_later() {
        let mut judgements = Judgements::default();
        assert!(judgements.hold(launch(10, 20)).is_none() && !judgements.is_empty());
        judgements.said(12, &launched(1, 15, by_rule(0)));
        let released = judgements.release(15, none_is_gone);
        assert_eq!((released.len(), rule(&released[0])), (1, Some("number 1")));
    }

    #[test]
    fn a_call_waits_until_the_device_has_begun_with_it() {
        let mut judgements = Judgements::default();
        for begin_ns in [10, 30, 50] {
            judgements.said(begin_ns + 1, &launched(1, begin_ns + 5, by_rule(0)));
        }
        let (begun, gone) = (early(10, 20), early(30, 40));
        let followed = begun.followed.clone().unwrap();
        assert!(judgements.hold(begun).is_none() && judgements.hold(gone).is_none());
        assert!(judgements.release(1_000, none_is_gone).is_empty());
        followed.begun(7);
        let released = judgements.release(1_000, none_is_gone);
        assert_eq!((released.len(), released[0].queue_delay_ns()), (1, Some(7)));
        let released = judgements.release(1_000, |pid| pid == PID);
        assert_eq!((released.len(), released[0].queue_delay_ns()), (1, None), "its process has ended");
        assert!(judgements.hold(early(50, 60)).is_none());
        assert_eq!(judgements.release(60 + DEVICE_PATIENCE_NS, none_is_gone).len(), 1, "not forever");
        // Passed-through calls are not followed.
        judgements.said(70, &launched(0, 75, by_rule(0)));
        assert!(judgements.hold(early(70, 80)).is_some());
    }

    #[test]
    fn a_passthrough_event_may_precede_its_call() {
        let mut judgements = Judgements::default();
        judgements.said(9, &launched(0, 9, by_rule(0)));
        assert_eq!(rule(&judgements.hold(launch(10, 20)).unwrap()), Some("number 1"));
        assert!(judgements.hold(launch(21, 30)).is_none(), "it belongs to one call");
        judgements.said(35, &launched(7, 36, by_rule(0)));
        assert!(judgements.hold(launch(37, 40)).is_none(), "its event came after its return");
    }

    #[test]
    fn rules_are_shown_by_name() {
        let judgements = Judgements::default();
        let shown = |action, mode, rule| judgements.judged(Judgement::new(action, mode, rule)).unwrap();
        let by_none = shown(Action::Schedule, 1, RuleId::NONE);
        assert_eq!((by_none.verdict, by_none.mode, &*by_none.rule), ("schedule", 1, "none fits"));
        let own = RuleId::handed_out(0, 2);
        assert_eq!(&*shown(Action::NeverSuspend, 0, own).rule, "its own rule 3");
        let setting = RuleId::setting("XSCHED_PASSTHROUGH_LIBS");
        assert_eq!(&*shown(Action::Passthrough, 0, setting).rule, "XSCHED_PASSTHROUGH_LIBS");
        assert_eq!(&*shown(Action::NeverSuspend, 0, RuleId::DOMAIN).rule, "domain");
        assert_eq!(judgements.judged(Judgement::NONE), None);
    }
}
