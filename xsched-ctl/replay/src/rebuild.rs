//! Programs as the simulation runs them, from what was recorded.
//!
//! **Device time.** An execution lasts from when its command could run until a marker behind it was reached, and another
//! process's command may have run in between. The ends are exact. The device of the model runs one command at a time. So a
//! command has taken the time since it could run, or since the end of the one before it on the device, whichever is later.
//!
//! **What a submission follows.** That shows in the calls of the process, and in the times of one stream:
//!
//! | between the calls of a command and the one before it | so |
//! | --- | --- |
//! | an earlier command ended, and a call returned that had waited for that | the thread has waited ([`Release::Done`]) |
//! | the same, and the stream had nothing to do for a while then | work came from outside ([`Release::At`]) |
//! | anything else | the thread goes on ([`Release::Behind`]) |
//!
//! Of a process whose calls were not recorded, any pause in which a command ended counts as a wait.
//!
//! A **request** is what a stream submits without waiting in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use xsched_sched::Nanos;
use xsched_sched::simulation::{Release, Step};

use crate::recording::{Claim, Command, Recording};

/// Where calls were not recorded, a shorter time between commands is no pause.
const AT_ONCE: Nanos = Nanos::from_micros(50);

/// A stream that had nothing to do for longer than this waited for work from outside.
const OUTSIDE: Nanos = Nanos::from_millis(5);

/// A process that stays ready for longer has other reasons than that it noticed late.
const IDLE_MAX: Nanos = Nanos::from_millis(2);

/// A program that had work in the last such part of the recording goes on.
const GOES_ON: u64 = 10;

/// What the recorded processes did. Times count from the first call on.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) all: Vec<Program>,
    /// The end of the last command.
    pub(crate) until: Nanos,
    /// How long processes stayed ready after their last command: the median.
    pub(crate) idle_after: Option<Nanos>,
    /// The first call, in nanoseconds of `CLOCK_BOOTTIME`.
    pub(crate) begin_ns: u64,
}

/// What a process did on a device.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) device: Arc<str>,
    pub(crate) pid: u32,
    pub(crate) streams: Vec<Stream>,
    pub(crate) opens: Nanos,
    pub(crate) goes_on: bool,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) name: Arc<str>,
    pub(crate) steps: Vec<Step>,
    /// When each was submitted, and when it ended.
    pub(crate) times: Vec<(Nanos, Nanos)>,
    /// The request of each step.
    pub(crate) requests: Vec<usize>,
}

impl Programs {
    pub(crate) fn of(recording: &Recording) -> Self {
        let all = || recording.claims.values().flat_map(|claim| claim.streams.values().flatten());
        let begin_ns = all().map(|command| command.called_ns).min().unwrap_or(0);
        let until = Nanos(all().map(|command| command.end_ns).max().unwrap_or(0) - begin_ns);
        let took = device_times(recording);
        let program = |((device, pid), claim): (&(Arc<str>, u32), &Claim)| {
            let process = recording.processes.get(pid);
            let known =
                process.and_then(|process| process.known_ns).map(|at_ns| Nanos(at_ns) - Nanos(begin_ns));
            let waits = process.and_then(|process| process.waits.as_deref());
            let streams: Vec<_> = claim
                .streams
                .iter()
                .map(|(name, commands)| Stream::of(name, commands, waits, begin_ns, &took))
                .collect();
            let times = || streams.iter().flat_map(|stream| &stream.times);
            Program {
                device: Arc::clone(device),
                pid: *pid,
                // It may have joined before its first recorded command.
                opens: times().map(|(called, _)| *called).chain(known).min().unwrap_or_default(),
                goes_on: times().map(|(_, ended)| *ended).max().unwrap_or_default() + until / GOES_ON
                    >= until,
                streams,
            }
        };
        Self {
            all: recording.claims.iter().map(program).collect(),
            until,
            idle_after: idle_after(recording),
            begin_ns,
        }
    }
}

/// How long processes stayed ready after their last command. That is longer than `linger`: a completion is noticed late.
fn idle_after(recording: &Recording) -> Option<Nanos> {
    // For each process: when a command was called, and when all called until then had ended.
    let mut ends = BTreeMap::<u32, Vec<(u64, u64)>>::new();
    for ((_, pid), claim) in &recording.claims {
        let commands = claim.streams.values().flatten();
        ends.entry(*pid).or_default().extend(commands.map(|command| (command.called_ns, command.end_ns)));
    }
    for commands in ends.values_mut() {
        commands.sort_unstable();
        let mut last_ns = 0;
        for (_, end_ns) in commands {
            last_ns = last_ns.max(*end_ns);
            *end_ns = last_ns;
        }
    }
    let idle = |(pid, until_ns): &(u32, u64)| {
        let commands = ends.get(pid)?;
        let before = commands.partition_point(|(called_ns, _)| called_ns < until_ns);
        let (_, last_ns) = commands[before.checked_sub(1)?];
        // Otherwise it was preempted.
        until_ns.checked_sub(last_ns).filter(|idle_ns| *idle_ns >= recording.settings.linger_ns)
    };
    let times = recording.fronts.iter().filter_map(idle);
    median(times.filter(|idle_ns| *idle_ns < IDLE_MAX.0).collect()).map(Nanos)
}

