//! The settings of all policies.

use std::ops::RangeInclusive;

use crate::Nanos;

/// The settings of all policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a claim may be ready without being allowed to launch before it gets a time slice; zero: no bound.
    pub starvation_bound: Nanos,
    /// Length of that slice, at most a quarter of the bound.
    pub quantum: Nanos,
    /// Length of the slice of the process in front, in policies that share a device by time.
    pub slice: Nanos,
    /// How much running time without a report counts as used.
    pub patience: Nanos,
    /// After urgent work, less urgent processes of equal priority go one at a time for this long, a slice each. This is for
    /// policies that otherwise let them run side by side; zero: never.
    pub serialize_equals: Nanos,
    /// How many processes with the earliest deadlines run side by side, in the policy for deadlines.
    pub side_by_side: u32,
    /// How long a claim stays ready after its last command.
    pub linger: Nanos,
}

/// A setting that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value}, not between {least} and {most}")]
pub struct SettingsError {
    name: &'static str,
    value: Nanos,
    least: Nanos,
    most: Nanos,
}

const HOUR: Nanos = Nanos::from_secs(3_600);
const BOUND: RangeInclusive<Nanos> = Nanos::from_millis(10)..=HOUR;
const SLICE: RangeInclusive<Nanos> = Nanos::from_micros(500)..=Nanos::from_secs(1);
const PATIENCE: RangeInclusive<Nanos> = Nanos::from_millis(20)..=HOUR;
/// More hardly fill a device better, and are looked for one by one.
const SIDE_BY_SIDE_MAX: u32 = 8;
const QUANTUM_LEAST: Nanos = Nanos::from_micros(500);

impl Settings {
    /// Returns the first setting that is out of range. The scheduler replaces such a value by the nearest one in range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let Self { starvation_bound, quantum, slice, patience, serialize_equals, .. } = *self;
        let check = |name, value: Nanos, range: &RangeInclusive<Nanos>| {
            let (least, most) = (*range.start(), *range.end());
            if range.contains(&value) { Ok(()) } else { Err(SettingsError { name, value, least, most }) }
        };
        if !starvation_bound.is_zero() {
            check("the bound on waiting", starvation_bound, &BOUND)?;
            check("the quantum", quantum, &(QUANTUM_LEAST..=starvation_bound / 4))?;
        }
        check("the slice", slice, &SLICE)?;
        check("the time for which equals go one at a time", serialize_equals, &(Nanos::ZERO..=HOUR))?;
        check("the patience with silent claims", patience, &PATIENCE)
    }

    /// The nearest settings in range.
    #[must_use]
    pub(crate) fn in_range(self) -> Self {
        let Self { starvation_bound, quantum, slice, patience, serialize_equals, .. } = self;
        let nearest = |value: Nanos, range: &RangeInclusive<Nanos>| value.clamp(*range.start(), *range.end());
        let none = starvation_bound.is_zero();
        let starvation_bound = if none { Nanos::ZERO } else { nearest(starvation_bound, &BOUND) };
        let longest = if none { HOUR } else { starvation_bound / 4 };
        Self {
            starvation_bound,
            quantum: quantum.clamp(QUANTUM_LEAST, longest),
            slice: nearest(slice, &SLICE),
            patience: nearest(patience, &PATIENCE),
            serialize_equals: serialize_equals.min(HOUR),
            side_by_side: self.side_by_side.clamp(1, SIDE_BY_SIDE_MAX),
            linger: self.linger,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            starvation_bound: Nanos::from_secs(1),
            quantum: Nanos::from_millis(10),
            slice: Nanos::from_millis(4),
            patience: Nanos::from_millis(100),
            serialize_equals: Nanos::from_secs(1),
            side_by_side: 1,
            linger: Nanos::from_micros(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range() {
        let settings = Settings::default();
        assert_eq!(settings.check(), Ok(()));
        assert_eq!(settings.in_range(), settings);
    }

    #[test]
    fn a_setting_that_is_out_of_range_is_named() {
        let settings = Settings { quantum: Nanos::from_millis(300), ..Settings::default() };
        let error = settings.check().unwrap_err().to_string();
        assert_eq!(error, "the quantum is 300ms, not between 500µs and 250ms");
    }

    #[test]
    fn any_settings_can_be_brought_in_range() {
        let values = [0, 1, 999, 20_000_000, u64::MAX].map(Nanos);
        for starvation_bound in values {
            for value in values {
                let settings = Settings {
                    starvation_bound,
                    quantum: value,
                    slice: value,
                    patience: value,
                    serialize_equals: value,
                    side_by_side: value.0 as u32,
                    linger: value,
                };
                assert_eq!(settings.in_range().check(), Ok(()), "{settings:?}");
            }
        }
    }

    #[test]
    fn a_bound_of_zero_is_valid() {
        let settings = Settings { starvation_bound: Nanos::ZERO, ..Settings::default() };
        assert_eq!(settings.check(), Ok(()));
        assert_eq!(settings.in_range().starvation_bound, Nanos::ZERO);
    }
}
