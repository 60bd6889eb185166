//! A case from practice: an online service at 20 requests a second beside a batch job whose kernels of 1 to 3
//! ms each fill the device. A native device does not keep up with the service, whose latencies then grow for
//! the whole run.

use xsched_tests::bench::Goal;

use crate::{
    client::{Parameters, Plan, Until},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, no_goal, quantile},
};

const RATE: f64 = 20.0;
const REQUESTS: u32 = 100;
const REQUEST_KERNELS: usize = 60;
const BATCH_KERNELS: usize = 32;
/// Percentage of its device time alone, less the service's use, that the batch job should keep.
const BATCH_KEEPS_PERCENT: f64 = 85.0;

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    let batch_us = times(BATCH_KERNELS, 1000, 3000);
    let longest_us = f64::from(batch_us.iter().copied().max().unwrap_or_default());
    let table = rounds.measure("field case", Regime::all(), |regime| measure(regime, &batch_us))?;
    table.print("service alone, p99", "ms", no_goal)?;
    for figure in ["service, mean", "service, p50"] {
        table.print(figure, "ms", no_goal)?;
    }
    table.print("service, p99", "ms", |regime| {
        let kernels = regime.kernels_ahead()?;
        let alone_ms = table.median(regime, "service alone, p99")?;
        Some(Goal::ValueAtMost(alone_ms + (kernels * longest_us + 10.0) / 1e3))
    })?;
    table.print("service, requests a second", "1/s", no_goal)?;
    let keeps = "what the batch job has of what is left";
    table.print(keeps, "%", |regime| regime.scheduled(Goal::ValueAtLeast(BATCH_KEEPS_PERCENT)))?;
    table.print_noise()
}

fn measure(regime: Regime, batch_us: &[u32]) -> Result<Figures> {
    let service = Plan::requests(times(REQUEST_KERNELS, 5, 200), RATE, Until::Requests(REQUESTS));
    let alone = Run::of(&Node::new(regime)?, &[(service.clone(), Parameters::High)])?;

    let batch = Plan::saturating(batch_us.to_vec(), f64::from(REQUESTS) / RATE + 0.2);
    let run = Run::of(&Node::new(regime)?, &[(service, Parameters::High), (batch, Parameters::Low)])?;
    let (own, span_ns) = (&run.outcomes[0], run.outcomes[0].span_ns());
    let latencies_us = own.latencies_us();
    let left = 1.0 - run.timeline.of(&[own.pid]).share(span_ns);
    let seconds = (span_ns.1 - span_ns.0) as f64 / 1e9;
    Ok(Figures::from([
        ("service alone, p99", quantile(alone.outcomes[0].latencies_us(), 0.99)? / 1e3),
        ("service, mean", latencies_us.iter().sum::<f64>() / latencies_us.len() as f64 / 1e3),
        ("service, p50", quantile(latencies_us.clone(), 0.5)? / 1e3),
        ("service, p99", quantile(latencies_us, 0.99)? / 1e3),
        ("service, requests a second", own.requests.len() as f64 / seconds),
        (
            "what the batch job has of what is left",
            100.0 * run.timeline.of(&[run.outcomes[1].pid]).share(span_ns) / left,
        ),
    ]))
}

/// Kernel durations between two bounds, identical in every run.
fn times(count: usize, least_us: u32, most_us: u32) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(0x5eed);
    (0..count).map(|_| random.u32(least_us..=most_us)).collect()
}
