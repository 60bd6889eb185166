//! Preemption latency: a request of short kernels against one process that fills the device with kernels of a time T.
//!
//! What counts is when the first of the request's kernels starts, on the device's own timeline, and how many of the other's
//! kernels start after the request was there and before its last. A native device takes turns, so each of the request's
//! kernels waits for one of the other's.

use crate::{
    Result,
    client::{Plan, Until},
    node::{Node, Regime, Urgency},
    scenario::{Figures, Run, Table, no_goal, quantile},
};

/// Kernel times of whoever is to be preempted, in microseconds.
const KERNELS_US: [u32; 6] = [10, 30, 100, 300, 1000, 2000];
const REQUESTS: u32 = 200;
const RATE: f64 = 100.0;
/// Of a request's kernels.
const SHORT_US: u32 = 20;
const SHORT_COUNT: usize = 8;
/// Longer than the requests take.
const SECONDS: f64 = REQUESTS as f64 / RATE + 0.2;

pub(crate) fn run() -> Result<()> {
    for kernel_us in KERNELS_US {
        let regimes = Regime::for_kernels_of(kernel_us);
        let table = Table::measure(format!("preemption, T = {kernel_us} us"), &regimes, |regime| {
            measure(regime, kernel_us)
        })?;
        table.print("first kernel waits, p50", "us", no_goal)?;
        table.print("first kernel waits, p99", "us", no_goal)?;
        table.print("first kernel waits beyond alone, p99", "us", |regime| regime.latency_goal(kernel_us))?;
        table.print("kernels of the other that start meanwhile, mean", "", no_goal)?;
        table.print("kernels of the other that start meanwhile, most", "", Regime::count_goal)?;
        table.print("request on the device, p99", "us", no_goal)?;
        table.print("request beyond alone as its client sees it, p50", "us", no_goal)?;
        table.print("request beyond alone as its client sees it, p99", "us", no_goal)?;
        table.print("device time of the other while it runs", "%", no_goal)?;
        table.print_noise()?;
    }
    Ok(())
}

fn measure(regime: Regime, kernel_us: u32) -> Result<Figures> {
    let urgent = Plan::requests(vec![SHORT_US; SHORT_COUNT], RATE, Until::Requests(REQUESTS));
    let other = Plan::saturating(vec![kernel_us; SHORT_COUNT], SECONDS);

    let alone = Run::of(&Node::new(regime, 1)?, &[(urgent.clone(), Urgency::High)])?;
    let alone_service = alone.truth.service(&alone.outcomes[0], &urgent, &[]);
    let alone_wait_us = quantile(alone_service.iter().map(|one| one.first_start_us), 0.99)?;

    let both = Run::of(&Node::new(regime, 1)?, &[(urgent.clone(), Urgency::High), (other, Urgency::Low)])?;
    let service = both.truth.service(&both.outcomes[0], &urgent, &both.others(0));
    let waits = || service.iter().map(|one| one.first_start_us);
    let overtaken = || service.iter().map(|one| one.overtaken_by as f64);
    let beyond = |fraction| -> Result<f64> {
        let alone_us = quantile(alone.outcomes[0].latencies_us(), fraction)?;
        Ok(quantile(both.outcomes[0].latencies_us(), fraction)? - alone_us)
    };
    Ok(Figures::from([
        ("first kernel waits, p50", quantile(waits(), 0.5)?),
        ("first kernel waits, p99", quantile(waits(), 0.99)?),
        ("first kernel waits beyond alone, p99", quantile(waits(), 0.99)? - alone_wait_us),
        ("kernels of the other that start meanwhile, mean", overtaken().sum::<f64>() / service.len() as f64),
        ("kernels of the other that start meanwhile, most", quantile(overtaken(), 1.0)?),
        ("request on the device, p99", quantile(service.iter().map(|one| one.on_device_us), 0.99)?),
        ("request beyond alone as its client sees it, p50", beyond(0.5)?),
        ("request beyond alone as its client sees it, p99", beyond(0.99)?),
        (
            "device time of the other while it runs",
            100.0 * both.truth.share(both.outcomes[1].pid, both.outcomes[1].span_ns()),
        ),
    ]))
}
