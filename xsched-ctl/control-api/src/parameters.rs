//! The scheduling parameters of a process: priority, weight and share; quota, deadline, work and SLO for the policies that heed them. And
//! how far a user may raise them.

mod class;
mod text;

use std::fmt;

use serde::{Deserialize, Serialize};
use xsched_sched::{Nanos, NoHint, PolicyKind, Quota, Slo, check_deadline, check_work};

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
    /// Device time that a process may use in each window before others, such as `20ms/100ms`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text")]
    pub quota: Option<Quota>,
    /// Within this time each request is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text")]
    pub deadline: Option<Nanos>,
    /// The most device time that a request takes.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text")]
    pub work: Option<Nanos>,
    /// What the latency of requests is to be, such as `p99 < 12ms`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text")]
    pub slo: Option<Slo>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            priority: Class::Normal.priority(),
            weight: WEIGHT_DEFAULT,
            share: None,
            quota: None,
            deadline: None,
            work: None,
            slo: None,
        }
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
    /// As in [`Parameters`].
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text")]
    pub quota: Option<Quota>,
    /// As in [`Parameters`].
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text")]
    pub deadline: Option<Nanos>,
    /// As in [`Parameters`].
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text")]
    pub work: Option<Nanos>,
    /// As in [`Parameters`].
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text")]
    pub slo: Option<Slo>,
}

/// A requested parameter is out of bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum OutOfBounds {
    #[error("priorities go from {PRIORITY_MIN} to {PRIORITY_MAX}, not to {0}")]
    Priority(i16),
    #[error("weights go from 1 to {WEIGHT_MAX}, not to {0}")]
    Weight(u32),
    #[error("shares go from 1 to {SHARE_MAX} percent, not to {0}")]
    Share(u8),
    #[error(transparent)]
    Hint(#[from] NoHint),
}

impl Wish {
    /// Nothing is requested.
    pub const NONE: Self = Self {
        priority: None,
        weight: None,
        share: None,
        quota: None,
        deadline: None,
        work: None,
        slo: None,
    };

    /// Whether nothing is requested.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Checks the bounds of untrusted values.
    pub fn check(self) -> Result<(), OutOfBounds> {
        self.quota.map_or(Ok(()), Quota::check)?;
        self.deadline.map_or(Ok(()), check_deadline)?;
        self.work.map_or(Ok(()), check_work)?;
        self.slo.map_or(Ok(()), Slo::check)?;
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
        // Both of one: together they say which part of a device is taken.
        let has_either = self.deadline.is_some() || self.work.is_some();
        let Self { deadline, work, .. } = if has_either { self } else { other };
        Self {
            priority: self.priority.or(other.priority),
            weight: self.weight.or(other.weight),
            share: self.share.or(other.share),
            quota: self.quota.or(other.quota),
            deadline,
            work,
            slo: self.slo.or(other.slo),
        }
    }

    /// With a deadline and the work of a request both from here, if it has one of them: a ceiling judges both.
    #[must_use]
    pub fn completed(self, base: Parameters) -> Self {
        if self.deadline.is_none() && self.work.is_none() {
            return self;
        }
        Self { deadline: self.deadline.or(base.deadline), work: self.work.or(base.work), ..self }
    }

    /// The notes on requested parameters that a policy ignores.
    pub fn unheeded(self, policy: PolicyKind) -> impl Iterator<Item = String> {
        use PolicyKind::{Edf, Fair, Laxity, Partition, Priority, Quota, Slo};
        let parts = [
            ("priorities", self.priority.is_some(), &[Priority, Fair, Quota, Edf, Laxity, Slo][..]),
            ("weights", self.weight.is_some(), &[Fair, Quota, Edf, Laxity, Slo]),
            ("shares", self.share.is_some(), &[Partition]),
            ("quotas", self.quota.is_some(), &[Quota]),
            ("deadlines", self.deadline.is_some(), &[Edf, Laxity]),
            ("the work of requests", self.work.is_some(), &[Edf, Laxity]),
            ("SLOs", self.slo.is_some(), &[Slo]),
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
            quota: self.quota.or(parameters.quota),
            deadline: self.deadline.or(parameters.deadline),
            work: self.work.or(parameters.work),
            slo: self.slo.or(parameters.slo),
        }
    }
}

