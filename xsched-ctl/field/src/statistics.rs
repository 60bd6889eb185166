//! Figures of samples: how many, where they lie, and how far apart.

use serde::{Deserialize, Serialize};

/// What a table says about some samples. All but the first field are in their unit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// How many samples.
    pub(crate) n: usize,
    /// Their mean.
    pub(crate) mean: f64,
    /// The median.
    pub(crate) p50: f64,
    /// 99 of 100 are not larger.
    pub(crate) p99: f64,
    /// The smallest.
    pub(crate) min: f64,
    /// The largest.
    pub(crate) max: f64,
    /// Standard deviation.
    pub(crate) deviation: f64,
    /// The means of the rounds, if there was more than one: how far results differ from run to run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rounds: Vec<f64>,
}

impl Figure {
    /// The figure of one or several rounds. None without samples.
    pub(crate) fn of(rounds: &[Vec<f64>]) -> Option<Self> {
        let mut samples: Vec<f64> =
            rounds.iter().flatten().copied().filter(|sample| sample.is_finite()).collect();
        samples.sort_by(f64::total_cmp);
        let (first, last) = (*samples.first()?, *samples.last()?);
        let mean = mean(&samples);
        let squares = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
        // Of a sample, not of a population.
        let deviation = if samples.len() < 2 { 0.0 } else { (squares / (samples.len() - 1) as f64).sqrt() };
        let filled = rounds.iter().filter(|round| !round.is_empty());
        let rounds = filled.map(|round| self::mean(round)).collect::<Vec<_>>();
        Some(Self {
            n: samples.len(),
            mean,
            p50: quantile(&samples, 0.5),
            p99: quantile(&samples, 0.99),
            min: first,
            max: last,
            deviation,
            rounds: if rounds.len() > 1 { rounds } else { Vec::new() },
        })
    }
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// The smallest sample that is not smaller than this part of all; they are sorted, and there is one.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_hundred_numbers() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let figure = Figure::of(&[samples]).unwrap();
        assert_eq!((figure.n, figure.mean, figure.p50, figure.p99), (100, 50.5, 50.0, 99.0));
        assert_eq!((figure.min, figure.max), (1.0, 100.0));
        assert!((figure.deviation - 29.011_491_975_882_016).abs() < 1e-9);
        assert!(figure.rounds.is_empty());
    }

    #[test]
    fn rounds_are_pooled_and_their_means_are_kept() {
        let figure = Figure::of(&[vec![1.0, 3.0], vec![], vec![5.0]]).unwrap();
        assert_eq!((figure.n, figure.mean, figure.rounds), (3, 3.0, vec![2.0, 5.0]));
    }

    #[test]
    fn one_sample_has_no_deviation_and_none_has_no_figure() {
        let figure = Figure::of(&[vec![2.0]]).unwrap();
        assert_eq!((figure.p50, figure.p99, figure.deviation), (2.0, 2.0, 0.0));
        assert_eq!(Figure::of(&[]), None);
        assert_eq!(Figure::of(&[vec![f64::NAN]]), None);
    }
}
