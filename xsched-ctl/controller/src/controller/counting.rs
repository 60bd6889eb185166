//! Counts what claims do, for metrics. Each claim counts for the group that has its labels.

use std::time::{SystemTime, UNIX_EPOCH};

use xsched_control_api::{
    answer::{PageKeeper, Sight},
    device_address::device_name,
    parameters::Class,
    peer::Party,
};
use xsched_metrics::{Facts, Labels, Snapshot, Tally};
use xsched_protocol::{arbiter_page::Word, wire::Usage};
use xsched_sched::{Happening, Nanos};
use xsched_symbols::now_ns;

use super::Controller;
use super::claim::{Claim, Used};
use super::measures::{Measures, end_of};

impl Controller {
    /// From now on counts what claims do.
    pub(crate) fn measure(&mut self) {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let uptime_ns = now_ns().saturating_sub(self.started_ns);
        let started_s = since_1970.as_secs_f64() - uptime_ns as f64 / 1e9;
        self.measures = Some(Measures { tally: Tally::default(), started_s, happenings: Vec::new() });
        self.scheduler.observe();
    }

    /// Finds the group of a claim, whose labels may have changed.
    pub(super) fn regroup(&mut self, slot: u32) {
        if self.measures.is_none() {
            return;
        }
        let Some((labels, party)) = self.labels(slot) else { return };
        let Some(measures) = &mut self.measures else { return };
        let group = measures.tally.group(Nanos(now_ns()), labels, party);
        if let Some(claim) = self.claims.get_mut(&slot) {
            claim.group = Some(group);
        }
    }

    /// The labels of a claim, and the unprivileged party that they count for.
    fn labels(&self, slot: u32) -> Option<(Labels, Option<Party>)> {
        let claim = self.claims.get(&slot)?;
        let client = self.clients.get(&claim.client)?;
        let labels = Labels {
            class: Class::of(self.attributes(slot)?.priority).to_string(),
            device: device_name(claim.device_key),
            cgroup: end_of(&client.subject.cgroup),
            pod: client
                .subject
                .pod
                .as_ref()
                .map(|pod| [&pod.namespace, &pod.pod, &pod.name].map(|name| end_of(name))),
        };
        Some((labels, client.actor().counted()))
    }

    /// Counts what has happened to claims since the last call.
    pub(super) fn count_happenings(&mut self) {
        let Some(Measures { happenings, .. }) = &mut self.measures else { return };
        self.scheduler.take_happenings(happenings);
        for Happening { claim, what } in happenings.drain(..) {
            if let Some(group) = self.claims.get(&claim.0).and_then(|claim| claim.group.as_ref()) {
                group.happened(what);
            }
        }
    }

    /// What a scrape shows; `None` if nothing is counted.
    pub(crate) fn snapshot(&mut self, now_ns: u64) -> Option<Snapshot> {
        self.count_happenings();
        let started_s = self.measures.as_ref()?.started_s;
        let facts = self.facts(started_s);
        let measures = self.measures.as_mut()?;
        Some(Snapshot::new(facts, &mut measures.tally, Nanos(now_ns)))
    }

    fn facts(&self, started_s: f64) -> Facts {
        let status = self.status();
        let keeper = match status.keeper {
            PageKeeper::Programs => "programs",
            PageKeeper::Controller => "controller",
        };
        let sight = match status.sight {
            Sight::Chains => "chains",
            Sight::Callers => "callers",
        };
        let counts = status.counts;
        Facts {
            controller: [
                status.version,
                status.policy,
                status.state.to_string(),
                keeper.to_owned(),
                sight.to_owned(),
            ],
            started_s,
            processes: self.clients.len() as u64,
            joined: counts.joined,
            level_changes: counts.moved,
            losses: vec![
                ("arbiter_events", self.arbiter.page().load(Word::EVENTS_LOST)),
                ("died_processes", counts.died),
                ("evicted_verdicts", counts.answered_again),
                ("expired_leases", counts.expired),
                ("failed_page_changes", counts.failed),
                ("forbidden_changes", counts.forbidden),
                ("given_up_repairs", counts.exhausted),
                ("limits_reached", counts.full),
                ("malformed_packets", counts.malformed),
                ("outdated_shims", counts.outdated),
                ("refused_reports", counts.refused),
                ("slow_connections", counts.slow),
            ],
        }
    }
}

impl Claim {
    /// Counts what it has used since an earlier report; `device` of it on the device.
    pub(super) fn count(&self, before: &Used, device: Nanos, usage: &Usage) {
        let Some(group) = &self.group else { return };
        // The first report of a process that ran under another controller is about its whole life.
        if before.device.ns == 0 && usage.device_ns > device.0 {
            return group.used(0, 0, device, Nanos::ZERO);
        }
        group.used(
            usage.launched.saturating_sub(before.launched),
            usage.deferred.saturating_sub(before.deferred),
            device,
            Nanos(usage.suspended_ns.saturating_sub(before.suspended_ns)),
        );
    }
}