impl Parameters {
    /// What its requests take of a device, if each has a deadline and takes as long as said: all of it if nothing is said.
    pub fn density(self) -> Option<f64> {
        let deadline = self.deadline?;
        Some(self.work.map_or(1.0, |work| work.0 as f64 / deadline.0.max(1) as f64))
    }

    /// As one line, for timelines.
    ///
    /// # Panics
    ///
    /// Never: there are no maps in it.
    pub fn to_text(self) -> String {
        serde_json::to_string(&self).expect("numbers and texts can be written")
    }

    /// What [`Self::to_text`] has written.
    pub fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Without the quota, deadline or SLO that a policy ignores.
    #[must_use]
    pub fn heeded_by(self, policy: PolicyKind) -> Self {
        let by_deadline = matches!(policy, PolicyKind::Edf | PolicyKind::Laxity);
        Self {
            quota: self.quota.filter(|_| policy == PolicyKind::Quota),
            deadline: self.deadline.filter(|_| by_deadline),
            slo: self.slo.filter(|_| policy == PolicyKind::Slo),
            ..self
        }
    }

    /// What is reserved for it, beside its share.
    pub fn reservations(self) -> String {
        let work = self.work.map(|work| format!(" (work {work})")).unwrap_or_default();
        let parts = [
            self.quota.map(|quota| format!(", quota {quota}")),
            self.deadline.map(|deadline| format!(", deadline {deadline}{work}")),
            self.slo.map(|slo| format!(", {slo}")),
        ];
        parts.into_iter().flatten().collect()
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority {} ({}), weight {}", self.priority, Class::of(self.priority), self.weight)?;
        if let Some(share) = self.share {
            write!(f, ", share {share} %")?;
        }
        f.write_str(&self.reservations())
    }
}

/// How far a user may raise processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// The largest priority.
    pub priority: i16,
    /// The largest weight.
    pub weight: u32,
    /// The largest share, and what quotas, deadlines and SLOs may reserve; none: no share is allowed, and none of these.
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
    #[error("{what} may take {wanted} % of a device, and the ceiling for shares is {} %", .ceiling.unwrap_or(0))]
    Reservation { what: &'static str, wanted: u32, ceiling: Option<u8> },
}

impl Ceiling {
    /// Reduces a wish to the ceiling, or to the parameters in `base` where these are higher.
    pub fn limit(self, wish: Wish, base: Parameters) -> Wish {
        Wish {
            priority: wish.priority.map(|priority| priority.min(self.priority.max(base.priority))),
            weight: wish.weight.map(|weight| weight.min(self.weight.max(base.weight))),
            share: wish.share.and_then(|share| Some(share.min(self.share.max(base.share)?))),
            ..self.reservations(wish, base).map_or(wish, |_| Wish {
                quota: wish.quota.filter(|_| base.quota == wish.quota),
                deadline: wish.deadline.filter(|_| base.deadline == wish.deadline),
                work: wish.work.filter(|_| base.work == wish.work),
                slo: wish.slo.filter(|_| base.slo == wish.slo),
                ..wish
            })
        }
    }

