//! The controller's configuration.
//!
//! ```toml
//! rules = "rules.toml"        # on call chains (crate `xsched_rules`); relative to this file unless the path is absolute
//!
//! [scheduler]
//! policy = "priority"         # or "fair", "partition", "quota", "edf", "laxity", "slo", "mlfq", "nice"
//! starvation = "1s"           # a process kept waiting for this long gets a time slice; "0s": never
//! lease = "50ms"              # how long a process counts as ready without showing progress
//! linger = "100us"            # how long it counts as ready after its last command
//! one_at_a_time = "1s"        # under "priority": how long after urgent work less urgent equals alternate; "0s": never
//! side_by_side = 1            # under "edf": how many processes with the earliest deadlines launch at once
//! poll = "150us"              # a recently preempted process with kernels shorter than this polls its own gate; "0s": never
//! in_flight = "2ms"           # most device time launched ahead beside more urgent neighbours; measured if not given
//! preemption = 2              # 1: stop launching; 2: also gate queued commands
//! observe = false             # true: decide, but defer nothing
//!
//! [metrics]
//! listen = "127.0.0.1:9464"   # or "unix:/run/xsched/metrics.sock"; without it there are no metrics
//! public = false              # true: `listen` may be an address that other machines can reach
//! mode = "0660"               # of a unix socket
//!
//! [kubernetes]                # names of pods, and their annotations
//! socket = "/run/containerd/containerd.sock"   # of the container runtime; found by itself if not given
//!
//! [[rule]]                    # the first rule that matches a process sets its scheduling parameters
//! executable = "*/online-*"   # path, or file name where there is no slash; `*` and `?`
//! user = "alice"              # name or number
//! cgroup = "/system.slice/online*"
//! # namespace = "team-*"       # of the pod that it belongs to; needs [kubernetes]
//! class = "high"              # realtime, high, normal, low; or priority = -255..255
//! weight = 200                # relative to others of the same priority; the default is 100
//! share = 50                  # percent of each device under the policy "partition"
//! quota = "20ms/100ms"        # under "quota": device time in each window
//! deadline = "33ms"           # under "edf" and "laxity": within this time a request is to be done
//! work = "5ms"                # the most device time that a request takes
//! slo = "p99 < 12ms"          # under "slo": what the latency of requests is to be
//!
//! [[ceiling]]                 # the first that matches limits how far a process's user may raise it; default: normal
//! user = "*"
//! class = "high"
//! ```

mod selector;
mod shown;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use xsched_metrics::{Access, Listen, NotListen};
use xsched_rules::{
    Mistake, Mistakes,
    document::{self, Entry, Fault, Faults, Section},
};
use xsched_sched::{Nanos, NoHint, PolicyKind, Settings};

use super::subject::Subject;
use super::users::Users;
use crate::cgroup_version::Cgroups;
use crate::error::FileError;
use selector::Selector;
pub(crate) use selector::user_name;
use xsched_control_api::parameters::{
    Ceiling, Class, PRIORITY_MAX, PRIORITY_MIN, Parameters, SHARE_MAX, WEIGHT_MAX, Wish,
};

/// The configuration file if none is given. It need not exist.
pub(crate) const DEFAULT_FILE: &str = "/etc/xsched/config.toml";

/// All of a device.
pub(crate) const WHOLE_PERCENT: u32 = 100;

const TABLES: [&str; 6] = ["ceiling", "kubernetes", "metrics", "rule", "rules", "scheduler"];
const KUBERNETES_KEYS: [&str; 1] = ["socket"];
const METRICS_KEYS: [&str; 3] = ["listen", "mode", "public"];
const SCHEDULER_KEYS: [&str; 10] = [
    "in_flight",
    "lease",
    "linger",
    "observe",
    "one_at_a_time",
    "policy",
    "poll",
    "preemption",
    "side_by_side",
    "starvation",
];
const RULE_KEYS: [&str; 12] = [
    "cgroup",
    "class",
    "deadline",
    "executable",
    "namespace",
    "priority",
    "quota",
    "share",
    "slo",
    "user",
    "weight",
    "work",
];
const CEILING_KEYS: [&str; 7] = ["cgroup", "class", "namespace", "priority", "share", "user", "weight"];

