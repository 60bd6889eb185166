//! What processes are promised of a device together.

use std::collections::BTreeMap;

use super::{ClientId, Controller};
use crate::control::answer::Overpromised;
use crate::device_address::device_name;

/// All of a device.
const WHOLE_PERCENT: u32 = 100;

impl Controller {
    /// The device of which most is promised, among those that these processes use; none if it is no more than there is.
    pub(super) fn overpromised(&self, clients: &[ClientId]) -> Option<Overpromised> {
        // The largest share of its queues is a process's, as the policy has it.
        let mut shares: BTreeMap<(u64, ClientId), u8> = BTreeMap::new();
        for (&slot, queue) in &self.queues {
            let share = self.attributes(slot).and_then(|attributes| attributes.share).unwrap_or(0);
            let largest = shares.entry((queue.device_key, queue.client)).or_default();
            *largest = share.max(*largest);
        }
        let mut sums: BTreeMap<u64, u32> = BTreeMap::new();
        for (&(device, _), &share) in &shares {
            *sums.entry(device).or_default() += u32::from(share);
        }
        let uses = |device: u64| clients.iter().any(|&client| shares.contains_key(&(device, client)));
        let beyond = sums.iter().filter(|&(&device, &percent)| percent > WHOLE_PERCENT && uses(device));
        let (&device, &percent) = beyond.max_by_key(|&(_, &percent)| percent)?;
        Some(Overpromised { device: device_name(device), percent })
    }
}
