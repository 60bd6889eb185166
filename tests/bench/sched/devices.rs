//! Eight devices with a job on each: urgent work on one must not affect the other seven, whether the jobs are
//! eight processes or one. The urgent process sees only its device, which is its device 0 and the jobs'
//! device 7.

use xsched_tests::bench::Goal;

use crate::{
    client::{Parameters, Plan, Until},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, no_goal, quantile},
};

const DEVICES: u32 = 8;
const KERNEL_US: u32 = 2000;
const SECONDS: f64 = 3.0;
/// Fraction of their device time that the other seven must keep.
const RATIO_MIN: f64 = 0.99;

const SEVEN: &str = "device time of the least lucky of the seven, over the same without urgent work";
const EIGHTH: &str = "device time on the eighth, over the same without urgent work";
const REQUEST: &str = "urgent request on the eighth, p99";

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    let one_each: Vec<_> = (0..DEVICES).map(|device| Plan { device, ..job() }).collect();
    let one_for_all = vec![Plan { devices: DEVICES, ..job() }];
    for (name, jobs) in [("eight processes", one_each), ("one process", one_for_all)] {
        let name = format!("eight devices, jobs of {name}");
        let table = rounds.measure(name, Regime::all(), |regime| measure(regime, &jobs))?;
        table.print(SEVEN, "", |regime| regime.scheduled(Goal::ValueAtLeast(RATIO_MIN)))?;
        table.print(EIGHTH, "", no_goal)?;
        table.print(REQUEST, "ms", no_goal)?;
        table.print_noise()?;
    }
    Ok(())
}

fn job() -> Plan {
    Plan::saturating(vec![KERNEL_US; 8], SECONDS)
}

fn measure(regime: Regime, jobs: &[Plan]) -> Result<Figures> {
    let jobs: Vec<_> = jobs.iter().map(|plan| (plan.clone(), Parameters::Low)).collect();
    let node = || Node::with(regime, "priority", DEVICES);
    let without = Run::of(&node()?, &jobs)?;
    let urgent = Plan::requests(vec![200; 10], 20.0, Until::Seconds(SECONDS));
    let urgent = (Plan { visible: Some(DEVICES - 1), ..urgent }, Parameters::High);
    let with = Run::of(&node()?, &[jobs.clone(), vec![urgent]].concat())?;
    // A job's device time, in whichever process it runs.
    let share = |run: &Run, device: u32| -> f64 {
        let jobs = run.outcomes[..jobs.len()].iter();
        jobs.map(|job| run.timeline.of(&[job.pid]).on(device).share(job.span_ns())).sum()
    };
    let ratio = |device| share(&with, device) / share(&without, device);
    Ok(Figures::from([
        (SEVEN, (0..DEVICES - 1).map(ratio).fold(f64::INFINITY, f64::min)),
        (EIGHTH, ratio(DEVICES - 1)),
        (REQUEST, quantile(with.outcomes[jobs.len()].latencies_us(), 0.99)? / 1e3),
    ]))
}
