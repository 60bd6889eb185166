//! Clients that start, work for a while, and end.

use std::{
    slice,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};
use xsched_tests::execution_log::Timeline;

use crate::{
    client::{Client, Outcome, Parameters, Plan, Until},
    node::Node,
    result::Result,
};

/// Scheduling parameters of each slot: two services and three jobs.
const SLOTS: [Parameters; 5] =
    [Parameters::High, Parameters::Normal, Parameters::Low, Parameters::Low, Parameters::Normal];
const SERVICES: usize = 2;
const SHORT: usize = 6;
/// How long clients work that fork or execute other programs.
const RESTLESS_SECONDS: f64 = 0.5;
/// How much longer than planned a client may run before it counts as hanging.
const TIMEOUT: Duration = Duration::from_secs(30);
const STOPPED_MS: u64 = 100;

#[derive(Default)]
pub(super) struct Crowd {
    members: Vec<Member>,
    /// Clients that ended successfully: their results, and when they were stopped.
    gone: Vec<Gone>,
}

struct Gone {
    outcome: Outcome,
    stops: Vec<(u64, u64)>,
    /// It had work at all times.
    is_job: bool,
}

struct Member {
    slot: Option<usize>,
    pid: u32,
    ends_by: Instant,
    /// The error as text, so that it can be sent between threads.
    end: JoinHandle<Result<Outcome, String>>,
    was_killed: bool,
    stops: Vec<(u64, u64)>,
}

impl Crowd {
    /// Starts a client for every free slot.
    pub(super) fn fill(&mut self, node: &Node, random: &mut fastrand::Rng) -> Result<()> {
        for (slot, parameters) in SLOTS.into_iter().enumerate() {
            if self.members.iter().any(|member| member.slot == Some(slot)) {
                continue;
            }
            let seconds = 1.0 + f64::from(random.u32(..5));
            let until = Until::Seconds(seconds);
            let plan = if slot < SERVICES {
                Plan::requests(vec![20, 50, 100], 100.0, until)
            } else {
                Plan::saturating(vec![200, 1000, 2000], seconds)
            };
            self.add(node, &plan, parameters, Some(slot), seconds)?;
        }
        Ok(())
    }

    /// Processes that do one thing and end.
    pub(super) fn add_short_ones(&mut self, node: &Node) -> Result<()> {
        for number in 0..SHORT {
            let plan = Plan::requests(vec![50; 4], 1000.0, Until::Requests(2));
            self.add(node, &plan, SLOTS[number % SLOTS.len()], None, 0.0)?;
        }
        Ok(())
    }

    /// A process that forks while its work is in flight or deferred.
    pub(super) fn add_forking_one(&mut self, node: &Node, random: &mut fastrand::Rng) -> Result<()> {
        let seed = random.u32(..);
        let plan = Plan { forks_ms: Some(5), seed, ..Plan::saturating(vec![50, 500], RESTLESS_SECONDS) };
        self.add(node, &plan, Self::any_parameters(random), None, RESTLESS_SECONDS)
    }

    /// A process that executes another program while its work is in flight or deferred.
    pub(super) fn add_executing_one(&mut self, node: &Node, random: &mut fastrand::Rng) -> Result<()> {
        let exec_ms = Some(random.u32(1..=300));
        let plan = Plan { exec_ms, ..Plan::saturating(vec![50, 500], RESTLESS_SECONDS) };
        self.add(node, &plan, Self::any_parameters(random), None, 2.0 * RESTLESS_SECONDS)
    }

    fn any_parameters(random: &mut fastrand::Rng) -> Parameters {
        SLOTS[random.usize(..SLOTS.len())]
    }

    fn add(
        &mut self,
        node: &Node,
        plan: &Plan,
        parameters: Parameters,
        slot: Option<usize>,
        seconds: f64,
    ) -> Result<()> {
        let mut client = node.spawn(plan, parameters)?;
        Client::begin(slice::from_mut(&mut client))?;
        let pid = client.pid();
        let end = thread::spawn(move || client.finish().map_err(|error| error.to_string()));
        let ends_by = Instant::now() + Duration::from_secs_f64(seconds) + TIMEOUT;
        self.members.push(Member { slot, pid, ends_by, end, was_killed: false, stops: Vec::new() });
        Ok(())
    }

