//! Counts processes that may have made calls before they were probed. The programs should have stopped some of them; reports of
//! these stops come later.

use std::collections::HashMap;

/// How long before the mapping of a runtime the report of the stop for it may be.
const STOP_SLACK_NS: u64 = 1_000_000_000;

#[derive(Default)]
pub(super) struct Late {
    count: u64,
    /// Processes that the programs should stop before they run the code that they mapped at this time. The stop has not been
    /// reported yet.
    unstopped: Vec<(u32, u64)>,
    /// By process: when it was last stopped, if recently.
    stops: HashMap<u32, u64>,
}

impl Late {
    /// A process has stopped in its loader.
    pub(super) fn stopped(&mut self, pid: u32, time_ns: u64) {
        self.stops.insert(pid, time_ns);
        let stops = &self.stops;
        self.unstopped.retain(|(pid, mapped_ns)| !has_stopped(stops, *pid, *mapped_ns));
    }

    /// A process mapped a runtime before that was probed. It counts unless it has stopped, or stops later (`is_to_stop`).
    pub(super) fn mapped(&mut self, pid: u32, mapped_ns: u64, is_to_stop: bool) {
        if has_stopped(&self.stops, pid, mapped_ns) {
            return;
        }
        tracing::debug!(pid, is_to_stop, "a runtime was mapped before it was probed");
        if is_to_stop {
            self.unstopped.push((pid, mapped_ns));
        } else {
            self.count += 1;
        }
    }

    /// Counts processes that were probed late and cannot be stopped.
    pub(super) fn add(&mut self, count: u64) {
        self.count += count;
    }

    /// Counts the processes that should have stopped before a time, and have not. Returns their number.
    pub(super) fn count_unstopped(&mut self, before_ns: u64) -> u64 {
        self.stops.retain(|_, stop_ns| *stop_ns >= before_ns);
        let went_on = self.unstopped.extract_if(.., |(_, mapped_ns)| *mapped_ns < before_ns).count() as u64;
        self.count += went_on;
        went_on
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

fn has_stopped(stops: &HashMap<u32, u64>, pid: u32, mapped_ns: u64) -> bool {
    stops.get(&pid).is_some_and(|stop_ns| stop_ns.saturating_add(STOP_SLACK_NS) >= mapped_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_stop_are_not_late() {
        let mut late = Late::default();
        late.mapped(1, 10, false);
        late.mapped(2, 10, true);
        late.mapped(3, 10, true);
        late.stopped(2, 12);
        assert_eq!(late.count(), 1, "process 1 was not to stop");
        late.mapped(2, 11, false);
        late.mapped(2, 12 + STOP_SLACK_NS + 1, false);
        assert_eq!(late.count(), 2, "a stop counts for what is mapped about that time");
        assert_eq!((late.count_unstopped(10), late.count_unstopped(11)), (0, 1));
        assert_eq!(late.count(), 3, "process 3 should have stopped");
    }
}
