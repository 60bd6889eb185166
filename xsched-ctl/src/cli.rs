//! The command line.

mod driver;
mod exit_codes;
mod field;
mod mistyped;
mod recording;
mod replay;
mod scheduling;
mod units;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, CommandFactory as _, Parser, Subcommand};
pub(crate) use field::{Field, FieldClient};
pub(crate) use recording::Recording;
pub(crate) use replay::Replay;
pub(crate) use scheduling::{
    Lines, List, Off, On, Policy, Rules, RulesCheck, RulesExplain, RulesVerb, Run, Serve, Set, Top, priority,
};
use xsched_report::Dimension;

use units::process_id;

/// Trace every HIP and CUDA launch with the library that made it, and schedule GPU work, in unmodified programs.
#[derive(Debug, Parser)]
#[command(name = "xsched-ctl", version, after_help = exit_codes::HELP, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// Reads a command line, the program's name first.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        Self::try_parse_from(words).map_err(|error| mistyped::explain(error, &Self::command(), words))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Record a timeline for ui.perfetto.dev
    ///
    /// Records the HIP and CUDA calls of one process, of a command and its children, or of every process that uses HIP or CUDA,
    /// until the process ends or Ctrl-C. Without `-o` the timeline goes to standard output where that is a file or a pipe, else to a
    /// new file `xsched-DATE-TIME.perfetto` in the current folder.
    #[command(after_long_help = "Examples:\n  \
        xsched-ctl trace -o run.perfetto -- ./app --its arguments\n  \
        xsched-ctl trace -o slow.perfetto.gz --pid 4711 --api launch --min-duration 50us --duration 10s\n  \
        xsched-ctl trace -o incident.perfetto --all --ring 64M --dump-on-slower 5ms")]
    Trace(Trace),
    /// Watch a running process: launches by library
    ///
    /// Prints a summary per calling library while the process runs, and the final one on Ctrl-C, which takes
    /// everything out of the process again. A timeline is written with `-o` only.
    Attach(Attach),
    /// Summarize a recorded timeline
    ///
    /// Calls, total time, percentiles and maximum by library, kernel, stream, thread, process or function, and what the
    /// recording lost. Percentiles are within 0.2 %; times are those that the host spends in a call.
    Report(Report),
    View(trace_viewer::View),
    /// Try another policy or other parameters on a recorded load
    ///
    /// Runs what was recorded beside a controller in a model of device, processes and scheduler: first as it was, which shows how far
    /// the model is off, then as asked. Prints latency and throughput of each process.
    #[command(after_long_help = "Examples:\n  \
        xsched-ctl replay run.perfetto\n  \
        xsched-ctl replay run.perfetto --policy slo --set \"serve:slo=p99 < 12ms\"\n  \
        xsched-ctl replay run.perfetto --set train:class=low -o tried.perfetto")]
    Replay(Replay),
    /// Check what this machine has and lacks for tracing and scheduling
    Doctor(Doctor),
    /// Run the controller, which decides which processes may launch
    ///
    /// Runs until Ctrl-C or SIGTERM, and then releases all processes. Processes with the shim take part, which
    /// `xsched-ctl run` preloads. They run on unscheduled when the controller ends, however it ends.
    Serve(Serve),
    /// Run a command under the controller
    ///
    /// The command and its children get the shim by LD_PRELOAD, and the requested priority.
    #[command(after_long_help = "Examples:\n  \
        xsched-ctl run --class high -- python serve_model.py\n  \
        xsched-ctl run --class low -- python train.py\n  \
        xsched-ctl run --policy partition --share 75 -- ./app")]
    Run(Run),
    /// Change the scheduling parameters of a process, cgroup or claim
    ///
    /// Users may lower their own processes freely, and raise them up to the configured ceiling. Root and the
    /// controller's user may do anything.
    Set(Set),
    /// Show or change the policy
    ///
    /// Choosing a policy also turns scheduling on again after `off`.
    Policy(Policy),
    /// List the processes under the controller
    ///
    /// A line for each process, device and priority of its streams.
    #[command(after_long_help = "Columns:\n  \
        class        the priority, with a share, or a weight that is not 100\n  \
        from         where it comes from: rule, pod, hint, run or set\n  \
        state        ready: has work and may launch. suspended: has work and may not; would wait: the same\n               \
                     while the controller observes. idle: has no work. alone: no other process uses the\n               \
                     device. free: the controller is off\n  \
        claim        the number for `set --claim`\n  \
        level        the order on the device, the smallest first. 1: first while it has work; 2 and above:\n               \
                     behind others, or first for a time slice only, as under `fair` and `partition`;\n               \
                     0: has a time slice because it was kept waiting\n  \
        device time  how long it had commands on the device, in the last seconds\n  \
        suspended    for how long commands were deferred so far")]
    List(List),
    /// Watch the processes under the controller, and change them by keys
    ///
    /// Fills the terminal with what `list` shows, with the devices, and with the process that each one waits for. `?` shows the
    /// keys. For scripts there is `list --watch`. With NO_COLOR set it uses no colours.
    Top(Top),
    /// Check rules on call chains, or explain what they have decided
    Rules(Rules),
    /// Stop suspending processes, until `on` or until a policy is chosen
    Off(Off),
    /// Suspend processes again, after `off`
    On(On),
    /// Write the manual pages and the completions for shells
    ///
    /// The packages contain them. Completions are for bash, fish and zsh.
    #[command(after_long_help = "Examples:\n  \
        xsched-ctl manual ~/.local/share/xsched-ctl\n  \
        man ~/.local/share/xsched-ctl/man/xsched-ctl-trace.1\n  \
        source ~/.local/share/xsched-ctl/completions/xsched-ctl.bash")]
    Manual(Manual),
    /// Try and measure everything on this node, and write one report to send back
    ///
    /// Runs programs on the GPU without the shim, then all of them scheduled, then with the profile `compat`: a minimal client that
    /// needs only the runtime, the vendors' libraries, and PyTorch where it is installed. Starts a controller of its own. Takes seven
    /// minutes at most on a fast GPU, two with --quick. Ctrl-C ends it; the report has what was done. Nothing else is left on the node.
    #[command(after_long_help = "Examples:\n  \
        sudo xsched-ctl field\n  \
        sudo xsched-ctl field --quick --python /opt/venv/bin/python3\n  \
        sudo xsched-ctl field --steps client,preemption -o node7")]
    Field(Field),
    /// The minimal client of `field`
    #[command(hide = true)]
    FieldClient(FieldClient),
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Show how the shim intercepts the HIP calls of this process instead
    #[arg(short, long, value_name = "PID", value_parser = process_id)]
    pub(crate) pid: Option<u32>,

    /// Print the results as one JSON object
    #[arg(long, conflicts_with = "pid")]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Manual {
    /// Where `man/` and `completions/` are made
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Trace {
    /// Record a running process
    #[arg(short, long, value_name = "PID", value_parser = process_id, conflicts_with = "command")]
    pub(crate) pid: Option<u32>,

    /// Record every process that uses HIP or CUDA, including those that start later; the default without PID and CMD
    #[arg(short, long, conflicts_with_all = ["pid", "command"])]
    pub(crate) all: bool,

    /// Run this command and record it and its children
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) recording: Recording,
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("whom").args(["pid", "all"]).required(true)))]
pub(crate) struct Attach {
    /// The process
    #[arg(short, long, value_name = "PID", value_parser = process_id)]
    pub(crate) pid: Option<u32>,

    /// Every process that uses HIP or CUDA, including those that start later, with a line for each
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Seconds between summaries
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub(crate) interval: f64,

    #[command(flatten)]
    pub(crate) recording: Recording,
}

#[derive(Args, Debug)]
pub(crate) struct Report {
    /// The timeline, compressed or not; `-` is standard input
    file: PathBuf,

    /// What to group by; several with commas between them [default: library,kernel,api]
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    by: Vec<Dimension>,

    /// Rows of each table [default: 20; with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// Show whole names of kernels, and list template instances separately
    #[arg(long)]
    full_names: bool,

    /// Print one JSON object, with times in nanoseconds and whole names
    #[arg(long)]
    json: bool,

    /// Write a self-contained page to send to others: tables, plots and a picture of the timeline
    #[arg(long, value_name = "PAGE", conflicts_with_all = ["by", "top", "full_names", "json"])]
    html: Option<PathBuf>,
}

impl Report {
    /// What is to be reported.
    pub(crate) fn options(self) -> xsched_report::Options {
        let Self { file, by, top, full_names, json, html } = self;
        xsched_report::Options { file, by, top, full_names, json, html }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number from 0.1 to 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests;
