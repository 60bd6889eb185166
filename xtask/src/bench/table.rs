//! Benchmark rows as a table that grows line by line, while the benchmark still runs.

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The fields of a row that are shown; `xsched-tests` documents all fields where it writes them.
#[derive(Deserialize)]
struct Row {
    metric: String,
    value: f64,
    unit: String,
    baseline: Option<f64>,
    ratio: Option<f64>,
    goal: Option<String>,
    met: Option<bool>,
    noise: f64,
}

/// Writes the header before the first row.
pub(super) struct Table {
    header_due: bool,
    bold: bool,
}

impl Table {
    /// `is_terminal`: whether to emphasise the header.
    pub(super) fn new(is_terminal: bool) -> Self {
        Self { header_due: true, bold: is_terminal }
    }

    /// The text for one line of JSON.
    pub(super) fn line(&mut self, json: &str) -> Result<String> {
        let row: Row = serde_json::from_str(json).with_context(|| format!("not a benchmark row: {json}"))?;
        let cells = [
            displayed(&row.metric),
            format!("{} {}", number(row.value), row.unit),
            row.baseline.map_or_else(String::new, |b| format!("{} {}", number(b), row.unit)),
            row.ratio.map_or_else(String::new, |r| format!("{r:.3}")),
            format!("{:.1} %", row.noise * 100.0),
            match (row.goal, row.met) {
                (Some(goal), Some(true)) => format!("{goal}: met"),
                (Some(goal), Some(false)) => format!("{goal}: MISSED"),
                (goal, _) => goal.unwrap_or_default(),
            },
        ];
        let line = columns(&cells.each_ref().map(String::as_str));
        if !std::mem::take(&mut self.header_due) {
            return Ok(line);
        }
        let header = columns(&["metric", "value", "baseline", "ratio", "noise", "goal"]);
        Ok(if self.bold { format!("\x1b[1m{header}\x1b[0m\n{line}") } else { format!("{header}\n{line}") })
    }
}

/// A metric as tables name it. Metrics in JSON keep the names that older runs have, in which `sched` calls the preemption
/// mode a level.
fn displayed(metric: &str) -> String {
    metric.replace(", level 1:", ", mode 1:").replace(", level 2:", ", mode 2:")
}

fn columns([metric, value, baseline, ratio, noise, goal]: &[&str; 6]) -> String {
    let line = format!("{metric:60} {value:>18} {baseline:>18} {ratio:>8} {noise:>8}  {goal}");
    line.trim_end().to_owned()
}

/// At least three significant digits without an exponent, with groups of thousands.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        let left = whole.len() - index;
        if index > 0 && left.is_multiple_of(3) && grouped != "-" {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(0.0312), "0.031");
        assert_eq!(number(34.56), "34.6");
        assert_eq!(number(1_234_567.8), "1 234 568");
        assert_eq!(number(-123_456.0), "-123 456");
    }

    #[test]
    fn the_header_comes_once_and_a_missed_goal_stands_out() {
        let row = r#"{"bench":"shim","metric":"launch","value":34.0,"unit":"ns","baseline":30.0,"ratio":1.133,
                      "goal":"value <= 20","met":false,"noise":0.02}"#;
        let mut table = Table::new(false);
        let first = table.line(row).unwrap();
        assert!(first.starts_with("metric "), "{first}");
        let second = table.line(row).unwrap();
        assert!(first.ends_with(&second));
        assert_eq!(
            second.split_whitespace().collect::<Vec<_>>().join(" "),
            "launch 34.0 ns 30.0 ns 1.133 2.0 % value <= 20: MISSED"
        );
    }

    #[test]
    fn a_line_that_is_no_row_is_an_error_that_shows_it() {
        let error = Table::new(false).line("warming up").unwrap_err();
        assert_eq!(error.to_string(), "not a benchmark row: warming up");
    }
}
