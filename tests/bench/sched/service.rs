//! A client's requests as the device served them.

use xsched_tests::execution_log::{Execution, SpanNs, Timeline};

use crate::client::{Outcome, Plan};

/// How long a process counts as ready after its last command, by default.
const LINGER_NS: u64 = 100_000;

/// One request on the device, in microseconds.
pub(crate) struct Service {
    /// From the client's first launch to the runtime's receipt of it.
    pub(crate) launch_us: f64,
    /// From then to the start of its first kernel.
    pub(crate) first_wait_us: f64,
    /// From its first launch to its last kernel's end.
    pub(crate) on_device_us: f64,
    /// Kernels of others that started after the client made its first launch and before its last kernel.
    pub(crate) overtaken_by: usize,
    /// The same after the runtime had received the launch, when all processes had been notified of it.
    pub(crate) overtaken_once_submitted: usize,
    /// Those of them that started while the request's process had work, or had had some within the linger. If
    /// the machine keeps a client from launching for longer, it has no work in the arbiter's view, and others
    /// continue.
    pub(crate) overtaken_while_ready: usize,
}

impl Service {
    /// All requests, if each has as many kernels as the plan says.
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
                    overtaken_once_submitted: others.starts_in((first.submitted_ns, last.start_ns)),
                    overtaken_while_ready: ready(kernels).map(|span| others.starts_in(span)).sum(),
                }
            })
            .collect()
    }
}

/// The times when a request counts as ready, from its first kernel's submission to the last one's start.
fn ready(kernels: &[Execution]) -> impl Iterator<Item = SpanNs> {
    let last_ns = kernels.last().map_or(0, |last| last.start_ns);
    let pauses = |one: &Execution, next: &Execution| next.submitted_ns > one.end_ns + LINGER_NS;
    let busy = kernels.chunk_by(move |one, next| !pauses(one, next));
    busy.map(move |busy| {
        let until_ns = busy[busy.len() - 1].end_ns + LINGER_NS;
        (busy[0].submitted_ns, until_ns.min(last_ns))
    })
}
