//! The delays of each process's commands, from the call to the end of the execution.
//!
//! Read from the executions of a timeline, see `timeline/scheduling.rs`. Times of commands are summed, so they exceed
//! the length of the recording where several commands wait at a time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use xsched_perfetto::{OwnedAnnotation, OwnedSlice, OwnedValue};
use xsched_terminal::{duration, one_line, short_name, write_table};

/// Category of the slices of executions.
pub(super) const EXECUTION: &str = "gpu";

/// Most processes with their own line; further ones share a line.
const PROCESSES_MAX: usize = 4096;

/// Total delays of the commands of one process, in nanoseconds.
#[derive(Debug, Default)]
struct Delay {
    commands: u64,
    /// Commands whose times were measured.
    measured: u64,
    /// From call to end.
    total_ns: u64,
    host_ns: u64,
    /// Deferred, or stopped at a gate on the device, while others were more urgent; by preempting process.
    gave_way_ns: BTreeMap<Arc<str>, u64>,
    /// Deferred otherwise: to limit work in flight, or behind other deferred commands.
    deferred_ns: u64,
    /// On the device, behind earlier commands of the stream.
    behind_ns: u64,
    executing_ns: u64,
}

/// By process.
#[derive(Debug, Default)]
pub(super) struct Delays(BTreeMap<Arc<str>, Delay>);

