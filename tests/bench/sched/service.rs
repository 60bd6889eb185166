//! What a client's requests met with on the device.

use xsched_tests::execution_log::Timeline;

use crate::client::{Outcome, Plan};

/// One request on the device, in microseconds.
pub(crate) struct Service {
    /// From its first launch by the client to the runtime's getting it.
    pub(crate) launch_us: f64,
    /// From then to its first kernel's start.
    pub(crate) first_wait_us: f64,
    /// From its first launch to its last kernel's end.
    pub(crate) on_device_us: f64,
    /// Kernels of others that started before its last kernel, and after its first launch was made by the client.
    pub(crate) overtaken_by: usize,
    /// The same after the runtime had got it, when everybody had been told of it.
    pub(crate) overtaken_once_told: usize,
}

impl Service {
    /// Of each request, given that each has as many kernels as the plan says.
    pub(crate) fn of(client: &Outcome, plan: &Plan, timeline: &Timeline, others: &[u32]) -> Vec<Self> {
        let (own, others) = (timeline.of(&[client.pid]), timeline.of(others));
        let requests = client.requests.iter().zip(own.kernels().chunks_exact(plan.kernels()));
        let us = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 / 1e3;
        requests
            .map(|(request, kernels)| {
                let (first, last) = (&kernels[0], &kernels[kernels.len() - 1]);
                Self {
                    launch_us: us(request.launched_ns, first.submitted_ns),
                    first_wait_us: us(first.submitted_ns, first.start_ns),
                    on_device_us: us(request.launched_ns, last.end_ns),
                    overtaken_by: others.starts_in((request.launched_ns, last.start_ns)),
                    overtaken_once_told: others.starts_in((first.submitted_ns, last.start_ns)),
                }
            })
            .collect()
    }
}
