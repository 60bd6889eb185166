//! Bugs on purpose, which the differential tests must find (`tests/differential`).
//!
//! Only with the feature `planted-bugs`, which no build for users has. Without it [`Bugs::has`] is a constant `false`, and no
//! code is left of them.

/// A bug; its name is the comment's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// `last-first`: the latest of a queue's deferred commands is launched first.
    LastFirst,
    /// `overtaking`: a call passes although earlier ones of its stream are deferred.
    Overtaking,
    /// `forced-overtaking`: a call that is never deferred passes although earlier ones of its stream are.
    ForcedOvertaking,
    /// `forced-alone`: such a call does not come after what it depends on in other streams.
    ForcedAlone,
}

/// The bug that the queues have, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs {
    #[cfg(feature = "planted-bugs")]
    planted: Option<Bug>,
}

impl Bugs {
    /// None.
    pub const NONE: Self = Self {
        #[cfg(feature = "planted-bugs")]
        planted: None,
    };

    /// The one with this name, if there is one.
    #[cfg(feature = "planted-bugs")]
    pub fn named(name: &str) -> Self {
        let known = [
            ("last-first", Bug::LastFirst),
            ("overtaking", Bug::Overtaking),
            ("forced-overtaking", Bug::ForcedOvertaking),
            ("forced-alone", Bug::ForcedAlone),
        ];
        Self { planted: known.into_iter().find(|(known, _)| *known == name).map(|(_, bug)| bug) }
    }

    /// Whether this is the one.
    #[cfg(feature = "planted-bugs")]
    #[inline]
    pub(crate) fn has(self, bug: Bug) -> bool {
        self.planted == Some(bug)
    }

    /// A build for users has none.
    #[cfg(not(feature = "planted-bugs"))]
    #[inline]
    #[expect(clippy::unused_self, reason = "with bugs it is used")]
    pub(crate) const fn has(self, _: Bug) -> bool {
        false
    }
}
