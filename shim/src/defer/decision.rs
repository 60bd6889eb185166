//! What becomes of a call, and what is done once it has returned.

use crate::abi::HipError;
use crate::defer::deferral::deferral;
use crate::defer::streams::StreamEntry;
use crate::ground::outcome::Reason;
use crate::hip::device::Hip;
use crate::xqueue::{Begun, QueueId};

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is held back; this is its answer.
    Answer(HipError),
    /// The real function gets it now.
    Pass(Reason),
    /// The real function gets it now, and what it returns is wanted.
    Make(Followed),
}

/// A call whose end is wanted.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) reason: Reason,
    /// Its success is told as this failure of an earlier call.
    pub(super) tells: Option<HipError>,
    /// It puts something on the device, beside others.
    pub(super) begun: Option<Begun<Hip>>,
    /// It waits for what these queues had on the device.
    pub(super) waits_for: Vec<(QueueId, u64)>,
    /// It waits for something on a device, which somebody records.
    pub(super) is_watched_wait: bool,
    /// Its success means that these events are complete; 0 is none.
    pub(super) sees_events: [u64; 2],
}

impl Followed {
    /// The call is about to be made.
    pub(crate) fn prepare(&self) {
        if let Some(begun) = &self.begun {
            deferral().queues.prepare(begun);
        }
    }

    /// The call has returned; what its caller gets.
    pub(crate) fn finish(self, result: HipError) -> HipError {
        let is_success = result == HipError::SUCCESS;
        let queues = &deferral().queues;
        if let Some(begun) = self.begun {
            queues.finish(begun, is_success);
        }
        if !self.waits_for.is_empty() {
            queues.has_waited(&self.waits_for, is_success);
        }
        if self.is_watched_wait {
            queues.look_around();
        }
        for event in self.sees_events.into_iter().filter(|&event| event != 0 && is_success) {
            queues.has_seen_event(event);
        }
        self.tells.filter(|_| is_success).unwrap_or(result)
    }

    pub(super) fn of(begun: Begun<Hip>, reason: Reason) -> Self {
        Self { begun: Some(begun), ..Self::nothing_of(reason) }
    }

    /// Nothing is wanted of it, so far.
    pub(super) fn nothing_of(reason: Reason) -> Self {
        Self {
            reason,
            tells: None,
            begun: None,
            waits_for: Vec::new(),
            is_watched_wait: false,
            sees_events: [0; 2],
        }
    }

    /// A call that nobody needs to follow just passes.
    pub(super) fn decision(self) -> Decision {
        let is_anything_wanted = self.tells.is_some()
            || self.begun.is_some()
            || !self.waits_for.is_empty()
            || self.is_watched_wait
            || self.sees_events != [0; 2];
        if is_anything_wanted { Decision::Make(self) } else { Decision::Pass(self.reason) }
    }
}

/// A call that may go now, or what tells of its end.
pub(super) fn goes(begun: Option<Begun<Hip>>, entry: &StreamEntry, reason: Reason) -> Decision {
    let tells = entry.failure.take();
    Followed { tells, begun, ..Followed::nothing_of(reason) }.decision()
}
