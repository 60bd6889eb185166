//! Two processes that both need the whole device: a partition of three to one, and the starvation bound.

use xsched_sched::Settings;
use xsched_tests::bench::Goal;

use crate::{
    client::{Outcome, Parameters, Plan},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, no_goal},
};

const KERNEL_US: u32 = 200;
const SECONDS: f64 = 4.0;
const WINDOW_NS: u64 = 1_000_000_000;
const WANTED_PERCENT: f64 = 75.0;
/// Allowed deviation of a window.
const POINTS_MAX: f64 = 1.0;
const TOTAL_MIN: f64 = 0.99;

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    let table = rounds.measure("partition 75/25", Regime::all(), partition)?;
    let first = "device time of the first, of both";
    table.print(first, "%", no_goal)?;
    let off = "points by which the worst second is off";
    table.print(off, "", |regime| regime.scheduled(Goal::ValueAtMost(POINTS_MAX)))?;
    let total = "both together over one alone";
    table.print(total, "", |regime| regime.scheduled(Goal::ValueAtLeast(TOTAL_MIN)))?;
    table.print_noise()?;

    let table = rounds.measure("starvation, both want everything", Regime::all(), starvation)?;
    let gap = "longest time without the device, the less urgent one";
    // The scheduler's defaults. The quantum is that of the time slice which ends the wait.
    let Settings { starvation_bound, quantum, .. } = Settings::default();
    let most_ms = (starvation_bound + quantum).0 as f64 / 1e6;
    table.print(gap, "ms", |regime| regime.scheduled(Goal::ValueAtMost(most_ms)))?;
    table.print("device time of the less urgent one", "%", no_goal)?;
    table.print_noise()
}

fn partition(regime: Regime) -> Result<Figures> {
    let plan = || Plan::saturating(vec![KERNEL_US; 8], SECONDS);
    let alone = Run::of(&Node::new(regime)?, &[(plan(), Parameters::Normal)])?;
    let share_alone = alone.timeline.of(&[alone.outcomes[0].pid]).share(alone.outcomes[0].span_ns());

    let node = Node::with(regime, "partition", 1)?;
    let run = Run::of(&node, &[(plan(), Parameters::Share(75)), (plan(), Parameters::Share(25))])?;
    let [first, second] = [0, 1].map(|client| run.outcomes[client].pid);
    let of_first = |span_ns| {
        let (own, other) =
            (run.timeline.of(&[first]).share(span_ns), run.timeline.of(&[second]).share(span_ns));
        100.0 * own / (own + other)
    };
    let (from_ns, to_ns) = common_span_ns(&run.outcomes);
    let windows = (from_ns..to_ns.saturating_sub(WINDOW_NS)).step_by(WINDOW_NS as usize / 10);
    let off = windows.map(|at_ns| (of_first((at_ns, at_ns + WINDOW_NS)) - WANTED_PERCENT).abs());
    let both = (from_ns, to_ns);
    Ok(Figures::from([
        ("device time of the first, of both", of_first(both)),
        ("points by which the worst second is off", off.fold(0.0, f64::max)),
        (
            "both together over one alone",
            (run.timeline.of(&[first]).share(both) + run.timeline.of(&[second]).share(both)) / share_alone,
        ),
    ]))
}

fn starvation(regime: Regime) -> Result<Figures> {
    let plan = || Plan::saturating(vec![KERNEL_US; 8], SECONDS);
    let run = Run::of(&Node::new(regime)?, &[(plan(), Parameters::High), (plan(), Parameters::Low)])?;
    let (less_urgent, span_ns) = (run.outcomes[1].pid, common_span_ns(&run.outcomes));
    Ok(Figures::from([
        (
            "longest time without the device, the less urgent one",
            run.timeline.of(&[less_urgent]).longest_gap_ns(span_ns) as f64 / 1e6,
        ),
        ("device time of the less urgent one", 100.0 * run.timeline.of(&[less_urgent]).share(span_ns)),
    ]))
}

/// The time in which all of them had work.
fn common_span_ns(clients: &[Outcome]) -> (u64, u64) {
    let spans = || clients.iter().map(Outcome::span_ns);
    (spans().map(|span| span.0).max().unwrap_or(0), spans().map(|span| span.1).min().unwrap_or(0))
}