#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// How claims are ranked.
    pub(crate) policy: PolicyKind,
    /// How long a process may be kept waiting; zero: without a bound.
    pub(crate) starvation: Duration,
    /// How long a claim counts as ready after its last report.
    pub(crate) lease: Duration,
    /// How long a claim stays ready after its last completion.
    pub(crate) linger: Duration,
    /// For how long after urgent work less urgent equals alternate under fixed priority; zero: they never do.
    pub(crate) one_at_a_time: Duration,
    /// How many processes with the earliest deadlines launch at once.
    pub(crate) side_by_side: u32,
    /// A process that closes its own gate polls after a recent preemption if its kernels are shorter than this; zero:
    /// it never polls.
    pub(crate) poll: Duration,
    /// Most device time launched ahead beside more urgent neighbours; none: shims measure it.
    pub(crate) in_flight: Option<Duration>,
    /// Preemption mode 1 stops launching; 2 also gates queued commands.
    pub(crate) preemption_mode: u32,
    /// Decide, but defer nothing.
    pub(crate) observe: bool,
    /// The endpoint for metrics.
    pub(crate) metrics: Metrics,
    /// Pods of Kubernetes; none: it is not asked for them.
    pub(crate) kubernetes: Option<Kubernetes>,
    /// The file of rules on call chains.
    pub(crate) rules: Option<PathBuf>,
    /// The file that this was read from; none if there is none.
    pub(crate) file: Option<PathBuf>,
    process_rules: Vec<Rule<Wish>>,
    ceilings: Vec<Rule<Ceiling>>,
}

/// The endpoint for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// Where it listens; none: there is no endpoint.
    pub(crate) listen: Option<Listen>,
    pub(crate) access: Access,
}

/// Pods of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kubernetes {
    /// Where the container runtime may listen. The first that exists counts.
    pub(crate) sockets: Vec<PathBuf>,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self { sockets: xsched_pods::SOCKETS.map(PathBuf::from).to_vec() }
    }
}

/// A value for the processes that a selector fits.
#[derive(Clone, Debug)]
struct Rule<T> {
    line: usize,
    selector: Selector,
    value: T,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: PolicyKind::default(),
            starvation: Duration::from_secs(1),
            lease: Duration::from_millis(50),
            linger: Duration::from_micros(100),
            one_at_a_time: Duration::from_secs(1),
            side_by_side: 1,
            poll: Duration::from_micros(150),
            in_flight: None,
            preemption_mode: 2,
            observe: false,
            metrics: Metrics::default(),
            kubernetes: None,
            rules: None,
            file: None,
            process_rules: Vec::new(),
            ceilings: Vec::new(),
        }
    }
}

