//! A claim's registration with the arbiter: its admission state, and what it reports.

use std::fmt::Debug;
use std::sync::Arc;

use xsched_sched::Nanos;

use crate::gate_page::GatePage;

/// Whether a claim may launch, among all claims on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionState {
    /// No other process uses the device, or no process is to be deferred.
    Alone,
    /// Others use it, and want to know when this claim has work. It is on the first level, where nothing is limited.
    Beside,
    /// Others use it that are more urgent, or may be so at any time.
    Below {
        /// One of them has work.
        preempted: bool,
    },
}

impl AdmissionState {
    /// Whether it must wait for more urgent work.
    #[inline]
    pub(crate) fn is_preempted(self) -> bool {
        self == Self::Below { preempted: true }
    }
}

/// A claim's registration with the arbiter.
///
/// Functions are called under the lock of the queues, by the watcher and by the application's threads. So they never wait, and
/// never call the queues.
pub(crate) trait Registration: Debug + Send + Sync {
    /// Its state now. Some loads.
    fn state(&self) -> AdmissionState;

    /// By which name launches can ask whether it is beside others, without the lock: see [`crate::XQueues::admit_at_once`]. None: they
    /// cannot.
    fn name(&self) -> Option<u64> {
        None
    }

    /// Reports that the claim has work, or has it still. A system call at most.
    fn report_ready(&self);

    /// Reports that it has none.
    fn report_idle(&self);

    /// Its level, and the ready mask of its device.
    fn levels(&self) -> (u8, u64);

    /// Whether the arbiter counts it as ready.
    fn is_ready(&self) -> bool;

    /// How long it counts as ready without a report.
    fn lease(&self) -> Nanos;

    /// How long after its last completion it stays ready.
    fn linger(&self) -> Nanos;

    /// The gate that the arbiter closes by itself, if there is one.
    fn gate_page(&self) -> Option<&Arc<GatePage>> {
        None
    }

    /// Whether that gate counts: there is a controller, and its heartbeat is fresh.
    fn is_in_force(&self) -> bool {
        true
    }

    /// Asks the arbiter to look at that gate again.
    fn request_gate_check(&self) {}

    /// How long ago something happened, at this time of the gate page's clock.
    fn age_of(&self, page_ns: u64) -> Nanos {
        let _ = page_ns;
        Nanos::ZERO
    }
}
