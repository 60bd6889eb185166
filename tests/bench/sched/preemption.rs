//! Preemption latency: a request of short kernels against one process that fills the device with kernels of a time T.
//!
//! Preemption latency has two parts. The first is the time from the runtime's receipt of the request's first
//! kernel to its start, on the device's own timeline. The second is how much longer the launch takes to reach
//! the runtime than with nothing to preempt. Two counts are independent of noise: the other's kernels that
//! start between the request's arrival and its last kernel, and those of them that start while the urgent
//! process was ready. (If the machine keeps it from launching for longer than the linger, it is not ready.) A
//! native device serves its queues round-robin, so each of the request's kernels waits for one of the
//! other's.

use std::error::Error;

use xsched_tests::bench::Goal;

use crate::{
    client::{Parameters, Plan, Until},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, Table, largest, mean, no_goal, quantile},
    service::Service,
};

/// Durations of the preempted kernels, in microseconds.
const KERNELS_US: [u32; 6] = [10, 30, 100, 300, 1000, 2000];
const REQUESTS: u32 = 120;
/// A rate with which a native device keeps up at kernels of 2 ms.
const RATE: f64 = 50.0;
/// Duration of a request's kernels.
const SHORT_US: u32 = 20;
const SHORT_COUNT: usize = 8;
/// Longer than the requests take.
const SECONDS: f64 = REQUESTS as f64 / RATE + 0.2;

/// Of FSDP's streams: computation at the usual priority, communication at a higher one.
const PRIORITIES: [i32; 2] = [0, -1];
/// Duration of its kernels.
const OF_PRIORITIES_US: u32 = 300;

/// Number of the other's kernels that start during a request: mean, 99th percentile and maximum over all
/// requests.
const MEANWHILE: [&str; 3] = [
    "kernels of the other that start meanwhile, mean",
    "kernels of the other that start meanwhile, p99",
    "kernels of the other that start meanwhile, most",
];
const ONCE_SUBMITTED: [&str; 3] = [
    "the same once the request has reached the runtime, mean",
    "the same once the request has reached the runtime, p99",
    "the same once the request has reached the runtime, most",
];
const WHILE_READY: [&str; 3] = [
    "of these, while it was ready, mean",
    "of these, while it was ready, p99",
    "of these, while it was ready, most",
];

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    for kernel_us in KERNELS_US {
        let other = saturating(kernel_us);
        print(rounds, format!("preemption, T = {kernel_us} us"), kernel_us, &other)?;
    }
    Ok(())
}

/// The same beside a process that has streams of several priorities.
pub(crate) fn run_priorities(rounds: Rounds) -> Result<()> {
    let other = Plan { stream_priorities: PRIORITIES.to_vec(), ..saturating(OF_PRIORITIES_US) };
    let name = format!("preemption of two stream priorities, T = {OF_PRIORITIES_US} us");
    print(rounds, name, OF_PRIORITIES_US, &other)
}

fn saturating(kernel_us: u32) -> Plan {
    Plan::saturating(vec![kernel_us; SHORT_COUNT], SECONDS)
}

fn print(rounds: Rounds, name: String, kernel_us: u32, other: &Plan) -> Result<()> {
    let regimes = Regime::for_kernels_of(kernel_us);
    let table = rounds.measure(name, &regimes, |regime| measure(regime, other))?;
    table.print("preemption latency, p50", "us", no_goal)?;
    table.print("preemption latency, p99", "us", |regime| regime.latency_goal(kernel_us))?;
    table.print("launch reaches the runtime, p50", "us", no_goal)?;
    table.print("launch reaches the runtime, p99", "us", no_goal)?;
    table.print("launch reaches the runtime, nothing to preempt, p50", "us", no_goal)?;
    table.print("launch reaches the runtime, nothing to preempt, p99", "us", no_goal)?;
    print_count(&table, MEANWHILE, no_goal)?;
    print_count(&table, ONCE_SUBMITTED, no_goal)?;
    print_count(&table, WHILE_READY, Regime::count_goal)?;
    table.print("request on the device, p99", "us", no_goal)?;
    table.print("request beyond alone as its client sees it, p50", "us", no_goal)?;
    table.print("request beyond alone as its client sees it, p99", "us", no_goal)?;
    table.print("device time of the other while it runs", "%", no_goal)?;
    table.print("processor time of the shim's threads in the other", "%", no_goal)?;
    table.print_noise()
}

