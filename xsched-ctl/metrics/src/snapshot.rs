//! What a scrape shows. The controller copies it, and the endpoint's thread makes the text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel as _, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
    prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use xsched_sched::Nanos;

use crate::catalogue::{self, Kind, Metric, PREFIX};
use crate::histogram::seconds;
use crate::tally::{Counts, Labels, Tally};

/// What there is to say of the controller as a whole.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Labels of the controller, in the order of the catalogue.
    pub controller: [String; 5],
    /// When it started, in seconds since 1970.
    pub started_s: f64,
    /// Processes that are connected.
    pub processes: u64,
    /// Processes that have joined.
    pub joined: u64,
    /// Changes of levels.
    pub level_changes: u64,
    /// Losses by cause.
    pub losses: Vec<(&'static str, u64)>,
}

/// All that a scrape shows, at one time.
#[derive(Debug, Default)]
pub struct Snapshot {
    facts: Facts,
    groups: Vec<(Labels, usize, Counts)>,
}

/// The two texts that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    OpenMetrics,
    /// Prometheus's own text format 0.0.4, for readers that do not ask for OpenMetrics.
    Prometheus,
}

impl Format {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

impl Snapshot {
    /// The facts, and the counters of all groups.
    pub fn new<P: Copy + PartialEq>(facts: Facts, tally: &mut Tally<P>, now: Nanos) -> Self {
        Self { facts, groups: tally.counts(now) }
    }

    pub(crate) fn text(self, format: Format) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        match format {
            Format::OpenMetrics => text::encode(&mut text, &registry)?,
            Format::Prometheus => prometheus_text::encode(&mut text, &registry)?,
        }
        Ok(text)
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (encoder, facts) = (&mut encoder, &self.facts);
        let labels = catalogue::CONTROLLER.labels.iter().copied();
        let labels: Vec<_> = labels.zip(facts.controller.iter().map(String::as_str)).collect();
        begin(encoder, &catalogue::CONTROLLER)?.encode_info(&labels)?;
        begin(encoder, &catalogue::START_TIME)?.encode_gauge(&facts.started_s)?;
        begin(encoder, &catalogue::PROCESSES)?.encode_gauge(&facts.processes)?;
        count(&mut begin(encoder, &catalogue::JOINED)?, facts.joined)?;
        begin(encoder, &catalogue::LABEL_SETS)?.encode_gauge(&self.groups.len())?;
        count(&mut begin(encoder, &catalogue::LEVEL_CHANGES)?, facts.level_changes)?;
        let mut losses = begin(encoder, &catalogue::LOSSES)?;
        for (cause, lost) in &facts.losses {
            count(&mut losses.encode_family(&[("cause", *cause)])?, *lost)?;
        }
        self.encode_groups(encoder)
    }
}

impl Snapshot {
    fn encode_groups(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut claims = begin(encoder, &catalogue::CLAIMS)?;
        for (labels, held, _) in &self.groups {
            claims.encode_family(labels)?.encode_gauge(held)?;
        }
        self.each(encoder, &catalogue::LAUNCHED, |to, counts| count(to, counts.launched))?;
        self.each(encoder, &catalogue::DEFERRED, |to, counts| count(to, counts.deferred))?;
        self.each(encoder, &catalogue::DEVICE_TIME, |to, counts| time(to, counts.device))?;
        self.each(encoder, &catalogue::SUSPENDED_TIME, |to, counts| time(to, counts.suspended))?;
        self.each(encoder, &catalogue::PREEMPTIONS, |to, counts| count(to, counts.preemptions))?;
        self.each(encoder, &catalogue::STARVATION_SLICES, |to, counts| count(to, counts.starvation_slices))?;
        self.each(encoder, &catalogue::QUEUE_DELAY, |to, Counts { delays, .. }| {
            to.encode_histogram::<NoLabelSet>(delays.sum_s(), delays.count(), &delays.buckets(), None)
        })?;
        let mut by_origin = begin(encoder, &catalogue::ORIGIN_DEVICE_TIME)?;
        for (labels, _, counts) in &self.groups {
            let mut origins: Vec<_> = counts.origins.iter().collect();
            origins.sort();
            for (origin, device) in origins {
                time(&mut by_origin.encode_family(&Of { labels, origin })?, *device)?;
            }
        }
        Ok(())
    }

