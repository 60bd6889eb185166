//! Six services like BERT, in three groups of two with different urgency.

use crate::{
    client::{Outcome, Parameters, Plan, Until},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, Table, no_goal, quantile},
    service::Service,
};
use xsched_tests::bench::Goal;

/// A request of 6.4 ms.
const REQUEST_US: [u32; 64] = [100; 64];
/// Rate of each service: together they need a little less than the device's capacity.
const RATE: f64 = 23.0;
const REQUESTS: u32 = 100;

/// The groups and the names of their rows.
const GROUPS: [(Parameters, [&str; 4]); 3] = [
    (Parameters::High, ["high: mean", "high: p50", "high: p99", "high: requests a second"]),
    (Parameters::Normal, ["middle: mean", "middle: p50", "middle: p99", "middle: requests a second"]),
    (Parameters::Low, ["low: mean", "low: p50", "low: p99", "low: requests a second"]),
];

/// Under the second policy at most one of several equals has kernels on the device, since they alternate in
/// time slices.
const POLICIES: [&str; 2] = ["priority", "fair"];

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    for policy in POLICIES {
        let name = format!("six services in three groups, {policy}");
        print(&rounds.measure(name, Regime::all(), |regime| measure(regime, policy))?)?;
    }
    Ok(())
}

fn print(table: &Table) -> Result<()> {
    table.print("high group alone, p99", "ms", no_goal)?;
    for (parameters, [mean, p50, p99, rate]) in GROUPS {
        table.print(mean, "ms", no_goal)?;
        table.print(p50, "ms", no_goal)?;
        table.print(p99, "ms", |regime| {
            // Within one kernel of the low group.
            let alone_ms =
                table.median(regime, "high group alone, p99").filter(|_| parameters == Parameters::High)?;
            regime.scheduled(Goal::ValueAtMost(alone_ms + f64::from(REQUEST_US[0]) / 1e3))
        })?;
        if parameters == Parameters::High {
            table.print("high group alone: p99, on the device", "ms", no_goal)?;
            table.print("high: p99, on the device", "ms", |regime| {
                let alone_ms = table.median(regime, "high group alone: p99, on the device")?;
                regime.scheduled(Goal::ValueAtMost(alone_ms + f64::from(REQUEST_US[0]) / 1e3))
            })?;
            table.print(
                "high: kernels of others that start during a request once it is there, mean",
                "",
                no_goal,
            )?;
        }
        table.print(rate, "1/s", no_goal)?;
    }
    table.print("means that are not high < middle < low", "", |regime| {
        regime.scheduled(Goal::ValueAtMost(0.0))
    })?;
    table.print_noise()
}

fn measure(regime: Regime, policy: &'static str) -> Result<Figures> {
    let plans: Vec<_> = GROUPS
        .iter()
        .flat_map(|(parameters, _)| [*parameters; 2])
        .zip(1..)
        .map(|(parameters, seed)| {
            let plan = Plan::requests(REQUEST_US.to_vec(), RATE, Until::Requests(REQUESTS));
            (Plan { seed, ..plan }, parameters)
        })
        .collect();
    let alone = Run::of(&Node::with(regime, policy, 1)?, &plans[..2])?;
    let run = Run::of(&Node::with(regime, policy, 1)?, &plans)?;
    let mut figures =
        Figures::from([("high group alone, p99", quantile(latencies_us(&alone.outcomes), 0.99)? / 1e3)]);
    // Excludes the time that a client takes to notice that a request is done, before it makes the next one
    // that was due meanwhile.
    let services = |run: &Run, others: &[u32]| -> Vec<Service> {
        let high = run.outcomes.iter().zip(&plans).take(2);
        high.flat_map(|(client, (plan, _))| Service::of(client, plan, &run.timeline, others)).collect()
    };
    let others: Vec<_> = run.outcomes.iter().skip(2).map(|other| other.pid).collect();
    let beside = services(&run, &others);
    let on_device_us = |services: &[Service]| quantile(services.iter().map(|one| one.on_device_us), 0.99);
    figures.insert("high group alone: p99, on the device", on_device_us(&services(&alone, &[]))? / 1e3);
    figures.insert("high: p99, on the device", on_device_us(&beside)? / 1e3);
    figures.insert(
        "high: kernels of others that start during a request once it is there, mean",
        beside.iter().map(|one| one.overtaken_once_submitted as f64).sum::<f64>() / beside.len() as f64,
    );
    let mut means_ms = Vec::new();
    for (services, (_, [mean, p50, p99, rate])) in run.outcomes.chunks(2).zip(GROUPS) {
        let latencies_us = latencies_us(services);
        let mean_ms = latencies_us.iter().sum::<f64>() / latencies_us.len() as f64 / 1e3;
        means_ms.push(mean_ms);
        figures.insert(mean, mean_ms);
        figures.insert(p50, quantile(latencies_us.clone(), 0.5)? / 1e3);
        figures.insert(p99, quantile(latencies_us, 0.99)? / 1e3);
        let per_second = |service: &Outcome| {
            let (from_ns, to_ns) = service.span_ns();
            service.requests.len() as f64 / ((to_ns - from_ns) as f64 / 1e9)
        };
        figures.insert(rate, services.iter().map(per_second).sum());
    }
    let disorder = means_ms.windows(2).filter(|pair| pair[0] >= pair[1]).count();
    figures.insert("means that are not high < middle < low", disorder as f64);
    Ok(figures)
}

fn latencies_us(services: &[Outcome]) -> Vec<f64> {
    services.iter().flat_map(Outcome::latencies_us).collect()
}
