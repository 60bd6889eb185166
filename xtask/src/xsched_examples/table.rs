//! What became of each example, for people and for programs.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::programs::Example;
use super::runs::Times;

/// The examples' own criterion: tasks of high priority take at most this part of those alone.
const OVER_ALONE_MAX: f64 = 1.1;

/// What became of an example.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    example: u8,
    shows: &'static str,
    /// None if it was not built, or did not run.
    #[serde(flatten)]
    figures: Option<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    passed: bool,
    /// The same of XSched itself, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_xsched: Option<ByXsched>,
}

#[derive(Debug, Serialize)]
struct ByXsched {
    #[serde(flatten)]
    figures: Option<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Figures {
    tasks: usize,
    alone_ms: f64,
    native_ms: Option<f64>,
    high_ms: f64,
    low_ms: f64,
    over_alone: f64,
}

impl Row {
    pub(super) fn new(example: &Example, outcome: Result<Times>, by_xsched: Option<Result<Times>>) -> Self {
        let (figures, error) = parts(outcome);
        let by_xsched = by_xsched.map(parts).map(|(figures, error)| ByXsched { figures, error });
        let passed = figures.is_some_and(|figures| figures.over_alone <= OVER_ALONE_MAX);
        Self { example: example.number, shows: example.shows, figures, error, passed, by_xsched }
    }

    pub(super) fn has_passed(&self) -> bool {
        self.passed
    }

    pub(super) fn number(&self) -> String {
        self.example.to_string()
    }

    pub(super) fn json(&self) -> Result<String> {
        serde_json::to_string(self).context("failed to write JSON")
    }

    /// In a few words.
    pub(super) fn verdict(&self) -> String {
        match (&self.figures, &self.error) {
            (Some(figures), _) if self.passed => {
                format!("passes, with {:.2} times the time alone", figures.over_alone)
            }
            (Some(figures), _) => {
                format!(
                    "takes {:.2} times the time alone, and {OVER_ALONE_MAX} is allowed",
                    figures.over_alone
                )
            }
            (None, Some(error)) => error.clone(),
            (None, None) => String::new(),
        }
    }
}

impl Figures {
    fn of(times: &Times) -> Self {
        let Times { alone_ms, native_ms, high_ms, low_ms, tasks } = *times;
        Self { tasks, alone_ms, native_ms, high_ms, low_ms, over_alone: high_ms / alone_ms }
    }
}

fn parts(outcome: Result<Times>) -> (Option<Figures>, Option<String>) {
    match outcome {
        Ok(times) => (Some(Figures::of(&times)), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    }
}

/// The table of all.
pub(super) fn of(rows: &[Row]) -> String {
    let mut text = format!(
        "{:8}{:38}{:>10}{:>13}{:>10}{:>12}{:>10}  {}\n",
        "example", "", "alone", "unscheduled", "high", "over alone", "low", "criterion"
    );
    for row in rows {
        let what = format!("{:<8}{:38}", row.example, row.shows);
        let Some(figures) = &row.figures else {
            let _ = writeln!(text, "{what}{:57}{}", "", row.verdict());
            continue;
        };
        let ms = |value: f64| format!("{value:.0} ms");
        let (alone, high, low) = (ms(figures.alone_ms), ms(figures.high_ms), ms(figures.low_ms));
        let native = figures.native_ms.map_or_else(|| "-".to_owned(), ms);
        let criterion = if row.passed { "met" } else { "MISSED" };
        // A text takes everything.
        let _ = writeln!(
            text,
            "{what}{alone:>10}{native:>13}{high:>10}{:>12.2}{low:>10}  {criterion}",
            figures.over_alone
        );
    }
    for row in rows {
        let Some(by_xsched) = &row.by_xsched else { continue };
        let what = match (&by_xsched.figures, &by_xsched.error) {
            (Some(figures), _) => {
                format!("{:.0} ms, {:.2} times the time alone", figures.high_ms, figures.over_alone)
            }
            (None, error) => error.clone().unwrap_or_default(),
        };
        let _ = writeln!(text, "example {} by XSched itself: {what}", row.example);
    }
    text.push_str("\nMedians of tasks of 100 kernels, on the simulated device. The criterion is XSched's: high priority over alone, 1.1 at most.");
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::super::programs::EXAMPLES;
    use super::*;

    #[test]
    fn a_row_says_what_became_of_an_example() {
        let times = Times { alone_ms: 66.0, native_ms: Some(130.0), high_ms: 68.0, low_ms: 180.0, tasks: 20 };
        let [first, second, third, ..] = &EXAMPLES;
        let rows = [
            Row::new(first, Ok(times), Some(Ok(Times { high_ms: 70.0, ..times }))),
            Row::new(
                second,
                Ok(Times { native_ms: None, high_ms: 99.0, ..times }),
                Some(Err(anyhow!("there is no server"))),
            ),
            Row::new(third, Err(anyhow!("it ended with exit status: 1")), None),
        ];
        assert_eq!(rows.each_ref().map(Row::has_passed), [true, false, false]);
        let lines: Vec<_> =
            of(&rows).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1], "1 two processes, by variables 66 ms 130 ms 68 ms 1.03 180 ms met");
        assert_eq!(lines[2], "2 two processes, by hints 66 ms - 99 ms 1.50 180 ms MISSED");
        assert_eq!(lines[3], "3 two threads, by hints it ended with exit status: 1");
        assert_eq!(lines[4], "example 1 by XSched itself: 70 ms, 1.06 times the time alone");
        assert_eq!(lines[5], "example 2 by XSched itself: there is no server");
        let json: serde_json::Value = serde_json::from_str(&rows[0].json().unwrap()).unwrap();
        assert_eq!(
            (&json["example"], &json["alone_ms"], &json["passed"]),
            (&1.into(), &66.0.into(), &true.into())
        );
        let json: serde_json::Value = serde_json::from_str(&rows[2].json().unwrap()).unwrap();
        assert_eq!(
            (&json["error"], &json["passed"]),
            (&"it ended with exit status: 1".into(), &false.into())
        );
    }
}
