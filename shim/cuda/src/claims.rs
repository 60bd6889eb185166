//! Which claim a stream's work belongs to: its device, by an address that all processes agree on, and what the program asks for the
//! stream.
//!
//! The priority with which a stream was created is the device's business: it runs streams of one context side by side, those of higher
//! priority first. It counts only where the process schedules its streams itself.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use xsched_preload::hints;
use xsched_protocol::arbiter_page::{PARTITION_MAX, device_key};
use xsched_xqueue::{ClaimId, ClaimKey, QueueHints, SchedulerChoice, XQueues};

use crate::device::Cuda;
use crate::driver;
use crate::status::xsched_cuda_status;

/// Keys of the devices that this process uses.
#[derive(Debug)]
pub(crate) struct Devices {
    /// Whether streams of different priority have claims of their own.
    are_priorities_claims: bool,
    /// Keys by the devices' ordinals. None: the driver does not know the device's address.
    keys: Mutex<HashMap<i32, Option<u64>>>,
    /// Claims of streams that have hints of their own.
    asked: Mutex<HashSet<ClaimKey>>,
}

/// The program gives its streams more combinations of hints than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyHints;

/// The largest number of such claims, as with HIP. The controller allows 64 claims for a process, and a claim is kept as long as
/// the process lives.
const ASKED_MAX: usize = 32;

impl Default for Devices {
    fn default() -> Self {
        Self {
            are_priorities_claims: matches!(hints::settings().scheduler, SchedulerChoice::Itself(_)),
            keys: Mutex::default(),
            asked: Mutex::default(),
        }
    }
}

impl Devices {
    /// The claim on a device for streams of this priority, as CUDA counts it: smaller is more urgent.
    pub(crate) fn claim(&self, queues: &XQueues<Cuda>, device: i32, priority: i32) -> Option<ClaimId> {
        let device = self.key(device)?;
        Some(queues.claim(self.of_priority(device, priority)))
    }

    fn of_priority(&self, device: u64, priority: i32) -> ClaimKey {
        ClaimKey::new(device, if self.are_priorities_claims { priority.saturating_neg() } else { 0 })
    }

    /// The same for streams with these hints.
    pub(crate) fn claim_asked(
        &self,
        queues: &XQueues<Cuda>,
        device: i32,
        priority: i32,
        hints: QueueHints,
    ) -> Result<Option<ClaimId>, TooManyHints> {
        if hints == QueueHints::NONE {
            return Ok(self.claim(queues, device, priority));
        }
        let Some(device) = self.key(device) else { return Ok(None) };
        let key = ClaimKey { hints, ..self.of_priority(device, priority) };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if !asked.contains(&key) && asked.len() >= ASKED_MAX {
            return Err(TooManyHints);
        }
        asked.insert(key);
        Ok(Some(queues.claim(key)))
    }

    fn key(&self, device: i32) -> Option<u64> {
        let known = self.keys.lock().unwrap_or_else(PoisonError::into_inner).get(&device).copied();
        known.unwrap_or_else(|| {
            let part = part(device);
            if part != 0 {
                xsched_cuda_status.instances.fetch_add(1, Ordering::Relaxed);
            }
            let key = driver::pci_address(device).and_then(|address| parse(&address, part));
            self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(device, key);
            key
        })
    }
}

/// A number for the part of the device that the process has: 0 for the whole device, and another for each MIG instance. It is
/// made of the instance's identity, since the driver prints the same address for all instances. With seven instances, two of
/// them get the same number on one machine of a hundred, and are scheduled as one device there.
fn part(device: i32) -> u32 {
    match driver::identities(device) {
        Some([whole, part]) if whole != part => part_number(&part),
        _ => 0,
    }
}

fn part_number(identity: &[u8; 16]) -> u32 {
    // FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/
    let hash = identity
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    1 + hash % PARTITION_MAX
}

/// The key of a PCI address such as `0000:c1:00.0`.
fn parse(address: &str, part: u32) -> Option<u64> {
    let (rest, _) = address.split_once('.').unwrap_or((address, "0"));
    let mut fields = rest.rsplit(':').map(|field| u32::from_str_radix(field, 16).ok());
    let (device, bus) = (fields.next()??, fields.next()??);
    let domain = fields.next().unwrap_or(Some(0))?;
    fields.next().is_none().then(|| device_key(domain, bus, device, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_a_device_have_different_keys() {
        // Identities of random bytes, as the driver makes them.
        let mut random = fastrand::Rng::with_seed(1);
        let mut same = 0;
        for _ in 0..1000 {
            let mut numbers: Vec<_> = (0..7).map(|_| part_number(&random.u128(..).to_le_bytes())).collect();
            assert!(numbers.iter().all(|number| (1..=PARTITION_MAX).contains(number)));
            numbers.sort_unstable();
            numbers.dedup();
            same += usize::from(numbers.len() < 7);
        }
        assert!(same < 25, "{same} of 1000 machines");
    }

    #[test]
    fn addresses_are_read_as_the_driver_writes_them() {
        assert_eq!(parse("0000:c1:00.0", 0), Some(device_key(0, 0xc1, 0, 0)));
        assert_eq!(parse("00010000:0A:1f.0", 3), Some(device_key(0x1_0000, 0x0a, 0x1f, 3)));
        for wrong in ["", "c1", "0000:c1:zz.0", "0:0:0:0.0"] {
            assert_eq!(parse(wrong, 0), None, "{wrong}");
        }
    }
}
