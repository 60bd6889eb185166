//! The state of the arbiter page, followed by its events: which claims have work, which level may launch, and which
//! process preempted which.

use std::collections::BTreeMap;

use xsched_protocol::{
    arbiter_page::{ArbiterChange, ArbiterEvent, CLAIM_MAX, ClaimWord},
    events::Event,
};

use super::entry::{Entry, Holder, Preemption, XQueueId};

/// A claim of the page.
#[derive(Clone, Copy, Debug)]
struct Seat {
    xqueue: XQueueId,
    word: ClaimWord,
}

impl Seat {
    fn is_ready(&self) -> bool {
        self.word.is_open() && self.word.is_ready()
    }
}

/// The most urgent level with work on a device, the processes there, and since when.
#[derive(Debug)]
struct Top {
    level: u64,
    pids: Vec<u32>,
    begin_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Arbiter {
    seats: BTreeMap<u32, Seat>,
    tops: BTreeMap<u64, Top>,
    /// No process is deferred.
    is_released: bool,
    now_ns: u64,
}

impl Arbiter {
    /// Takes in an event of the controller.
    pub(super) fn take(&mut self, time_ns: u64, event: &Event, entries: &mut Vec<Entry>) {
        self.now_ns = self.now_ns.max(time_ns);
        match *event {
            Event::Claim { slot, pid, device, stream_priority, word, .. } if (slot as usize) < CLAIM_MAX => {
                let xqueue = XQueueId { pid, device, stream_priority };
                let word = ClaimWord(word);
                let before = self.seats.insert(slot, Seat { xqueue, word });
                // The event is repeated when the process's parameters change. Its word is the current one, not the one
                // at this point of the event sequence.
                if let Some(before) = before.filter(|before| before.xqueue == xqueue)
                    && let Some(seat) = self.seats.get_mut(&slot)
                {
                    seat.word = before.word;
                }
                self.settle(device, entries);
            }
            Event::Arbiter(change) => self.change(&change, entries),
            _ => {}
        }
    }

    /// The most urgent work on a device, if it is more urgent than this level.
    pub(super) fn holder(&self, device: u64, level: u64) -> Option<Holder> {
        let ready = self.seats.values().filter(|seat| seat.xqueue.device == device && seat.is_ready());
        let top = ready.min_by_key(|seat| seat.word.level())?;
        let holder = Holder { pid: top.xqueue.pid, level: top.word.level() };
        (holder.level < level).then_some(holder)
    }

    pub(super) fn ended(&mut self, time_ns: u64, pid: u32, entries: &mut Vec<Entry>) {
        self.now_ns = self.now_ns.max(time_ns);
        let devices: Vec<_> = self
            .seats
            .extract_if(.., |_, seat| seat.xqueue.pid == pid)
            .map(|(_, seat)| seat.xqueue.device)
            .collect();
        for device in devices {
            self.settle(device, entries);
        }
    }

    /// Ends all open intervals.
    pub(super) fn close(&mut self, time_ns: u64, entries: &mut Vec<Entry>) {
        self.now_ns = self.now_ns.max(time_ns);
        self.seats.clear();
        for device in self.tops.keys().copied().collect::<Vec<_>>() {
            self.settle(device, entries);
        }
    }

    fn change(&mut self, change: &ArbiterEvent, entries: &mut Vec<Entry>) {
        let is = |kind: ArbiterChange| change.change == kind as u32;
        if is(ArbiterChange::Released) || is(ArbiterChange::Obeyed) {
            self.is_released = is(ArbiterChange::Released);
            return;
        }
        let word = ClaimWord(change.word);
        let Some(seat) = self.seats.get(&change.slot).copied() else { return };
        if seat.word.generation() != word.generation() {
            return;
        }
        let device = seat.xqueue.device;
        let holders = self.holders(device);
        if word.is_open() {
            self.seats.insert(change.slot, Seat { word, ..seat });
        } else {
            self.seats.remove(&change.slot);
        }
        let reason = if is(ArbiterChange::Level) { "levels were changed" } else { "more urgent work came" };
        self.note_preemptions(device, &holders, reason, entries);
        self.settle(device, entries);
    }

    /// Claims of a device with work, each with whether more urgent work suspends it.
    fn holders(&self, device: u64) -> BTreeMap<u32, bool> {
        let of_device = self.seats.iter().filter(|(_, seat)| seat.xqueue.device == device && seat.is_ready());
        of_device.map(|(&slot, seat)| (slot, self.holder(device, seat.word.level()).is_some())).collect()
    }

