//! First arrival: an urgent process that has never used the device meets the backlog of another process.

use crate::{
    client::{Parameters, Plan, Until},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, no_goal},
    service::Service,
};

const KERNEL_US: u32 = 1000;
const SECONDS: f64 = 0.6;

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    let table = rounds.measure(format!("first arrival, T = {KERNEL_US} us"), Regime::all(), measure)?;
    table.print("first request's first kernel waits", "us", no_goal)?;
    table.print("kernels of the other that start meanwhile", "", no_goal)?;
    table.print("second request's first kernel waits", "us", no_goal)?;
    table.print_noise()
}

fn measure(regime: Regime) -> Result<Figures> {
    // The first request comes long after the other process has started.
    let urgent = Plan::requests(vec![20; 8], 4.0, Until::Requests(2));
    let urgent = Plan { is_cold: true, ..urgent };
    let other = Plan::saturating(vec![KERNEL_US; 8], SECONDS);
    let run = Run::of(&Node::new(regime)?, &[(urgent.clone(), Parameters::High), (other, Parameters::Low)])?;
    let service = Service::of(&run.outcomes[0], &urgent, &run.timeline, &run.others(0));
    let [first, second] = service.as_slice() else { return Err("two requests were asked for".into()) };
    Ok(Figures::from([
        ("first request's first kernel waits", first.launch_us + first.first_wait_us),
        ("kernels of the other that start meanwhile", first.overtaken_by as f64),
        ("second request's first kernel waits", second.launch_us + second.first_wait_us),
    ]))
}
