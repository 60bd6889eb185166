//! The joint state of a process's XQueues on a device: running, suspended, or deferring by themselves.

use std::collections::VecDeque;

use xsched_sched::Gate;

use super::entry::{Doing, Entry, Holder, Phase, XQueueId};

/// Most remembered suspensions, for commands that waited through them.
const SUSPENSIONS_MAX: usize = 1024;

/// Least distance between samples of a counter.
const SAMPLE_EVERY_NS: u64 = 20_000;

/// Since when an XQueue is suspended, and by which process.
#[derive(Clone, Copy, Debug)]
struct Suspension {
    since_ns: u64,
    level: u8,
    holder: Option<Holder>,
}

/// The current state.
#[derive(Clone, Copy, Debug)]
pub(super) struct XQueue {
    id: XQueueId,
    depth: u64,
    in_flight: u64,
    suspension: Option<Suspension>,
    /// The state, and since when.
    doing: Option<(Doing, u64)>,
    /// The time of the latest change.
    now_ns: u64,
    depth_sampled_ns: u64,
    ahead_sampled_ns: u64,
}

/// The intervals in which commands of an XQueue were kept from beginning.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// In order of time: begin and end of each suspension, and the preempting process.
    suspensions: VecDeque<(u64, u64, Option<Holder>)>,
    /// The gate before commands on the device.
    pub(super) gate: Gate,
}

impl XQueue {
    pub(super) fn new(id: XQueueId) -> Self {
        Self {
            id,
            depth: 0,
            in_flight: 0,
            suspension: None,
            doing: None,
            now_ns: 0,
            depth_sampled_ns: 0,
            ahead_sampled_ns: 0,
        }
    }

    /// More or fewer commands are deferred.
    pub(super) fn defer(&mut self, time_ns: u64, more: u64, fewer: u64, entries: &mut Vec<Entry>) {
        self.depth = self.depth.saturating_add(more).saturating_sub(fewer);
        self.settle(time_ns, entries);
        if self.depth == 0 || self.now_ns >= self.depth_sampled_ns.saturating_add(SAMPLE_EVERY_NS) {
            self.depth_sampled_ns = self.now_ns;
            entries.push(Entry::Depth(self.id, self.now_ns, self.depth));
        }
    }

    /// Commands went to the device. `ahead_ns`: the expected time of those before.
    pub(super) fn launch(&mut self, time_ns: u64, ahead_ns: u64, more: u64, entries: &mut Vec<Entry>) {
        self.in_flight = self.in_flight.saturating_add(more);
        self.settle(time_ns, entries);
        if self.now_ns >= self.ahead_sampled_ns.saturating_add(SAMPLE_EVERY_NS) {
            self.ahead_sampled_ns = self.now_ns;
            entries.push(Entry::InFlight(self.id, self.now_ns, ahead_ns));
        }
    }

    /// Commands have completed.
    pub(super) fn complete(&mut self, time_ns: u64, fewer: u64, entries: &mut Vec<Entry>) {
        self.in_flight = self.in_flight.saturating_sub(fewer);
        self.settle(time_ns, entries);
        if self.in_flight == 0 {
            self.ahead_sampled_ns = 0;
            entries.push(Entry::InFlight(self.id, self.now_ns, 0));
        }
    }

    pub(super) fn suspend(
        &mut self,
        time_ns: u64,
        level: u8,
        holder: Option<Holder>,
        entries: &mut Vec<Entry>,
    ) {
        let since_ns = time_ns.max(self.now_ns);
        self.suspension.get_or_insert(Suspension { since_ns, level, holder });
        self.settle(time_ns, entries);
    }

    /// It is not suspended any more. Returns the suspension that it waited through.
    pub(super) fn resume(
        &mut self,
        time_ns: u64,
        entries: &mut Vec<Entry>,
    ) -> Option<(u64, u64, Option<Holder>)> {
        self.settle(time_ns, entries);
        // The phase until now was a suspension, with its reason.
        let suspension = self.suspension?;
        self.finish_phase(entries);
        self.suspension = None;
        self.settle(time_ns, entries);
        Some((suspension.since_ns, self.now_ns, suspension.holder))
    }

    /// The current suspension so far.
    pub(super) fn suspension(&self, until_ns: u64) -> Option<(u64, u64, Option<Holder>)> {
        self.suspension.map(|suspension| (suspension.since_ns, until_ns, suspension.holder))
    }

    /// Nothing is known of it from now on.
    pub(super) fn close(&mut self, time_ns: u64, entries: &mut Vec<Entry>) {
        self.depth = 0;
        self.in_flight = 0;
        self.settle(time_ns, entries);
        self.suspension = None;
    }

