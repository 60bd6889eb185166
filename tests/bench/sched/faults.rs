//! How long a failed process delays others. An urgent process keeps a less urgent one off the device; then it
//! fails, or the controller does.

use std::{thread, time::Duration};

use rustix::{
    process::Signal,
    time::{ClockId, clock_gettime},
};
use xsched_tests::bench::Goal;

use crate::{
    client::{Client, Parameters, Plan},
    node::{Node, Regime},
    result::Result,
    scenario::{Rounds, quantile},
};

const KERNEL_US: u32 = 500;
const TIMES: usize = 1;
/// Time until the urgent process delays the other, and time for which the consequences are measured. Their sum is
/// less than the starvation bound.
const BEFORE: Duration = Duration::from_millis(400);
const AFTER: Duration = Duration::from_millis(300);
/// Time before the fault in which no delayed kernel may have started, and number of attempts to reach this
/// state.
const HELD_NS: u64 = 50_000_000;
const ATTEMPTS: usize = 5;
/// Longer than that.
const SECONDS: f64 = 1.0;

/// The faults, and how many milliseconds each may delay a process. A kernel that is still running does not
/// count, nor do kernels in flight.
const FAULTS: [(Fault, &str, f64); 6] = [
    (Fault::KillController, "after `kill -9` of the controller, the worst", 10.0),
    (Fault::StopController, "after SIGSTOP of the controller, the worst", 100.0),
    (Fault::Off, "after `xsched-ctl off` was started, the worst", 10.0),
    (Fault::KillUrgent, "after `kill -9` of the urgent process, the worst", 10.0),
    (Fault::StopUrgent, "after SIGSTOP of the urgent process, the worst", 60.0),
    (Fault::EndController, "after SIGTERM of the controller, the worst", 10.0),
];
/// Duration of the kernels in flight.
const AHEAD_MS: f64 = 2.0 * KERNEL_US as f64 / 1e3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillController,
    StopController,
    EndController,
    Off,
    KillUrgent,
    StopUrgent,
}

pub(crate) fn run(rounds: Rounds) -> Result<()> {
    let regimes: Vec<_> = Regime::all().iter().copied().filter(|regime| *regime != Regime::Native).collect();
    let table = rounds.measure("a suspended process runs on", &regimes, |regime| {
        FAULTS.iter().map(|&(fault, name, _)| Ok((name, worst_ms(regime, fault)?))).collect()
    })?;
    for (_, name, bound_ms) in FAULTS {
        table.print(name, "ms", |regime| regime.scheduled(Goal::ValueAtMost(bound_ms + AHEAD_MS)))?;
    }
    table.print_noise()
}

fn worst_ms(regime: Regime, fault: Fault) -> Result<f64> {
    let mut times_ms = Vec::new();
    for _ in 0..TIMES {
        let attempts = (0..ATTEMPTS).map(|_| delay_ms(regime, fault));
        let found = attempts.map(Result::transpose).find_map(|attempt| attempt);
        times_ms.push(found.ok_or("the urgent process does not delay the other")??);
    }
    quantile(times_ms, 1.0)
}

/// None if no process was delayed just before.
fn delay_ms(regime: Regime, fault: Fault) -> Result<Option<f64>> {
    let node = Node::new(regime)?;
    let plan = || Plan::saturating(vec![KERNEL_US; 8], SECONDS);
    let mut clients = node.start(&[(plan(), Parameters::High), (plan(), Parameters::Low)])?;
    Client::begin(&mut clients)?;
    thread::sleep(BEFORE);
    let at_ns = boottime_ns();
    let urgent = &clients[0];
    match fault {
        Fault::KillController => node.controller()?.signal(Signal::KILL)?,
        Fault::StopController => node.controller()?.signal(Signal::STOP)?,
        Fault::EndController => node.controller()?.signal(Signal::TERM)?,
        Fault::Off => drop(node.controller()?.order(&["off"])?),
        Fault::KillUrgent => urgent.signal(Signal::KILL)?,
        Fault::StopUrgent => urgent.signal(Signal::STOP)?,
    }
    thread::sleep(AFTER);
    match fault {
        Fault::StopController => node.controller()?.signal(Signal::CONT)?,
        Fault::StopUrgent => urgent.signal(Signal::CONT)?,
        _ => {}
    }
    let suspended = clients.pop().ok_or("there are two")?;
    let pid = suspended.pid();
    let outcome = suspended.finish()?;
    if fault != Fault::KillUrgent {
        clients.into_iter().try_for_each(|urgent| urgent.finish().map(drop))?;
    }
    let timeline = node.timeline()?.of(&[pid]);
    // On a busy machine the urgent process may have been kept from launching for a moment.
    if timeline.starts_in((at_ns - HELD_NS, at_ns)) > 0 {
        return Ok(None);
    }
    let next = timeline.kernels().iter().find(|kernel| kernel.start_ns > at_ns);
    let end_ns = next.map_or(outcome.span_ns().1, |kernel| kernel.start_ns);
    Ok(Some((end_ns - at_ns) as f64 / 1e6))
}

fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
