//! Clients that come, work for a while, and go.

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

use super::random::Random;
use crate::{
    Result,
    client::{Client, Outcome, Plan, Standing, Until},
    node::Node,
};

/// Each with its standing: two services and three jobs.
const PLACES: [Standing; 5] =
    [Standing::High, Standing::Normal, Standing::Low, Standing::Low, Standing::Normal];
const SERVICES: usize = 2;
const SHORT: usize = 6;
/// How long those work that fork or become other programs.
const RESTLESS_SECONDS: f64 = 0.5;
/// How much longer than it wanted a client may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(30);
const STOPPED_MS: u64 = 100;

#[derive(Default)]
pub(super) struct Crowd {
    here: Vec<Member>,
    /// Those that have ended as they should: what they did, and when they were stopped.
    gone: Vec<Gone>,
}

struct Gone {
    outcome: Outcome,
    stops: Vec<(u64, u64)>,
    /// It wanted the device at all times.
    is_job: bool,
}

struct Member {
    place: Option<usize>,
    pid: u32,
    ends_by: Instant,
    /// The error as text, so that it may come from another thread.
    end: JoinHandle<Result<Outcome, String>>,
    was_killed: bool,
    stops: Vec<(u64, u64)>,
}

impl Crowd {
    /// Takes every place that is free.
    pub(super) fn fill(&mut self, node: &Node, random: &mut Random) -> Result<()> {
        for (place, standing) in PLACES.into_iter().enumerate() {
            if self.here.iter().any(|member| member.place == Some(place)) {
                continue;
            }
            let seconds = 1.0 + random.below(5) as f64;
            let until = Until::Seconds(seconds);
            let plan = if place < SERVICES {
                Plan::requests(vec![20, 50, 100], 100.0, until)
            } else {
                Plan::saturating(vec![200, 1000, 2000], seconds)
            };
            self.add(node, &plan, standing, Some(place), seconds)?;
        }
        Ok(())
    }

    /// Processes that do one thing and go.
    pub(super) fn add_short_ones(&mut self, node: &Node) -> Result<()> {
        for number in 0..SHORT {
            let plan = Plan::requests(vec![50; 4], 1000.0, Until::Requests(2));
            self.add(node, &plan, PLACES[number % PLACES.len()], None, 0.0)?;
        }
        Ok(())
    }

    /// One that has children while its work is in flight or held back.
    pub(super) fn add_forking_one(&mut self, node: &Node, random: &mut Random) -> Result<()> {
        let seed = random.next() as u32;
        let plan = Plan { forks_ms: Some(5), seed, ..Plan::saturating(vec![50, 500], RESTLESS_SECONDS) };
        self.add(node, &plan, Self::any_standing(random), None, RESTLESS_SECONDS)
    }

    /// One that becomes another program while its work is in flight or held back.
    pub(super) fn add_executing_one(&mut self, node: &Node, random: &mut Random) -> Result<()> {
        let exec_ms = Some(1 + random.below(300) as u32);
        let plan = Plan { exec_ms, ..Plan::saturating(vec![50, 500], RESTLESS_SECONDS) };
        self.add(node, &plan, Self::any_standing(random), None, 2.0 * RESTLESS_SECONDS)
    }

    fn any_standing(random: &mut Random) -> Standing {
        PLACES[random.below(PLACES.len() as u64) as usize]
    }

    fn add(
        &mut self,
        node: &Node,
        plan: &Plan,
        standing: Standing,
        place: Option<usize>,
        seconds: f64,
    ) -> Result<()> {
        let mut client = node.spawn(plan, standing)?;
        Client::begin(slice::from_mut(&mut client))?;
        let pid = client.pid();
        let end = thread::spawn(move || client.finish().map_err(|error| error.to_string()));
        let ends_by = Instant::now() + Duration::from_secs_f64(seconds) + PATIENCE;
        self.here.push(Member { place, pid, ends_by, end, was_killed: false, stops: Vec::new() });
        Ok(())
    }

    /// Takes in those that have ended.
    ///
    /// # Errors
    /// One has lost work, failed without having been killed, or hangs.
    pub(super) fn collect(&mut self) -> Result<()> {
        let (ended, here) = self.here.drain(..).partition(|member| member.end.is_finished());
        self.here = here;
        for member in Vec::from_iter::<Vec<Member>>(ended) {
            let outcome = member.end.join().map_err(|_| "a client's thread has panicked")?;
            match outcome {
                Ok(outcome) => {
                    let is_job = member.place.is_some_and(|place| place >= SERVICES);
                    self.gone.push(Gone { outcome, stops: member.stops, is_job });
                }
                Err(_) if member.was_killed => {}
                Err(error) => return Err(format!("client {}: {error}", member.pid).into()),
            }
        }
        match self.here.iter().find(|member| Instant::now() > member.ends_by) {
            Some(member) => Err(format!("client {} hangs", member.pid).into()),
            None => Ok(()),
        }
    }

    pub(super) fn wait_for_all(&mut self) -> Result<()> {
        while !self.here.is_empty() {
            self.collect()?;
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// How many there are that the controller should know.
    pub(super) fn running(&self) -> usize {
        let is_staying =
            |member: &&Member| member.place.is_some() && !member.was_killed && !member.end.is_finished();
        self.here.iter().filter(is_staying).count()
    }

    pub(super) fn ended(&self) -> usize {
        self.gone.len()
    }

    /// Processes that clients have made and that have ended as they should.
    pub(super) fn children(&self) -> u64 {
        self.gone.iter().map(|gone| gone.outcome.children[0] - gone.outcome.children[1]).sum()
    }

    pub(super) fn any(&self, random: &mut Random) -> Option<u32> {
        let living: Vec<_> = self.here.iter().filter(|member| !member.was_killed).collect();
        living.get(random.below(living.len() as u64) as usize).map(|member| member.pid)
    }

    pub(super) fn kill_one(&mut self, random: &mut Random) -> Result<()> {
        if let Some(member) = self.pick(random) {
            member.was_killed = true;
            signal(member.pid, Signal::KILL)?;
        }
        Ok(())
    }

    /// For a moment.
    pub(super) fn stop_one(&mut self, random: &mut Random) -> Result<()> {
        let stopped = Duration::from_millis(random.below(STOPPED_MS));
        if let Some(member) = self.pick(random) {
            let from_ns = boottime_ns();
            signal(member.pid, Signal::STOP)?;
            thread::sleep(stopped);
            signal(member.pid, Signal::CONT)?;
            member.stops.push((from_ns, boottime_ns()));
        }
        Ok(())
    }

    fn pick(&mut self, random: &mut Random) -> Option<&mut Member> {
        let mut living: Vec<_> =
            self.here.iter_mut().filter(|member| !member.was_killed && !member.end.is_finished()).collect();
        let index = random.below(living.len() as u64) as usize;
        (index < living.len()).then(|| living.swap_remove(index))
    }

    /// For how long each of those that always wanted the device had to do without.
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
        // It has just ended.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        result => Ok(result?),
    }
}

fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
