//! Recorded programs under any policy.
//!
//! A program is streams of commands. Of each command it is known how long the device takes for it, and what its submission follows:
//!
//! ```text
//!   Behind   host time ---|                 the same thread goes on
//!   Done     ..... command ends |-- host time --|    it waited for an earlier command, and the time after that is its own
//!   At       ....................|          at this time, whatever the device did: a request from outside
//! ```
//!
//! So a program that waits for its results is slower on a slower device, and requests from outside are not. The shim's part is that
//! of all simulated clients: it defers, limits what is in flight, closes gates, and learns use by the device's clock.

use super::client::{Client, Kernel, Misses, Plan, Work};
use super::{Delays, Happening, Simulation, World};
use crate::{Attributes, Level, Nanos, PolicyKind, Settings};

/// Recorded claims, and what decides about them.
#[derive(Clone, Debug)]
pub struct Model {
    /// The policy.
    pub policy: PolicyKind,
    /// Its settings.
    pub settings: Settings,
    /// The claims. Each is known by its index.
    pub claims: Vec<Recorded>,
    /// How long a claim stays ready after its last command, as observed; `None`: for `linger`.
    pub idle_after: Option<Nanos>,
    /// How long the run lasts.
    pub until: Nanos,
}

/// A claim, and what its process does on one device.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its parameters.
    pub attributes: Attributes,
    /// When it is there.
    pub opens: Nanos,
    /// Whether commands in flight wait on the device.
    pub gates: Gates,
    /// The commands of each stream.
    pub streams: Vec<Vec<Step>>,
    /// After its last command a stream that waits for its results goes on as it did; otherwise it has no more work.
    pub goes_on: bool,
}

/// Preemption modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gates {
    /// Mode 1: commands in flight run.
    None,
    /// Mode 2: they wait while a more urgent claim has work.
    Close,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its time on the device.
    pub time: Nanos,
    /// From its call until its submission.
    pub host: Nanos,
    /// From its launch until the device has it.
    pub launch: Nanos,
    /// Commands of a class take equally long, as far as its process knows.
    pub class: u64,
    /// What its submission follows.
    pub release: Release,
}

/// When a command is submitted: then the call has got so far that its claim has work. `back` counts commands of its stream, from the command itself on: at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// So long after the one before it.
    Behind(Nanos),
    /// When an earlier command has ended, plus this much host time.
    Done {
        /// Which one.
        back: usize,
        /// The host time.
        host: Nanos,
    },
    /// At a time, but not before an earlier command has ended.
    At {
        /// The time.
        time: Nanos,
        /// Which command; 0: there is none.
        back: usize,
        /// For how long it had ended then: where a stream goes on, the time means nothing.
        idle: Nanos,
    },
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Modelled {
    /// Commands that have ended, in the order of their ends.
    pub executions: Vec<Execution>,
    /// Times for which claims had something to launch and were not allowed to.
    pub waits: Vec<Wait>,
}

/// A command that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Index of its claim.
    pub claim: usize,
    /// Index of its stream there.
    pub stream: usize,
    /// Index of its step in the recording of that stream.
    pub step: usize,
    /// When the program called.
    pub called: Nanos,
    /// When the command was in its queue.
    pub submitted: Nanos,
    /// When it was launched.
    pub launched: Nanos,
    /// When it began on the device.
    pub began: Nanos,
    /// When it ended there.
    pub ended: Nanos,
}

/// A claim was not allowed to launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Index of the claim.
    pub claim: usize,
    /// From when on.
    pub from: Nanos,
    /// Until when.
    pub to: Nanos,
    /// Index of the most urgent claim with work then, if there was one.
    pub by: Option<usize>,
}

/// How late a timer of the controller ends. `cargo xtask bench timer` prints it.
const LATE: Nanos = Nanos::from_micros(50);

impl Model {
    /// Runs it.
    pub fn run(&self) -> Modelled {
        let mut simulation = Simulation::run(self.world());
        for index in 0..simulation.clients.len() {
            simulation.clients[index].blocked = false;
            simulation.note_wait(index);
        }
        simulation.modelled
    }

    fn world(&self) -> World {
        let usual = Delays::default();
        let linger = self.idle_after.map_or(self.settings.linger, |idle_after| idle_after - usual.notice);
        let delays = Delays { linger, late: LATE, ..usual };
        World {
            policy: self.policy,
            settings: self.settings,
            delays,
            plans: self.claims.iter().map(Recorded::plan).collect(),
            until: self.until,
            #[cfg(test)]
            planted: None,
        }
    }
}

impl Recorded {
    fn plan(&self) -> Plan {
        Plan {
            attributes: self.attributes,
            opens: self.opens,
            closes: None,
            work: Work::Recorded(Program { streams: self.streams.clone(), goes_on: self.goes_on }),
            gates: self.gates,
            misses: Misses::default(),
            #[cfg(test)]
            kernel: Nanos::ZERO,
            #[cfg(test)]
            seed: 0,
        }
    }
}

/// The streams of a claim.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(super) streams: Vec<Vec<Step>>,
    goes_on: bool,
}

impl Program {
    /// The step with this number, counted on through all laps, and its index in the recording.
    fn step(&self, stream: usize, number: usize) -> Option<(usize, Step)> {
        let steps = &self.streams[stream];
        let Some(beyond) = number.checked_sub(steps.len()) else { return Some((number, steps[number])) };
        let first = first_wait(steps).filter(|_| self.goes_on)?;
        let index = first + beyond % (steps.len() - first);
        let step = steps[index];
        let release = match step.release {
            Release::At { back, idle, .. } => Release::Done { back, host: idle },
            release => release,
        };
        Some((index, Step { release, ..step }))
    }
}