impl Delays {
    /// Takes in an execution; one that has not ended is left out.
    pub(super) fn add(&mut self, slice: &OwnedSlice) {
        let Some(end_ns) = slice.end_ns else { return };
        let number = |name| number(&slice.annotations, name);
        let text = |name| super::collect::text(&slice.annotations, name);
        let mut process = text("process").unwrap_or_else(|| "(no process named)".into());
        if self.0.len() >= PROCESSES_MAX && !self.0.contains_key(&process) {
            process = "(others)".into();
        }
        let executing_ns = end_ns.saturating_sub(slice.begin_ns);
        let (buffered_ns, suspended_ns) = (number("buffered_ns"), number("suspended_ns"));
        let delay = self.0.entry(process).or_default();
        delay.commands += 1;
        delay.measured += u64::from(text("timing").as_deref() == Some("measured"));
        delay.total_ns = delay.total_ns.saturating_add(number("queue_delay_ns")).saturating_add(executing_ns);
        delay.host_ns = delay.host_ns.saturating_add(number("host_ns"));
        delay.deferred_ns = delay.deferred_ns.saturating_add(buffered_ns.saturating_sub(suspended_ns));
        delay.behind_ns = delay.behind_ns.saturating_add(number("behind_ns"));
        delay.executing_ns = delay.executing_ns.saturating_add(executing_ns);
        let gave_way_ns = suspended_ns.saturating_add(number("gated_ns"));
        if gave_way_ns > 0 {
            let holder = text("by").unwrap_or_else(|| "(unknown)".into());
            let given = delay.gave_way_ns.entry(holder).or_default();
            *given = given.saturating_add(gave_way_ns);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn json(&self) -> Value {
        let processes = self.0.iter().map(|(process, delay)| {
            let gave_way: Vec<_> =
                delay.gave_way().into_iter().map(|(to, ns)| json!({ "to": to, "ns": ns })).collect();
            json!({
                "process": &**process,
                "commands": delay.commands,
                "measured": delay.measured,
                "total_ns": delay.total_ns,
                "host_ns": delay.host_ns,
                "gave_way": gave_way,
                "deferred_ns": delay.deferred_ns,
                "behind_ns": delay.behind_ns,
                "executing_ns": delay.executing_ns,
            })
        });
        processes.collect()
    }
}

impl Delay {
    /// The preempting processes and their times, the longest first.
    fn gave_way(&self) -> Vec<(&str, u64)> {
        let mut gave_way: Vec<_> = self.gave_way_ns.iter().map(|(to, ns)| (&**to, *ns)).collect();
        gave_way.sort_by_key(|&(_, ns)| Reverse(ns));
        gave_way
    }
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = [
            "from call to end",
            "commands",
            "measured",
            "total",
            "host",
            "preempted",
            "deferred",
            "behind",
            "executing",
        ];
        let rows = self.0.iter().map(|(process, delay)| {
            let part = |ns: u64| format!("{} ({})", duration(Some(ns)), percent(ns, delay.total_ns));
            [
                short_name(process),
                delay.commands.to_string(),
                percent(delay.measured, delay.commands),
                duration(Some(delay.total_ns)),
                part(delay.host_ns),
                part(delay.gave_way_ns.values().fold(0, |sum, ns| sum.saturating_add(*ns))),
                part(delay.deferred_ns),
                part(delay.behind_ns),
                part(delay.executing_ns),
            ]
        });
        write_table(f, heads, rows, 1)?;
        for (process, delay) in &self.0 {
            for (holder, ns) in delay.gave_way() {
                writeln!(
                    f,
                    "{} was preempted by {} for {}, summed over its commands",
                    one_line(process),
                    one_line(holder),
                    duration(Some(ns))
                )?;
            }
        }
        Ok(())
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.0} %", 100.0 * part as f64 / whole as f64) }
}

fn number(annotations: &[OwnedAnnotation], name: &str) -> u64 {
    annotations
        .iter()
        .find(|annotation| &*annotation.name == name)
        .and_then(|found| match found.value {
            OwnedValue::U64(number) => Some(number),
            OwnedValue::I64(number) => u64::try_from(number).ok(),
            _ => None,
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use xsched_perfetto::Scope;

    use super::*;

    fn execution(begin_ns: u64, end_ns: u64, texts: &[(&str, &str)], numbers: &[(&str, u64)]) -> OwnedSlice {
        let text = |(name, text): &(&str, &str)| OwnedAnnotation {
            name: (*name).into(),
            value: OwnedValue::Str((*text).into()),
        };
        let number = |(name, number): &(&str, u64)| OwnedAnnotation {
            name: (*name).into(),
            value: OwnedValue::U64(*number),
        };
        OwnedSlice {
            scope: Scope::Global,
            begin_ns,
            end_ns: Some(end_ns),
            category: EXECUTION.into(),
            name: "k".into(),
            annotations: texts.iter().map(text).chain(numbers.iter().map(number)).collect(),
            flows: Vec::new(),
            ended_flows: Vec::new(),
            stack: None,
        }
    }

    #[test]
    fn parts_are_added_up_by_process_and_holder() {
        let mut delays = Delays::default();
        let low = [("process", "low 1"), ("timing", "measured"), ("by", "high 2")];
        let parts = [
            ("queue_delay_ns", 900),
            ("host_ns", 100),
            ("buffered_ns", 500),
            ("suspended_ns", 400),
            ("behind_ns", 300),
        ];
        delays.add(&execution(1_000, 1_100, &low, &parts));
        delays.add(&execution(2_000, 2_100, &low, &parts));
        delays.add(&execution(0, 50, &[("process", "high 2"), ("timing", "estimated")], &[]));
        let json = delays.json();
        let expected = json!([
            {
                "process": "high 2", "commands": 1, "measured": 0, "total_ns": 50, "host_ns": 0, "gave_way": [],
                "deferred_ns": 0, "behind_ns": 0, "executing_ns": 50,
            },
            {
                "process": "low 1", "commands": 2, "measured": 2, "total_ns": 2_000, "host_ns": 200,
                "gave_way": [{ "to": "high 2", "ns": 800 }], "deferred_ns": 200, "behind_ns": 600,
                "executing_ns": 200,
            },
        ]);
        assert_eq!(json, expected);
        let text = delays.to_string();
        assert!(
            text.contains("low 1 was preempted by high 2 for 800 ns, summed over its commands"),
            "{text}"
        );
        assert!(text.contains("600 ns (30 %)"), "{text}");
    }

    #[test]
    fn the_longest_preempting_process_comes_first() {
        let mut delays = Delays::default();
        let low = ("process", "low 1");
        delays.add(&execution(0, 1, &[low], &[("suspended_ns", 3)]));
        delays.add(&execution(2, 3, &[low, ("by", "high 2")], &[("suspended_ns", 400)]));
        let expected = json!([{ "to": "high 2", "ns": 400 }, { "to": "(unknown)", "ns": 3 }]);
        assert_eq!(delays.json()[0]["gave_way"], expected);
    }
}
