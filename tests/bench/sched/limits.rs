//! The cost of being ready for preemption: device time lost to in-flight limits, and a lone process.

use xsched_tests::bench::Goal;

use crate::{
    client::{Parameters, Plan, Until},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, no_goal, quantile},
};

const KERNELS_US: [u32; 4] = [10, 100, 300, 1000];
const SECONDS: f64 = 2.0;
/// A loss of one percent.
const RATIO_MIN: f64 = 0.99;
const RATIO_MAX: f64 = 1.01;
/// Goal for the processor time of following the device; applies to kernels at least this long.
const FOLLOWED_FROM_US: u32 = 100;
const FOLLOWING_MAX_PERCENT: f64 = 10.0;

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    for kernel_us in KERNELS_US {
        let regimes = Regime::for_kernels_of(kernel_us);
        let name = format!("limits, T = {kernel_us} us, an urgent process that does next to nothing");
        let table = rounds.measure(name, &regimes, |regime| beside_an_idle_one(regime, kernel_us))?;
        table.print("device time", "%", |regime| regime.scheduled(Goal::RatioAtLeast(RATIO_MIN)))?;
        // The figure includes launching deferred commands, which is no part of the goal.
        let following = "processor time of the shim's threads";
        table.print(following, "%", |regime| {
            let is_of_goal = kernel_us >= FOLLOWED_FROM_US;
            regime.scheduled(Goal::ValueAtMost(FOLLOWING_MAX_PERCENT)).filter(|_| is_of_goal)
        })?;
        table.print("processor time, that of the simulated device included", "%", no_goal)?;
        table.print_noise()?;
    }
    let table = rounds.measure("nothing to preempt", Regime::all(), lone)?;
    table.print("device time", "%", |regime| regime.scheduled(Goal::RatioAtLeast(RATIO_MIN)))?;
    table
        .print("request of one kernel, p50", "us", |regime| regime.scheduled(Goal::RatioAtMost(RATIO_MAX)))?;
    table.print_noise()
}

/// A job beside a more urgent process that runs one short kernel a second.
fn beside_an_idle_one(regime: Regime, kernel_us: u32) -> Result<Figures> {
    let urgent = Plan::requests(vec![10], 1.0, Until::Seconds(SECONDS));
    let job = Plan::saturating(vec![kernel_us; 8], SECONDS);
    let node = Node::new(regime)?;
    let plans = [(urgent, Parameters::High), (job, Parameters::Low)];
    let (Run { outcomes, timeline }, following) = Run::following(&node, &plans, SECONDS)?;
    let job = &outcomes[1];
    let span_ns = job.span_ns();
    let span_us = (span_ns.1 - span_ns.0) as f64 / 1e3;
    Ok(Figures::from([
        ("device time", 100.0 * timeline.of(&[job.pid]).share(span_ns)),
        ("processor time of the shim's threads", following),
        ("processor time, that of the simulated device included", 100.0 * job.cpu_us / span_us),
    ]))
}

/// A process with exclusive use of the device: first as much as it can run, then one kernel at a time.
fn lone(regime: Regime) -> Result<Figures> {
    let job = Plan::saturating(vec![100; 8], SECONDS);
    let run = Run::of(&Node::new(regime)?, &[(job, Parameters::Normal)])?;
    let share = run.timeline.of(&[run.outcomes[0].pid]).share(run.outcomes[0].span_ns());
    let single = Plan { ahead: 1, ..Plan::saturating(vec![100], SECONDS) };
    let run = Run::of(&Node::new(regime)?, &[(single, Parameters::Normal)])?;
    Ok(Figures::from([
        ("device time", 100.0 * share),
        ("request of one kernel, p50", quantile(run.outcomes[0].latencies_us(), 0.5)?),
    ]))
}
