//! Totals of a recording so far: by the library to which calls belong, and by kernel.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use xsched_recording::{Calls, Durations};
use xsched_symbols::fold_templates;
use xsched_terminal::{duration, short_name, write_table};

use crate::call::RuntimeCall;

/// Most kernels with their own line; further ones share a line, so that memory is bounded.
const KERNELS_MAX: usize = 16_384;

/// Kernels in the table.
const KERNELS_SHOWN: usize = 10;

/// The line for further kernels.
const OTHERS: &str = "(others)";

/// Totals of all calls seen so far. Memory grows with the number of libraries and kernels, not of calls.
#[derive(Default)]
pub struct Summary {
    origins: HashMap<Arc<str>, Totals>,
    kernels: HashMap<Arc<str>, Totals>,
    calls: Calls,
}

#[derive(Default)]
struct Totals {
    launches: u64,
    launch_durations: Durations,
    other_calls: u64,
    other_ns: u64,
}

/// The line of a library or kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// File name of the library or executable, or the kernel's name.
    pub(crate) name: Arc<str>,
    pub(crate) launches: u64,
    /// Host time in these launches, in nanoseconds.
    pub(crate) launch_ns: u64,
    /// Median host time of one launch, in nanoseconds, to within 0.2 %.
    pub(crate) launch_median_ns: Option<u64>,
    /// Host time of the longest launch, in nanoseconds.
    pub(crate) launch_max_ns: Option<u64>,
    pub(crate) other_calls: u64,
    /// Host time in other calls, in nanoseconds.
    pub(crate) other_ns: u64,
}

impl Totals {
    fn add(&mut self, call: &RuntimeCall) {
        if call.is_launch() {
            self.launches += 1;
            if let Some(ns) = call.duration_ns() {
                self.launch_durations.record(ns);
            }
        } else {
            self.other_calls += 1;
            self.other_ns += call.duration_ns().unwrap_or(0);
        }
    }

    fn add_all(&mut self, others: &Self) {
        self.launches += others.launches;
        self.launch_durations.add(&others.launch_durations);
        self.other_calls += others.other_calls;
        self.other_ns += others.other_ns;
    }
}

impl Summary {
    pub(crate) fn add(&mut self, call: &RuntimeCall) {
        self.calls.add(call.probe.runtime);
        self.origins.entry(call.origin.clone()).or_default().add(call);
        if call.is_launch()
            && let Some(kernel) = &call.kernel
        {
            let is_known = self.kernels.len() < KERNELS_MAX || self.kernels.contains_key(kernel);
            let kernel = if is_known { kernel.clone() } else { OTHERS.into() };
            self.kernels.entry(kernel).or_default().add(call);
        }
    }

    /// The libraries, most launches first.
    pub(crate) fn libraries(&self) -> Vec<Line> {
        lines(&self.origins)
    }

    /// The kernels, most launches first; those that differ only in template arguments share a line.
    pub(crate) fn kernels(&self) -> Vec<Line> {
        let mut folded: HashMap<Arc<str>, Totals> = HashMap::new();
        for (name, totals) in &self.kernels {
            folded.entry(fold_templates(name).into()).or_default().add_all(totals);
        }
        lines(&folded)
    }

    /// All launches.
    pub fn launches(&self) -> u64 {
        self.origins.values().map(|totals| totals.launches).sum()
    }

    /// All calls, launches included.
    pub const fn calls(&self) -> Calls {
        self.calls
    }
}

fn lines(totals: &HashMap<Arc<str>, Totals>) -> Vec<Line> {
    let mut lines: Vec<_> = totals
        .iter()
        .map(|(name, totals)| Line {
            name: name.clone(),
            launches: totals.launches,
            launch_ns: totals.launch_durations.total_ns(),
            launch_median_ns: totals.launch_durations.percentile_ns(50),
            launch_max_ns: totals.launch_durations.max_ns(),
            other_calls: totals.other_calls,
            other_ns: totals.other_ns,
        })
        .collect();
    lines.sort_by(|a, b| {
        (b.launches, b.other_calls).cmp(&(a.launches, a.other_calls)).then_with(|| a.name.cmp(&b.name))
    });
    lines
}

