//! The report at exit, for users.

use std::fmt::Write;

use crate::api::{ApiFunction, TABLE};
use crate::counters::{self, StreamKind, Trouble, VerdictSource, Work};
use crate::defer;
use crate::outcome::Reason;
use xsched_preload::program;

/// Everything that was counted and is not zero.
///
/// ```text
/// xsched-shim: process 4711 (python3) made 12 calls to 3 HIP functions
///   calls
///              8  hipLaunchKernel (launch, deferrable)
///   work on streams
///              8  kernels, created streams
///   passed on because
///              8  nothing schedules
///   trouble
///              0  none
/// ```
pub(crate) fn text() -> String {
    let calls: Vec<_> =
        TABLE.iter().enumerate().map(|(id, function)| (counters::calls(id), describe(function))).collect();
    let total: u64 = calls.iter().map(|(count, _)| count).sum();
    let functions = calls.iter().filter(|(count, _)| *count > 0).count();
    let pid = std::process::id();
    let program = program();
    let mut text =
        format!("xsched-shim: process {pid} ({program}) made {total} calls to {functions} HIP functions\n");
    section(&mut text, "calls", calls);
    section(&mut text, "work on streams", work());
    let passed = Reason::ALL.iter().map(|&why| (counters::passed_so_far(why), why.text().to_owned()));
    section(&mut text, "passed on because", passed);
    if let Some(used) = defer::usage() {
        let lines = [
            (used.device_time.0 / 1000, "us of device time"),
            (used.launched, "commands launched"),
            (used.deferred, "of them deferred before"),
            (counters::gates_put_so_far(), "gates before commands, which stop them on the device"),
            (used.suspended.0 / 1000, "us of waiting for more urgent processes"),
        ];
        section(&mut text, "beside others", lines.map(|(count, what)| (count, what.to_owned())));
    }
    let sources =
        VerdictSource::ALL.iter().map(|&how| (counters::verdicts_so_far(how), how.text().to_owned()));
    if VerdictSource::ALL.iter().any(|&how| counters::verdicts_so_far(how) > 0) {
        section(&mut text, "verdicts found", sources);
    }
    let trouble = Trouble::ALL.iter().map(|&what| (counters::trouble_so_far(what), what.text().to_owned()));
    section(&mut text, "trouble", trouble);
    text
}

fn describe(function: &ApiFunction) -> String {
    format!("{} ({:?}, {:?})", function.name.to_string_lossy(), function.family, function.class)
}

fn work() -> impl Iterator<Item = (u64, String)> {
    Work::ALL.iter().flat_map(|&work| {
        StreamKind::ALL.iter().map(move |&stream| {
            (counters::submitted_so_far(work, stream), format!("{}, {}", work.text(), stream.text()))
        })
    })
}

/// Appends the lines with a count above zero, most frequent first.
fn section(text: &mut String, title: &str, lines: impl IntoIterator<Item = (u64, String)>) {
    let mut lines: Vec<_> = lines.into_iter().filter(|(count, _)| *count > 0).collect();
    if lines.is_empty() {
        lines.push((0, "none".to_owned()));
    }
    // Stable: equal counts stay in the order of the list.
    lines.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let _ = writeln!(text, "  {title}");
    for (count, what) in lines {
        let _ = writeln!(text, "    {count:>12}  {what}");
    }
}

/// The name of the running program.
fn program() -> String {
    let path = program::path();
    let name = path.as_deref().and_then(|path| path.file_name());
    name.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}
