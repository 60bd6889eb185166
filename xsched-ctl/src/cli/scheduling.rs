//! The command line of the verbs that schedule.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use xsched_control_api::standing::{Class, PRIORITY_MAX, PRIORITY_MIN, WEIGHT_MAX, Wish};
use xsched_sched::PolicyKind;

use super::units::{cgroup, process_id, share};

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The configuration [default: /etc/xsched/config.toml, if it is there]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Who goes first, whatever the configuration says: priority, fair or partition
    #[arg(long, value_name = "NAME")]
    policy: Option<PolicyKind>,

    /// The rules on call chains, whatever the configuration says; read again when the file changes
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Decide and show who would wait, and hold nobody back
    #[arg(long)]
    observe: bool,

    /// Do without BPF programs, as a controller does that lacks the privileges: processes then report over the socket
    #[arg(long)]
    no_bpf: bool,

    /// Read the configuration and the rules as the controller would, name every mistake, print what would hold, and start nothing
    #[arg(long, conflicts_with = "json")]
    check: bool,

    /// As soon as processes can join, print on standard output as one JSON object how the controller is
    #[arg(long)]
    json: bool,
}

impl Serve {
    /// How the controller is to be started.
    pub(crate) fn options(self) -> xsched_controller::Options {
        let Self { config, policy, rules, observe, no_bpf, check, json } = self;
        xsched_controller::Options { config, policy, rules, observe, no_bpf, check, json }
    }
}

/// How something is to stand.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct StandingOptions {
    /// From -255 to 255, or a class by its name; larger is more urgent
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "class", value_parser = priority)]
    pub(crate) priority: Option<i16>,

    /// A priority by its name
    #[arg(long, value_enum)]
    pub(crate) class: Option<Class>,

    /// Beside others of the same priority, where the policy is `fair`: twice the weight, twice the time; 100 is what others have
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(WEIGHT_MAX)))]
    pub(crate) weight: Option<u32>,

    /// Part of each device in percent, where the policy is `partition`
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    pub(crate) share: Option<u8>,
}

fn priority(text: &str) -> Result<i16, String> {
    if let Some(class) = Class::ALL.into_iter().find(|class| class.to_string() == text) {
        return Ok(class.priority());
    }
    let number = text.parse().ok().filter(|number| (PRIORITY_MIN..=PRIORITY_MAX).contains(number));
    number.ok_or_else(|| {
        format!("it is none of {PRIORITY_MIN}..={PRIORITY_MAX}, nor a class: {}", Class::NAMES.join(", "))
    })
}

impl StandingOptions {
    /// What is asked for.
    pub(crate) fn wish(self) -> Wish {
        Wish {
            priority: self.priority.or(self.class.map(Class::priority)),
            weight: self.weight,
            share: self.share,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) standing: StandingOptions,

    /// First change the policy for everybody, as `xsched-ctl policy` does, which ends `off`
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<PolicyKind>,

    /// The shim [default: libxsched_shim.so beside xsched-ctl or in ../lib]
    #[arg(long, value_name = "FILE")]
    pub(crate) shim: Option<PathBuf>,

    /// Do not run the command without a controller
    #[arg(long)]
    pub(crate) require_controller: bool,

    /// At the end, say on standard error as one JSON object how it went
    #[arg(long)]
    pub(crate) json: bool,

    /// The command and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("whom").args(["pid", "cgroup", "queue"]).required(true)))]
#[command(group(
    ArgGroup::new("how").args(["priority", "class", "weight", "share", "reset"]).required(true).multiple(true)
))]
pub(crate) struct Set {
    /// A process that has joined
    #[arg(short, long, value_name = "PID", value_parser = process_id)]
    pub(crate) pid: Option<u32>,

    /// All processes of this cgroup and below it, those that join later too
    #[arg(long, value_name = "PATH", value_parser = cgroup)]
    pub(crate) cgroup: Option<String>,

    /// One queue, as `list` numbers them: the streams of one priority of one process on one device
    #[arg(long, visible_alias = "stream", value_name = "N")]
    pub(crate) queue: Option<u32>,

    #[command(flatten)]
    pub(crate) standing: StandingOptions,

    /// Take back what was set: rules, hints and `run` hold again
    #[arg(long, conflicts_with_all = ["priority", "class", "weight", "share"])]
    pub(crate) reset: bool,

