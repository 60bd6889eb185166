//! A verdict in 16 bits, with the rule that it follows: what a process keeps of it, and tells whoever records.
//!
//! ```text
//!   15        4 3    2 1     0
//!     rule      level   action
//! ```

use super::{Action, Verdict};

/// What decided about a call, as a number. The controller gives one to each rule that has decided about anything, and tells
/// recorders what that is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleId(u16);

/// What a [`RuleId`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// No rule fits: the default holds.
    ByNobody,
    /// A rule of the controller's, by the number that it has told, from 1 on.
    ByRule(u16),
    /// A setting of the process's user, by its place in [`SETTINGS`].
    BySetting(u16),
    /// A rule that the process has asked itself and that nobody has numbered: the how-many-th, from 0 on.
    ByOwnRule(u16),
    /// The calling thread, or a library on the chain, has said what its calls are.
    ByDomain,
    /// A rule that has no number: there are too many.
    BySomeRule,
}

/// Settings of users that shims make rules of: what these rules are called.
pub const SETTINGS: [&str; 4] = [
    "XSCHED_CONFIG, apis",
    "XSCHED_PASSTHROUGH_LIBS",
    "XSCHED_CONFIG, libraries",
    "XSCHED_CONFIG, blacklist",
];

impl RuleId {
    /// Bits that a number takes.
    const BITS: u32 = 12;

    /// First number of what only the process knows: settings, then its own rules.
    const OWN: u16 = 1 << (Self::BITS - 1);

    /// No rule fits.
    pub const NOBODY: Self = Self(0);

    /// See [`DecidedBy::ByDomain`].
    pub const DOMAIN: Self = Self((1 << Self::BITS) - 1);

    /// See [`DecidedBy::BySomeRule`].
    pub const UNNUMBERED: Self = Self((1 << Self::BITS) - 2);

    /// The how-many-th rule that the controller has a name for, from 0 on.
    pub fn numbered(index: usize) -> Self {
        let number = index.checked_add(1).and_then(|number| u16::try_from(number).ok());
        number.filter(|&number| number < Self::OWN).map_or(Self::UNNUMBERED, Self)
    }

    /// One of the rules that a process was handed out to decide itself: the how-many-th, from 0 on. `first` is the number of the
    /// first of them, from 1 on; 0: they have none.
    pub fn handed_out(first: u16, index: u32) -> Self {
        match first.checked_sub(1) {
            Some(before) => Self::numbered(usize::from(before).saturating_add(index as usize)),
            None => Self::own(SETTINGS.len() + index as usize),
        }
    }

    /// A rule that the user of a process that decides itself has set, by what it is called.
    pub fn setting(name: &str) -> Self {
        SETTINGS.iter().position(|known| *known == name).map_or(Self::UNNUMBERED, Self::own)
    }

    fn own(index: usize) -> Self {
        let number = u16::try_from(index).ok().and_then(|index| index.checked_add(Self::OWN));
        number.filter(|&number| number < Self::UNNUMBERED.0).map_or(Self::UNNUMBERED, Self)
    }

    /// What it says.
    pub const fn decided(self) -> DecidedBy {
        match self {
            Self::NOBODY => DecidedBy::ByNobody,
            Self::DOMAIN => DecidedBy::ByDomain,
            Self::UNNUMBERED => DecidedBy::BySomeRule,
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
    /// Nobody was asked.
    pub const NONE: Self = Self(0);

    /// `level` is the highest level of preemption, 1 to 3; 0: no limit.
    pub const fn new(action: Action, level: u8, rule: RuleId) -> Self {
        Self(action as u16 | (level as u16 & 3) << 2 | rule.0 << 4)
    }

    /// None: nobody was asked.
    pub const fn action(self) -> Option<Action> {
        Action::from_number(self.0 as u8 & 3)
    }

    /// The highest level of preemption; 0: no limit.
    pub const fn level(self) -> u8 {
        (self.0 >> 2) as u8 & 3
    }

    /// What has decided.
    pub const fn rule(self) -> RuleId {
        RuleId(self.0 >> 4)
    }

    /// As bits, of which there are 16.
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
        verdict.action().map_or(Self::NONE, |action| Self::new(action, verdict.level(), verdict.rule()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_keeps_its_parts_apart() {
        let rules = [
            RuleId::NOBODY,
            RuleId::numbered(0),
            RuleId::handed_out(0, 7),
            RuleId::DOMAIN,
            RuleId::UNNUMBERED,
        ];
        for action in [Action::Schedule, Action::Passthrough, Action::NeverSuspend] {
            for (level, rule) in (0..=3).flat_map(|level| rules.map(|rule| (level, rule))) {
                let judgement = Judgement::from(Verdict::new(action, level, true).by(rule));
                assert_eq!(
                    (judgement.action(), judgement.level(), judgement.rule()),
                    (Some(action), level, rule)
                );
                assert_eq!(Judgement::from_bits(judgement.bits() | 1 << 16), judgement);
            }
        }
        assert_eq!(Judgement::from(Verdict::UNKNOWN).action(), None);
    }

    #[test]
    fn numbers_of_rules_end_before_those_that_mean_something_else() {
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
        for (place, name) in SETTINGS.iter().enumerate() {
            assert_eq!(RuleId::setting(name).decided(), DecidedBy::BySetting(place as u16));
        }
        assert_eq!(RuleId::setting("another"), RuleId::UNNUMBERED);
        assert_eq!(RuleId::UNNUMBERED.decided(), DecidedBy::BySomeRule);
        assert_eq!(
            (RuleId::NOBODY.decided(), RuleId::DOMAIN.decided()),
            (DecidedBy::ByNobody, DecidedBy::ByDomain)
        );
    }
}
