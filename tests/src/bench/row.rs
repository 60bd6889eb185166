//! One finding of a benchmark, as one line of JSON.

use std::{
    fmt,
    io::{self, Write as _},
};

use serde::{Serialize, Serializer};

use super::{Paired, Samples};

/// What a benchmark prints. Absent fields are `null`, so that every line has the same keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// What was measured, unique within the benchmark.
    pub metric: String,
    /// The median of the measurements, in `unit`.
    pub value: f64,
    /// Unit of `value` and `baseline`.
    pub unit: &'static str,
    /// The median of what it is compared with, measured in alternation within the same run.
    pub baseline: Option<f64>,
    /// The median of `value / baseline`, round by round.
    pub ratio: Option<f64>,
    /// The goal, as text: `value <= 20`.
    pub goal: Option<Goal>,
    /// Whether it was reached.
    pub met: Option<bool>,
    /// Interquartile range over median of the ratio where there is one, else of the value.
    pub noise: f64,
}

/// A bound on a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// On the value, in the row's unit.
    ValueAtMost(f64),
    /// On the value, in the row's unit.
    ValueAtLeast(f64),
    /// On the ratio to the baseline.
    RatioAtMost(f64),
    /// On the ratio to the baseline.
    RatioAtLeast(f64),
}

impl Row {
    /// A finding without a baseline.
    #[must_use]
    pub fn single(
        bench: &'static str,
        metric: impl Into<String>,
        unit: &'static str,
        samples: &Samples,
    ) -> Self {
        let (metric, value, noise) = (metric.into(), samples.median(), samples.noise());
        Self { bench, metric, value, unit, baseline: None, ratio: None, goal: None, met: None, noise }
    }

    /// A comparison. There is no ratio to a baseline that was zero.
    #[must_use]
    pub fn compared(
        bench: &'static str,
        metric: impl Into<String>,
        unit: &'static str,
        pair: &Paired,
    ) -> Self {
        let row = Self {
            baseline: Some(pair.baseline.median()),
            ..Self::single(bench, metric, unit, &pair.subject)
        };
        match (pair.ratio.median(), pair.ratio.noise()) {
            (ratio, noise) if ratio.is_finite() && noise.is_finite() => {
                Self { ratio: Some(ratio), noise, ..row }
            }
            _ => row,
        }
    }

    /// The difference between the subject and its baseline, with the baseline.
    #[must_use]
    pub fn added(bench: &'static str, metric: impl Into<String>, unit: &'static str, pair: &Paired) -> Self {
        Self { baseline: Some(pair.baseline.median()), ..Self::single(bench, metric, unit, &pair.difference) }
    }

    /// The same finding with a goal. A bound on the ratio is not judged for a row without a ratio.
    #[must_use]
    pub fn with_goal(self, goal: Goal) -> Self {
        let met = match goal {
            Goal::ValueAtMost(bound) => Some(self.value <= bound),
            Goal::ValueAtLeast(bound) => Some(self.value >= bound),
            Goal::RatioAtMost(bound) => self.ratio.map(|ratio| ratio <= bound),
            Goal::RatioAtLeast(bound) => self.ratio.map(|ratio| ratio >= bound),
        };
        Self { goal: Some(goal), met, ..self }
    }

    /// Writes the row to stdout and flushes it, so that it is shown before the next one is measured.
    ///
    /// # Errors
    ///
    /// If the reader has closed stdout.
    pub fn print(&self) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        let mut stdout = io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ValueAtMost(bound) => write!(f, "value <= {bound}"),
            Self::ValueAtLeast(bound) => write!(f, "value >= {bound}"),
            Self::RatioAtMost(bound) => write!(f, "ratio <= {bound}"),
            Self::RatioAtLeast(bound) => write!(f, "ratio >= {bound}"),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_with_every_key() {
        let row = Row::single("export", "slices", "1/s", &Samples::new(vec![2.0, 4.0, 3.0]));
        assert_eq!(
            serde_json::to_string(&row.with_goal(Goal::ValueAtLeast(2.5))).unwrap(),
            r#"{"bench":"export","metric":"slices","value":3.0,"unit":"1/s","baseline":null,"ratio":null,"goal":"value >= 2.5","met":true,"noise":0.3333333333333333}"#
        );
    }

    #[test]
    fn a_comparison_is_judged_by_its_ratio() {
        let pair = Paired::new(&[(10.0, 12.0)]);
        let row = Row::compared("shim", "launch", "ns", &pair);
        assert_eq!((row.value, row.baseline, row.ratio), (12.0, Some(10.0), Some(1.2)));
        assert_eq!(row.clone().with_goal(Goal::RatioAtMost(1.1)).met, Some(false));
        assert_eq!(row.with_goal(Goal::ValueAtMost(12.0)).met, Some(true));
    }

    #[test]
    fn there_is_no_ratio_to_zero() {
        let row = Row::compared(
            "sched",
            "processor time",
            "%",
            &Paired::new(&[(0.0, 3.0), (0.0, 2.0), (1.0, 2.5)]),
        );
        assert_eq!((row.value, row.baseline, row.ratio), (2.5, Some(0.0), None));
        assert!(row.noise.is_finite());
    }

    #[test]
    fn a_difference_is_shown_with_its_baseline() {
        let row =
            Row::added("shim", "launch", "ns", &Paired::new(&[(10.0, 12.0), (20.0, 23.0), (30.0, 34.0)]));
        assert_eq!((row.value, row.baseline, row.ratio), (3.0, Some(20.0), None));
        assert_eq!(row.with_goal(Goal::ValueAtMost(2.5)).met, Some(false));
    }

    #[test]
    fn a_ratio_that_does_not_exist_is_not_judged() {
        let row = Row::single("shim", "launch", "ns", &Samples::new(vec![1.0]));
        assert_eq!(row.with_goal(Goal::RatioAtMost(1.0)).met, None);
    }
}