    /// Print the controller's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Policy {
    /// The one to change to: priority, fair or partition
    ///
    /// `priority`: the process of the highest priority that has work; equals side by side, or one at a time beside more urgent
    /// work and for a second after it. `fair`: processes of equal priority share device time by weight. `partition`: each
    /// process is promised a part of the device time.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<PolicyKind>,

    /// Print the controller's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Again and again, every so many seconds; each second if no number is given
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = super::seconds)]
    pub(crate) watch: Option<f64>,

    /// What a line is about
    #[arg(long, value_enum, default_value_t = Lines::Queue)]
    pub(crate) by: Lines,

    /// Print the controller's answer as JSON, which has both
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a line of a list is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    /// What a process does on a device
    Queue,
    /// What it does there for one library
    Origin,
}

#[derive(Args, Debug)]
pub(crate) struct Off {
    /// If the controller does not answer, kill it: the kernel releases everything when it is dead
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
    /// Read a file of rules, and print them in the order in which they are asked, the built-in ones last
    Check(RulesCheck),
    /// Say what was decided about a process's calls so far, and by which rule
    Explain(RulesExplain),
}

#[derive(Args, Debug)]
pub(crate) struct RulesCheck {
    /// The file; without one the built-in rules are printed
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
mod tests {
    use clap::Parser as _;
    use xsched_control_api::standing::Class;
    use xsched_sched::PolicyKind;

    use crate::cli::{Cli, Verb};

    #[track_caller]
    fn refused(words: &[&str]) -> String {
        Cli::try_parse_from([&["xsched-ctl"], words].concat()).unwrap_err().to_string()
    }

    #[test]
    fn a_change_needs_somebody_and_something() {
        assert!(refused(&["set", "--priority", "3"]).contains("--pid"));
        assert!(refused(&["set", "--pid", "3"]).contains("--priority"));
        assert!(
            refused(&["set", "--pid", "3", "--cgroup", "/", "--priority", "3"]).contains("cannot be used")
        );
        assert!(
            refused(&["set", "--pid", "3", "--class", "high", "--priority", "3"]).contains("cannot be used")
        );
        assert!(refused(&["set", "--pid", "3", "--reset", "--weight", "3"]).contains("cannot be used"));
        assert!(refused(&["set", "--pid", "3", "--priority", "256"]).contains("-255..=255"));
    }

    #[test]
    fn a_policy_is_known_before_anybody_is_asked() {
        for words in
            [&["policy", "nope"] as &[_], &["serve", "--policy", "nope"], &["run", "--policy", "nope", "app"]]
        {
            let error = refused(words);
            assert!(error.contains("no policy `nope`; there are: priority, fair, partition"), "{error}");
        }
        let cli = Cli::try_parse_from(["xsched-ctl", "policy", "HPF"]).unwrap();
        let Verb::Policy(policy) = cli.verb else { panic!("not policy") };
        assert_eq!(policy.name, Some(PolicyKind::Priority));
    }

    #[test]
    fn negative_priorities_are_no_options() {
        let cli =
            Cli::try_parse_from(["xsched-ctl", "run", "--priority", "-7", "app", "--class", "x"]).unwrap();
        let Verb::Run(run) = cli.verb else { panic!("not run") };
        assert_eq!(run.standing.wish().priority, Some(-7));
        assert_eq!(run.command, ["app", "--class", "x"]);
    }

    #[test]
    fn a_priority_may_be_called_by_its_class() {
        for class in Class::ALL {
            let words = ["xsched-ctl", "run", "--priority", &class.to_string(), "--", "app"];
            let Verb::Run(run) = Cli::try_parse_from(words).unwrap().verb else { panic!("not run") };
            assert_eq!(run.standing.wish().priority, Some(class.priority()));
        }
        let error = refused(&["run", "--priority", "hihg", "app"]);
        assert!(
            error.contains("it is none of -255..=255, nor a class: realtime, high, normal, low"),
            "{error}"
        );
    }

    #[test]
    fn a_class_is_a_priority() {
        let cli = Cli::try_parse_from(["xsched-ctl", "run", "--class", "low", "--", "app"]).unwrap();
        let Verb::Run(run) = cli.verb else { panic!("not run") };
        assert_eq!(run.standing.wish().priority, Some(-100));
    }
}
