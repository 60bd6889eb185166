//! Eight devices with a job on each: urgent work on one of them is no business of the other seven.

use xsched_tests::bench::Goal;

use crate::{
    Result,
    client::{Plan, Standing, Until},
    node::{Node, Regime},
    scenario::{Figures, Run, Table, no_goal, quantile},
};

const DEVICES: u32 = 8;
const KERNEL_US: u32 = 2000;
const SECONDS: f64 = 3.0;
/// What the other seven may lose.
const RATIO_MIN: f64 = 0.99;

pub(crate) fn run() -> Result<()> {
    let table = Table::measure("eight devices", Regime::all(), measure)?;
    let figure = "device time of the least lucky of the seven, over the same without urgent work";
    table.print(figure, "", |regime| regime.scheduled(Goal::ValueAtLeast(RATIO_MIN)))?;
    table.print("urgent request on the eighth, p99", "ms", no_goal)?;
    table.print_noise()
}

fn measure(regime: Regime) -> Result<Figures> {
    let jobs: Vec<_> = (0..DEVICES)
        .map(|device| {
            let plan = Plan::saturating(vec![KERNEL_US; 8], SECONDS);
            (Plan { device, ..plan }, Standing::Low)
        })
        .collect();
    let without = Run::of(&Node::with(regime, "priority", DEVICES)?, &jobs)?;
    // On the last device.
    let urgent = Plan::requests(vec![200; 10], 20.0, Until::Seconds(SECONDS));
    let urgent = (Plan { device: DEVICES - 1, ..urgent }, Standing::High);
    let with = Run::of(&Node::with(regime, "priority", DEVICES)?, &[jobs, vec![urgent]].concat())?;
    let share = |run: &Run, job: usize| run.truth.share(run.outcomes[job].pid, run.outcomes[job].span_ns());
    let ratios = (0..DEVICES as usize - 1).map(|job| share(&with, job) / share(&without, job));
    Ok(Figures::from([
        (
            "device time of the least lucky of the seven, over the same without urgent work",
            ratios.fold(f64::INFINITY, f64::min),
        ),
        (
            "urgent request on the eighth, p99",
            quantile(with.outcomes[DEVICES as usize].latencies_us(), 0.99)? / 1e3,
        ),
    ]))
}