    fn settle(&mut self, time_ns: u64, entries: &mut Vec<Entry>) {
        self.now_ns = self.now_ns.max(time_ns);
        let doing = if self.suspension.is_some() && self.depth > 0 {
            Some(Doing::Suspended)
        } else if self.in_flight > 0 {
            Some(Doing::Running)
        } else if self.depth > 0 {
            Some(Doing::Buffered)
        } else {
            None
        };
        if doing != self.doing.map(|(doing, _)| doing) {
            self.finish_phase(entries);
            self.doing = doing.map(|doing| (doing, self.now_ns));
        }
    }

    fn finish_phase(&mut self, entries: &mut Vec<Entry>) {
        let Some((doing, begin_ns)) = self.doing.take().filter(|(_, begin_ns)| *begin_ns < self.now_ns)
        else {
            return;
        };
        let suspension = self.suspension.filter(|_| doing == Doing::Suspended);
        entries.push(Entry::Phase(Phase {
            xqueue: self.id,
            doing,
            begin_ns,
            end_ns: self.now_ns,
            level: suspension.map(|suspension| suspension.level),
            holder: suspension.and_then(|suspension| suspension.holder),
        }));
    }
}

impl Waits {
    pub(super) fn note(&mut self, suspension: (u64, u64, Option<Holder>)) {
        if self.suspensions.len() >= SUSPENSIONS_MAX {
            self.suspensions.pop_front();
        }
        self.suspensions.push_back(suspension);
    }

    /// How much of an interval was spent suspended, and the process that caused the longest part. `current` has not
    /// ended.
    pub(super) fn suspended(
        &self,
        begin_ns: u64,
        end_ns: u64,
        current: Option<(u64, u64, Option<Holder>)>,
    ) -> (u64, Option<Holder>) {
        let mut total_ns = 0;
        let mut longest = (0, None);
        let first = self.suspensions.partition_point(|(_, to_ns, _)| *to_ns <= begin_ns);
        for (from_ns, to_ns, holder) in self.suspensions.range(first..).copied().chain(current) {
            let part_ns = to_ns.min(end_ns).saturating_sub(from_ns.max(begin_ns));
            total_ns = part_ns.saturating_add(total_ns);
            if part_ns > longest.0 {
                longest = (part_ns, holder);
            }
        }
        (total_ns.min(end_ns.saturating_sub(begin_ns)), longest.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: XQueueId = XQueueId { pid: 1, device: 2, stream_priority: 0 };

    fn phases(entries: &[Entry]) -> Vec<(Doing, u64, u64)> {
        let phases = entries.iter().filter_map(|entry| match entry {
            Entry::Phase(phase) => Some((phase.doing, phase.begin_ns, phase.end_ns)),
            _ => None,
        });
        phases.collect()
    }

    #[test]
    fn phases_follow_each_other() {
        let (mut xqueue, mut entries) = (XQueue::new(ID), Vec::new());
        let holder = Some(Holder { pid: 9, level: 1 });
        xqueue.launch(10, 0, 1, &mut entries);
        xqueue.defer(12, 1, 0, &mut entries);
        xqueue.suspend(20, 3, holder, &mut entries);
        xqueue.complete(25, 1, &mut entries);
        assert_eq!(xqueue.resume(30, &mut entries), Some((20, 30, holder)));
        xqueue.defer(34, 0, 1, &mut entries);
        xqueue.launch(34, 0, 1, &mut entries);
        xqueue.complete(40, 1, &mut entries);
        xqueue.close(50, &mut entries);
        let expected = [
            (Doing::Running, 10, 20),
            (Doing::Suspended, 20, 30),
            (Doing::Buffered, 30, 34),
            (Doing::Running, 34, 40),
        ];
        assert_eq!(phases(&entries), expected);
        let suspended = entries.iter().find_map(|entry| match entry {
            Entry::Phase(phase) if phase.doing == Doing::Suspended => Some((phase.level, phase.holder)),
            _ => None,
        });
        assert_eq!(suspended, Some((Some(3), holder)));
    }

    #[test]
    fn times_that_go_back_count_as_now() {
        let (mut xqueue, mut entries) = (XQueue::new(ID), Vec::new());
        xqueue.launch(10, 0, 1, &mut entries);
        xqueue.complete(20, 1, &mut entries);
        xqueue.launch(15, 0, 1, &mut entries);
        xqueue.close(30, &mut entries);
        assert_eq!(phases(&entries), [(Doing::Running, 10, 20), (Doing::Running, 20, 30)]);
    }

    #[test]
    fn the_longest_suspension_names_the_holder() {
        let mut waits = Waits::default();
        let holder = |pid| Some(Holder { pid, level: 0 });
        waits.note((0, 10, holder(1)));
        waits.note((20, 50, holder(2)));
        assert_eq!(waits.suspended(5, 40, None), (25, holder(2)));
        assert_eq!(waits.suspended(12, 18, None), (0, None));
        assert_eq!(waits.suspended(45, 100, Some((60, 100, holder(3)))), (45, holder(3)));
    }
}
