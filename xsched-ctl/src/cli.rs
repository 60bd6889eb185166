//! The command line.

mod driver;
mod exit_codes;
mod mistyped;
mod recording;
mod scheduling;
mod units;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, CommandFactory as _, Parser, Subcommand};
pub(crate) use recording::Recording;
pub(crate) use scheduling::{
    Lines, List, Off, On, Policy, Rules, RulesCheck, RulesExplain, RulesVerb, Run, Serve, Set,
};
use xsched_report::Dimension;

use units::process_id;

/// See every HIP launch with the library that made it, and say who goes first, on programs nobody prepared.
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
    /// Records the HIP calls of one process, of a command and its children, or of every process that uses HIP, until
    /// the process ends or Ctrl-C. Without `-o` the timeline goes to standard output where that is a file or a pipe, else to a
    /// new file `xsched-DATE-TIME.perfetto` in the current folder.
    #[command(after_long_help = "Examples:\n  \
        xsched-ctl trace -o run.perfetto -- ./app --its arguments\n  \
        xsched-ctl trace -o slow.perfetto.gz --pid 4711 --api launch --min-duration 50us --duration 10s\n  \
        xsched-ctl trace -o incident.perfetto --all --ring 64M --dump-on-slower 5ms")]
    Trace(Trace),
    /// Watch a running process: who launches how much
    ///
    /// Prints a summary per calling library while the process runs, and the final one on Ctrl-C, which takes
    /// everything out of the process again. A timeline is written with `-o` only.
    Attach(Attach),
    /// Sum up a recorded timeline
    ///
    /// Calls, total time, percentiles and maximum by library, kernel, stream, thread, process or function, and what the
    /// recording lost. Percentiles are within 0.2 %; times are those that the host spends in a call.
    Report(Report),
    View(trace_viewer::View),
    /// Say what this machine has and lacks for tracing and scheduling
    Doctor(Doctor),
    /// Be the controller: say which processes may use a device now
    ///
    /// Runs until Ctrl-C or SIGTERM, and then releases everybody. Processes take part that have the shim loaded, as
    /// `xsched-ctl run` sees to; they run on unscheduled when the controller ends, however it does.
    Serve(Serve),
    /// Run a command under the controller
    ///
    /// The command and its children get the shim by LD_PRELOAD, and the priority that is asked for.
    #[command(after_long_help = "Examples:\n  \
        xsched-ctl run --class high -- python serve_model.py\n  \
        xsched-ctl run --class low -- python train.py\n  \
        xsched-ctl run --policy partition --share 75 -- ./app")]
    Run(Run),
    /// Change how a process, cgroup or queue stands
    ///
    /// One's own processes may be lowered freely, and raised as far as the configured ceiling; root and the controller's
    /// user may do anything.
    Set(Set),
    /// Say which policy is at work, or change it
    ///
    /// A policy is changed to be at work: this ends `off`.
    Policy(Policy),
    /// List the processes under the controller
    ///
    /// A line for each process, device and priority of its streams.
    #[command(after_long_help = "Columns:\n  \
        class        the priority, with a share, or a weight that is not 100\n  \
        from         who says so: rule, hint, run or set\n  \
        state        ready: has work and may launch. held: has work and must wait; would wait: the same\n               \
                     beside an observer. idle: has no work. alone: nobody else uses the device.\n               \
                     free: the controller is off\n  \
        queue        what `set --queue` takes\n  \
        level        the order on the device, the smallest first. 1: first while it has work; 2 and above:\n               \
                     behind others, or first for a slice only, as under `fair` and `partition`; 0: has a\n               \
                     turn for having waited\n  \
        device time  how long it had commands on the device, of the last seconds\n  \
        suspended    for how long something was held back so far")]
    List(List),
    /// Check rules on call chains, or explain what they have decided
    Rules(Rules),
    /// Hold nobody back any more, until `on`, or until a policy is chosen
    Off(Off),
    /// Hold back who should wait, after `off`
    On(On),
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Say how the shim sees the HIP calls of this process instead
    #[arg(short, long, value_name = "PID", value_parser = process_id)]
    pub(crate) pid: Option<u32>,
}

#[derive(Args, Debug)]
pub(crate) struct Trace {
    /// Record a running process
    #[arg(short, long, value_name = "PID", value_parser = process_id, conflicts_with = "command")]
    pub(crate) pid: Option<u32>,

    /// Record every process that uses HIP, also those that start later: what happens without PID and CMD
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

    /// Every process that uses HIP, also those that start later, with a line for each
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

    /// What to sum up by; several with commas between them [default: library,kernel,api]
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    by: Vec<Dimension>,

    /// Rows of each table [default: 20; with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// Show kernels by their whole names, and template instances apart
    #[arg(long)]
    full_names: bool,

    /// Print one JSON object, times in nanoseconds, names whole
    #[arg(long)]
    json: bool,

    /// Write a page that stands by itself: tables, plots and a picture of the timeline, to send to somebody
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
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_says_what_the_columns_of_a_list_are() {
        let mut command = Cli::command();
        let help = command.find_subcommand_mut("list").unwrap().render_long_help().to_string();
        let headings =
            crate::list::HEADINGS.iter().filter(|name| !["command", "user", "device", "pid"].contains(name));
        for heading in headings {
            assert!(help.contains(&format!("\n  {heading:<11}  ")), "{heading}: {help}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }

    #[test]
    fn a_command_keeps_its_own_options() {
        let cli =
            Cli::try_parse_from(["xsched-ctl", "trace", "-o", "f", "--", "app", "-o", "--pid", "x"]).unwrap();
        let Verb::Trace(trace) = cli.verb else { panic!("not trace") };
        assert_eq!(trace.command, ["app", "-o", "--pid", "x"]);
        assert_eq!(trace.recording.output, Some("f".into()));
    }

    #[track_caller]
    fn refused(words: &[&str]) -> String {
        let words: Vec<_> = ["xsched-ctl"].iter().chain(words).map(OsString::from).collect();
        Cli::read(&words).unwrap_err().to_string()
    }

    #[test]
    fn a_mistyped_option_is_not_taken_for_a_command() {
        for (words, meant) in [
            (&["trace", "--pidd", "1"][..], "a similar argument exists: '--pid'"),
            (&["trace", "--pdi", "1"], "a similar argument exists: '--pid'"),
            (&["rules", "explain", "--ipd", "1"], "a similar argument exists: '--pid'"),
            (&["run", "--calss", "low", "app"], "a similar argument exists: '--class'"),
            (&["trace", "--colour", "app"], "unexpected argument '--colour' found"),
        ] {
            let refused = refused(words);
            assert!(refused.contains(meant) && !refused.contains("as a value"), "{refused}");
        }
    }

    #[test]
    fn a_verb_of_another_name_is_known_by_what_it_does() {
        for (typed, meant) in [
            ("stop", "off"),
            ("pause", "off"),
            ("resume", "on"),
            ("start", "serve"),
            ("status", "list"),
            ("ps", "list"),
            ("record", "trace"),
            ("renice", "set"),
        ] {
            let refused = refused(&[typed]);
            assert!(refused.contains(&format!("a similar subcommand exists: '{meant}'\n")), "{refused}");
        }
        // `rules` has verbs of its own.
        assert!(refused(&["rules", "chekc", "f"]).contains("exists: 'check'"));
        assert!(!refused(&["rules", "stop"]).contains("'off'"));
    }

    #[test]
    fn a_pid_and_a_command_exclude_each_other() {
        assert!(Cli::try_parse_from(["xsched-ctl", "trace", "--pid", "1", "--", "app"]).is_err());
    }
}
