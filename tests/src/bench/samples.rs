//! Repeated measurements of one quantity, and of two in alternation.

/// Measurements of one quantity, in one unit; at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    sorted: Vec<f64>,
}

impl Samples {
    /// Creates it from measurements in any order.
    ///
    /// # Panics
    ///
    /// If there are none.
    #[must_use]
    pub fn new(mut values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "no measurements");
        values.sort_by(f64::total_cmp);
        Self { sorted: values }
    }

    /// The same measurements in another unit.
    #[must_use]
    pub fn map(&self, convert: impl FnMut(f64) -> f64) -> Self {
        Self::new(self.sorted.iter().copied().map(convert).collect())
    }

    /// The middle measurement.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The smallest measurement.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// Spread of the measurements: the interquartile range as a fraction of the median. Two medians that differ by less than
    /// this are the same.
    #[must_use]
    pub fn noise(&self) -> f64 {
        let median = self.median();
        if median == 0.0 { 0.0 } else { (self.quantile(0.75) - self.quantile(0.25)) / median.abs() }
    }

    /// The quantile for this fraction, interpolated.
    #[must_use]
    pub fn quantile(&self, fraction: f64) -> f64 {
        let position = fraction.clamp(0.0, 1.0) * (self.sorted.len() - 1) as f64;
        let (below, above) = (self.sorted[position.floor() as usize], self.sorted[position.ceil() as usize]);
        below + (above - below) * position.fract()
    }
}

/// Two sides measured in alternation.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    /// The reference.
    pub baseline: Samples,
    /// What the goal applies to.
    pub subject: Samples,
    /// Subject divided by baseline, for each round.
    pub ratio: Samples,
    /// Subject minus baseline, for each round.
    pub difference: Samples,
}

impl Paired {
    /// Creates it from (baseline, subject), one pair for each round.
    ///
    /// # Panics
    ///
    /// If there are none.
    #[must_use]
    pub fn new(rounds: &[(f64, f64)]) -> Self {
        let each = |of: fn(&(f64, f64)) -> f64| Samples::new(rounds.iter().map(of).collect());
        Self {
            baseline: each(|&(baseline, _)| baseline),
            subject: each(|&(_, subject)| subject),
            ratio: each(|&(baseline, subject)| subject / baseline),
            difference: each(|&(baseline, subject)| subject - baseline),
        }
    }
}

/// Measures one quantity `rounds` times, after one round that is discarded.
///
/// # Errors
///
/// The first error of a measurement.
pub fn repeated<E>(rounds: usize, mut measure: impl FnMut() -> Result<f64, E>) -> Result<Samples, E> {
    measure()?;
    (0..rounds).map(|_| measure()).collect::<Result<_, _>>().map(Samples::new)
}

/// Measures two sides of one quantity, see [`alternate`].
///
/// # Errors
///
/// The first error of a measurement.
pub fn paired<E>(
    rounds: usize,
    baseline: impl FnMut() -> Result<f64, E>,
    subject: impl FnMut() -> Result<f64, E>,
) -> Result<Paired, E> {
    alternate(rounds, baseline, subject).map(|rounds| Paired::new(&rounds))
}

/// Does two things `rounds` times each, after one discarded round of both; returns (baseline, subject) for each round. Their
/// order swaps from round to round, so that neither always profits from the caches that the other has filled.
///
/// # Errors
///
/// The first error of either.
pub fn alternate<T, E>(
    rounds: usize,
    mut baseline: impl FnMut() -> Result<T, E>,
    mut subject: impl FnMut() -> Result<T, E>,
) -> Result<Vec<(T, T)>, E> {
    baseline()?;
    subject()?;
    let mut done = Vec::with_capacity(rounds);
    for round in 0..rounds {
        done.push(if round % 2 == 0 {
            let of_baseline = baseline()?;
            (of_baseline, subject()?)
        } else {
            let of_subject = subject()?;
            (baseline()?, of_subject)
        });
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, convert::Infallible};

    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let samples = Samples::new(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((samples.min(), samples.median(), samples.quantile(1.0)), (1.0, 2.5, 4.0));
        assert!((samples.noise() - 0.6).abs() < 1e-9, "{}", samples.noise());
    }

    #[test]
    fn a_conversion_may_reverse_the_order() {
        assert_eq!(Samples::new(vec![1.0, 2.0, 4.0]).map(|x| 1.0 / x), Samples::new(vec![0.25, 0.5, 1.0]));
    }

    #[test]
    fn one_outlier_moves_neither_median_nor_noise_far() {
        let samples = Samples::new(vec![10.0, 10.0, 10.0, 10.0, 900.0]);
        assert_eq!((samples.median(), samples.noise()), (10.0, 0.0));
    }

    #[test]
    fn pairs_alternate_and_the_first_round_is_discarded() {
        let order = RefCell::new(String::new());
        let measure = |name: char, value: f64| {
            order.borrow_mut().push(name);
            Ok::<_, Infallible>(value)
        };
        let Ok(pair) = paired(3, || measure('b', 2.0), || measure('s', 3.0));
        assert_eq!(*order.borrow(), "bsbssbbs");
        assert_eq!(pair, Paired::new(&[(2.0, 3.0); 3]));
        assert_eq!((pair.ratio.median(), pair.difference.median()), (1.5, 1.0));
        let Ok(samples) = repeated(2, || measure('x', 1.0));
        assert_eq!(samples, Samples::new(vec![1.0; 2]));
        assert!(order.borrow().ends_with("xxx"));
    }
}
