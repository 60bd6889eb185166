//! Sums of the shares that processes are promised of each device.

use std::collections::BTreeMap;

use xsched_control_api::{answer::Overpromised, device_address::device_name};
use xsched_sched::PolicyKind;

use super::{ClientId, Controller};
use crate::config::WHOLE_PERCENT;

impl Controller {
    /// The device with the largest sum, among those that these processes use; none if it is within 100 %.
    pub(super) fn overpromised(&self, clients: &[ClientId]) -> Option<Overpromised> {
        let shares = self.shares();
        let uses = |device: u64| clients.iter().any(|&client| shares.contains_key(&(device, client)));
        most(sums(&shares).into_iter().filter(|&(device, _)| uses(device)))
    }

    /// The device that would have the largest sum if another process with this share used it.
    pub(super) fn overpromised_with(&self, share: u8) -> Option<Overpromised> {
        most(sums(&self.shares()).into_iter().map(|(device, percent)| (device, percent + u32::from(share))))
    }

    /// The warning for a device on which something has changed, if its shares exceed 100 % and the policy uses shares.
    /// Repeated at most once in `PROMISES_QUIET_NS`.
    pub(super) fn warn_of_promises(&mut self, device: u64, now_ns: u64) -> Option<String> {
        if self.scheduler.policy() != PolicyKind::Partition {
            return None;
        }
        let percent =
            sums(&self.shares()).get(&device).copied().filter(|percent| *percent > WHOLE_PERCENT)?;
        if !self.overpromises.is_due(device, now_ns) {
            return None;
        }
        let device = device_name(device);
        Some(format!(
            "shares of {device} come to {percent} %, so all shrink in proportion while all have work"
        ))
    }

    /// The same for all devices.
    pub(super) fn warn_of_all_promises(&mut self, now_ns: u64) {
        let devices: Vec<_> = sums(&self.shares()).into_keys().collect();
        for device in devices {
            if let Some(warning) = self.warn_of_promises(device, now_ns) {
                tracing::warn!("{warning}");
            }
        }
    }

    /// The shares of processes that have any, by device. A process's share is the largest of its queues, as in the
    /// policy.
    fn shares(&self) -> BTreeMap<(u64, ClientId), u8> {
        let mut shares = BTreeMap::new();
        for state in self.scheduler.queues() {
            if let (Some(queue), Some(share)) = (self.queues.get(&state.queue.0), state.attributes.share) {
                let largest: &mut u8 = shares.entry((queue.device_key, queue.client)).or_default();
                *largest = share.max(*largest);
            }
        }
        shares
    }
}

/// The sum of shares for each device.
fn sums(shares: &BTreeMap<(u64, ClientId), u8>) -> BTreeMap<u64, u32> {
    let mut sums = BTreeMap::new();
    for (&(device, _), &share) in shares {
        *sums.entry(device).or_default() += u32::from(share);
    }
    sums
}

/// The device with the largest sum, if that exceeds 100 %.
fn most(sums: impl Iterator<Item = (u64, u32)>) -> Option<Overpromised> {
    let beyond = sums.filter(|&(_, percent)| percent > WHOLE_PERCENT);
    let (device, percent) = beyond.max_by_key(|&(_, percent)| percent)?;
    Some(Overpromised { device: device_name(device), percent })
}