fn median(mut times: Vec<u64>) -> Option<u64> {
    let middle = times.len() / 2;
    (!times.is_empty()).then(|| *times.select_nth_unstable(middle).1)
}

/// The device time of each command, by device, the command's end and its begin.
type DeviceTimes = BTreeMap<(u64, u64, u64), Nanos>;

fn device_times(recording: &Recording) -> DeviceTimes {
    let mut by_device: BTreeMap<&str, Vec<&Command>> = BTreeMap::new();
    for ((device, _), claim) in &recording.claims {
        by_device.entry(device).or_default().extend(claim.streams.values().flatten());
    }
    let mut took = DeviceTimes::new();
    for commands in by_device.values_mut() {
        commands.sort_by_key(|command| (command.end_ns, command.begin_ns));
        let mut free_ns = 0;
        for command in commands.iter() {
            let time = Nanos(command.end_ns.saturating_sub(command.begin_ns.max(free_ns)).max(1));
            took.insert(key(command), time);
            free_ns = command.end_ns;
        }
    }
    took
}

fn key(command: &Command) -> (u64, u64, u64) {
    (command.end_ns, command.begin_ns, command.called_ns)
}

impl Stream {
    fn of(
        name: &Arc<str>,
        commands: &[Command],
        waits: Option<&[(u64, u64)]>,
        begin_ns: u64,
        took: &DeviceTimes,
    ) -> Self {
        let since = |time_ns: u64| Nanos(time_ns) - Nanos(begin_ns);
        let waits: Option<Vec<_>> = waits
            .map(|waits| waits.iter().map(|(from_ns, to_ns)| (since(*from_ns), since(*to_ns))).collect());
        // A stream's commands end in the order of their calls; estimated times may not.
        let mut ended = Nanos::ZERO;
        let mut times = Vec::with_capacity(commands.len());
        for command in commands {
            ended = ended.max(since(command.end_ns));
            times.push((since(command.called_ns), ended));
        }
        let (submitted, launches) = submissions(commands, begin_ns);
        let (mut steps, mut requests) =
            (Vec::with_capacity(commands.len()), Vec::with_capacity(commands.len()));
        for (index, command) in commands.iter().enumerate() {
            let release = release(&times, &submitted, waits.as_deref(), index);
            let before = requests.last().copied();
            let is_next = !matches!(release, Release::Behind(_));
            requests.push(before.map_or(0, |before| before + usize::from(is_next)));
            let time = took.get(&key(command)).copied().unwrap_or(Nanos(1));
            let host = submitted[index] - times[index].0;
            steps.push(Step { time, host, launch: launches[index], class: command.kernel as u64, release });
        }
        Self { name: Arc::clone(name), steps, times, requests }
    }
}

/// When each command was in its queue, and how long its launch took. The recording has the sum of both host times. Half of that is
/// before the claim has work and half behind. One that was deferred is launched later, in the usual
/// time.
fn submissions(commands: &[Command], begin_ns: u64) -> (Vec<Nanos>, Vec<Nanos>) {
    let at_once = commands.iter().filter(|command| !command.was_deferred).map(|command| command.host_ns);
    let usual_ns = median(at_once.collect()).unwrap_or(0);
    let mut last_ns = begin_ns;
    let of = |command: &Command| {
        let host_ns = if command.was_deferred { command.host_ns.min(usual_ns) } else { command.host_ns };
        last_ns = last_ns.max(command.called_ns.saturating_add(host_ns / 2));
        (Nanos(last_ns - begin_ns), Nanos(host_ns - host_ns / 2))
    };
    commands.iter().map(of).unzip()
}

/// What the submission of a stream's command follows.
fn release(
    times: &[(Nanos, Nanos)],
    submitted: &[Nanos],
    waits: Option<&[(Nanos, Nanos)]>,
    index: usize,
) -> Release {
    let (called, own) = (times[index].0, submitted[index]);
    let Some(before) = index.checked_sub(1) else {
        return Release::At { time: own, back: 0, idle: Nanos::ZERO };
    };
    let behind = Release::Behind(own - submitted[before]);
    let before = times[before].0;
    let ended = times[..index].partition_point(|(_, ended)| *ended <= called);
    let last = times[..ended].last().map(|(_, ended)| *ended).filter(|ended| *ended > before);
    let has_waited = |ended: &Nanos| match waits {
        // The last call that returned before this one.
        Some(waits) => {
            let returned = waits.partition_point(|(_, to)| *to <= called);
            waits[..returned].last().is_some_and(|(from, to)| *to > before && *from <= *ended)
        }
        None => called - before > AT_ONCE,
    };
    let Some(last) = last.filter(has_waited) else { return behind };
    let (back, idle) = (index + 1 - ended, own - last);
    if ended == index && called - last > OUTSIDE {
        Release::At { time: own, back, idle }
    } else {
        Release::Done { back, host: idle }
    }
}
