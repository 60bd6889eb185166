//! Whether other streams of the same process are more urgent than a call's.

use xsched_sched::Nanos;

use crate::device::Device;
use crate::ids::QueueId;
use crate::state::State;

impl<D: Device> State<D> {
    /// Whether the process has a claim on the queue's device that is more urgent than the queue's and had work at or after
    /// `since`.
    pub(crate) fn is_behind_own(&self, queue: QueueId, since: Nanos) -> bool {
        let Some(own) = self.claim_of(queue) else { return false };
        let claim = self.claims.get(own);
        let Some(level) = claim.level() else { return false };
        let is_ahead = |other: Option<u8>| other.is_some_and(|other| other < level);
        self.claims.iter().any(|(id, other)| {
            id != own
                && other.key.device == claim.key.device
                && other.has_had_work_since(since)
                && is_ahead(other.level())
        })
    }
}