/// The step from which a stream goes on as it did. Commands that it submitted before, without a wait, were ahead of all later
/// ones. A stream whose work mostly comes from outside does not go on, nor does one that never waits.
fn first_wait(steps: &[Step]) -> Option<usize> {
    let waits = |step: &Step| matches!(step.release, Release::Done { .. });
    let from_outside = steps.iter().filter(|step| matches!(step.release, Release::At { .. })).count();
    let first = steps.iter().position(waits)?;
    (steps.iter().filter(|step| waits(step)).count() >= from_outside).then_some(first)
}

/// The state of a program.
#[derive(Debug, Default)]
pub(super) struct Run {
    streams: Vec<Position>,
}

/// How far a stream has come.
#[derive(Clone, Debug, Default)]
struct Position {
    /// Number of submitted commands.
    submitted: usize,
    /// When the first ones have ended; a stream's commands end in order.
    ended: Vec<Nanos>,
    /// The next submission waits for the end of the command with this number, and then for this time.
    awaited: Option<(usize, Wanted)>,
    last: Nanos,
}

/// When a submission follows a command's end.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    After(Nanos),
    NotBefore(Nanos),
}

impl Wanted {
    fn at(self, ended: Nanos) -> Nanos {
        match self {
            Self::After(host) => ended + host,
            Self::NotBefore(time) => ended.max(time),
        }
    }
}

/// Which command of a program a kernel is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Submission {
    stream: usize,
    number: usize,
    step: usize,
    submitted: Nanos,
    host: Nanos,
}

impl Run {
    pub(super) fn of(program: &Program) -> Self {
        Self { streams: vec![Position::default(); program.streams.len()] }
    }
}

impl Client {
    /// What its program submits next on a stream.
    fn next_step(&self, stream: usize) -> Option<(usize, Step)> {
        match &self.plan.work {
            Work::Recorded(program) => program.step(stream, self.run.streams[stream].submitted),
            #[cfg(test)]
            _ => None,
        }
    }
}

impl Simulation {
    /// The program submits its next command, and goes on.
    pub(super) fn submit_recorded(&mut self, index: usize, stream: usize) {
        let client = &mut self.clients[index];
        let number = client.run.streams[stream].submitted;
        let Some((step, Step { time, host, launch, class, .. })) = client.next_step(stream) else { return };
        let position = &mut client.run.streams[stream];
        (position.submitted, position.last) = (number + 1, self.now);
        let submission = Submission { stream, number, step, submitted: self.now, host };
        client.buffer.push_back(Kernel { time, launch, class, submission: Some(submission) });
        self.make_appointment(index, self.now);
        self.plan_submission(index, stream);
    }

    /// Plans the next submission, unless it has to wait for the end of a command.
    pub(super) fn plan_submission(&mut self, index: usize, stream: usize) {
        let client = &mut self.clients[index];
        let number = client.run.streams[stream].submitted;
        let Some((_, step)) = client.next_step(stream) else { return };
        let position = &mut client.run.streams[stream];
        let (back, wanted) = match step.release {
            Release::Behind(host) => {
                let at = position.last + host;
                return self.plan(at, Happening::Submits(index, stream));
            }
            Release::Done { back, host } => (back, Wanted::After(host)),
            Release::At { time, back, .. } => (back, Wanted::NotBefore(time)),
        };
        let Some(awaited) = number.checked_sub(back).filter(|_| back > 0) else {
            let at = wanted.at(self.now);
            return self.plan(at, Happening::Submits(index, stream));
        };
        match position.ended.get(awaited) {
            Some(ended) => {
                let at = wanted.at(*ended);
                self.plan(at, Happening::Submits(index, stream));
            }
            None => position.awaited = Some((awaited, wanted)),
        }
    }

    /// A recorded command has ended.
    pub(super) fn executed(&mut self, claim: usize, submission: Submission, [launched, began]: [Nanos; 2]) {
        let Submission { stream, number, step, submitted, host } = submission;
        let (called, ended) = (submitted - host, self.now);
        self.modelled.executions.push(Execution {
            claim,
            stream,
            step,
            called,
            submitted,
            launched,
            began,
            ended,
        });
        let position = &mut self.clients[claim].run.streams[stream];
        position.ended.push(ended);
        if let Some((_, wanted)) = position.awaited.take_if(|(awaited, _)| *awaited == number) {
            self.plan(wanted.at(ended), Happening::Submits(claim, stream));
        }
    }

    /// A client may have become blocked or unblocked.
    pub(super) fn note_wait(&mut self, index: usize) {
        if self.clients[index].blocked {
            let by = self.front_of(self.clients[index].device());
            let now = self.now;
            self.clients[index].waits.get_or_insert((now, by));
        } else if let Some((from, by)) = self.clients[index].waits.take()
            && from < self.now
        {
            self.modelled.waits.push(Wait { claim: index, from, to: self.now, by });
        }
    }

    /// The most urgent client with work on a device.
    fn front_of(&self, device: usize) -> Option<usize> {
        let ready = |(index, client): (usize, &Client)| {
            let level: Level = client.level.filter(|_| client.ready && client.device() == device)?;
            Some((level, index))
        };
        self.clients.iter().enumerate().filter_map(ready).min().map(|(_, index)| index)
    }
}

#[cfg(test)]
mod tests;
