//! One process with work for the device: its plan, and its results.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};
use serde::Deserialize;

use crate::result::Result;

/// A client's plan; the options of `tests/apps/sched_client`.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Durations of a request's kernels.
    pub(crate) kernels_us: Vec<u32>,
    /// Requests per second; none: one after the other without pause.
    pub(crate) rate: Option<f64>,
    /// Requests in flight at a time.
    pub(crate) ahead: u32,
    pub(crate) until: Until,
    /// Ordinal of its first device, and number of devices that it uses, each by a thread with the whole plan.
    pub(crate) device: u32,
    pub(crate) devices: u32,
    /// The only device of the machine that it sees, if it does not see all.
    pub(crate) visible: Option<u32>,
    /// It does not use the device before it begins.
    pub(crate) is_cold: bool,
    pub(crate) seed: u32,
    /// It forks meanwhile, at intervals of this many milliseconds.
    pub(crate) forks_ms: Option<u32>,
    /// It executes the same program again after this many milliseconds, whatever is in flight or deferred,
    /// and restarts.
    pub(crate) exec_ms: Option<u32>,
    /// Priorities of its streams, each with a thread that has the whole plan; none: one stream, created without a priority.
    pub(crate) stream_priorities: Vec<i32>,
}

/// A client's scheduling parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameters {
    High,
    Normal,
    Low,
    /// In percent of the device.
    Share(u8),
}

impl Parameters {
    /// Options of `xsched-ctl run`.
    pub(crate) fn options(self) -> [String; 2] {
        let class = |name: &str| ["--class".to_owned(), name.to_owned()];
        match self {
            Self::High => class("high"),
            Self::Normal => class("normal"),
            Self::Low => class("low"),
            Self::Share(percent) => ["--share".to_owned(), percent.to_string()],
        }
    }
}

/// When a client ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Requests(u32),
    Seconds(f64),
}

impl Plan {
    /// Requests at random times.
    pub(crate) fn requests(kernels_us: Vec<u32>, rate: f64, until: Until) -> Self {
        Self { rate: Some(rate), ahead: 1, ..Self::of(kernels_us, until) }
    }

    /// As much work as the device can run, in kernels of these durations: several requests are always in
    /// flight.
    pub(crate) fn saturating(kernels_us: Vec<u32>, seconds: f64) -> Self {
        let until = Until::Seconds(seconds);
        Self { ahead: 4, ..Self::of(kernels_us, until) }
    }

    fn of(kernels_us: Vec<u32>, until: Until) -> Self {
        Self {
            kernels_us,
            rate: None,
            ahead: 1,
            until,
            device: 0,
            devices: 1,
            visible: None,
            is_cold: false,
            seed: 1,
            forks_ms: None,
            exec_ms: None,
            stream_priorities: Vec::new(),
        }
    }

    /// Number of kernels in a request.
    pub(crate) fn kernels(&self) -> usize {
        self.kernels_us.len()
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let of_stream = |priority: &i32| {
            let mut arguments = self.arguments_of_one();
            arguments.extend(["--priority".to_owned(), priority.to_string()]);
            arguments
        };
        let streams: Vec<_> = self.stream_priorities.iter().map(of_stream).collect();
        if streams.is_empty() { self.arguments_of_one() } else { streams.join(&"--and".to_owned()) }
    }

    fn arguments_of_one(&self) -> Vec<String> {
        let times: Vec<_> = self.kernels_us.iter().map(u32::to_string).collect();
        let mut arguments = vec![
            "--us".to_owned(),
            times.join(","),
            "--ahead".to_owned(),
            self.ahead.to_string(),
            "--device".to_owned(),
            self.device.to_string(),
            "--devices".to_owned(),
            self.devices.to_string(),
            "--seed".to_owned(),
            self.seed.to_string(),
        ];
        if let Some(rate) = self.rate {
            arguments.extend(["--rate".to_owned(), rate.to_string()]);
        }
        arguments.extend(match self.until {
            Until::Requests(count) => ["--requests".to_owned(), count.to_string()],
            Until::Seconds(seconds) => ["--seconds".to_owned(), seconds.to_string()],
        });
        for (option, ms) in [("--forks", self.forks_ms), ("--exec", self.exec_ms)] {
            arguments.extend(ms.iter().flat_map(|ms| [option.to_owned(), ms.to_string()]));
        }
        arguments.extend(self.is_cold.then(|| "--cold".to_owned()));
        arguments
    }
}

