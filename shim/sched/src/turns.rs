//! What happens to a claim with work, for statistics: its turns, how long it waited for each, and what ended them.
//!
//! ```text
//!   ready          allowed            not allowed        allowed     idle
//!     |---- waits ----|------ turn ------|---- waits ----|-- turn --|
//!                  TurnBegan          Preempted       TurnBegan
//! ```

use crate::{ClaimId, Nanos};

/// Something that happened to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// The claim.
    pub claim: ClaimId,
    /// What happened.
    pub what: What,
}

/// What happened to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It had work and was allowed to launch, after this time with work.
    TurnBegan {
        /// Zero if it was allowed as soon as it had work.
        waited: Nanos,
    },
    /// It had more work, but was no longer allowed to launch.
    Preempted,
    /// It had waited for too long, and got a time slice.
    StarvationSlice,
}

/// A claim's turns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    waited: Nanos,
    has_turn: bool,
}

impl Turns {
    /// It was ready and allowed to launch for some time.
    pub(crate) fn was_allowed(&mut self) -> Option<What> {
        if std::mem::replace(&mut self.has_turn, true) {
            return None;
        }
        Some(What::TurnBegan { waited: std::mem::take(&mut self.waited) })
    }

    /// It was ready and not allowed to launch for this time.
    pub(crate) fn had_to_wait(&mut self, time: Nanos) -> Option<What> {
        self.waited += time;
        std::mem::take(&mut self.has_turn).then_some(What::Preempted)
    }
}
