//! The cost of a policy's decision: processor time of one event and the following decision, with 64 claims on
//! one device. This is a real figure, not a simulated one.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use xsched_sched::{
    Attributes, ClaimChange, ClaimId, DeviceId, Nanos, PolicyKind, ProcessId, Quota, Scheduler, Settings, Slo,
};
use xsched_tests::bench::{Goal, Row, repeated};

use crate::{result::Result, scenario::BENCH};

const CLAIMS: u32 = 64;
const STEPS: u32 = 20_000;
const ROUNDS: usize = 11;
const GOAL_NS: f64 = 1_000.0;
/// Time between two events.
const PACE: Nanos = Nanos::from_micros(50);

pub(crate) fn run() -> Result<()> {
    for policy in PolicyKind::ALL {
        let step_ns = repeated(ROUNDS, || -> Result<f64> { Ok(step_ns(*policy)) })?;
        let metric =
            format!("policy `{}`, {CLAIMS} claims: one event and what follows from it", policy.name());
        Row::single(BENCH, metric, "ns", &step_ns).with_goal(Goal::ValueAtMost(GOAL_NS)).print()?;
    }
    Ok(())
}

/// Claims in turn become ready, report their use and become idle, at the pace of bursts of work.
fn step_ns(policy: PolicyKind) -> f64 {
    let mut scheduler = Scheduler::new(policy, Settings::default());
    for number in 0..CLAIMS {
        let mut attributes = Attributes::new(DeviceId(0), ProcessId(number));
        attributes.priority = (number % 8) as i16;
        attributes.share = Some(1);
        attributes.nice = (number % 8) as i8 - 4;
        // Some have no hint.
        if number % 4 != 3 {
            let time = Nanos::from_millis(5 + u64::from(number));
            attributes.quota = Some(Quota { time: Nanos::from_millis(1), window: Nanos::from_millis(100) });
            (attributes.deadline, attributes.work) = (Some(time), Some(Nanos::from_millis(1)));
            attributes.slo = Some(Slo { per_mille: 990, latency: time });
        }
        scheduler.handle(Nanos::ZERO, ClaimChange::Opened { claim: ClaimId(number), attributes });
    }
    let _ = scheduler.decide(Nanos::ZERO);
    let began_ns = processor_ns();
    for step in 0..STEPS {
        let now = PACE.times(u64::from(step));
        let claim = ClaimId(step % CLAIMS);
        let event = match step / CLAIMS % 3 {
            0 => ClaimChange::Ready { claim },
            1 => ClaimChange::Used { claim, device: PACE, commands: 1 },
            _ => ClaimChange::Idle { claim },
        };
        scheduler.handle(now, event);
        let _ = black_box(scheduler.decide(now));
    }
    (processor_ns() - began_ns) / f64::from(STEPS)
}

/// Processor time of this thread.
fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
