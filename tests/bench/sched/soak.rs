//! A thousand random accidents: participants are killed, stopped, misled or replaced, which must have no
//! other consequences.
//!
//! Clients count kernels that did not run exactly once and in order, and a client that does not end in time
//! counts as hanging. Either ends the run with an error, so the rows are printed only if neither happened.
//! Times that clients waited for the device are read from its log, without the times at which they were
//! stopped.

mod crowd;
mod hostile;

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use xsched_tests::bench::{Goal, Row, Samples};

use crate::{
    controller::Scheduling,
    node::{Node, Regime},
    result::Result,
    scenario::BENCH,
};
use crowd::Crowd;

const ACCIDENTS: u32 = 1000;
const SEED: u64 = 0x5eed;
/// Maximal pause between two accidents.
const PAUSE_MS: u64 = 200;
const POLICIES: [&str; 3] = ["priority", "fair", "partition"];
/// The starvation bound, after a time slice of every other process.
const WAIT_MAX_MS: f64 = 1_500.0;

#[derive(Clone, Copy, Debug)]
enum Accident {
    ControllerKilled,
    ControllerStopped,
    ClientKilled,
    ClientStopped,
    ShortClients,
    ForkingClient,
    ExecutingClient,
    Nonsense,
    FullSocket,
    OtherPolicy,
    OffAndOn,
    /// Another class for a client. Metrics contain the variants' names, so this one is not changed.
    OtherParameters,
}

const ALL: [Accident; 12] = [
    Accident::ControllerKilled,
    Accident::ControllerStopped,
    Accident::ClientKilled,
    Accident::ClientStopped,
    Accident::ShortClients,
    Accident::ForkingClient,
    Accident::ExecutingClient,
    Accident::Nonsense,
    Accident::FullSocket,
    Accident::OtherPolicy,
    Accident::OffAndOn,
    Accident::OtherParameters,
];

/// Prints how often each accident happened, and the consequences.
pub(crate) fn run() -> Result<()> {
    if !Regime::all().contains(&Regime::Mode2) {
        return Err("this scenario requires a controller".into());
    }
    let mut soak = Soak {
        node: Node::new(Regime::Mode2)?,
        crowd: Crowd::default(),
        random: fastrand::Rng::with_seed(SEED),
        rejoined_ms: Vec::new(),
    };
    let mut counts = [0_u32; ALL.len()];
    for number in 0..ACCIDENTS {
        soak.crowd.fill(&soak.node, &mut soak.random)?;
        let which = soak.random.usize(..ALL.len());
        counts[which] += 1;
        soak.happen(ALL[which]).map_err(|error| format!("accident {number}, {:?}: {error}", ALL[which]))?;
        soak.crowd
            .collect()
            .map_err(|error| format!("after accident {number}, {:?}: {error}", ALL[which]))?;
        soak.pause(PAUSE_MS);
    }
    soak.crowd.wait_for_all()?;
    for (accident, count) in ALL.iter().zip(counts) {
        print(format!("soak: {accident:?}"), "", vec![f64::from(count)], None)?;
    }
    let timeline = soak.node.timeline()?;
    let waits_ms = soak.crowd.longest_waits_ms(&timeline);
    print("soak: clients that ended well", "", vec![soak.crowd.ended() as f64], None)?;
    print("soak: children of clients that ended well", "", vec![soak.crowd.children() as f64], None)?;
    print("soak: longest wait for the device, each client's", "ms", waits_ms.clone(), None)?;
    let worst = waits_ms.into_iter().fold(0.0, f64::max);
    print(
        "soak: longest wait for the device, the worst",
        "ms",
        vec![worst],
        Some(Goal::ValueAtMost(WAIT_MAX_MS)),
    )?;
    print("soak: all clients are back after a restart", "ms", soak.rejoined_ms, None)
}

fn print(metric: impl Into<String>, unit: &'static str, values: Vec<f64>, goal: Option<Goal>) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let row = Row::single(BENCH, metric, unit, &Samples::new(values));
    Ok(goal.map_or(row.clone(), |goal| row.with_goal(goal)).print()?)
}

struct Soak {
    node: Node,
    crowd: Crowd,
    random: fastrand::Rng,
    rejoined_ms: Vec<f64>,
}

impl Soak {
    fn happen(&mut self, accident: Accident) -> Result<()> {
        match accident {
            Accident::ControllerKilled => {
                self.node.controller()?.signal(Signal::KILL)?;
                self.pause(100);
                let scheduling = Scheduling {
                    policy: POLICIES[self.random.usize(..POLICIES.len())],
                    mode: self.random.u32(1..=2),
                    starvation: None,
                };
                let began = Instant::now();
                let mut controller = self.node.controller()?;
                controller.restart(scheduling)?;
                // Some may have ended meanwhile.
                while controller.clients() < Some(self.crowd.running()) {
                    if began.elapsed() > Duration::from_secs(20) {
                        return Err("the clients did not come back".into());
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                self.rejoined_ms.push(began.elapsed().as_secs_f64() * 1e3);
            }
            Accident::ControllerStopped => {
                self.node.controller()?.signal(Signal::STOP)?;
                self.pause(300);
                self.node.controller()?.signal(Signal::CONT)?;
            }
            Accident::ClientKilled => self.crowd.kill_one(&mut self.random)?,
            Accident::ClientStopped => self.crowd.stop_one(&mut self.random)?,
            Accident::ShortClients => self.crowd.add_short_ones(&self.node)?,
            Accident::ForkingClient => self.crowd.add_forking_one(&self.node, &mut self.random)?,
            Accident::ExecutingClient => self.crowd.add_executing_one(&self.node, &mut self.random)?,
            Accident::Nonsense => hostile::send_invalid(self.node.controller()?.folder(), &mut self.random)?,
            Accident::FullSocket => hostile::fill_socket(self.node.controller()?.folder())?,
            Accident::OtherPolicy => {
                let policy = POLICIES[self.random.usize(..POLICIES.len())];
                self.order(&["policy", policy])?;
            }
            Accident::OffAndOn => {
                self.order(&["off"])?;
                self.pause(50);
                self.order(&["on"])?;
            }
            Accident::OtherParameters => {
                let class = ["low", "normal", "high"][self.random.usize(..3)];
                if let Some(pid) = self.crowd.any(&mut self.random) {
                    // The client may have ended meanwhile; then the order is refused.
                    self.node.controller()?.order(&["set", "--pid", &pid.to_string(), "--class", class])?;
                }
            }
        }
        Ok(())
    }

    fn order(&self, words: &[&str]) -> Result<()> {
        if self.node.controller()?.order(words)? { Ok(()) } else { Err("the controller refuses".into()) }
    }

    fn pause(&mut self, most_ms: u64) {
        thread::sleep(Duration::from_millis(self.random.u64(..=most_ms)));
    }
}
