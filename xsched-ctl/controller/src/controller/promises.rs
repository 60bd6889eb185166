//! What processes are promised of each device: shares, quotas, and work by deadlines. `set` is refused if that comes to more than there
//! is, with the sum. Rules and hints are not: what they promise beyond shrinks or is missed, and the log says so.

use std::collections::BTreeMap;

use xsched_control_api::{
    answer::Overpromised,
    device_address::device_name,
    parameters::{Parameters, Wish},
    request::Target,
};
use xsched_sched::{ClaimState, PolicyKind, Quota};

use super::authority::OrderError;
use super::{ClientId, Controller};
use crate::config::WHOLE_PERCENT;

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    Shares,
    Quotas,
    /// The work of requests for the time of their deadlines.
    Deadlines,
}

/// The parts of each device that are promised, by device and process.
type Parts = BTreeMap<(u64, ClientId), f64>;

impl Promise {
    const ALL: [Self; 3] = [Self::Shares, Self::Quotas, Self::Deadlines];

    /// What a policy keeps.
    fn of(policy: PolicyKind) -> Option<Self> {
        match policy {
            PolicyKind::Partition => Some(Self::Shares),
            PolicyKind::Quota => Some(Self::Quotas),
            PolicyKind::Edf | PolicyKind::Laxity => Some(Self::Deadlines),
            _ => None,
        }
    }

    fn is_in(self, wish: Wish) -> bool {
        match self {
            Self::Shares => wish.share.is_some(),
            Self::Quotas => wish.quota.is_some(),
            Self::Deadlines => wish.deadline.is_some() || wish.work.is_some(),
        }
    }

    /// The part of a device that is promised. A deadline of requests whose work is not known promises nothing.
    fn part(self, parameters: Parameters) -> f64 {
        match self {
            Self::Shares => f64::from(parameters.share.unwrap_or(0)) / 100.0,
            Self::Quotas => parameters.quota.map_or(0.0, Quota::part),
            Self::Deadlines => parameters.work.and(parameters.density()).unwrap_or(0.0),
        }
    }

    /// What happens to promises beyond the whole.
    fn excess(self) -> (&'static str, &'static str) {
        match self {
            Self::Shares => ("shares", "all shrink in proportion while all have work"),
            Self::Quotas => ("quotas", "some are not kept while all have work"),
            Self::Deadlines => ("the work of requests by their deadlines", "some are missed"),
        }
    }
}

impl Controller {
    /// Refuses a change after which more of a device would be promised than there is, and more than before.
    pub(super) fn check_promises(
        &self,
        ids: &[ClientId],
        target: &Target,
        wish: Wish,
    ) -> Result<(), OrderError> {
        for promise in Promise::ALL.into_iter().filter(|promise| promise.is_in(wish)) {
            let before = self.parts(promise);
            let mut after = before.clone();
            for ((_, client), part) in after.iter_mut().filter(|((_, client), _)| ids.contains(client)) {
                *part = promise.part(wish.applied_to(self.parameters(*client, target)));
            }
            let devices: Vec<_> =
                after.keys().filter(|(_, client)| ids.contains(client)).map(|(device, _)| *device).collect();
            for device in devices {
                let (was, (is, terms)) =
                    (self.sum(promise, &before, device).0, self.sum(promise, &after, device));
                if is > was && percent(is) > WHOLE_PERCENT {
                    return Err(OrderError::NotAdmitted(format!(
                        "{} of {} would come to {terms} = {} %, which is more than 100 %",
                        promise.excess().0,
                        device_name(device),
                        percent(is),
                    )));
                }
            }
        }
        Ok(())
    }

    /// The sum for a device, and its terms as text. Where several requests run side by side, each takes longer: so the one that takes
    /// the largest part must leave time for that.
    fn sum(&self, promise: Promise, parts: &Parts, device: u64) -> (f64, String) {
        let here = || parts.iter().filter(|((of, _), part)| *of == device && **part > 0.0);
        let term = |((_, client), part): (&(u64, ClientId), &f64)| {
            format!("{} % (process {})", percent(*part), self.clients[client].subject.pid)
        };
        let mut terms: Vec<_> = here().map(term).collect();
        let mut sum: f64 = here().map(|(_, part)| part).sum();
        let beside = self.config.side_by_side - 1;
        if promise == Promise::Deadlines && beside > 0 && self.scheduler.policy() == PolicyKind::Edf {
            let largest = here().map(|(_, part)| *part).fold(0.0, f64::max);
            terms.push(format!("{beside} x {} % (for {} side by side)", percent(largest), beside + 1));
            sum += f64::from(beside) * largest;
        }
        (sum, terms.join(" + "))
    }

    /// The device that would have the largest sum of shares if another process with this share used it.
    pub(super) fn overpromised_with(&self, share: u8) -> Option<Overpromised> {
        let sums = sums(&self.parts(Promise::Shares));
        let beyond = sums.into_iter().map(|(device, sum)| (device, percent(sum) + u32::from(share)));
        let beyond = beyond.filter(|&(_, percent)| percent > WHOLE_PERCENT);
        let (device, percent) = beyond.max_by_key(|&(_, percent)| percent)?;
        Some(Overpromised { device: device_name(device), percent })
    }

    /// The warning for a device on which something has changed, if more of it is promised than there is, of what the policy keeps.
    /// Repeated at most once in `PROMISES_QUIET_NS`.
    pub(super) fn warn_of_promises(&mut self, device: u64, now_ns: u64) -> Option<String> {
        let promise = Promise::of(self.scheduler.policy())?;
        let percent = percent(self.sum(promise, &self.parts(promise), device).0);
        if percent <= WHOLE_PERCENT || !self.overpromises.is_due(device, now_ns) {
            return None;
        }
        let (device, (what, so)) = (device_name(device), promise.excess());
        Some(format!("{what} of {device} come to {percent} %, so {so}"))
    }

    /// The same for all devices.
    pub(super) fn warn_of_all_promises(&mut self, now_ns: u64) {
        let mut devices: Vec<_> = self.claims.values().map(|claim| claim.device_key).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            if let Some(warning) = self.warn_of_promises(device, now_ns) {
                tracing::warn!("{warning}");
            }
        }
    }

    /// The parts of processes with claims. A process's part is the largest of its claims, as in the policies.
    fn parts(&self, promise: Promise) -> Parts {
        let mut parts = Parts::new();
        for ClaimState { id, attributes, .. } in self.scheduler.claims() {
            let Some(claim) = self.claims.get(&id.0) else { continue };
            let xsched_sched::Attributes { share, quota, deadline, work, .. } = attributes;
            let part = promise.part(Parameters { share, quota, deadline, work, ..Parameters::default() });
            let largest = parts.entry((claim.device_key, claim.client)).or_insert(0.0);
            *largest = part.max(*largest);
        }
        parts
    }
}

/// Rounds up, so that a small excess shows. Errors of the addition do not count.
fn percent(part: f64) -> u32 {
    (part * 100.0 - 1e-6).ceil() as u32
}

/// The sum of parts for each device.
fn sums(parts: &Parts) -> BTreeMap<u64, f64> {
    let mut sums = BTreeMap::new();
    for (&(device, _), part) in parts {
        *sums.entry(device).or_default() += part;
    }
    sums
}