impl Config {
    /// Reads the file that was asked for, or else the default one if it exists. If the file has mistakes, the part that
    /// could be read comes with the error.
    pub(crate) fn read_file(asked: Option<&Path>) -> (Self, Option<FileError>) {
        let path = asked.unwrap_or(Path::new(DEFAULT_FILE));
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let (mut config, mistakes) = Self::read(&text);
                config.rules = config.rules.map(|rules| path.parent().unwrap_or(Path::new("")).join(rules));
                config.file = Some(path.to_owned());
                (config, mistakes.map(|cause| FileError::Wrong { path: path.to_owned(), cause }))
            }
            Err(error) if asked.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                (Self::default(), None)
            }
            Err(cause) => (Self::default(), Some(FileError::Unreadable { path: path.to_owned(), cause })),
        }
    }

    /// Reads the text of a file. If it has mistakes, returns them with the part that could be read.
    fn read(text: &str) -> (Self, Option<Mistakes>) {
        document::read(text, |root, faults| {
            let mut config = Self::default();
            root.each(faults, |entry, faults| {
                match entry.key {
                    "scheduler" => config.read_scheduler(entry.section()?, faults),
                    "kubernetes" => config.kubernetes = Some(kubernetes(entry.section()?, faults)),
                    "metrics" => config.read_metrics(entry.section()?, faults),
                    "rules" => config.rules = Some(entry.text("the path of a file")?.into()),
                    "rule" => config.process_rules = all(entry, faults, rule)?,
                    "ceiling" => config.ceilings = all(entry, faults, ceiling)?,
                    _ => return Err(entry.unknown("table", &TABLES)),
                }
                Ok(())
            });
            config
        })
    }

    fn read_scheduler(&mut self, section: Section<'_>, faults: &mut Faults) {
        const LONG: Duration = Duration::from_hours(1);
        section.each(faults, |entry, _| {
            match entry.key {
                "policy" => {
                    let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
                    self.policy = PolicyKind::ALL[entry.word("policy", &names)?];
                }
                "starvation" => {
                    self.starvation = duration(&entry, Duration::ZERO, LONG)?;
                    self.settings().check().map_err(|error| entry.refuse(error.to_string()))?;
                }
                // Below this, a process that computes on the CPU for a moment would flap; above it, a hanging process
                // would block others.
                "lease" => self.lease = duration(&entry, Duration::from_millis(5), Duration::from_secs(10))?,
                "linger" => self.linger = duration(&entry, Duration::ZERO, Duration::from_secs(1))?,
                "one_at_a_time" => self.one_at_a_time = duration(&entry, Duration::ZERO, LONG)?,
                "side_by_side" => self.side_by_side = entry.integer(1..=8)? as u32,
                // For longer kernels, the time to wake a thread does not matter.
                "poll" => self.poll = duration(&entry, Duration::ZERO, Duration::from_millis(1))?,
                "in_flight" => {
                    self.in_flight =
                        Some(duration(&entry, Duration::from_micros(1), Duration::from_secs(1))?);
                }
                "preemption" => self.preemption_mode = entry.integer(1..=2)? as u32,
                "observe" => self.observe = entry.truth()?,
                _ => return Err(entry.unknown("key", &SCHEDULER_KEYS)),
            }
            Ok(())
        });
    }

    fn read_metrics(&mut self, section: Section<'_>, faults: &mut Faults) {
        let metrics = &mut self.metrics;
        section.each(faults, |entry, _| {
            match entry.key {
                "listen" => {
                    let listen = entry.text("an address such as \"127.0.0.1:9464\"")?.parse();
                    metrics.listen =
                        Some(listen.map_err(|error: NotListen| entry.refuse(error.to_string()))?);
                }
                "mode" => metrics.access.mode = mode(&entry)?,
                "public" => metrics.access.is_public = entry.truth()?,
                _ => return Err(entry.unknown("key", &METRICS_KEYS)),
            }
            Ok(())
        });
        let is_local = metrics.listen.as_ref().is_none_or(Listen::is_local);
        if !is_local && !metrics.access.is_public {
            const PUBLIC: Mistake =
                Mistake::Together("other machines can reach `listen`; `public = true` allows that");
            faults.note::<()>(Err(section.fault(PUBLIC)));
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        let (bound, usual) = (Nanos::from(self.starvation), Settings::default());
        // A time slice takes at most a quarter of the time that others wait meanwhile.
        let quantum = if bound.is_zero() { usual.quantum } else { usual.quantum.min(bound / 4) };
        Settings {
            starvation_bound: bound,
            quantum,
            serialize_equals: self.one_at_a_time.into(),
            side_by_side: self.side_by_side,
            linger: self.linger.into(),
            ..usual
        }
    }

    /// The scheduling parameters of a process before any command has changed them.
    pub(crate) fn parameters(&self, subject: &Subject) -> Parameters {
        let rule = self.process_rules.iter().find(|rule| rule.selector.fits(subject));
        rule.map_or_else(Wish::default, |rule| rule.value).applied_to(Parameters::default())
    }

    /// How far a user may raise a process.
    pub(crate) fn ceiling(&self, subject: &Subject) -> Ceiling {
        let found = self.ceilings.iter().find(|ceiling| ceiling.selector.fits(subject));
        found.map_or_else(Ceiling::default, |found| found.value)
    }

    /// Settings that are valid but probably not intended.
    pub(crate) fn warnings(&self, users: &Users, cgroups: Cgroups) -> Vec<String> {
        let file = self.file.as_ref().map(|file| format!("{}, ", file.display())).unwrap_or_default();
        let strangers = self.named().filter_map(|(name, line)| {
            users.warning(&name).map(|warning| format!("{file}line {line}: {warning}"))
        });
        let shares: Vec<_> = self
            .process_rules
            .iter()
            .filter_map(|rule| Some((rule.line, u32::from(rule.value.share?))))
            .collect();
        let percent: u32 = shares.iter().map(|(_, share)| share).sum();
        let overpromised = (percent > WHOLE_PERCENT).then(|| {
            let lines: Vec<_> = shares.iter().map(|(line, _)| line.to_string()).collect();
            format!(
                "{file}lines {}: shares of these rules come to {percent} %, so all shrink in proportion where a process of each \
                 uses one device",
                lines.join(", ")
            )
        });
        let rules: Vec<_> = self.process_rules.iter().map(|rule| (&rule.selector, rule.line)).collect();
        let ceilings: Vec<_> =
            self.ceilings.iter().map(|ceiling| (&ceiling.selector, ceiling.line)).collect();
        let unreached = [unreached(&rules), unreached(&ceilings)].into_iter().flatten();
        let by_cgroup = rules.iter().chain(&ceilings).filter(|(selector, _)| selector.cgroup.is_some());
        let mut by_cgroup: Vec<_> = by_cgroup.map(|(_, line)| *line).collect();
        by_cgroup.sort_unstable();
        let of_lines = unreached.chain(cgroups.warning(&by_cgroup)).map(|warning| format!("{file}{warning}"));
        strangers.chain(overpromised).chain(of_lines).collect()
    }

    /// The user names in it, without numbers and globs.
    pub(crate) fn user_names(&self) -> BTreeSet<String> {
        self.named().map(|(name, _)| name).collect()
    }

    fn named(&self) -> impl Iterator<Item = (String, usize)> {
        let rules = self.process_rules.iter().map(|rule| (&rule.selector, rule.line));
        let ceilings = self.ceilings.iter().map(|ceiling| (&ceiling.selector, ceiling.line));
        rules.chain(ceilings).filter_map(|(selector, line)| Some((selector.user_name()?, line)))
    }

    /// Number of rules and of ceilings.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.process_rules.len(), self.ceilings.len())
    }
}

