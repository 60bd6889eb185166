//! The report as text.

use std::fmt::Write as _;
use std::path::Path;

use xsched_abi::Counter;
use xsched_perfetto::LOST_EVENTS;
use xsched_recording::{KernelNames, Reason};
use xsched_symbols::fold_templates;
use xsched_terminal::{counted, duration, short_name, write_table};

use super::collect::Collected;
use super::groups::{Dimension, Groups, Key};

/// Tables that are shown by default.
const USUAL: [Dimension; 3] = [Dimension::Library, Dimension::Kernel, Dimension::Api];

/// Default number of rows of a table.
const TOP: usize = 20;

/// A line of totals, what is missing, and a table for each property.
pub(super) fn render(
    path: &Path,
    collected: &Collected,
    by: &[Dimension],
    top: Option<usize>,
    names: KernelNames,
) -> String {
    let mut text = String::new();
    write(&mut text, path, collected, by, top, names).expect("a String takes everything");
    text
}

fn write(
    text: &mut String,
    path: &Path,
    collected: &Collected,
    by: &[Dimension],
    top: Option<usize>,
    names: KernelNames,
) -> std::fmt::Result {
    write!(
        text,
        "{}: {}, {}, {}, {}",
        path.display(),
        collected.calls,
        counted(collected.launches, "launch", "launches"),
        counted(collected.process_count() as u64, "process", "processes"),
        duration(Some(collected.length_ns()))
    )?;
    if collected.driver_calls > 0 {
        write!(text, ", {}", counted(collected.driver_calls, "driver call", "driver calls"))?;
    }
    if collected.unfinished > 0 {
        let unfinished = counted(collected.unfinished, "call", "calls");
        write!(text, ", {unfinished} had not returned at the end")?;
    }
    writeln!(text)?;
    losses(text, collected)?;
    if !collected.delays.is_empty() {
        write!(text, "\n{}", collected.delays)?;
    }
    if !collected.device_time.is_empty() {
        write!(text, "\n{}", collected.device_time)?;
    }
    if collected.calls.total() == 0 {
        writeln!(text, "no call is in it: the programs made none, or filters have left them out")?;
    }
    for &dimension in if by.is_empty() { &USUAL } else { by } {
        let groups = match (dimension, names) {
            (Dimension::Kernel, KernelNames::Folded) => &collected.groups(dimension).merged(folded),
            _ => collected.groups(dimension),
        };
        if by.is_empty() && groups.is_empty() {
            continue;
        }
        table(text, collected, dimension, groups, top.unwrap_or(TOP), names)?;
    }
    Ok(())
}

/// Losses by cause and processor, and what filters left out. Other counters are not shown here.
fn losses(text: &mut String, collected: &Collected) -> std::fmt::Result {
    let count = |name: &str| collected.counters.get(name).copied().unwrap_or(0);
    let mut named = 0_i64;
    for cause in Counter::ALL.into_iter().filter(|cause| count(cause.name()) > 0) {
        // Saturating, because a file may contain any numbers.
        named = named.saturating_add(if cause.loses_call() { count(cause.name()) } else { 0 });
        write!(text, "incomplete: {} {}", count(cause.name()), cause.describe())?;
        let parts: Vec<_> = collected
            .by_processor
            .iter()
            .filter(|((described, _), _)| &**described == cause.describe())
            .map(|((_, cpu), count)| format!("CPU {cpu}: {count}"))
            .collect();
        if parts.is_empty() { writeln!(text)? } else { writeln!(text, " ({})", parts.join(", "))? }
    }
    if count(LOST_EVENTS) > named {
        writeln!(text, "incomplete: {} calls lost for other causes", count(LOST_EVENTS) - named)?;
    }
    for reason in Reason::ALL.into_iter().filter(|reason| count(reason.name()) > 0) {
        writeln!(text, "left out: {} {}", count(reason.name()), reason.describe())?;
    }
    Ok(())
}

fn folded(key: &Key) -> Key {
    match key {
        Key::Text(kernel) => Key::Text(fold_templates(kernel).into()),
        other => other.clone(),
    }
}