    /// Adds the claims that had work and could launch before, and are suspended now.
    fn note_preemptions(
        &self,
        device: u64,
        before: &BTreeMap<u32, bool>,
        reason: &'static str,
        entries: &mut Vec<Entry>,
    ) {
        if self.is_released {
            return;
        }
        let had_turn = before.iter().filter(|(_, is_held)| !**is_held);
        for seat in had_turn.filter_map(|(slot, _)| self.seats.get(slot)) {
            let level = seat.word.level();
            if let Some(by) = self.holder(device, level).filter(|_| seat.is_ready()) {
                let (xqueue, time_ns) = (seat.xqueue, self.now_ns);
                entries.push(Entry::Preempted(Preemption { xqueue, time_ns, level, by, reason }));
            }
        }
    }

    /// Adds the interval of the level that was the most urgent until now, if that has changed.
    fn settle(&mut self, device: u64, entries: &mut Vec<Entry>) {
        let ready = || self.seats.values().filter(|seat| seat.xqueue.device == device && seat.is_ready());
        let level = ready().map(|seat| seat.word.level()).min();
        let mut pids: Vec<_> =
            ready().filter(|seat| Some(seat.word.level()) == level).map(|seat| seat.xqueue.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let is_same = |top: &Top| Some(top.level) == level && top.pids == pids;
        if self.tops.get(&device).is_some_and(is_same) {
            return;
        }
        if let Some(Top { level, pids, begin_ns }) = self.tops.remove(&device)
            && begin_ns < self.now_ns
        {
            entries.push(Entry::Ready { device, level, pids, begin_ns, end_ns: self.now_ns });
        }
        if let Some(level) = level {
            self.tops.insert(device, Top { level, pids, begin_ns: self.now_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: u64 = 7;

    fn seat(slot: u32, pid: u32, level: u64) -> Event {
        let word = ClaimWord::new(1, 0, level).0;
        Event::Claim { slot, generation: 1, pid, device: DEVICE, priority: 0, stream_priority: 0, word }
    }

    fn change(change: ArbiterChange, slot: u32, word: ClaimWord) -> Event {
        let change = change as u32;
        Event::Arbiter(ArbiterEvent { time_ns: 0, change, slot, word: word.0, ready: 0, owner: 0 })
    }

    fn ready(slot: u32, level: u64, is_ready: bool) -> Event {
        let kind = if is_ready { ArbiterChange::Ready } else { ArbiterChange::Idle };
        change(kind, slot, ClaimWord::new(1, 0, level).with_ready(is_ready))
    }

    fn told(events: &[(u64, Event)]) -> Vec<Entry> {
        let (mut arbiter, mut entries) = (Arbiter::default(), Vec::new());
        for (time_ns, event) in events {
            arbiter.take(*time_ns, event, &mut entries);
        }
        arbiter.close(1_000, &mut entries);
        entries
    }

    #[test]
    fn running_work_is_preempted_by_more_urgent_work() {
        let entries = told(&[
            (1, seat(0, 10, 3)),
            (2, seat(1, 20, 1)),
            (10, ready(0, 3, true)),
            (20, ready(1, 1, true)),
            (30, ready(1, 1, false)),
            (40, ready(0, 3, false)),
        ]);
        let xqueue = XQueueId { pid: 10, device: DEVICE, stream_priority: 0 };
        let by = Holder { pid: 20, level: 1 };
        let preempted = Preemption { xqueue, time_ns: 20, level: 3, by, reason: "more urgent work came" };
        let top = |level, pid, begin_ns, end_ns| Entry::Ready {
            device: DEVICE,
            level,
            pids: vec![pid],
            begin_ns,
            end_ns,
        };
        assert_eq!(
            entries,
            [Entry::Preempted(preempted), top(3, 10, 10, 20), top(1, 20, 20, 30), top(3, 10, 30, 40)]
        );
    }

    #[test]
    fn a_change_of_levels_is_given_as_the_reason() {
        let lowered = ClaimWord::new(1, 0, 9).with_ready(true);
        let entries = told(&[
            (1, seat(0, 10, 2)),
            (2, seat(1, 20, 3)),
            (10, ready(0, 2, true)),
            (11, ready(1, 3, true)),
            (20, change(ArbiterChange::Level, 0, lowered)),
        ]);
        let reasons: Vec<_> = entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Preempted(one) => Some((one.xqueue.pid, one.by.pid, one.reason)),
                _ => None,
            })
            .collect();
        assert_eq!(reasons, [(10, 20, "levels were changed")]);
    }

    #[test]
    fn suspended_and_idle_claims_are_not_preempted() {
        let entries = told(&[
            (1, seat(0, 10, 5)),
            (1, seat(1, 20, 1)),
            (1, seat(2, 30, 3)),
            (10, ready(1, 1, true)),
            (20, ready(0, 5, true)),
            (30, ready(2, 3, true)),
            (40, ready(1, 1, false)),
            (50, change(ArbiterChange::Died, 2, ClaimWord::new(1, 0, 3).closed())),
            (60, change(ArbiterChange::Died, 7, ClaimWord::new(1, 0, 3).closed())),
        ]);
        assert!(!entries.iter().any(|entry| matches!(entry, Entry::Preempted(_))), "{entries:?}");
    }
}