    /// Collects the clients that have ended.
    ///
    /// # Errors
    /// A client has lost work, failed without having been killed, or hangs.
    pub(super) fn collect(&mut self) -> Result<()> {
        let (ended, members) = self.members.drain(..).partition(|member| member.end.is_finished());
        self.members = members;
        for member in Vec::from_iter::<Vec<Member>>(ended) {
            let outcome = member.end.join().map_err(|_| "a client's thread has panicked")?;
            match outcome {
                Ok(outcome) => {
                    let is_job = member.slot.is_some_and(|slot| slot >= SERVICES);
                    self.gone.push(Gone { outcome, stops: member.stops, is_job });
                }
                Err(_) if member.was_killed => {}
                Err(error) => return Err(format!("client {}: {error}", member.pid).into()),
            }
        }
        match self.members.iter().find(|member| Instant::now() > member.ends_by) {
            Some(member) => Err(format!("client {} hangs", member.pid).into()),
            None => Ok(()),
        }
    }

    pub(super) fn wait_for_all(&mut self) -> Result<()> {
        while !self.members.is_empty() {
            self.collect()?;
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Number of clients that the controller should know.
    pub(super) fn running(&self) -> usize {
        let is_staying =
            |member: &&Member| member.slot.is_some() && !member.was_killed && !member.end.is_finished();
        self.members.iter().filter(is_staying).count()
    }

    pub(super) fn ended(&self) -> usize {
        self.gone.len()
    }

    /// Processes that clients have created and that ended successfully.
    pub(super) fn children(&self) -> u64 {
        self.gone.iter().map(|gone| gone.outcome.children[0] - gone.outcome.children[1]).sum()
    }

    pub(super) fn any(&self, random: &mut fastrand::Rng) -> Option<u32> {
        let living: Vec<_> = self.members.iter().filter(|member| !member.was_killed).collect();
        random.choice(living).map(|member| member.pid)
    }

    pub(super) fn kill_one(&mut self, random: &mut fastrand::Rng) -> Result<()> {
        if let Some(member) = self.pick(random) {
            member.was_killed = true;
            signal(member.pid, Signal::KILL)?;
        }
        Ok(())
    }

    /// Stops a client for a moment.
    pub(super) fn stop_one(&mut self, random: &mut fastrand::Rng) -> Result<()> {
        let stopped = Duration::from_millis(random.u64(..STOPPED_MS));
        if let Some(member) = self.pick(random) {
            let from_ns = boottime_ns();
            signal(member.pid, Signal::STOP)?;
            thread::sleep(stopped);
            signal(member.pid, Signal::CONT)?;
            member.stops.push((from_ns, boottime_ns()));
        }
        Ok(())
    }

    fn pick(&mut self, random: &mut fastrand::Rng) -> Option<&mut Member> {
        let living: Vec<_> = self
            .members
            .iter_mut()
            .filter(|member| !member.was_killed && !member.end.is_finished())
            .collect();
        random.choice(living)
    }

    /// The longest time without the device of each client that always had work.
    pub(super) fn longest_waits_ms(&self, timeline: &Timeline) -> Vec<f64> {
        let jobs = self.gone.iter().filter(|gone| gone.is_job);
        jobs.map(|Gone { outcome, stops, .. }| {
            let own = timeline.of(&[outcome.pid]);
            let stopped_ns: u64 = stops.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
            own.longest_gap_ns(outcome.span_ns()).saturating_sub(stopped_ns) as f64 / 1e6
        })
        .collect()
    }
}

fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid.cast_signed()).ok_or("a client has no pid")?;
    match kill_process(pid, signal) {
        // The client has just ended.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        result => Ok(result?),
    }
}

fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
