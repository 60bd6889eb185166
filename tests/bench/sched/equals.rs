//! Two programs of equal priority that both fill the device: the cost of sharing to both together, by policy
//! and by kernel length. No shares are set here; see `shares`.

use crate::{
    client::{Outcome, Parameters, Plan},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, no_goal},
};

/// The shortest are about as long as one launch takes.
const KERNELS_US: [u32; 3] = [5, 30, 100];
const SECONDS: f64 = 1.0;
/// Equals run side by side under the first and alternate in time slices under the second.
const POLICIES: [&str; 2] = ["priority", "fair"];

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    for policy in POLICIES {
        for kernel_us in KERNELS_US {
            let name = format!("two equals, T = {kernel_us} us, {policy}");
            let table = rounds.measure(name, Regime::all(), |regime| measure(regime, policy, kernel_us))?;
            table.print("kernels a second, both over one alone", "", no_goal)?;
            table.print("kernels a second, the slower one over the faster", "", no_goal)?;
            table.print_noise()?;
        }
    }
    Ok(())
}

fn measure(regime: Regime, policy: &'static str, kernel_us: u32) -> Result<Figures> {
    let plan = Plan::saturating(vec![kernel_us; 8], SECONDS);
    let alone = Run::of(&Node::with(regime, policy, 1)?, &[(plan.clone(), Parameters::Normal)])?;
    let both = Run::of(
        &Node::with(regime, policy, 1)?,
        &[plan.clone(), plan].map(|plan| (plan, Parameters::Normal)),
    )?;
    let rates: Vec<_> = both.outcomes.iter().map(requests_a_second).collect();
    let (sum, slower) = (rates.iter().sum::<f64>(), rates.iter().copied().fold(f64::INFINITY, f64::min));
    Ok(Figures::from([
        ("kernels a second, both over one alone", sum / requests_a_second(&alone.outcomes[0])),
        ("kernels a second, the slower one over the faster", slower / (sum - slower)),
    ]))
}

/// All requests have the same number of kernels.
fn requests_a_second(outcome: &Outcome) -> f64 {
    let (from_ns, to_ns) = outcome.span_ns();
    outcome.requests.len() as f64 / ((to_ns - from_ns) as f64 / 1e9)
}
