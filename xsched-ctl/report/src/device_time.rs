//! Device time of executions by process, stream and the library to which the call belongs.
//!
//! Read from the executions of a timeline, see `timeline/scheduling.rs`. Executions of several streams or processes may
//! overlap, so their sum may exceed the device's busy time. Each process knows when its own commands were on the
//! device, but not when the device ran other work meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use xsched_perfetto::OwnedSlice;
use xsched_terminal::{duration, short_name, write_table};

use super::collect::text;

/// Most owners that are distinguished; further ones share a line.
const LINES_MAX: usize = 1 << 14;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    process: Arc<str>,
    origin: Arc<str>,
    stream: Arc<str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    commands: u64,
    /// Commands whose times were measured.
    measured: u64,
    device_ns: u64,
}

/// By process, origin and stream.
#[derive(Debug, Default)]
pub(super) struct DeviceTime(BTreeMap<Owner, Share>);

impl DeviceTime {
    /// Takes in an execution; one that has not ended is left out.
    pub(super) fn add(&mut self, slice: &OwnedSlice) {
        let Some(end_ns) = slice.end_ns else { return };
        let text = |name, otherwise: &str| text(&slice.annotations, name).unwrap_or_else(|| otherwise.into());
        let mut owner = Owner {
            process: text("process", "(no process named)"),
            // Its call was not seen.
            origin: text("origin", "(unknown)"),
            stream: text("stream", "(unknown)"),
        };
        if self.0.len() >= LINES_MAX && !self.0.contains_key(&owner) {
            let others: Arc<str> = "(others)".into();
            owner = Owner { process: others.clone(), origin: others.clone(), stream: others };
        }
        let is_measured = text("timing", "").as_ref() == "measured";
        let one = Share {
            commands: 1,
            measured: is_measured.into(),
            device_ns: end_ns.saturating_sub(slice.begin_ns),
        };
        self.0.entry(owner).or_default().add(one);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As JSON: one object for each process, origin and stream.
    pub(super) fn json(&self) -> Value {
        let lines = self.0.iter().map(|(owner, share)| {
            json!({
                "process": &*owner.process,
                "origin": &*owner.origin,
                "stream": &*owner.stream,
                "commands": share.commands,
                "measured": share.measured,
                "device_ns": share.device_ns,
            })
        });
        lines.collect()
    }

    /// Summed over the streams of a process, the longest first.
    fn by_origin(&self) -> Vec<((&str, &str), Share)> {
        let mut shares: BTreeMap<_, Share> = BTreeMap::new();
        for (owner, share) in &self.0 {
            shares.entry((&*owner.process, &*owner.origin)).or_default().add(*share);
        }
        let mut shares: Vec<_> = shares.into_iter().collect();
        shares.sort_by_key(|(_, share)| std::cmp::Reverse(share.device_ns));
        shares
    }
}

impl Share {
    fn add(&mut self, other: Self) {
        self.commands += other.commands;
        self.measured += other.measured;
        self.device_ns = self.device_ns.saturating_add(other.device_ns);
    }
}

impl fmt::Display for DeviceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["device time of", "origin", "commands", "measured", "total"];
        let rows = self.by_origin().into_iter().map(|((process, origin), share)| {
            [
                short_name(process),
                short_name(origin),
                share.commands.to_string(),
                share.measured.to_string(),
                duration(Some(share.device_ns)),
            ]
        });
        write_table(f, heads, rows, 2)?;
        f.write_str(MEANING)
    }
}

/// The note below the table. An execution begins when the previous one of its process has ended, and ends with a
/// marker, even if the device runs other work in between.
const MEANING: &str = "a total is how long commands were on the device; commands of several processes or streams may be there at \
                       the same time,\nso totals may exceed the elapsed time\n";

#[cfg(test)]
mod tests {
    use xsched_perfetto::{OwnedAnnotation, OwnedValue, Scope};

    use super::*;

    fn execution(length_ns: u64, texts: &[(&str, &str)]) -> OwnedSlice {
        let text = |(name, text): &(&str, &str)| OwnedAnnotation {
            name: (*name).into(),
            value: OwnedValue::Str((*text).into()),
        };
        OwnedSlice {
            scope: Scope::Global,
            begin_ns: 1_000,
            end_ns: Some(1_000 + length_ns),
            category: "gpu".into(),
            name: "k".into(),
            annotations: texts.iter().map(text).collect(),
            flows: Vec::new(),
            ended_flows: Vec::new(),
            stack: None,
        }
    }

    #[test]
    fn device_time_is_added_up_by_process_origin_and_stream() {
        let mut time = DeviceTime::default();
        let of = |origin, stream, timing| {
            [("process", "train 7"), ("origin", origin), ("stream", stream), ("timing", timing)]
        };
        time.add(&execution(100, &of("librocblas.so.4", "0x1", "measured")));
        time.add(&execution(50, &of("librocblas.so.4", "0x1", "estimated")));
        time.add(&execution(30, &of("librocblas.so.4", "0x2", "measured")));
        time.add(&execution(1_000, &of("train", "0x1", "measured")));
        time.add(&execution(5, &[("process", "train 7"), ("stream", "0x1")]));
        let line = |origin, stream, commands, measured, device_ns| {
            json!({
                "process": "train 7", "origin": origin, "stream": stream, "commands": commands,
                "measured": measured, "device_ns": device_ns,
            })
        };
        let expected = [
            line("(unknown)", "0x1", 1, 0, 5),
            line("librocblas.so.4", "0x1", 2, 1, 150),
            line("librocblas.so.4", "0x2", 1, 1, 30),
            line("train", "0x1", 1, 1, 1_000),
        ];
        assert_eq!(time.json(), json!(expected));
        let text = time.to_string();
        let origins: Vec<_> =
            text.lines().skip(1).take(3).filter_map(|line| line.split_whitespace().nth(2)).collect();
        assert_eq!(origins, ["train", "librocblas.so.4", "(unknown)"], "{text}");
        assert!(text.contains("180 ns"), "both streams together: {text}");
        assert!(text.ends_with("so totals may exceed the elapsed time\n"), "{text}");
    }

    #[test]
    fn unfinished_executions_are_left_out() {
        let mut time = DeviceTime::default();
        time.add(&OwnedSlice { end_ns: None, ..execution(0, &[]) });
        assert!(time.is_empty());
    }
}
