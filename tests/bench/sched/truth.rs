//! Questions to the device's own log.

use std::path::Path;

use xsched_tests::execution_log::{self, Execution};

use crate::{
    Result,
    client::{Outcome, Plan},
};

/// All that ran on a node.
pub(crate) struct Truth(Vec<Execution>);

impl Truth {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Ok(Self(execution_log::read(path)?))
    }

    fn of(&self, pid: u32) -> impl Iterator<Item = &Execution> {
        self.0.iter().filter(move |execution| execution.pid == pid)
    }

    /// The part of a span in which a process had kernels on the device; they never overlap with each other.
    pub(crate) fn share(&self, pid: u32, (from_ns, to_ns): (u64, u64)) -> f64 {
        let inside = |execution: &Execution| {
            execution.end_ns.min(to_ns).saturating_sub(execution.start_ns.max(from_ns))
        };
        self.of(pid).map(inside).sum::<u64>() as f64 / to_ns.saturating_sub(from_ns).max(1) as f64
    }

    /// What a client's requests met with on the device, given that each has as many kernels as its plan says.
    pub(crate) fn service(&self, client: &Outcome, plan: &Plan, others: &[u32]) -> Vec<Service> {
        let own: Vec<_> = self.of(client.pid).collect();
        let requests = client.requests.iter().zip(own.chunks_exact(plan.kernels()));
        let of_others: Vec<_> = self.0.iter().filter(|execution| others.contains(&execution.pid)).collect();
        requests
            .map(|(request, kernels)| {
                let (first, last) = (kernels[0], kernels[kernels.len() - 1]);
                let starts_in = |from_ns: u64, to_ns: u64| {
                    let before = |time_ns: u64| of_others.partition_point(|other| other.start_ns < time_ns);
                    before(to_ns).saturating_sub(before(from_ns))
                };
                Service {
                    launch_us: first.submitted_ns.saturating_sub(request.launched_ns) as f64 / 1e3,
                    first_wait_us: first.start_ns.saturating_sub(first.submitted_ns) as f64 / 1e3,
                    overtaken_by: starts_in(request.launched_ns, last.start_ns),
                    on_device_us: (last.end_ns.saturating_sub(request.launched_ns)) as f64 / 1e3,
                }
            })
            .collect()
    }

    /// The longest time in a span for which a process had nothing on the device.
    pub(crate) fn longest_gap_us(&self, pid: u32, (from_ns, to_ns): (u64, u64)) -> f64 {
        let inside =
            self.of(pid).filter(|execution| execution.end_ns > from_ns && execution.start_ns < to_ns);
        let mut free_ns = from_ns;
        let mut longest_ns = 0;
        for execution in inside {
            longest_ns = longest_ns.max(execution.start_ns.saturating_sub(free_ns));
            free_ns = free_ns.max(execution.end_ns);
        }
        longest_ns.max(to_ns.saturating_sub(free_ns)) as f64 / 1e3
    }
}

/// One request on the device.
pub(crate) struct Service {
    /// From its first launch by the client to the runtime's getting it.
    pub(crate) launch_us: f64,
    /// From then to its first kernel's start.
    pub(crate) first_wait_us: f64,
    /// Kernels of others that started after its first launch and before its last kernel.
    pub(crate) overtaken_by: usize,
    /// From its first launch to its last kernel's end.
    pub(crate) on_device_us: f64,
}
