//! Requests of kernels that take longer than a lease, beside one process that fills the device with short ones; and requests of short
//! kernels beside kernels that take longer than a lease, as graphs of whole steps do.
//!
//! The device is served round-robin, so another's kernel starts between two kernels of a request if the request's process does not
//! count as ready any more when the first one ends. The length of a kernel is known once one has ended: the first request is left
//! out. A request may take longer than the starvation bound, so there is none here.

use crate::{
    client::{Parameters, Plan, Until},
    node::{Node, Regime},
    result::Result,
    scenario::{Figures, Rounds, Run, largest, mean},
    service::Service,
};

/// Durations of a request's kernels, in microseconds. A lease lasts 50 ms.
const KERNELS_US: [u32; 2] = [200_000, 2_000_000];
const REQUESTS: u32 = 4;
const SHORT_US: u32 = 1000;

/// The other's kernels where requests are short.
const BESIDE_US: u32 = 200_000;

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    let cases = KERNELS_US.map(|own| Case { own, other: SHORT_US, apart: 3 * own });
    let beside_long = Case { own: SHORT_US, other: BESIDE_US, apart: 3 * BESIDE_US };
    for case in cases.into_iter().chain([beside_long]) {
        let Case { own, other, .. } = case;
        let name = format!("leases, requests of kernels of {} ms beside {} ms", own / 1000, other / 1000);
        let table = rounds.measure(name, Regime::all(), |regime| measure(regime, case))?;
        table.print_as(
            mean,
            "kernels of the other that start during a request, mean",
            "",
            Regime::count_goal,
        )?;
        table.print_as(
            largest,
            "kernels of the other that start during a request, most",
            "",
            Regime::count_goal,
        )?;
        table.print_noise()?;
    }
    Ok(())
}

/// Durations of kernels, and the time between requests, in microseconds.
#[derive(Clone, Copy)]
struct Case {
    own: u32,
    other: u32,
    apart: u32,
}

fn measure(regime: Regime, Case { own, other, apart }: Case) -> Result<Figures> {
    let rate = 1e6 / f64::from(apart);
    let urgent = Plan::requests(vec![own; 2], rate, Until::Requests(REQUESTS));
    let other = Plan::saturating(vec![other; 8], f64::from(REQUESTS) / rate);
    let plans = [(urgent.clone(), Parameters::High), (other, Parameters::Low)];
    let run = Run::of(&Node::without_starvation_bound(regime)?, &plans)?;
    let service = Service::of(&run.outcomes[0], &urgent, &run.timeline, &run.others(0));
    let starts: Vec<_> = service.iter().skip(1).map(|request| request.overtaken_while_ready as f64).collect();
    let largest = starts.iter().copied().fold(0.0, f64::max);
    Ok(Figures::from([
        (
            "kernels of the other that start during a request, mean",
            starts.iter().sum::<f64>() / starts.len() as f64,
        ),
        ("kernels of the other that start during a request, most", largest),
    ]))
}
