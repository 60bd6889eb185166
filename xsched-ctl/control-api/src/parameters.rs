//! The scheduling parameters of a process (priority, weight, share), and how far a user may raise them.

mod class;

use std::fmt;

use serde::{Deserialize, Serialize};
use xsched_sched::PolicyKind;

pub use class::Class;

/// The lowest priority; larger is more urgent.
pub const PRIORITY_MIN: i16 = -255;
/// The highest priority.
pub const PRIORITY_MAX: i16 = 255;
/// The weight of processes without one.
pub const WEIGHT_DEFAULT: u32 = 100;
/// The largest weight.
pub const WEIGHT_MAX: u32 = 10_000;
/// The largest share, in percent of a device.
pub const SHARE_MAX: u8 = 100;

/// The scheduling parameters of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// [`PRIORITY_MIN`] to [`PRIORITY_MAX`].
    pub priority: i16,
    /// 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// Percent of each device; none: a part of what others leave.
    pub share: Option<u8>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { priority: Class::Normal.priority(), weight: WEIGHT_DEFAULT, share: None }
    }
}

/// Requested scheduling parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// As in [`Parameters`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// As in [`Parameters`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// As in [`Parameters`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u8>,
}

/// A requested parameter is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum OutOfBounds {
    #[error("priorities go from {PRIORITY_MIN} to {PRIORITY_MAX}, not to {0}")]
    Priority(i16),
    #[error("weights go from 1 to {WEIGHT_MAX}, not to {0}")]
    Weight(u32),
    #[error("shares go from 1 to {SHARE_MAX} percent, not to {0}")]
    Share(u8),
}

impl Wish {
    /// Whether nothing is requested.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Checks the bounds of untrusted values.
    pub fn check(self) -> Result<(), OutOfBounds> {
        match self {
            Self { priority: Some(priority), .. } if !(PRIORITY_MIN..=PRIORITY_MAX).contains(&priority) => {
                Err(OutOfBounds::Priority(priority))
            }
            Self { weight: Some(weight), .. } if !(1..=WEIGHT_MAX).contains(&weight) => {
                Err(OutOfBounds::Weight(weight))
            }
            Self { share: Some(share), .. } if !(1..=SHARE_MAX).contains(&share) => {
                Err(OutOfBounds::Share(share))
            }
            _ => Ok(()),
        }
    }

    /// These values, and those of `other` where there is none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            priority: self.priority.or(other.priority),
            weight: self.weight.or(other.weight),
            share: self.share.or(other.share),
        }
    }

    /// The notes on requested parameters that a policy ignores.
    pub fn unheeded(self, policy: PolicyKind) -> impl Iterator<Item = String> {
        use PolicyKind::{Fair, Partition, Priority};
        let parts = [
            ("priorities", self.priority.is_some(), &[Priority, Fair][..]),
            ("weights", self.weight.is_some(), &[Fair]),
            ("shares", self.share.is_some(), &[Partition]),
        ];
        let unheeded = parts
            .into_iter()
            .filter(move |(_, is_asked, heeded_by)| *is_asked && !heeded_by.contains(&policy));
        unheeded.map(move |(parts, _, heeded_by)| {
            format!("policy `{policy}` ignores {parts}; `xsched-ctl policy {}` uses them", heeded_by[0])
        })
    }

    /// The parameters with these changed.
    pub fn applied_to(self, parameters: Parameters) -> Parameters {
        Parameters {
            priority: self.priority.unwrap_or(parameters.priority),
            weight: self.weight.unwrap_or(parameters.weight),
            share: self.share.or(parameters.share),
        }
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority {} ({}), weight {}", self.priority, Class::of(self.priority), self.weight)?;
        match self.share {
            Some(share) => write!(f, ", share {share} %"),
            None => Ok(()),
        }
    }
}

/// How far a user may raise processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// The largest priority.
    pub priority: i16,
    /// The largest weight.
    pub weight: u32,
    /// The largest share; none: no share is allowed.
    pub share: Option<u8>,
}

impl Default for Ceiling {
    fn default() -> Self {
        Self { priority: Class::Normal.highest(), weight: WEIGHT_DEFAULT, share: None }
    }
}

/// A requested parameter is above a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum AboveCeiling {
    #[error("priority {wanted} is above the ceiling, {ceiling} (class {})", Class::of(*.ceiling))]
    Priority { wanted: i16, ceiling: i16 },
    #[error("weight {wanted} is above the ceiling, {ceiling}")]
    Weight { wanted: u32, ceiling: u32 },
    #[error("a share of {wanted} % is above the ceiling, {} %", .ceiling.unwrap_or(0))]
    Share { wanted: u8, ceiling: Option<u8> },
}