/// The condition for a property that not all recordings have.
fn whence(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Rule => ": only recordings with a controller do, of programs with the shim",
        _ => "",
    }
}

fn table(
    text: &mut String,
    collected: &Collected,
    dimension: Dimension,
    groups: &Groups,
    top: usize,
    names: KernelNames,
) -> std::fmt::Result {
    let groups = groups.sorted();
    let is_whole = dimension == Dimension::Kernel && names == KernelNames::Full;
    let shown = |name: String| if is_whole { name } else { short_name(&name) };
    let header = [dimension.name(), "calls", "total", "p50", "p99", "max"];
    let rows = groups.iter().take(top).map(|(key, group)| {
        [
            shown(collected.name(key)),
            group.calls.to_string(),
            duration(Some(group.durations.total_ns())),
            duration(group.durations.percentile_ns(50)),
            duration(group.durations.percentile_ns(99)),
            duration(group.durations.max_ns()),
        ]
    });
    if groups.is_empty() && collected.calls.total() == 0 {
        // This was already reported.
        return Ok(());
    }
    writeln!(text)?;
    if groups.is_empty() {
        return writeln!(text, "no call in it has a {}{}", dimension.name(), whence(dimension));
    }
    write_table(text, header, rows, 1)?;
    match groups.len().saturating_sub(top) {
        0 => Ok(()),
        more => writeln!(text, "and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use xsched_abi::Runtime;
    use xsched_perfetto::{OwnedAnnotation, OwnedSlice, OwnedValue, Scope, TraceEvent};

    use super::*;

    #[test]
    fn a_table_without_rows_names_its_condition() {
        let mut collected = Collected::default();
        collected.calls.add(Runtime::Hip);
        let by = [Dimension::Rule, Dimension::Stream];
        let text = render(Path::new("f"), &collected, &by, None, KernelNames::Folded);
        assert!(text.contains("no call in it has a rule: only recordings with a controller do"), "{text}");
        assert!(text.contains("no call in it has a stream\n") && !text.contains("p50"), "{text}");
    }

    #[test]
    fn a_file_may_contain_any_numbers() {
        let mut collected = Collected::default();
        let name = |text: &str| OwnedAnnotation { name: text.into(), value: OwnedValue::U64(u64::MAX) };
        let said = |text: &str, value: &str| OwnedAnnotation {
            name: text.into(),
            value: OwnedValue::Str(value.into()),
        };
        let cause = Counter::ALL.into_iter().find(|cause| cause.loses_call()).unwrap();
        for holder in ["a", "b"] {
            for counter in Counter::ALL.iter().map(|cause| cause.name()).chain([LOST_EVENTS]) {
                let scope = Scope::Global;
                collected.event(TraceEvent::Counter {
                    scope,
                    name: counter.into(),
                    ts_ns: 1,
                    value: i64::MAX,
                });
            }
            let annotations = vec![said("cause", cause.describe()), name("cpu"), name("lost")];
            let (scope, category) = (Scope::Global, "loss".into());
            let lost = "events lost".into();
            collected.event(TraceEvent::Instant { scope, ts_ns: 1, category, name: lost, annotations });
            let annotations =
                vec![said("by", holder), name("suspended_ns"), name("host_ns"), name("behind_ns")];
            collected.event(TraceEvent::Slice(OwnedSlice {
                scope,
                begin_ns: 0,
                end_ns: Some(u64::MAX),
                category: "gpu".into(),
                name: "gemm".into(),
                annotations,
                flows: Vec::new(),
                ended_flows: Vec::new(),
                stack: None,
            }));
        }
        let text = render(Path::new("f"), &collected, &[], None, KernelNames::Folded);
        assert!(text.contains(&format!("CPU {0}: {0}", u64::MAX)), "{text}");
    }

    #[test]
    fn without_calls_there_are_no_tables() {
        let by = [Dimension::Library, Dimension::Kernel];
        let text = render(Path::new("f"), &Collected::default(), &by, None, KernelNames::Folded);
        assert!(text.ends_with("or filters have left them out\n"), "{text}");
    }
}
