//! What processes are promised of a device together.

use std::collections::BTreeMap;

use xsched_control_api::answer::Overpromised;
use xsched_control_api::device_address::device_name;
use xsched_sched::PolicyKind;

use super::{ClientId, Controller};

/// All of a device.
pub(crate) const WHOLE_PERCENT: u32 = 100;

/// How long the log says nothing more of a device of which too much is promised: processes come and go.
const QUIET_NS: u64 = 60_000_000_000;

/// When the log has said that too much is promised, by the key of the device.
pub(super) type Warned = BTreeMap<u64, u64>;

impl Controller {
    /// The device of which most is promised, among those that these processes use; none if it is no more than there is.
    pub(super) fn overpromised(&self, clients: &[ClientId]) -> Option<Overpromised> {
        let shares = self.shares();
        let uses = |device: u64| clients.iter().any(|&client| shares.contains_key(&(device, client)));
        most(sums(&shares).into_iter().filter(|&(device, _)| uses(device)))
    }

    /// The device of which most would be promised if another process with this share used it.
    pub(super) fn overpromised_with(&self, share: u8) -> Option<Overpromised> {
        most(sums(&self.shares()).into_iter().map(|(device, percent)| (device, percent + u32::from(share))))
    }

    /// What the log should say of a device on which something has changed: that more of it is promised than there is, if
    /// anybody heeds shares. So often it says so, and no more.
    pub(super) fn warn_of_promises(&mut self, device: u64, now_ns: u64) -> Option<String> {
        if self.scheduler.policy() != PolicyKind::Partition {
            return None;
        }
        self.promises_warned.retain(|_, at_ns| now_ns.saturating_sub(*at_ns) < QUIET_NS);
        let percent =
            sums(&self.shares()).get(&device).copied().filter(|percent| *percent > WHOLE_PERCENT)?;
        if self.promises_warned.contains_key(&device) {
            return None;
        }
        self.promises_warned.insert(device, now_ns);
        let device = device_name(device);
        Some(format!(
            "shares of {device} come to {percent} %, so all shrink in proportion while all have work"
        ))
    }

    /// The same of all devices.
    pub(super) fn warn_of_all_promises(&mut self, now_ns: u64) {
        let devices: Vec<_> = sums(&self.shares()).into_keys().collect();
        for device in devices {
            if let Some(warning) = self.warn_of_promises(device, now_ns) {
                tracing::warn!("{warning}");
            }
        }
    }

    /// The shares of processes that have any, by device. The largest of its queues is a process's, as the policy has it.
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

/// What is promised of each device.
fn sums(shares: &BTreeMap<(u64, ClientId), u8>) -> BTreeMap<u64, u32> {
    let mut sums = BTreeMap::new();
    for (&(device, _), &share) in shares {
        *sums.entry(device).or_default() += u32::from(share);
    }
    sums
}

/// The one of which most is promised, if it is more than there is.
fn most(sums: impl Iterator<Item = (u64, u32)>) -> Option<Overpromised> {
    let beyond = sums.filter(|&(_, percent)| percent > WHOLE_PERCENT);
    let (device, percent) = beyond.max_by_key(|&(_, percent)| percent)?;
    Some(Overpromised { device: device_name(device), percent })
}