/// The tables for a terminal.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["library", "launches", "total", "median", "max", "other calls", "total"];
        let rows = self.libraries().into_iter().map(|line| {
            [
                short_name(&line.name),
                line.launches.to_string(),
                duration(Some(line.launch_ns)),
                duration(line.launch_median_ns),
                duration(line.launch_max_ns),
                line.other_calls.to_string(),
                duration(Some(line.other_ns)),
            ]
        });
        write_table(f, header, rows, 1)?;

        let kernels = self.kernels();
        if kernels.is_empty() {
            return Ok(());
        }
        let header = ["kernel", "launches", "total", "median", "max"];
        let rows = kernels.iter().take(KERNELS_SHOWN).map(|line| {
            [
                short_name(&line.name),
                line.launches.to_string(),
                duration(Some(line.launch_ns)),
                duration(line.launch_median_ns),
                duration(line.launch_max_ns),
            ]
        });
        writeln!(f)?;
        write_table(f, header, rows, 1)?;
        match kernels.len().saturating_sub(KERNELS_SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more kernels"),
        }
    }
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
            call.origin = library.into();
            summary.add(&call);
        }
        let lines = summary.libraries();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[0],
            Line {
                name: "libblas.so".into(),
                launches: 3,
                launch_ns: 36_000,
                launch_median_ns: lines[0].launch_median_ns,
                launch_max_ns: Some(30_000),
                other_calls: 1,
                other_ns: 1_000_000
            }
        );
        let median = lines[0].launch_median_ns.unwrap();
        assert!((3_992..=4_008).contains(&median), "{median}");
        assert_eq!(&*lines[1].name, "app");
        assert_eq!((summary.launches(), summary.calls().total()), (4, 5));
    }

    #[test]
    fn kernels_are_counted_where_they_are_launched() {
        let mut summary = Summary::default();
        for (name, kernel) in [
            ("hipLaunchKernel", Some("gemm")),
            ("hipModuleLaunchKernel", Some("gemm")),
            ("hipModuleGetFunction", Some("softmax")),
            ("hipGraphLaunch", None),
        ] {
            let mut call = call(name);
            call.kernel = kernel.map(Into::into);
            summary.add(&call);
        }
        let kernels = summary.kernels();
        assert_eq!((kernels.len(), &*kernels[0].name, kernels[0].launches), (1, "gemm", 2));
        assert_eq!(summary.launches(), 3);
    }

    #[test]
    fn instances_of_a_template_share_a_line() {
        let mut summary = Summary::default();
        for (kernel, ns) in [("void fill<float>(float*)", 10), ("void fill<int>(int*)", 30), ("copy", 20)] {
            let mut call = call("hipLaunchKernel");
            call.kernel = Some(kernel.into());
            call.end_ns = Some(ns);
            summary.add(&call);
        }
        let lines = summary.kernels();
        let shown: Vec<_> = lines.iter().map(|line| (&*line.name, line.launches, line.launch_ns)).collect();
        assert_eq!(shown, [("fill<…>", 2, 40), ("copy", 1, 20)]);
    }

    #[test]
    fn a_library_without_launches_has_no_median() {
        let mut summary = Summary::default();
        summary.add(&call("hipMemcpy"));
        assert_eq!(summary.libraries()[0].launch_median_ns, None);
        assert!(summary.to_string().contains(" - "), "{summary}");
    }

    #[test]
    fn calls_in_progress_count_without_time() {
        let mut summary = Summary::default();
        let mut call = call("hipLaunchKernel");
        call.end_ns = None;
        summary.add(&call);
        assert_eq!((summary.launches(), summary.libraries()[0].launch_median_ns), (1, None));
    }

    #[test]
    fn only_the_first_kernels_are_shown_and_the_others_counted() {
        let mut summary = Summary::default();
        for number in 0..KERNELS_SHOWN + 3 {
            let mut call = call("hipLaunchKernel");
            call.kernel = Some(format!("kernel_{number}").into());
            summary.add(&call);
        }
        assert!(summary.to_string().ends_with("and 3 more kernels\n"), "{summary}");
    }
}
