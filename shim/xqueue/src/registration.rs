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
    /// Other processes use the device and must know when this claim has work. It is on the first level, where nothing is limited.
    Beside,
    /// More urgent processes use the device, or may do so at any time.
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

    /// The name by which launches can ask, without the lock, whether the claim is beside others: see
    /// [`crate::XQueues::admit_at_once`]. None: they cannot ask.
    fn name(&self) -> Option<u64> {
        None
    }

    /// Reports that the claim has work or still has it. At most a system call.
    fn report_ready(&self);

    /// Reports that the claim has no work.
    fn report_idle(&self);

    /// Its level, and the ready mask of its device.
    fn levels(&self) -> (u8, u64);

    /// Whether the arbiter counts it as ready.
    fn is_ready(&self) -> bool;

    /// How long it counts as ready without a report.
    fn lease(&self) -> Nanos;

    /// How long the claim stays ready after its last completion.
    fn linger(&self) -> Nanos;

    /// The gate page, in which the arbiter closes the gate, if there is one.
    fn gate_page(&self) -> Option<&Arc<GatePage>> {
        None
    }

    /// Whether the arbiter's writes in the gate page count: there is a controller, and its heartbeat is fresh.
    fn is_in_force(&self) -> bool {
        true
    }

    /// Asks the arbiter to look at the gate again.
    fn request_gate_check(&self) {}

    /// How long ago this time of the gate page's clock is.
    fn age_of(&self, page_ns: u64) -> Nanos {
        let _ = page_ns;
        Nanos::ZERO
    }
}
