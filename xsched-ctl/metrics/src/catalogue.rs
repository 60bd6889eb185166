//! The list of metrics. `docs/metrics.md` has the same, and a test compares both with a scrape.

use prometheus_client::registry::Unit;

/// The kind of a metric, in OpenMetrics' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises.
    Counter,
    /// It rises and falls.
    Gauge,
    /// How many values were in which range.
    Histogram,
    /// Labels only; the value is 1.
    Info,
}

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name without prefix, unit and the suffixes of its kind.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its unit, which its name ends with.
    pub unit: Option<Unit>,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

impl Metric {
    /// The name that queries use, without the suffixes of a histogram's series.
    pub fn full_name(&self) -> String {
        let unit = self.unit.as_ref().map(|unit| format!("_{}", unit.as_str())).unwrap_or_default();
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{PREFIX}_{}{unit}{suffix}", self.name)
    }
}

/// What all names begin with.
pub(crate) const PREFIX: &str = "xsched";

/// Labels of what claims do.
const GROUP: &[&str] = &["class", "device", "cgroup", "namespace", "pod", "container"];

const fn metric(
    name: &'static str,
    kind: Kind,
    unit: Option<Unit>,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, unit, labels, help }
}

macro_rules! metrics {
    ($($constant:ident: $name:literal $kind:ident $unit:expr, $labels:expr, $help:literal;)*) => {
        $(pub(crate) static $constant: Metric = metric($name, Kind::$kind, $unit, $labels, $help);)*

        /// All metrics, in the order of a scrape.
        pub static METRICS: &[&Metric] = &[$(&$constant),*];
    };
}

metrics! {
    CONTROLLER: "controller" Info None, &["version", "policy", "state", "page_keeper", "rules_see"],
        "The controller and its settings";
    START_TIME: "controller_start_time" Gauge Some(Unit::Seconds), &[],
        "When the controller started, since 1970";
    PROCESSES: "processes" Gauge None, &[],
        "Processes that are connected";
    JOINED: "processes_joined" Counter None, &[],
        "Processes that have joined";
    LABEL_SETS: "label_sets" Gauge None, &[],
        "Combinations of class, device, cgroup and container that are counted separately";
    LEVEL_CHANGES: "level_changes" Counter None, &[],
        "Changes of a claim's level";
    LOSSES: "losses" Counter None, &["cause"],
        "What was lost, refused or failed, by cause";
    CLAIMS: "claims" Gauge None, GROUP,
        "Open claims: a process's use of a device at a stream priority";
    LAUNCHED: "launched_commands" Counter None, GROUP,
        "Commands launched, as processes beside others report";
    DEFERRED: "deferred_commands" Counter None, GROUP,
        "Commands deferred before they were launched";
    DEVICE_TIME: "device_time" Counter Some(Unit::Seconds), GROUP,
        "Device time of completed commands";
    SUSPENDED_TIME: "suspended_time" Counter Some(Unit::Seconds), GROUP,
        "Time for which commands were deferred because other work was more urgent";
    PREEMPTIONS: "preemptions" Counter None, GROUP,
        "How often a claim with work was no longer allowed to launch";
    STARVATION_SLICES: "starvation_slices" Counter None, GROUP,
        "Time slices given to claims that had waited for the starvation bound";
    QUEUE_DELAY: "queue_delay" Histogram Some(Unit::Seconds), GROUP,
        "How long a claim with work waited each time until it was allowed to launch";
    ORIGIN_DEVICE_TIME: "origin_device_time" Counter Some(Unit::Seconds), &["class", "device", "cgroup", "namespace", "pod", "container", "origin"],
        "Device time by the library to which the calls belong";
}
