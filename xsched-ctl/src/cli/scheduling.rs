//! The command line of the scheduling verbs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use xsched_control_api::parameters::{Class, PRIORITY_MAX, PRIORITY_MIN, WEIGHT_MAX, Wish};
use xsched_metrics::Listen;
use xsched_sched::{Nanos, PolicyKind, Quota, Slo, class_priority};

use super::units::{cgroup, process_id, share};

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The configuration [default: /etc/xsched/config.toml, if it exists]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The policy, overriding the configuration: priority, fair, partition, quota, edf, laxity, slo, mlfq or nice
    #[arg(long, value_name = "NAME")]
    policy: Option<PolicyKind>,

    /// The rules on call chains, overriding the configuration; read again when the file changes
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Decide and show which processes would wait, but defer nothing
    #[arg(long)]
    observe: bool,

    /// Answer requests for metrics (OpenMetrics) at 127.0.0.1:PORT or unix:PATH, overriding the configuration
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<Listen>,

    /// Allow an address for metrics that other machines can reach
    #[arg(long)]
    metrics_public: bool,

    /// Run without BPF programs, as a controller without the privileges does: processes then report over the socket
    #[arg(long)]
    no_bpf: bool,

    /// Read the configuration and the rules as the controller would, report every mistake, print the resulting
    /// settings, and start nothing
    #[arg(long, conflicts_with = "json")]
    check: bool,

    /// As soon as processes can join, print the controller's state on standard output as one JSON object
    #[arg(long)]
    json: bool,
}

impl Serve {
    /// How the controller is to be started.
    pub(crate) fn options(self) -> xsched_controller::Options {
        let Self { config, policy, rules, observe, metrics, metrics_public, no_bpf, check, json } = self;
        xsched_controller::Options {
            config,
            policy,
            rules,
            observe,
            metrics,
            metrics_public,
            no_bpf,
            check,
            json,
        }
    }
}

/// Scheduling parameters.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ParameterOptions {
    /// From -255 to 255, or the name of a class; larger is more urgent
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "class", value_parser = priority)]
    pub(crate) priority: Option<i16>,

    /// A priority by its name
    #[arg(long, value_enum)]
    pub(crate) class: Option<Class>,

    /// Relative to others of the same priority under the policy `fair`: twice the weight, twice the time; the default
    /// is 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(WEIGHT_MAX)))]
    pub(crate) weight: Option<u32>,

    /// Part of each device in percent, under the policy `partition`
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    pub(crate) share: Option<u8>,

    /// Device time in each window under the policy `quota`, such as 20ms/100ms
    #[arg(long, value_name = "TIME/WINDOW")]
    pub(crate) quota: Option<Quota>,

    /// Within this time each request is to be done, under the policies `edf` and `laxity`
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<Nanos>,

    /// The most device time that a request takes, with `--deadline`
    #[arg(long, value_name = "TIME")]
    pub(crate) work: Option<Nanos>,

    /// The latency of requests under the policy `slo`, such as "p99 < 12ms"
    #[arg(long, value_name = "SLO")]
    pub(crate) slo: Option<Slo>,
}

/// A priority, or that of a class by its name.
pub(crate) fn priority(text: &str) -> Result<i16, String> {
    if let Some(priority) = class_priority(text) {
        return Ok(priority);
    }
    let number = text.parse().ok().filter(|number| (PRIORITY_MIN..=PRIORITY_MAX).contains(number));
    number.ok_or_else(|| {
        format!("expected {PRIORITY_MIN} to {PRIORITY_MAX}, or a class: {}", Class::NAMES.join(", "))
    })
}

impl ParameterOptions {
    /// The requested parameters.
    pub(crate) fn wish(self) -> Wish {
        Wish {
            priority: self.priority.or(self.class.map(Class::priority)),
            weight: self.weight,
            share: self.share,
            quota: self.quota,
            deadline: self.deadline,
            work: self.work,
            slo: self.slo,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) parameters: ParameterOptions,

    /// First change the policy for all processes, like `xsched-ctl policy`, which also ends `off`
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<PolicyKind>,

    /// The shim [default: libxsched_shim.so next to xsched-ctl or in ../lib]
    #[arg(long, value_name = "FILE")]
    pub(crate) shim: Option<PathBuf>,

    /// Do not run the command without a controller
    #[arg(long)]
    pub(crate) require_controller: bool,

    /// At the end, print the result on standard error as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// The command and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("whom").args(["pid", "cgroup", "claim"]).required(true)))]
#[command(group(
    ArgGroup::new("how").args(["priority", "class", "weight", "share", "quota", "deadline", "work", "slo", "reset"]).required(true).multiple(true)
))]
pub(crate) struct Set {
    /// A process that has joined
    #[arg(short, long, value_name = "PID", value_parser = process_id)]
    pub(crate) pid: Option<u32>,

    /// All processes in and below this cgroup, including those that join later
    #[arg(long, value_name = "PATH", value_parser = cgroup)]
    pub(crate) cgroup: Option<String>,

    /// One claim, as numbered by `list`: the streams of one priority of one process on one device
    #[arg(long, visible_alias = "stream", alias = "queue", value_name = "N")]
    pub(crate) claim: Option<u32>,

    #[command(flatten)]
    pub(crate) parameters: ParameterOptions,

    /// Undo `set`: rules, hints and `run` apply again
    #[arg(long, conflicts_with_all = ["priority", "class", "weight", "share", "quota", "deadline", "work", "slo"])]
    pub(crate) reset: bool,

    /// Print the controller's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Policy {
    /// The policy to change to: priority, fair, partition, quota, edf, laxity, slo, mlfq or nice
    ///
    /// `priority`: the process of the highest priority with work launches; equals run side by side, or alternate beside
    /// more urgent work and for a second after it. `fair`: processes of equal priority share device time by weight.
    /// `partition`: each process is promised a part of the device time. `quota`: each process has its device time in
    /// each window first. `edf`: the request that is due first. `laxity`: the request that can wait for the shortest
    /// time. `slo`: what keeps latencies below their SLO, the rest for others. `mlfq`: short work first, without hints.
    /// `nice`: as the CPU nice values say.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<PolicyKind>,

    /// Print the controller's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Repeat every so many seconds; every second if no number is given
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = super::seconds)]
    pub(crate) watch: Option<f64>,

    /// What to show on a line
    #[arg(long, value_enum, default_value_t = Lines::Claim)]
    pub(crate) by: Lines,

    /// Print the controller's answer as JSON, which contains both
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Seconds between two looks at the controller
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = super::seconds)]
    pub(crate) interval: f64,
}

/// What a line of a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    /// A process's use of a device
    #[value(alias = "queue")]
    Claim,
    /// The same by library
    Origin,
}

#[derive(Args, Debug)]
pub(crate) struct Off {
    /// If the controller does not answer, kill it: the kernel then releases all processes
    #[arg(long)]
    pub(crate) force: bool,

    /// Print the controller's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Rules {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: RulesVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesVerb {
    /// Read a file of rules, and print all rules in the order in which they apply, the built-in ones last
    Check(RulesCheck),
    /// Show the verdicts on a process's calls so far, and their rules
    Explain(RulesExplain),
}

#[derive(Args, Debug)]
pub(crate) struct RulesCheck {
    /// The file; without it the built-in rules are printed
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct RulesExplain {
    /// A process that has joined
    #[arg(short, long, value_name = "PID", value_parser = process_id)]
    pub(crate) pid: u32,

    /// Print the controller's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct On {
    /// Print the controller's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests;
