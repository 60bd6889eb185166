//! The command line of `replay`.

use std::path::PathBuf;

use clap::{Args, Parser};
use xsched_replay::{Change, Options};
use xsched_sched::PolicyKind;

use super::scheduling::ParameterOptions;

#[derive(Args, Debug)]
pub(crate) struct Replay {
    /// The timeline, compressed or not
    file: PathBuf,

    /// The policy to try [default: the recorded one]
    #[arg(long, value_name = "NAME")]
    policy: Option<PolicyKind>,

    /// Parameters to try, by process id or name and as for `set`: `train:weight=300`, `4711:class=high,slo=p99 < 12ms`;
    /// also `nice=N`; may be repeated
    #[arg(long, value_name = "PROCESS:KEY=VALUE,...", value_parser = change)]
    set: Vec<Change>,

    /// Write the run as a timeline, which `view` opens
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print one JSON object, with times in nanoseconds
    #[arg(long)]
    json: bool,
}

impl Replay {
    /// What is to be replayed.
    pub(crate) fn options(self) -> Options {
        let Self { file, policy, set, output, json } = self;
        Options { file, policy, changes: set, output, json }
    }
}

/// Parameters as options, so that they are read as those of `set`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Changed {
    #[command(flatten)]
    parameters: ParameterOptions,
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-20..20))]
    nice: Option<i8>,
}

fn change(text: &str) -> Result<Change, String> {
    let wanted = || "expected PROCESS:KEY=VALUE, such as `train:weight=300`".to_owned();
    let (target, parameters) =
        text.split_once(':').filter(|(target, _)| !target.is_empty()).ok_or_else(wanted)?;
    let mut words = Vec::new();
    for parameter in parameters.split(',') {
        let (key, value) = parameter.split_once('=').ok_or_else(wanted)?;
        words.extend([format!("--{}", key.trim()), value.trim().to_owned()]);
    }
    let Changed { parameters, nice } = Changed::try_parse_from(words).map_err(|error| {
        let text = error.render().to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })?;
    Ok(Change { target: target.to_owned(), wish: parameters.wish(), nice })
}

#[cfg(test)]
mod tests {
    use xsched_control_api::parameters::Wish;

    use super::*;

    #[test]
    fn parameters_are_those_of_set() {
        let read = change("4711:class=high,slo=p99 < 12ms").unwrap();
        let slo = Some("p99 < 12ms".parse().unwrap());
        let wish = Wish { priority: Some(100), slo, ..Wish::default() };
        assert_eq!(read, Change { target: "4711".to_owned(), wish, nice: None });
        let read = change("train:priority=-20, weight=300, nice=-5").unwrap();
        assert_eq!((read.wish.priority, read.wish.weight, read.nice), (Some(-20), Some(300), Some(-5)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("4711", "expected PROCESS:KEY=VALUE"),
            (":weight=1", "expected PROCESS:KEY=VALUE"),
            ("4711:weight", "expected PROCESS:KEY=VALUE"),
            ("4711:wieght=3", "unexpected argument '--wieght' found"),
            ("4711:priority=fast", "or a class: realtime, high, normal, low"),
            ("4711:nice=40", "40 is not in -20..20"),
        ] {
            let error = change(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
