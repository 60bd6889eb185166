//! What comes out of a run for each process: latencies of its requests, and its throughput.

use serde_json::{Value, json};
use xsched_sched::Nanos;
use xsched_sched::simulation::Modelled;

use crate::rebuild::{Program, Programs};

/// The figures of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Requests that have ended.
    pub(crate) requests: usize,
    /// Percentiles of their latencies.
    pub(crate) p50: Nanos,
    pub(crate) p99: Nanos,
    /// Commands that have ended, in a second.
    pub(crate) commands: f64,
    /// Its part of the device's time, in percent.
    pub(crate) device: f64,
}

/// By how much other figures differ, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) commands: f64,
}

/// A command that has ended: its stream and step, when it was called, when it ended, and its time on the device.
struct Command {
    stream: usize,
    step: usize,
    called: Nanos,
    ended: Nanos,
    time: Nanos,
}

impl Figures {
    /// Of each program, as recorded.
    pub(crate) fn recorded(programs: &Programs) -> Vec<Self> {
        let of = |program: &Program| {
            let streams = program.streams.iter().enumerate();
            let ended = streams.flat_map(|(number, stream)| {
                stream.times.iter().zip(&stream.steps).enumerate().map(move |(step, (times, recorded))| {
                    Command { stream: number, step, called: times.0, ended: times.1, time: recorded.time }
                })
            });
            Self::of(program, programs.until, ended)
        };
        programs.all.iter().map(of).collect()
    }

    /// The same in a run of the model.
    pub(crate) fn modelled(programs: &Programs, modelled: &Modelled) -> Vec<Self> {
        let of = |(index, program): (usize, &Program)| {
            let own = modelled.executions.iter().filter(|execution| execution.claim == index);
            let ended = own.map(|execution| Command {
                stream: execution.stream,
                step: execution.step,
                called: execution.called,
                ended: execution.ended,
                time: execution.ended - execution.began,
            });
            Self::of(program, programs.until, ended)
        };
        programs.all.iter().enumerate().map(of).collect()
    }

    /// Commands of each stream come in order.
    fn of(program: &Program, until: Nanos, all: impl Iterator<Item = Command>) -> Self {
        let (mut latencies, mut commands, mut time) = (Vec::new(), 0_u64, Nanos::ZERO);
        let (mut first, mut last) = (until, Nanos::ZERO);
        // By stream: when its present request began, and the latest step.
        let mut present: Vec<Option<(Nanos, usize)>> = vec![None; program.streams.len()];
        for Command { stream, step, called, ended, time: took } in all {
            let requests = &program.streams[stream].requests;
            let began = match present[stream] {
                Some((began, before)) if before + 1 == step && requests[before] == requests[step] => began,
                _ => called,
            };
            present[stream] = Some((began, step));
            if requests.get(step + 1) != Some(&requests[step]) {
                latencies.push(ended - began);
            }
            (commands, time) = (commands + 1, time + took);
            (first, last) = (first.min(called), last.max(ended));
        }
        let whole = (if program.goes_on { until } else { last }) - first;
        let percentile = |latencies: &mut [Nanos], percent: usize| {
            let index = (latencies.len() * percent).div_ceil(100).checked_sub(1)?;
            Some(*latencies.select_nth_unstable(index).1)
        };
        Self {
            requests: latencies.len(),
            p50: percentile(&mut latencies, 50).unwrap_or_default(),
            p99: percentile(&mut latencies, 99).unwrap_or_default(),
            commands: commands as f64 * 1e9 / whole.0.max(1) as f64,
            device: time.0 as f64 * 100.0 / whole.0.max(1) as f64,
        }
    }

    /// By how much these differ from others.
    pub(crate) fn change_from(&self, other: &Self) -> Change {
        let percent = |own: f64, other: f64| if other == 0.0 { 0.0 } else { (own / other - 1.0) * 100.0 };
        Change {
            p50: percent(self.p50.0 as f64, other.p50.0 as f64),
            p99: percent(self.p99.0 as f64, other.p99.0 as f64),
            commands: percent(self.commands, other.commands),
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "requests": self.requests,
            "p50_ns": self.p50.0,
            "p99_ns": self.p99.0,
            "commands_per_second": self.commands,
            "device_percent": self.device,
        })
    }
}

impl Change {
    pub(crate) fn json(&self) -> Value {
        json!({ "p50_percent": self.p50, "p99_percent": self.p99, "commands_percent": self.commands })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { p50, p99, commands } = self;
        write!(f, "{p50:+.1}  {p99:+.1}  {commands:+.1}")
    }
}
