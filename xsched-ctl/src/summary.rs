//! What a recording amounts to, per calling library.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::call::HipCall;

/// Longest duration that medians tell apart: an hour. Longer calls count as an hour.
const DURATION_MAX_NS: u64 = 3_600_000_000_000;

/// Three significant digits: 0.1 % of the value.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Totals of all calls seen so far. Memory grows with the number of libraries, not of calls.
#[derive(Default)]
pub(crate) struct Summary {
    libraries: HashMap<Arc<str>, Totals>,
}

struct Totals {
    launches: u64,
    launch_ns: u64,
    launch_durations: Histogram<u64>,
    other_calls: u64,
    other_ns: u64,
}

impl Default for Totals {
    fn default() -> Self {
        let launch_durations = Histogram::new_with_bounds(1, DURATION_MAX_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the histogram accepts");
        Self { launches: 0, launch_ns: 0, launch_durations, other_calls: 0, other_ns: 0 }
    }
}

/// One library's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// File name of the calling library or executable.
    pub(crate) library: Arc<str>,
    /// Launches that it made.
    pub(crate) launches: u64,
    /// Host time in these launches, in nanoseconds.
    pub(crate) launch_ns: u64,
    /// Median host time of one launch, in nanoseconds, to three digits.
    pub(crate) launch_median_ns: Option<u64>,
    /// Its other calls.
    pub(crate) other_calls: u64,
    /// Host time in its other calls, in nanoseconds.
    pub(crate) other_ns: u64,
}

impl Summary {
    /// Counts a call.
    pub(crate) fn add(&mut self, call: &HipCall) {
        let totals = self.libraries.entry(call.caller.library.clone()).or_default();
        let duration_ns = call.duration_ns();
        if call.is_launch() {
            totals.launches += 1;
            if let Some(ns) = duration_ns {
                totals.launch_ns += ns;
                totals.launch_durations.saturating_record(ns.clamp(1, DURATION_MAX_NS));
            }
        } else {
            totals.other_calls += 1;
            totals.other_ns += duration_ns.unwrap_or(0);
        }
    }

    /// The libraries, most launches first.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<_> = self
            .libraries
            .iter()
            .map(|(library, totals)| Line {
                library: library.clone(),
                launches: totals.launches,
                launch_ns: totals.launch_ns,
                launch_median_ns: (!totals.launch_durations.is_empty())
                    .then(|| totals.launch_durations.value_at_quantile(0.5)),
                other_calls: totals.other_calls,
                other_ns: totals.other_ns,
            })
            .collect();
        lines.sort_by(|a, b| {
            (b.launches, b.other_calls)
                .cmp(&(a.launches, a.other_calls))
                .then_with(|| a.library.cmp(&b.library))
        });
        lines
    }

    /// All launches.
    pub(crate) fn launches(&self) -> u64 {
        self.libraries.values().map(|totals| totals.launches).sum()
    }

    /// All calls, launches included.
    pub(crate) fn calls(&self) -> u64 {
        self.libraries.values().map(|totals| totals.launches + totals.other_calls).sum()
    }
}

/// The table for a terminal.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header =
            ["calling library", "launches", "total", "median", "other calls", "total"].map(str::to_owned);
        let rows = self.lines().into_iter().map(|line| {
            [
                line.library.to_string(),
                line.launches.to_string(),
                duration(Some(line.launch_ns)),
                duration(line.launch_median_ns),
                line.other_calls.to_string(),
                duration(Some(line.other_ns)),
            ]
        });
        let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
        write_table(f, &rows, 1)
    }
}

/// Writes rows in columns: the first `names` of them to the left, the others, which are numbers, to the right.
pub(crate) fn write_table<const COLUMNS: usize>(
    f: &mut fmt::Formatter<'_>,
    rows: &[[String; COLUMNS]],
    names: usize,
) -> fmt::Result {
    let widths: [usize; COLUMNS] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            if column < names {
                write!(f, "{gap}{cell:<width$}")?;
            } else {
                write!(f, "{gap}{cell:>width$}")?;
            }
        }
        writeln!(f)?;
    }
    Ok(())
}

/// A duration to three or so digits: `820 ns`, `12.3 us`, `4.56 ms`, `1.20 s`.
pub(crate) fn duration(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".to_owned() };
    let value = Duration::from_nanos(ns).as_secs_f64();
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", three_digits(value * 1e6)),
        1_000_000..1_000_000_000 => format!("{} ms", three_digits(value * 1e3)),
        _ => format!("{} s", three_digits(value)),
    }
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::call;

    #[test]
    fn launches_and_other_calls_are_told_apart() {
        let mut summary = Summary::default();
        for (name, library, ns) in [
            ("hipLaunchKernel", "libblas.so", 2_000),
            ("hipLaunchKernel", "libblas.so", 4_000),
            ("hipModuleLaunchKernel", "libblas.so", 30_000),
            ("hipMemcpy", "libblas.so", 1_000_000),
            ("hipLaunchKernel", "app", 500),
        ] {
            let mut call = call(name);
            call.end_ns = Some(ns);
            call.caller.library = library.into();
            summary.add(&call);
        }
        let lines = summary.lines();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[0],
            Line {
                library: "libblas.so".into(),
                launches: 3,
                launch_ns: 36_000,
                launch_median_ns: lines[0].launch_median_ns,
                other_calls: 1,
                other_ns: 1_000_000
            }
        );
        let median = lines[0].launch_median_ns.unwrap();
        assert!((3_996..=4_004).contains(&median), "{median}");
        assert_eq!(&*lines[1].library, "app");
        assert_eq!((summary.launches(), summary.calls()), (4, 5));
    }

    #[test]
    fn a_library_without_launches_has_no_median() {
        let mut summary = Summary::default();
        summary.add(&call("hipMemcpy"));
        assert_eq!(summary.lines()[0].launch_median_ns, None);
        assert!(summary.to_string().contains(" - "), "{summary}");
    }

    #[test]
    fn calls_in_progress_count_without_time() {
        let mut summary = Summary::default();
        let mut call = call("hipLaunchKernel");
        call.end_ns = None;
        summary.add(&call);
        assert_eq!((summary.launches(), summary.lines()[0].launch_median_ns), (1, None));
    }

    #[test]
    fn durations_keep_three_digits() {
        let shown =
            [820, 12_345, 999_999, 4_560_000, 1_200_000_000, 75_000_000_000].map(|ns| duration(Some(ns)));
        assert_eq!(shown, ["820 ns", "12.3 us", "1000 us", "4.56 ms", "1.20 s", "75.0 s"]);
    }
}
