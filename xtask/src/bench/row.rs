//! A row that compares one thing, measured in pairs, with another: the same keys as every benchmark's.

use anyhow::{Context as _, Result};
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Row<'a> {
    bench: &'a str,
    metric: &'a str,
    value: f64,
    unit: &'a str,
    baseline: f64,
    ratio: Option<f64>,
    goal: Option<String>,
    met: Option<bool>,
    noise: f64,
}

/// Values of one metric, turn by turn: of what is measured, and of its baseline.
#[derive(Default)]
pub(crate) struct Series {
    pub(crate) unit: String,
    pub(crate) pairs: Vec<[f64; 2]>,
}

impl<'a> Row<'a> {
    /// Medians of both, the median of their ratios turn by turn, and the spread of these as noise.
    pub(crate) fn of(bench: &'a str, metric: &'a str, series: &'a Series) -> Self {
        let median_of = |pick: fn(&[f64; 2]) -> f64| median(series.pairs.iter().map(pick).collect());
        let ratios: Vec<_> =
            series.pairs.iter().map(|[own, other]| own / other).filter(|ratio| ratio.is_finite()).collect();
        let (low, high) = ratios
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), &ratio| (low.min(ratio), high.max(ratio)));
        let ratio = (!ratios.is_empty()).then(|| median(ratios));
        Self {
            bench,
            metric,
            value: median_of(|pair| pair[0]),
            unit: &series.unit,
            baseline: median_of(|pair| pair[1]),
            ratio,
            goal: None,
            met: None,
            noise: ratio.map_or(0.0, |ratio| (high - low) / ratio),
        }
    }

    /// The ratio is to be so large.
    pub(crate) fn at_least(self, goal: f64) -> Self {
        let met = self.ratio.map(|ratio| ratio >= goal);
        Self { goal: Some(format!("ratio >= {goal}")), met, ..self }
    }

    /// As a line.
    pub(crate) fn json(&self) -> Result<String> {
        serde_json::to_string(self).context("a row has numbers that JSON does not have")
    }
}

/// Of at least one value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}