/// Warns of entries behind the first one that matches every process: they never apply.
fn unreached(entries: &[(&Selector, usize)]) -> Option<String> {
    let first = entries.iter().position(|(selector, _)| selector.is_about_all())?;
    let line = entries[first].1;
    let behind: Vec<_> = entries[first + 1..].iter().map(|(_, line)| line.to_string()).collect();
    let lines = match behind.len() {
        0 => return None,
        1 => "line",
        _ => "lines",
    };
    let behind = behind.join(", ");
    Some(format!("{lines} {behind}: never used, because the one at line {line} matches every process"))
}

fn kubernetes(section: Section<'_>, faults: &mut Faults) -> Kubernetes {
    let mut kubernetes = Kubernetes::default();
    section.each(faults, |entry, _| {
        match entry.key {
            "socket" => {
                let path = PathBuf::from(entry.text("the path of a socket")?);
                if !path.is_absolute() {
                    return Err(entry.refuse("expected a path that begins with a slash".to_owned()));
                }
                kubernetes.sockets = vec![path];
            }
            _ => return Err(entry.unknown("key", &KUBERNETES_KEYS)),
        }
        Ok(())
    });
    kubernetes
}

/// The valid tables of a list.
fn all<T>(
    entry: Entry<'_>,
    faults: &mut Faults,
    read: impl Fn(Section<'_>, &mut Faults) -> Option<T>,
) -> Result<Vec<T>, Fault> {
    Ok(entry.sections()?.into_iter().filter_map(|section| read(section, faults)).collect())
}

fn rule(section: Section<'_>, faults: &mut Faults) -> Option<Rule<Wish>> {
    let (selector, wish) = read_rule(section, &RULE_KEYS, faults)?;
    if wish.is_empty() {
        const EMPTY: Mistake =
            Mistake::Together("a rule needs a class, priority, weight, share, quota, deadline, work or slo");
        return faults.note(Err(section.fault(EMPTY)));
    }
    Some(Rule { line: section.line(), selector, value: wish })
}

fn ceiling(section: Section<'_>, faults: &mut Faults) -> Option<Rule<Ceiling>> {
    let (selector, wish) = read_rule(section, &CEILING_KEYS, faults)?;
    if wish.is_empty() {
        const EMPTY: Mistake = Mistake::Together("a ceiling needs a class, priority, weight or share");
        return faults.note(Err(section.fault(EMPTY)));
    }
    let built_in = Ceiling::default();
    let value = Ceiling {
        priority: wish.priority.unwrap_or(built_in.priority),
        weight: wish.weight.unwrap_or(built_in.weight),
        share: wish.share.or(built_in.share),
    };
    Some(Rule { line: section.line(), selector, value })
}

/// Reads what rules and ceilings have in common; none if it is wrong. A class means its own priority in a rule, and its
/// highest priority in a ceiling. Only rules have executables: the owner of a process can rename its file.
fn read_rule(section: Section<'_>, keys: &[&'static str], faults: &mut Faults) -> Option<(Selector, Wish)> {
    let is_ceiling = !keys.contains(&"executable");
    let (mut selector, mut wish) = (Selector::default(), Wish::default());
    let mut class = None;
    let is_sound = section.each(faults, |entry, _| {
        match entry.key {
            "executable" if !is_ceiling => selector.executable = Some(entry.program()?),
            "user" => selector.user = Some(entry.pattern()?),
            "cgroup" => selector.cgroup = Some(entry.cgroup()?),
            "namespace" => selector.namespace = Some(entry.pattern()?),
            "class" => class = Some(Class::ALL[entry.word("class", &Class::NAMES)?]),
            "priority" => {
                wish.priority =
                    Some(entry.integer(i64::from(PRIORITY_MIN)..=i64::from(PRIORITY_MAX))? as i16);
            }
            "weight" => wish.weight = Some(entry.integer(1..=i64::from(WEIGHT_MAX))? as u32),
            "share" => wish.share = Some(entry.integer(1..=i64::from(SHARE_MAX))? as u8),
            "quota" if !is_ceiling => wish.quota = Some(parsed(&entry)?),
            "deadline" if !is_ceiling => wish.deadline = Some(parsed(&entry)?),
            "work" if !is_ceiling => wish.work = Some(parsed(&entry)?),
            "slo" if !is_ceiling => wish.slo = Some(parsed(&entry)?),
            _ => return Err(entry.unknown("key", keys)),
        }
        wish.check().map_err(|error| entry.refuse(error.to_string()))
    });
    if !is_sound {
        return None;
    }
    if let Some(class) = class {
        if wish.priority.is_some() {
            const BOTH: Mistake = Mistake::Together("give a class or a priority, not both");
            return faults.note(Err(section.fault(BOTH)));
        }
        wish.priority = Some(if is_ceiling { class.highest() } else { class.priority() });
    }
    Some((selector, wish))
}

/// A value as users write it.
fn parsed<T: FromStr<Err = NoHint>>(entry: &Entry<'_>) -> Result<T, Fault> {
    entry.text("a text")?.parse().map_err(|error: NoHint| entry.refuse(error.to_string()))
}

/// The mode of a file, in octal digits.
fn mode(entry: &Entry<'_>) -> Result<u32, Fault> {
    let text = entry.text("a mode such as \"0660\"")?;
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| entry.refuse("expected a mode such as \"0660\"".to_owned()))
}

fn duration(entry: &Entry<'_>, min: Duration, max: Duration) -> Result<Duration, Fault> {
    let text = entry.text("a time such as \"50ms\"")?;
    let duration = humantime::parse_duration(text)
        .map_err(|_| entry.refuse("expected a time such as \"50ms\"".to_owned()))?;
    if (min..=max).contains(&duration) {
        Ok(duration)
    } else {
        let (min, max) = (humantime::format_duration(min), humantime::format_duration(max));
        Err(entry.refuse(format!("expected {min} to {max}")))
    }
}

#[cfg(test)]
mod tests;
