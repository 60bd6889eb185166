//! What is known of a claim besides the page.

use std::collections::BTreeMap;
use std::rc::Rc;

use xsched_control_api::parameters::{Parameters, Wish};
use xsched_metrics::Group;
use xsched_protocol::wire::{ORIGINS_MAX, OriginTime, Usage};
use xsched_sched::{Attributes, DeviceId, Nanos, ProcessId};

use super::ClientId;
use super::client::Said;

/// A process's claim: its use of one device at one stream priority.
#[derive(Debug)]
pub(super) struct Claim {
    /// Its slot in the page.
    pub(super) key: xsched_arbiter::ClaimName,
    pub(super) client: ClientId,
    /// [`xsched_protocol::arbiter_page::device_key`]
    pub(super) device_key: u64,
    /// Its device's index in the page.
    pub(super) device: u16,
    /// How much more urgent it is than the process.
    pub(super) stream_priority: i32,
    /// What was set for this claim alone.
    pub(super) set: Wish,
    /// What its process asks for it alone.
    pub(super) hint: Wish,
    /// When it was opened.
    pub(super) opened_ns: u64,
    /// What it has used, as its process reports.
    pub(super) usage: Used,
    /// Its device time by library, by the numbers of [`OriginTime::origin`].
    pub(super) origins: BTreeMap<u32, DeviceTime>,
    /// What it counts for in metrics.
    pub(super) group: Option<Rc<Group>>,
}

impl Claim {
    /// What was said of it, given what was said of its process.
    pub(super) fn said(&self, of_process: &Said) -> Said {
        Said { set: self.set.or(of_process.set), hint: self.hint, ..*of_process }
    }

    pub(super) fn attributes(&self, parameters: Parameters, ceiling: i16, nice: i8) -> Attributes {
        Attributes {
            priority: parameters.priority,
            ceiling,
            weight: parameters.weight,
            share: parameters.share,
            nice,
            quota: parameters.quota,
            deadline: parameters.deadline,
            work: parameters.work,
            slo: parameters.slo,
            stream_priority: self.stream_priority,
            // Identified by connection: a process in another pid namespace may have no id here, and one that connects
            // again starts from zero.
            ..Attributes::new(DeviceId(self.device), ProcessId(self.client.0))
        }
    }

    /// Takes in the parts of its device time that have changed, and tells by how much.
    pub(super) fn divide(&mut self, now_ns: u64, parts: &[OriginTime], more: impl Fn(&Group, u32, Nanos)) {
        for part in parts {
            // A process that reports more libraries violates the protocol.
            if self.origins.len() < ORIGINS_MAX as usize || self.origins.contains_key(&part.origin) {
                // A library that is reported for the first time was used since the last report, or since the claim was opened.
                let time = self.origins.entry(part.origin).or_insert_with(|| DeviceTime::new(self.opened_ns));
                let added = Nanos(time.update(now_ns, part.device_ns));
                if let Some(group) = &self.group
                    && !added.is_zero()
                {
                    more(group, part.origin, added);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    /// When the process last reported.
    pub(super) at_ns: u64,
    pub(super) device: DeviceTime,
    pub(super) launched: u64,
    pub(super) deferred: u64,
    pub(super) suspended_ns: u64,
}

/// Device time in total, and of the last one to two seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceTime {
    pub(super) ns: u64,
    /// Time and device time at the beginning of this second and of the previous one.
    marks: [(u64, u64); 2],
}

/// Length of a window in which device time is counted.
const WINDOW_NS: u64 = 1_000_000_000;

impl Used {
    /// Counters of a claim that was just opened.
    pub(super) fn new(now_ns: u64) -> Self {
        Self { at_ns: now_ns, device: DeviceTime::new(now_ns), ..Self::default() }
    }

    /// Takes in a process's report; returns the device time since the last one. Counters do not go backwards.
    pub(super) fn update(&mut self, now_ns: u64, usage: &Usage) -> u64 {
        self.at_ns = now_ns;
        self.launched = self.launched.max(usage.launched);
        self.deferred = self.deferred.max(usage.deferred);
        self.suspended_ns = self.suspended_ns.max(usage.suspended_ns);
        self.device.update(now_ns, usage.device_ns)
    }
}

impl DeviceTime {
    fn new(now_ns: u64) -> Self {
        Self { marks: [(now_ns, 0); 2], ns: 0 }
    }

    /// Sets the total; returns what was added. It does not decrease.
    fn update(&mut self, now_ns: u64, device_ns: u64) -> u64 {
        if self.ns == 0 {
            self.begin(now_ns, device_ns);
        }
        self.roll(now_ns);
        let more = device_ns.saturating_sub(self.ns);
        self.ns += more;
        more
    }

    /// The first report. A process that ran under another controller reports the total of its whole life. At most the
    /// time since it connected counts as recent.
    fn begin(&mut self, now_ns: u64, device_ns: u64) {
        let known_for_ns = now_ns.saturating_sub(self.marks[0].0);
        self.ns = device_ns.saturating_sub(known_for_ns);
        self.marks = self.marks.map(|(at_ns, _)| (at_ns, self.ns));
    }

    /// Part of the device's time in the last one to two seconds.
    pub(super) fn share(mut self, now_ns: u64) -> f64 {
        self.roll(now_ns);
        let (since_ns, device_ns) = self.marks[0];
        let elapsed_ns = now_ns.saturating_sub(since_ns);
        if elapsed_ns == 0 { 0.0 } else { (self.ns - device_ns) as f64 / elapsed_ns as f64 }
    }

    fn roll(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.marks[1].0);
        if elapsed_ns >= WINDOW_NS {
            let now = (now_ns, self.ns);
            // After a long silence nothing before it counts.
            self.marks = if elapsed_ns < 2 * WINDOW_NS {
                [self.marks[1], now]
            } else {
                [(now_ns - WINDOW_NS, now.1), now]
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros as _;

    use super::*;

    #[test]
    fn use_under_another_controller_is_not_counted_as_recent() {
        const MS: u64 = 1_000_000;
        let mut used = Used::new(1000 * MS);
        let mut say = |at_ms: u64, device_ms: u64| {
            let usage = Usage { device_ns: device_ms * MS, ..Usage::new_zeroed() };
            used.update(at_ms * MS, &usage) / MS
        };
        assert_eq!(say(1100, 60_000), 100, "an earlier minute is no debt");
        assert_eq!(say(1200, 60_050), 50);
        assert!(used.device.share(1200 * MS) < 1.0, "{}", used.device.share(1200 * MS));
        assert_eq!(used.device.ns, 60_050 * MS);
    }

    #[test]
    fn shares_are_of_the_last_seconds() {
        const MS: u64 = 1_000_000;
        let mut used = Used::new(0);
        let mut say = |at_ms: u64, device_ms: u64| {
            let usage = Usage { device_ns: device_ms * MS, ..Usage::new_zeroed() };
            (used.update(at_ms * MS, &usage) / MS, used)
        };
        for tick in 1..=100 {
            assert_eq!(say(tick * 10, tick * 5).0, 5);
        }
        let (_, half) = say(1010, 505);
        assert!((half.device.share(1010 * MS) - 0.5).abs() < 0.01, "{}", half.device.share(1010 * MS));
        assert!(half.device.share(10_000 * MS) < 0.01);
        // A false report: less than before.
        assert_eq!(say(1020, 100).0, 0);
        assert_eq!(say(1030, 515).0, 10);
    }
}