    /// The first reservation of a wish that is neither within the ceiling for shares nor there already. A deadline without the work
    /// of a request and an SLO may take all of a device.
    fn reservations(self, wish: Wish, base: Parameters) -> Option<AboveCeiling> {
        let after = wish.applied_to(base);
        let quota = |parameters: Parameters| parameters.quota.map(Quota::part);
        let parts = [
            ("a quota", quota(after), quota(base)),
            ("a deadline", after.density(), base.density()),
            ("an SLO", after.slo.map(|_| 1.0).filter(|_| after.slo != base.slo), None),
        ];
        // What is there already may become less.
        let is_more = |after: f64, before: Option<f64>| before.is_none_or(|before| after > before);
        let wanted = parts.into_iter().filter_map(|(what, after, before)| Some((what, after?, before)));
        let wanted = wanted.filter(|&(_, after, before)| is_more(after, before));
        let wanted = wanted.map(|(what, after, _)| (what, after));
        let mut wanted = wanted.map(|(what, part)| (what, (part * 100.0).ceil() as u32));
        let above = wanted.find(|(_, percent)| *percent > self.share.unwrap_or(0).into());
        above.map(|(what, wanted)| AboveCeiling::Reservation { what, wanted, ceiling: self.share })
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
            _ => self.reservations(wish, base).map_or(Ok(()), Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priority(priority: i16) -> Wish {
        Wish { priority: Some(priority), ..Wish::default() }
    }

    /// A part of a device that no source was allowed would come of two that were.
    #[test]
    fn a_deadline_and_its_work_come_from_one_source() {
        let by = |deadline: Option<u64>, work: Option<u64>| Wish {
            deadline: deadline.map(Nanos::from_millis),
            work: work.map(Nanos::from_millis),
            ..Wish::default()
        };
        assert_eq!(by(Some(10), None).or(by(Some(30), Some(5))), by(Some(10), None));
        assert_eq!(by(None, None).or(by(Some(30), Some(5))), by(Some(30), Some(5)));
        let base = by(Some(30), Some(5)).applied_to(Parameters::default());
        assert_eq!(by(Some(10), None).completed(base), by(Some(10), Some(5)));
        assert_eq!(by(None, None).completed(base), by(None, None));
    }

    #[test]
    fn what_is_reserved_already_may_become_less_without_a_ceiling() {
        let quota = |time| Some(Quota { time: Nanos::from_millis(time), window: Nanos::from_millis(100) });
        let base = Parameters { quota: quota(20), ..Parameters::default() };
        let check = |time| Ceiling::default().check(Wish { quota: quota(time), ..Wish::default() }, base);
        assert_eq!(check(10), Ok(()));
        assert!(check(30).is_err());
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
        let base = Parameters { priority: 120, weight: 300, share: Some(40), ..Parameters::default() };
        let wish = Wish { priority: Some(130), weight: Some(300), share: Some(41), ..Wish::default() };
        let limited = Wish { priority: Some(120), share: Some(40), ..wish };
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
    fn what_is_reserved_is_within_the_ceiling_for_shares() {
        let ceiling = Ceiling { share: Some(30), ..Ceiling::default() };
        let base = Parameters::default();
        let none = Wish::default();
        let quota = |text: &str| Wish { quota: Some(text.parse().unwrap()), ..none };
        let ms = Nanos::from_millis;
        let deadline = |work| Wish { deadline: Some(ms(10)), work, ..none };
        for allowed in [quota("30ms/100ms"), deadline(Some(ms(3))), Wish { work: Some(ms(50)), ..none }] {
            assert_eq!((ceiling.check(allowed, base), ceiling.limit(allowed, base)), (Ok(()), allowed));
        }
        let slo = Wish { slo: Some("p99 < 12ms".parse().unwrap()), ..none };
        for above in [quota("31ms/100ms"), deadline(Some(ms(4))), deadline(None), slo] {
            let limited = Wish { work: None, ..ceiling.limit(above, base) };
            assert!(limited.is_empty(), "{above:?}");
            assert_eq!(ceiling.check(above, above.applied_to(base)), Ok(()), "it is there already");
        }
        assert_eq!(
            ceiling.check(slo, base).unwrap_err().to_string(),
            "an SLO may take 100 % of a device, and the ceiling for shares is 30 %"
        );
    }

    #[test]
    fn parameters_are_written_as_text() {
        let wish = Wish {
            quota: Some("20ms/100ms".parse().unwrap()),
            deadline: Some(Nanos::from_millis(33)),
            slo: Some("p99.9 < 1.5ms".parse().unwrap()),
            ..Wish::default()
        };
        let text = r#"{"quota":"20ms/100ms","deadline":"33ms","slo":"p99.9 < 1.5ms"}"#;
        assert_eq!(serde_json::to_string(&wish).unwrap(), text);
        assert_eq!(serde_json::from_str::<Wish>(text).unwrap(), wish);
        assert_eq!(
            wish.applied_to(Parameters::default()).to_string(),
            "priority 0 (normal), weight 100, quota 20ms/100ms, deadline 33ms, p99.9 < 1.5ms"
        );
    }

    #[test]
    fn each_policy_names_the_parameters_that_it_ignores() {
        let all = Wish { priority: Some(1), weight: Some(1), share: Some(1), ..Wish::default() };
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
        let edges = Wish { priority: Some(255), weight: Some(10_000), share: Some(100), ..Wish::default() };
        assert_eq!(edges.check(), Ok(()));
    }
}
