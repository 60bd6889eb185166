//! What a user says of a process beside its priority: a quota, or how soon its requests are to be done.

use std::fmt;
use std::str::FromStr;

use crate::Nanos;

/// Device time that a process may use in each window, like `cpu.max` of cgroups: `20ms/100ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The device time, at most the window.
    pub time: Nanos,
    /// The length of a window.
    pub window: Nanos,
}

/// A bound on the latency of a process's requests: `p99 < 12ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// How many of a thousand requests are to be as fast: 990 for `p99`.
    pub per_mille: u16,
    /// How long they may take.
    pub latency: Nanos,
}

/// A text is no quota, SLO or time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what was expected")]
pub enum NoHint {
    #[error("expected a time such as `12ms`, not `{0}`")]
    Time(String),
    #[error("expected a quota such as `20ms/100ms`, not `{0}`")]
    Quota(String),
    #[error("expected an SLO such as `p99 < 12ms`, not `{0}`")]
    Slo(String),
    #[error("{what} may be {least} to {most}, not {value}")]
    Range { what: &'static str, least: Nanos, most: Nanos, value: Nanos },
    #[error("the percentile of an SLO may be p50 to p99.9, not `{0}`")]
    Percentile(String),
}

impl Quota {
    /// The shortest window.
    pub const WINDOW_LEAST: Nanos = Nanos::from_millis(5);
    /// The longest window.
    pub const WINDOW_MOST: Nanos = Nanos::from_secs(10);

    /// The part of the device that it reserves.
    pub fn part(self) -> f64 {
        self.time.0 as f64 / self.window.0.max(1) as f64
    }

    /// Whether window and time are in range.
    pub fn check(self) -> Result<(), NoHint> {
        within("the window of a quota", self.window, Self::WINDOW_LEAST, Self::WINDOW_MOST)?;
        within("the time of a quota", self.time, Nanos::from_micros(100), self.window)
    }
}

impl Slo {
    /// The shortest latency.
    pub const LATENCY_LEAST: Nanos = Nanos::from_micros(500);
    /// The longest latency.
    pub const LATENCY_MOST: Nanos = Nanos::from_secs(3_600);

    /// Whether percentile and latency are in range.
    pub fn check(self) -> Result<(), NoHint> {
        if !(500..=999).contains(&self.per_mille) {
            return Err(NoHint::Percentile(percentile(self.per_mille)));
        }
        within("the latency of an SLO", self.latency, Self::LATENCY_LEAST, Self::LATENCY_MOST)
    }
}

/// Whether the deadline of a process's requests is in range.
pub fn check_deadline(deadline: Nanos) -> Result<(), NoHint> {
    within("a deadline", deadline, Slo::LATENCY_LEAST, Slo::LATENCY_MOST)
}

/// Whether the device time of a process's requests is in range.
pub fn check_work(work: Nanos) -> Result<(), NoHint> {
    within("the work of a request", work, Nanos::from_micros(1), Slo::LATENCY_MOST)
}

fn within(what: &'static str, value: Nanos, least: Nanos, most: Nanos) -> Result<(), NoHint> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(NoHint::Range { what, least, most, value }) }
}

impl FromStr for Nanos {
    type Err = NoHint;

    /// A number with a unit: `ns`, `us`, `ms` or `s`.
    fn from_str(text: &str) -> Result<Self, NoHint> {
        let wrong = || NoHint::Time(text.to_owned());
        let text = text.trim();
        let unit = text.find(|letter: char| letter.is_alphabetic()).ok_or_else(wrong)?;
        let factor = match &text[unit..] {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return Err(wrong()),
        };
        let number: f64 = text[..unit].trim().parse().map_err(|_| wrong())?;
        if number.is_finite() && number >= 0.0 {
            Ok(Self((number * factor).round() as u64))
        } else {
            Err(wrong())
        }
    }
}

impl FromStr for Quota {
    type Err = NoHint;

    fn from_str(text: &str) -> Result<Self, NoHint> {
        let (time, window) = text.split_once('/').ok_or_else(|| NoHint::Quota(text.to_owned()))?;
        let quota = Self { time: time.parse()?, window: window.parse()? };
        quota.check().map(|()| quota)
    }
}

impl FromStr for Slo {
    type Err = NoHint;

    fn from_str(text: &str) -> Result<Self, NoHint> {
        let wrong = || NoHint::Slo(text.to_owned());
        let (percentile, latency) = text.split_once('<').ok_or_else(wrong)?;
        let percent = percentile.trim().strip_prefix('p').ok_or_else(wrong)?;
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        let slo = Self { per_mille: (percent * 10.0).round() as u16, latency: latency.parse()? };
        slo.check().map(|()| slo)
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.time, self.window)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < {}", percentile(self.per_mille), self.latency)
    }
}

fn percentile(per_mille: u16) -> String {
    format!("p{}", f64::from(per_mille) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn hints_are_read_as_they_are_shown() {
        for text in ["20ms/100ms", "1.5ms/1s"] {
            assert_eq!(text.parse::<Quota>().unwrap().to_string(), text);
        }
        for text in ["p99 < 12ms", "p99.9 < 1.5s", "p50 < 500µs"] {
            assert_eq!(text.parse::<Slo>().unwrap().to_string(), text);
        }
        assert_eq!("p99<12ms".parse(), Ok(Slo { per_mille: 990, latency: MS.times(12) }));
        assert_eq!(" 250 us".parse(), Ok(Nanos::from_micros(250)));
    }

    #[test]
    fn a_wrong_text_is_named_with_what_was_expected() {
        let quota = |text: &str| text.parse::<Quota>().unwrap_err().to_string();
        let slo = |text: &str| text.parse::<Slo>().unwrap_err().to_string();
        assert_eq!(quota("20ms"), "expected a quota such as `20ms/100ms`, not `20ms`");
        assert_eq!(quota("20/100ms"), "expected a time such as `12ms`, not `20`");
        assert_eq!(quota("20ms/10ms"), "the time of a quota may be 100µs to 10ms, not 20ms");
        assert_eq!(quota("1ms/1ms"), "the window of a quota may be 5ms to 10s, not 1ms");
        assert_eq!(slo("12ms"), "expected an SLO such as `p99 < 12ms`, not `12ms`");
        assert_eq!(slo("p100 < 12ms"), "the percentile of an SLO may be p50 to p99.9, not `p100`");
        assert_eq!(slo("p99 < -12ms"), "expected a time such as `12ms`, not ` -12ms`");
    }
}