impl Ceiling {
    /// Reduces a wish to the ceiling, or to the parameters in `base` where these are higher.
    pub fn limit(self, wish: Wish, base: Parameters) -> Wish {
        Wish {
            priority: wish.priority.map(|priority| priority.min(self.priority.max(base.priority))),
            weight: wish.weight.map(|weight| weight.min(self.weight.max(base.weight))),
            share: wish.share.and_then(|share| Some(share.min(self.share.max(base.share)?))),
        }
    }

    /// Refuses a wish that exceeds both the ceiling and the present parameters.
    pub fn check(self, wish: Wish, base: Parameters) -> Result<(), AboveCeiling> {
        let limited = self.limit(wish, base);
        match (wish.priority, wish.weight, wish.share) {
            (Some(wanted), ..) if limited.priority != Some(wanted) => {
                Err(AboveCeiling::Priority { wanted, ceiling: self.priority })
            }
            (_, Some(wanted), _) if limited.weight != Some(wanted) => {
                Err(AboveCeiling::Weight { wanted, ceiling: self.weight })
            }
            (.., Some(wanted)) if limited.share != Some(wanted) => {
                Err(AboveCeiling::Share { wanted, ceiling: self.share })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priority(priority: i16) -> Wish {
        Wish { priority: Some(priority), ..Wish::default() }
    }

    #[test]
    fn a_ceiling_limits_raising_and_never_lowering() {
        let (ceiling, base) = (Ceiling::default(), Parameters::default());
        assert_eq!(ceiling.limit(priority(3), base), priority(3));
        assert_eq!(ceiling.limit(priority(200), base), priority(Class::Normal.highest()));
        assert_eq!(ceiling.limit(priority(-255), base), priority(-255));
        assert_eq!(ceiling.check(priority(-255), base), Ok(()));
        assert_eq!(
            ceiling.check(priority(50), base).unwrap_err().to_string(),
            "priority 50 is above the ceiling, 49 (class normal)"
        );
    }

    #[test]
    fn a_process_above_the_ceiling_may_stay_there_and_not_rise() {
        let base = Parameters { priority: 120, weight: 300, share: Some(40) };
        let wish = Wish { priority: Some(130), weight: Some(300), share: Some(41) };
        let limited = Wish { priority: Some(120), weight: Some(300), share: Some(40) };
        assert_eq!(Ceiling::default().limit(wish, base), limited);
        assert_eq!(Ceiling::default().check(limited, base), Ok(()));
    }

    #[test]
    fn without_a_ceiling_for_shares_none_is_allowed() {
        let wish = Wish { share: Some(1), ..Wish::default() };
        assert_eq!(Ceiling::default().limit(wish, Parameters::default()), Wish::default());
        assert_eq!(
            Ceiling::default().check(wish, Parameters::default()).unwrap_err().to_string(),
            "a share of 1 % is above the ceiling, 0 %"
        );
        let ceiling = Ceiling { share: Some(30), ..Ceiling::default() };
        assert_eq!(ceiling.limit(wish, Parameters::default()), wish);
    }

    #[test]
    fn each_policy_names_the_parameters_that_it_ignores() {
        let all = Wish { priority: Some(1), weight: Some(1), share: Some(1) };
        let unheeded = |wish: Wish, policy| wish.unheeded(policy).collect::<Vec<_>>().join("\n");
        assert_eq!(
            unheeded(all, PolicyKind::Fair),
            "policy `fair` ignores shares; `xsched-ctl policy partition` uses them"
        );
        assert_eq!(unheeded(all, PolicyKind::Partition).lines().count(), 2);
        assert_eq!(unheeded(priority(3), PolicyKind::Priority), "");
    }

    #[test]
    fn parameters_out_of_bounds_are_refused() {
        assert!(priority(256).check().is_err() && priority(-256).check().is_err());
        assert!(Wish { weight: Some(0), ..Wish::default() }.check().is_err());
        assert!(Wish { share: Some(0), ..Wish::default() }.check().is_err());
        assert!(Wish { share: Some(101), ..Wish::default() }.check().is_err());
        let edges = Wish { priority: Some(255), weight: Some(10_000), share: Some(100) };
        assert_eq!(edges.check(), Ok(()));
    }
}