    /// Writes a metric of each group.
    fn each(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        metric: &Metric,
        write: impl Fn(&mut MetricEncoder<'_>, &Counts) -> fmt::Result,
    ) -> fmt::Result {
        let mut metric = begin(encoder, metric)?;
        for (labels, _, counts) in &self.groups {
            write(&mut metric.encode_family(labels)?, counts)?;
        }
        Ok(())
    }
}

fn begin<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    metric: &'a Metric,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    let kind = match metric.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
        Kind::Info => MetricType::Info,
    };
    encoder.encode_descriptor(metric.name, metric.help, metric.unit.as_ref(), kind)
}

fn count(to: &mut MetricEncoder<'_>, count: u64) -> fmt::Result {
    to.encode_counter::<NoLabelSet, _, u64>(&count, None)
}

fn time(to: &mut MetricEncoder<'_>, time: Nanos) -> fmt::Result {
    to.encode_counter::<NoLabelSet, _, u64>(&seconds(time), None)
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let own = [("class", &self.class), ("device", &self.device), ("cgroup", &self.cgroup)];
        let of_pod = self.pod.iter().flat_map(|pod| ["namespace", "pod", "container"].into_iter().zip(pod));
        // A label without text is the same as none.
        for (name, text) in own.into_iter().chain(of_pod).filter(|(_, text)| !text.is_empty()) {
            (name, text.as_str()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

/// The labels of a group's library.
struct Of<'a> {
    labels: &'a Labels,
    origin: &'a str,
}

impl EncodeLabelSet for Of<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        self.labels.encode(encoder)?;
        ("origin", self.origin).encode(encoder.encode_label())
    }
}

#[cfg(test)]
mod tests {
    use xsched_sched::What;

    use super::*;

    fn snapshot() -> Snapshot {
        let mut tally = Tally::<u32>::default();
        let labels = |cgroup: &str| Labels {
            class: "high".to_owned(),
            device: "0000:c1:00.0".to_owned(),
            cgroup: cgroup.to_owned(),
            pod: Some(["team", "train-0", "main"].map(str::to_owned)),
        };
        let group = tally.group(Nanos(1), labels("/a\"b\\c\nd"), None);
        group.used(3, 2, Nanos(1_500_000_000), Nanos(250_000_000));
        group.used_by("librocblas.so", Nanos(1_000_000_000));
        group.happened(What::TurnBegan { waited: Nanos(3_000_000) });
        group.happened(What::Preempted);
        let controller = ["1", "fair", "active", "programs", "chains"].map(str::to_owned);
        let losses = vec![("malformed_packets", 4)];
        let facts = Facts { controller, started_s: 7.5, processes: 1, joined: 9, losses, ..Facts::default() };
        Snapshot::new(facts, &mut tally, Nanos(2))
    }

    #[test]
    fn all_metrics_are_in_the_text() {
        let text = snapshot().text(Format::OpenMetrics).unwrap();
        let group = r#"class="high",device="0000:c1:00.0",cgroup="/a\"b\\c\nd",namespace="team",pod="train-0",container="main""#;
        for line in [
            r#"xsched_controller_info{version="1",policy="fair",state="active",page_keeper="programs",rules_see="chains"} 1"#,
            "xsched_controller_start_time_seconds 7.5",
            "xsched_processes 1",
            "xsched_processes_joined_total 9",
            "# UNIT xsched_device_time_seconds seconds",
            r#"xsched_losses_total{cause="malformed_packets"} 4"#,
            &format!("xsched_claims{{{group}}} 1"),
            &format!("xsched_launched_commands_total{{{group}}} 3"),
            &format!("xsched_device_time_seconds_total{{{group}}} 1.5"),
            &format!("xsched_suspended_time_seconds_total{{{group}}} 0.25"),
            &format!("xsched_preemptions_total{{{group}}} 1"),
            &format!("xsched_starvation_slices_total{{{group}}} 0"),
            &format!(r#"xsched_queue_delay_seconds_bucket{{le="0.002",{group}}} 0"#),
            &format!(r#"xsched_queue_delay_seconds_bucket{{le="0.005",{group}}} 1"#),
            &format!(r#"xsched_queue_delay_seconds_bucket{{le="+Inf",{group}}} 1"#),
            &format!("xsched_queue_delay_seconds_sum{{{group}}} 0.003"),
            &format!(r#"xsched_origin_device_time_seconds_total{{{group},origin="librocblas.so"}} 1.0"#),
            "# EOF",
        ] {
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
        for metric in catalogue::METRICS {
            assert!(text.contains(&metric.full_name()), "{}", metric.full_name());
        }
    }

    #[test]
    fn readers_of_prometheus_own_format_get_it() {
        let text = snapshot().text(Format::Prometheus).unwrap();
        assert!(text.contains("# TYPE xsched_launched_commands_total counter\n"), "{text}");
        assert!(!text.contains("# EOF"), "{text}");
    }
}
