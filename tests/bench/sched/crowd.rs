//! An urgent process beside one that fills the device, while many others have joined and are idle: their cost
//! to the urgent one.

use crate::{
    client::{Parameters, Plan, Until},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, no_goal, quantile},
    service::Service,
};

/// Numbers of idle processes.
const CROWDS: [usize; 2] = [0, 16];
/// Duration of the kernels that fill the device.
const KERNEL_US: u32 = 100;
const REQUEST_US: [u32; 8] = [20; 8];
const RATE: f64 = 50.0;
const REQUESTS: u32 = 60;
/// Longer than the requests take.
const SECONDS: f64 = REQUESTS as f64 / RATE + 0.2;

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    for crowd in CROWDS {
        let name = format!("urgent beside one and {crowd} idle, T = {KERNEL_US} us");
        let table = rounds.measure(name, Regime::all(), |regime| measure(regime, crowd))?;
        table.print("launch reaches the runtime, p50", "us", no_goal)?;
        table.print("launch reaches the runtime, p99", "us", no_goal)?;
        table.print("first kernel starts, p50", "us", no_goal)?;
        table.print("first kernel starts, p99", "us", no_goal)?;
        table.print("request as its client sees it, p50", "us", no_goal)?;
        table.print_noise()?;
    }
    Ok(())
}

fn measure(regime: Regime, crowd: usize) -> Result<Figures> {
    let urgent = Plan::requests(REQUEST_US.to_vec(), RATE, Until::Requests(REQUESTS));
    let other = Plan::saturating(vec![KERNEL_US; 8], SECONDS);
    // They use the device before the others begin, and never again.
    let idle = Plan::requests(vec![20], 1e-3, Until::Seconds(SECONDS));
    let mut plans = vec![(urgent.clone(), Parameters::High), (other, Parameters::Low)];
    plans.extend((0..crowd).map(|_| (idle.clone(), Parameters::Normal)));
    let run = Run::of(&Node::new(regime)?, &plans)?;
    let service = Service::of(&run.outcomes[0], &urgent, &run.timeline, &run.others(0));
    let launch_us = |fraction| quantile(service.iter().map(|one| one.launch_us), fraction);
    let start_us = |fraction| quantile(service.iter().map(|one| one.launch_us + one.first_wait_us), fraction);
    Ok(Figures::from([
        ("launch reaches the runtime, p50", launch_us(0.5)?),
        ("launch reaches the runtime, p99", launch_us(0.99)?),
        ("first kernel starts, p50", start_us(0.5)?),
        ("first kernel starts, p99", start_us(0.99)?),
        ("request as its client sees it, p50", quantile(run.outcomes[0].latencies_us(), 0.5)?),
    ]))
}