/// A running client; killed when dropped.
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pid: u32,
}

/// One request, in nanoseconds of `CLOCK_BOOTTIME`.
#[expect(clippy::struct_field_names, reason = "a unit is not a repetition")]
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(from = "[u64; 3]")]
pub(crate) struct Request {
    pub(crate) wanted_ns: u64,
    /// Just before its first launch.
    pub(crate) launched_ns: u64,
    pub(crate) done_ns: u64,
}

impl From<[u64; 3]> for Request {
    fn from([wanted_ns, launched_ns, done_ns]: [u64; 3]) -> Self {
        Self { wanted_ns, launched_ns, done_ns }
    }
}

impl Request {
    /// As seen by the requester.
    pub(crate) fn latency_us(&self) -> f64 {
        (self.done_ns - self.wanted_ns) as f64 / 1e3
    }
}

/// A client's results at its end.
#[derive(Debug, Deserialize)]
pub(crate) struct Outcome {
    #[serde(skip)]
    pub(crate) pid: u32,
    /// Kernels that did not run exactly once and in order.
    wrong: u64,
    /// Processor time of all its threads, including those of the simulated device.
    pub(crate) cpu_us: f64,
    pub(crate) requests: Vec<Request>,
    /// Number of children that it created, and number of them that failed.
    pub(crate) children: [u64; 2],
}

impl Outcome {
    /// From the first request's launch to the last one's end.
    pub(crate) fn span_ns(&self) -> (u64, u64) {
        let first_ns = self.requests.iter().map(|request| request.launched_ns).min().unwrap_or(0);
        (first_ns, self.requests.iter().map(|request| request.done_ns).max().unwrap_or(first_ns))
    }

    pub(crate) fn latencies_us(&self) -> Vec<f64> {
        self.requests.iter().map(Request::latency_us).collect()
    }
}

impl Client {
    /// Starts a client and waits until it is ready to begin.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a client has no pipes".into());
        };
        let mut client = Self { child, input, output: BufReader::new(output), pid: 0 };
        let mut line = String::new();
        client.output.read_line(&mut line)?;
        let ready = line.strip_prefix("ready ").and_then(|pid| pid.trim_end().parse().ok());
        client.pid =
            ready.ok_or_else(|| format!("a client is not ready but prints `{}`", line.trim_end()))?;
        Ok(client)
    }

    /// The client's process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid.cast_signed()).ok_or("a client has no pid")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Lets these begin at the same time soon, so that each run of a plan has the same requests beside each
    /// other.
    pub(crate) fn begin(clients: &mut [Self]) -> Result<()> {
        const SOON: Duration = Duration::from_millis(20);
        let at = Duration::try_from(clock_gettime(ClockId::Boottime))? + SOON;
        clients.iter_mut().try_for_each(|client| Ok(writeln!(client.input, "{}", at.as_nanos())?))
    }

    /// Waits for its end. Lost, repeated or reordered kernels are an error: then no figure is valid.
    pub(crate) fn finish(mut self) -> Result<Outcome> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("a client ended with {status}").into());
        }
        let mut outcome: Outcome = serde_json::from_str(&text)?;
        outcome.pid = self.pid;
        if outcome.wrong > 0 {
            return Err(
                format!("{} kernels of a client were lost, repeated or reordered", outcome.wrong).into()
            );
        }
        let [_, failed] = outcome.children;
        if failed > 0 {
            return Err(format!("{failed} children of a client failed").into());
        }
        Ok(outcome)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The client may be a child of the started command; both may have ended.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Pid::from_raw(self.pid.cast_signed()).map(|pid| kill_process(pid, Signal::KILL));
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
