//! Which claim a stream's work belongs to: its device, by an address that all processes agree on, and its priority.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use xsched_protocol::arbiter_page::device_key;
use xsched_xqueue::{ClaimId, ClaimKey, QueueHints, XQueues};

use crate::hip::device::Hip;
use crate::hip::{partition, real};
use crate::runtime::copies::RuntimeCopy;

/// Keys of the devices that this process uses, by copy and ordinal. None: the runtime does not know the address.
#[derive(Debug, Default)]
pub(super) struct Devices {
    keys: Mutex<HashMap<(usize, i32), Option<u64>>>,
    /// Claims of streams that have hints of their own.
    asked: Mutex<HashSet<ClaimKey>>,
}

/// The program gives its streams more combinations of hints than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyHints;

/// The largest number of such claims. The controller allows 64 claims for a process, and a claim is kept as long as the process
/// lives.
const ASKED_MAX: usize = 32;

impl Devices {
    /// The claim on a device for streams of this priority, as HIP counts it: smaller is more urgent.
    ///
    /// Asks the runtime at a device's first claim.
    pub(super) fn claim(
        &self,
        queues: &XQueues<Hip>,
        copy: &RuntimeCopy,
        device: i32,
        priority: i32,
    ) -> Option<ClaimId> {
        let device = self.key(copy, device)?;
        Some(queues.claim(ClaimKey::new(device, priority.saturating_neg())))
    }

    /// The same for streams with these hints.
    pub(super) fn claim_asked(
        &self,
        queues: &XQueues<Hip>,
        (copy, device, priority): (&RuntimeCopy, i32, i32),
        hints: QueueHints,
    ) -> Result<Option<ClaimId>, TooManyHints> {
        if hints == QueueHints::NONE {
            return Ok(self.claim(queues, copy, device, priority));
        }
        let Some(device) = self.key(copy, device) else { return Ok(None) };
        let key = ClaimKey { hints, ..ClaimKey::new(device, priority.saturating_neg()) };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !asked.contains(&key);
        if is_new && asked.len() >= ASKED_MAX {
            return Err(TooManyHints);
        }
        asked.insert(key);
        Ok(Some(queues.claim(key)))
    }

    fn key(&self, copy: &RuntimeCopy, device: i32) -> Option<u64> {
        let ordinal = (copy.index(), device);
        let known = self.keys.lock().unwrap_or_else(PoisonError::into_inner).get(&ordinal).copied();
        known.unwrap_or_else(|| {
            let printed = real::pci_address(copy, device).and_then(|address| parse(&address));
            let key = printed.map(|printed| partition::key_of(copy, device, printed));
            self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(ordinal, key);
            key
        })
    }
}

/// The key of a PCI address such as `0000:c1:00.0`. The partitions of one accelerator are its functions, where the runtime prints
/// them (`hip/partition.rs`).
fn parse(address: &str) -> Option<u64> {
    let (rest, function) = address.split_once('.').unwrap_or((address, "0"));
    let mut parts = rest.rsplit(':').map(|part| u32::from_str_radix(part, 16).ok());
    let (device, bus) = (parts.next()??, parts.next()??);
    let domain = parts.next().unwrap_or(Some(0))?;
    let function = u32::from_str_radix(function, 16).ok()?;
    parts.next().is_none().then(|| device_key(domain, bus, device, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_runtimes_write_them() {
        assert_eq!(parse("0000:c1:00.0"), Some(device_key(0, 0xc1, 0, 0)));
        assert_eq!(parse("0001:0A:1f.3"), Some(device_key(1, 0x0a, 0x1f, 3)));
        assert_eq!(parse("c1:00.0"), Some(device_key(0, 0xc1, 0, 0)));
        assert_eq!(parse("10000:c1:00.0"), Some(device_key(0x1_0000, 0xc1, 0, 0)));
        assert_ne!(parse("10000:c1:00.0"), parse("0000:c1:00.0"), "one is behind Intel's VMD");
        for wrong in ["", "c1", "0000:c1:zz.0", "0:0:0:0.0"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
