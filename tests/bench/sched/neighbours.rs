//! An urgent process beside five that fill the device with kernels of at most a tenth of its request's
//! length.

use xsched_tests::bench::Goal;

use crate::{
    client::{Parameters, Plan, Until},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, Table, no_goal, quantile},
    service::Service,
};

/// A request of 4 ms.
const REQUEST_US: [u32; 20] = [200; 20];
const RATE: f64 = 50.0;
const REQUESTS: u32 = 150;
const NEIGHBOURS: usize = 5;
/// Five processes of equal priority each have one or two kernels on the device. All of these together must
/// last at most a tenth of a request. Under `fair` only one of the five has kernels there, since they
/// alternate in time slices.
const NEIGHBOUR_US: u32 = 100;
const POLICIES: [&str; 2] = ["priority", "fair"];
const SECONDS: f64 = REQUESTS as f64 / RATE;

/// Allowed slowdown of the urgent process, and the share of the rest that its neighbours must have.
const SLOWDOWN_MAX: f64 = 1.05;
const LEFT_MIN_PERCENT: f64 = 90.0;

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    for policy in POLICIES {
        let name = format!("urgent beside five, {policy}");
        print(&rounds.measure(name, Regime::all(), |regime| measure(regime, policy))?)?;
    }
    Ok(())
}

fn print(table: &Table) -> Result<()> {
    table.print("alone, p99", "ms", no_goal)?;
    table.print("p50", "ms", no_goal)?;
    table.print("p99", "ms", no_goal)?;
    let slowdown = "p99 over alone";
    table.print(slowdown, "", |regime| regime.scheduled(Goal::ValueAtMost(SLOWDOWN_MAX)))?;
    let on_device = "p99 over alone, on the device";
    table.print(on_device, "", |regime| regime.scheduled(Goal::ValueAtMost(SLOWDOWN_MAX)))?;
    let left = "what the five have of what is left";
    table.print(left, "%", |regime| regime.scheduled(Goal::ValueAtLeast(LEFT_MIN_PERCENT)))?;
    table.print("kernels of the five that start during a request, mean", "", no_goal)?;
    table.print_noise()
}

fn measure(regime: Regime, policy: &'static str) -> Result<Figures> {
    let urgent = Plan::requests(REQUEST_US.to_vec(), RATE, Until::Requests(REQUESTS));
    let alone = Run::of(&Node::new(regime)?, &[(urgent.clone(), Parameters::High)])?;
    let alone_us = quantile(alone.outcomes[0].latencies_us(), 0.99)?;
    let alone_service = Service::of(&alone.outcomes[0], &urgent, &alone.timeline, &[]);
    let on_device_us = |service: &[Service]| quantile(service.iter().map(|one| one.on_device_us), 0.99);

    let neighbour = Plan::saturating(vec![NEIGHBOUR_US; 8], SECONDS + 0.2);
    let mut plans = vec![(urgent.clone(), Parameters::High)];
    plans.extend((0..NEIGHBOURS).map(|_| (neighbour.clone(), Parameters::Low)));
    let run = Run::of(&Node::with(regime, policy, 1)?, &plans)?;
    let own = &run.outcomes[0];
    let latencies_us = own.latencies_us();
    let service = Service::of(own, &urgent, &run.timeline, &run.others(0));
    let span_ns = own.span_ns();
    let left = 1.0 - run.timeline.of(&[own.pid]).share(span_ns);
    let theirs: f64 = run.others(0).into_iter().map(|pid| run.timeline.of(&[pid]).share(span_ns)).sum();
    let p99_us = quantile(latencies_us.clone(), 0.99)?;
    Ok(Figures::from([
        ("alone, p99", alone_us / 1e3),
        ("p50", quantile(latencies_us, 0.5)? / 1e3),
        ("p99", p99_us / 1e3),
        ("p99 over alone", p99_us / alone_us),
        ("p99 over alone, on the device", on_device_us(&service)? / on_device_us(&alone_service)?),
        ("what the five have of what is left", 100.0 * theirs / left),
        (
            "kernels of the five that start during a request, mean",
            service.iter().map(|one| one.overtaken_by as f64).sum::<f64>() / service.len() as f64,
        ),
    ]))
}
