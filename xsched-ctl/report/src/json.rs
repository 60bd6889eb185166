//! The report as JSON.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::collect::Collected;
use super::groups::Dimension;

/// One JSON object. Times are nanoseconds; percentiles are within 0.2 %.
pub(super) fn render(
    path: &Path,
    collected: &Collected,
    by: &[Dimension],
    top: Option<usize>,
    is_whole: bool,
) -> String {
    let dimensions = if by.is_empty() { &Dimension::ALL } else { by };
    let groups: Map<String, Value> = dimensions
        .iter()
        .map(|dimension| (dimension.name().to_owned(), groups(collected, *dimension, top)))
        .collect();
    let by_processor: Vec<_> = collected
        .by_processor
        .iter()
        .map(|((cause, cpu), count)| json!({ "cause": &**cause, "cpu": cpu, "count": count }))
        .collect();
    let counters: Map<String, Value> =
        collected.counters.iter().map(|(name, count)| (name.to_string(), (*count).into())).collect();
    let mut report = json!({
        "file": path.to_string_lossy(),
        "is_whole": is_whole,
        "calls": collected.calls.total(),
        "launches": collected.launches,
        "driver_calls": collected.driver_calls,
        "unfinished": collected.unfinished,
        "processes": collected.process_count(),
        "length_ns": collected.length_ns(),
        "lost": collected.lost(),
        "counters": counters,
        "losses_by_cpu": by_processor,
        "by": groups,
        "delays": collected.delays.json(),
        "device_time": collected.device_time.json(),
    })
    .to_string();
    report.push('\n');
    report
}

fn groups(collected: &Collected, dimension: Dimension, top: Option<usize>) -> Value {
    let groups = collected.groups(dimension).sorted();
    groups
        .into_iter()
        .take(top.unwrap_or(usize::MAX))
        .map(|(key, group)| {
            json!({
                "name": collected.name(key),
                "calls": group.calls,
                "total_ns": group.durations.total_ns(),
                "p50_ns": group.durations.percentile_ns(50),
                "p99_ns": group.durations.percentile_ns(99),
                "max_ns": group.durations.max_ns(),
            })
        })
        .collect()
}