/// A median would hide a single round in which another kernel started.
fn print_count(table: &Table, names: [&str; 3], goal: fn(Regime) -> Option<Goal>) -> Result<()> {
    let [average, p99, most] = names;
    table.print_as(mean, average, "", no_goal)?;
    table.print(p99, "", goal)?;
    table.print_as(largest, most, "", goal)
}

fn measure(regime: Regime, other: &Plan) -> Result<Figures> {
    let urgent = Plan::requests(vec![SHORT_US; SHORT_COUNT], RATE, Until::Requests(REQUESTS));
    let alone = Run::of(&Node::new(regime)?, &[(urgent.clone(), Parameters::High)])?;
    let alone_service = Service::of(&alone.outcomes[0], &urgent, &alone.timeline, &[]);
    let plans = [(urgent.clone(), Parameters::High), (other.clone(), Parameters::Low)];
    let (both, following) = Run::following(&Node::new(regime)?, &plans, SECONDS)?;
    let service = Service::of(&both.outcomes[0], &urgent, &both.timeline, &both.others(0));
    let launch_us =
        |service: &[Service], fraction| quantile(service.iter().map(|one| one.launch_us), fraction);
    // Most of the time until a launch reaches the runtime depends on when this machine runs the client. But
    // what the other's presence adds to the median is not noise.
    let longer_launch_us = (launch_us(&service, 0.5)? - launch_us(&alone_service, 0.5)?).max(0.0);
    let latency_us = |fraction| {
        Ok::<_, Box<dyn Error>>(
            quantile(service.iter().map(|one| one.first_wait_us), fraction)? + longer_launch_us,
        )
    };
    let beyond = |fraction| -> Result<f64> {
        let alone_us = quantile(alone.outcomes[0].latencies_us(), fraction)?;
        Ok(quantile(both.outcomes[0].latencies_us(), fraction)? - alone_us)
    };
    let mut figures = Figures::from([
        ("preemption latency, p50", latency_us(0.5)?),
        ("preemption latency, p99", latency_us(0.99)?),
        ("launch reaches the runtime, p50", launch_us(&service, 0.5)?),
        ("launch reaches the runtime, p99", launch_us(&service, 0.99)?),
        ("launch reaches the runtime, nothing to preempt, p50", launch_us(&alone_service, 0.5)?),
        ("launch reaches the runtime, nothing to preempt, p99", launch_us(&alone_service, 0.99)?),
        ("request on the device, p99", quantile(service.iter().map(|one| one.on_device_us), 0.99)?),
        ("request beyond alone as its client sees it, p50", beyond(0.5)?),
        ("request beyond alone as its client sees it, p99", beyond(0.99)?),
        ("processor time of the shim's threads in the other", following),
        (
            "device time of the other while it runs",
            100.0 * both.timeline.of(&[both.outcomes[1].pid]).share(both.outcomes[1].span_ns()),
        ),
    ]);
    let mut count = |[average, p99, most]: [&'static str; 3], of: fn(&Service) -> usize| -> Result<()> {
        let counts: Vec<_> = service.iter().map(|one| of(one) as f64).collect();
        figures.insert(average, counts.iter().sum::<f64>() / counts.len() as f64);
        figures.insert(p99, quantile(counts.iter().copied(), 0.99)?);
        figures.insert(most, quantile(counts, 1.0)?);
        Ok(())
    };
    count(MEANWHILE, |one| one.overtaken_by)?;
    count(ONCE_SUBMITTED, |one| one.overtaken_once_submitted)?;
    count(WHILE_READY, |one| one.overtaken_while_ready)?;
    Ok(figures)
}
