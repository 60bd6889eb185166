//! A verdict in 16 bits, with the rule that decided: what a process keeps of it and writes into recordings.
//!
//! ```text
//!   15        4 3    2 1     0
//!     rule      mode    action
//! ```

use super::{Action, Verdict};

/// A number for what decided about a call. The controller numbers each rule that has decided, and announces the rule's name to
/// recorders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleId(u16);

/// The meaning of a [`RuleId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// No rule matches: the default applies.
    ByDefault,
    /// A rule of the controller, by its announced number, from 1 on.
    ByRule(u16),
    /// A setting of the process's user, by its index in [`SETTINGS`].
    BySetting(u16),
    /// A rule that the process has evaluated itself and that has no number, by its index.
    ByOwnRule(u16),
    /// The calling thread, or a library on the chain, has declared its scheduling domain.
    ByDomain,
    /// A rule for which no number was left.
    ByUnnumberedRule,
}

/// Users' settings from which shims make rules: the names of these rules.
pub const SETTINGS: [&str; 4] = [
    "XSCHED_CONFIG, apis",
    "XSCHED_PASSTHROUGH_LIBS",
    "XSCHED_CONFIG, libraries",
    "XSCHED_CONFIG, blacklist",
];

impl RuleId {
    /// Bits that a number takes.
    const BITS: u32 = 12;

    /// First number that has a meaning within one process only: settings, then its own rules.
    const OWN: u16 = 1 << (Self::BITS - 1);

    /// No rule matches.
    pub const NONE: Self = Self(0);

    /// See [`DecidedBy::ByDomain`].
    pub const DOMAIN: Self = Self((1 << Self::BITS) - 1);

    /// See [`DecidedBy::ByUnnumberedRule`].
    pub const UNNUMBERED: Self = Self((1 << Self::BITS) - 2);

    /// A rule for which the controller has a name, by its index.
    pub fn numbered(index: usize) -> Self {
        let number = index.checked_add(1).and_then(|number| u16::try_from(number).ok());
        number.filter(|&number| number < Self::OWN).map_or(Self::UNNUMBERED, Self)
    }

    /// A rule that a process was given to evaluate itself, by its index. `first` is the number of the first such rule, from 1
    /// on; 0: they have no numbers.
    pub fn handed_out(first: u16, index: u32) -> Self {
        match first.checked_sub(1) {
            Some(before) => Self::numbered(usize::from(before).saturating_add(index as usize)),
            None => Self::own(SETTINGS.len() + index as usize),
        }
    }

    /// A setting of a user whose process decides itself, by its name.
    pub fn setting(name: &str) -> Self {
        SETTINGS.iter().position(|known| *known == name).map_or(Self::UNNUMBERED, Self::own)
    }

    fn own(index: usize) -> Self {
        let number = u16::try_from(index).ok().and_then(|index| index.checked_add(Self::OWN));
        number.filter(|&number| number < Self::UNNUMBERED.0).map_or(Self::UNNUMBERED, Self)
    }

    /// What decided.
    pub const fn decided(self) -> DecidedBy {
        match self {
            Self::NONE => DecidedBy::ByDefault,
            Self::DOMAIN => DecidedBy::ByDomain,
            Self::UNNUMBERED => DecidedBy::ByUnnumberedRule,
            Self(number) if number < Self::OWN => DecidedBy::ByRule(number),
            Self(number) => match (number - Self::OWN).checked_sub(SETTINGS.len() as u16) {
                Some(index) => DecidedBy::ByOwnRule(index),
                None => DecidedBy::BySetting(number - Self::OWN),
            },
        }
    }

    pub(super) const fn bits(self) -> u64 {
        self.0 as u64
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits as u16 & Self::DOMAIN.0)
    }
}

/// What was decided about a call, and by which rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Judgement(u16);

impl Judgement {
    /// No verdict was asked for.
    pub const NONE: Self = Self(0);

    /// `mode` is the highest preemption mode, 1 to 3; 0: no limit.
    pub const fn new(action: Action, mode: u8, rule: RuleId) -> Self {
        Self(action as u16 | (mode as u16 & 3) << 2 | rule.0 << 4)
    }

    /// None: no verdict was asked for.
    pub const fn action(self) -> Option<Action> {
        Action::from_number(self.0 as u8 & 3)
    }

    /// The highest preemption mode; 0: no limit.
    pub const fn mode(self) -> u8 {
        (self.0 >> 2) as u8 & 3
    }

    /// The rule that decided.
    pub const fn rule(self) -> RuleId {
        RuleId(self.0 >> 4)
    }

    /// As 16 bits.
    pub const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// From the lowest 16 bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits as u16)
    }
}

impl From<Verdict> for Judgement {
    fn from(verdict: Verdict) -> Self {
        verdict.action().map_or(Self::NONE, |action| Self::new(action, verdict.mode(), verdict.rule()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_keeps_its_parts_apart() {
        let rules =
            [RuleId::NONE, RuleId::numbered(0), RuleId::handed_out(0, 7), RuleId::DOMAIN, RuleId::UNNUMBERED];
        for action in [Action::Schedule, Action::Passthrough, Action::NeverSuspend] {
            for (mode, rule) in (0..=3).flat_map(|mode| rules.map(|rule| (mode, rule))) {
                let judgement = Judgement::from(Verdict::new(action, mode, true).by(rule));
                assert_eq!(
                    (judgement.action(), judgement.mode(), judgement.rule()),
                    (Some(action), mode, rule)
                );
                assert_eq!(Judgement::from_bits(judgement.bits() | 1 << 16), judgement);
            }
        }
        assert_eq!(Judgement::from(Verdict::UNKNOWN).action(), None);
    }

    #[test]
    fn rule_numbers_do_not_reach_the_reserved_ones() {
        assert_eq!(RuleId::numbered(0).decided(), DecidedBy::ByRule(1));
        assert_eq!(RuleId::numbered(2046).decided(), DecidedBy::ByRule(2047));
        assert_eq!(RuleId::handed_out(7, 2).decided(), DecidedBy::ByRule(9));
        assert_eq!(RuleId::handed_out(0, 0).decided(), DecidedBy::ByOwnRule(0));
        let last = 2045 - SETTINGS.len() as u32;
        assert_eq!(RuleId::handed_out(0, last).decided(), DecidedBy::ByOwnRule(last as u16));
        let beyond = [(0, last + 1), (0, u32::MAX), (1, 2047), (2047, 1), (1, u32::MAX)]
            .map(|(first, index)| RuleId::handed_out(first, index));
        for beyond in beyond.into_iter().chain([RuleId::numbered(2047), RuleId::numbered(usize::MAX)]) {
            assert_eq!(beyond, RuleId::UNNUMBERED);
        }
        for (index, name) in SETTINGS.iter().enumerate() {
            assert_eq!(RuleId::setting(name).decided(), DecidedBy::BySetting(index as u16));
        }
        assert_eq!(RuleId::setting("another"), RuleId::UNNUMBERED);
        assert_eq!(RuleId::UNNUMBERED.decided(), DecidedBy::ByUnnumberedRule);
        assert_eq!(
            (RuleId::NONE.decided(), RuleId::DOMAIN.decided()),
            (DecidedBy::ByDefault, DecidedBy::ByDomain)
        );
    }
}
