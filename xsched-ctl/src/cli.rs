//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bpf::Options;
use crate::exit;

/// See every HIP launch with the library that made it, on programs nobody prepared.
#[derive(Debug, Parser)]
#[command(name = "xsched-ctl", version, after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Record a timeline for ui.perfetto.dev
    ///
    /// Records the HIP calls of one process, of a command and its children, or of every process that uses HIP, until
    /// the process ends or Ctrl-C.
    Trace(Trace),
    /// Watch a running process: who launches how much
    ///
    /// Prints a summary per calling library while the process runs, and the final one on Ctrl-C, which takes
    /// everything out of the process again.
    Attach(Attach),
    /// Say what this machine has and lacks for tracing
    Doctor,
}

#[derive(Args, Debug)]
pub(crate) struct Trace {
    /// Record a running process
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub(crate) pid: Option<u32>,

    #[command(flatten)]
    pub(crate) recording: Recording,

    /// Run this command and record it and its children
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Attach {
    /// The process
    #[arg(short, long, value_name = "PID")]
    pub(crate) pid: u32,

    /// Seconds between summaries
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub(crate) interval: f64,

    #[command(flatten)]
    pub(crate) recording: Recording,
}

#[derive(Args, Debug)]
pub(crate) struct Recording {
    /// Write the timeline to this file; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Memory between kernel and tracer, a power of two: 64K to 1G
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = ring_size)]
    pub(crate) ring_size: u32,

    /// How to attach probes
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Uprobes::Auto, hide_short_help = true)]
    pub(crate) uprobes: Uprobes,
}

impl Recording {
    /// Sizes and kinds for the kernel's side.
    pub(crate) fn options(&self) -> Options {
        Options { ring_size: self.ring_size, uprobes: self.uprobes }
    }
}

/// How probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Uprobes {
    /// By the best way that works on this kernel
    Auto,
    /// One perf event for each function: slower to attach and detach, works since kernel 5.15
    PerfEvents,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number from 0.1 to 3600".to_owned()),
    }
}

fn ring_size(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1 << 20),
            None => match text.strip_suffix(['g', 'G']) {
                Some(digits) => (digits, 1 << 30),
                None => (text, 1),
            },
        },
    };
    let size = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    match size {
        Some(size) if size.is_power_of_two() && (1 << 16..=1 << 30).contains(&size) => Ok(size),
        _ => Err("expected a power of two from 64K to 1G, such as 8M".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_keeps_its_own_options() {
        let cli =
            Cli::try_parse_from(["xsched-ctl", "trace", "-o", "f", "--", "app", "-o", "--pid", "x"]).unwrap();
        let Verb::Trace(trace) = cli.verb else { panic!("not trace") };
        assert_eq!(trace.command, ["app", "-o", "--pid", "x"]);
        assert_eq!(trace.recording.output, Some("f".into()));
    }

    #[test]
    fn a_mistyped_option_is_not_taken_for_a_command() {
        assert!(Cli::try_parse_from(["xsched-ctl", "trace", "--pidd", "1"]).is_err());
    }

    #[test]
    fn a_pid_and_a_command_exclude_each_other() {
        assert!(Cli::try_parse_from(["xsched-ctl", "trace", "--pid", "1", "--", "app"]).is_err());
    }

    #[test]
    fn ring_sizes_are_powers_of_two_within_bounds() {
        assert_eq!(ring_size("64K"), Ok(1 << 16));
        assert_eq!(ring_size("8m"), Ok(1 << 23));
        assert_eq!(ring_size("1G"), Ok(1 << 30));
        for bad in ["", "M", "0", "3M", "32K", "2G", "8G", "-1", "1T", "99999999999999"] {
            assert!(ring_size(bad).is_err(), "{bad}");
        }
    }
}
