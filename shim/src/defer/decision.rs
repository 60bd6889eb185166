//! What becomes of a call, and what is done once it has returned.

use crate::abi::HipError;
use crate::defer::deferral::deferral;
use crate::hip::device::Hip;
use crate::outcome::Reason;
use xsched_xqueue::{PendingLaunch, QueueId};

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The call is deferred. Its caller gets this answer.
    Answer(HipError),
    /// The real function gets it now.
    Pass(Reason),
    /// The real function gets it now, and its result is needed.
    Make(Followed),
}

/// A call that is made now, and what is done once it has returned.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) reason: Reason,
    /// An earlier command's failure, which the caller gets instead of success.
    late_failure: Option<HipError>,
    effect: Effect,
}

/// What a call means for the queues if the runtime takes it.
#[derive(Debug)]
pub(super) enum Effect {
    /// Nothing.
    None,
    /// The call puts work on the device, beside other processes.
    Work(PendingLaunch<Hip>),
    /// The call waits for the device or queries it.
    Wait(Wait),
}

/// What is known when a call that waits for the device, or queries it, has succeeded.
#[derive(Debug)]
pub(super) struct Wait {
    /// What these queues had on the device is complete.
    pub(super) queues: Vec<(QueueId, u64)>,
    /// These events are complete; 0 is none.
    pub(super) events: [u64; 2],
    /// The wait is recorded, so other completions are looked for at once.
    pub(super) is_recorded: bool,
}

impl Decision {
    /// A call that may go now.
    pub(super) fn go(reason: Reason, late_failure: Option<HipError>, effect: Effect) -> Self {
        match (late_failure, effect) {
            (None, Effect::None) => Self::Pass(reason),
            (late_failure, effect) => Self::Make(Followed { reason, late_failure, effect }),
        }
    }
}

impl Followed {
    /// The call is about to be made.
    pub(crate) fn prepare(&mut self) {
        if let Effect::Work(begun) = &mut self.effect {
            deferral().queues.prepare(begun);
        }
    }

    /// The call has returned; what its caller gets.
    pub(crate) fn finish(self, result: HipError) -> HipError {
        let is_success = result == HipError::SUCCESS;
        match self.effect {
            Effect::None => {}
            Effect::Work(begun) => deferral().queues.finish(begun, is_success),
            Effect::Wait(wait) => wait.finish(is_success),
        }
        self.late_failure.filter(|_| is_success).unwrap_or(result)
    }
}

impl Wait {
    /// The effect of a call that waits. [`Effect::None`] if nothing follows from it.
    pub(super) fn effect(self) -> Effect {
        let is_nothing = self.queues.is_empty() && self.events == [0; 2] && !self.is_recorded;
        if is_nothing { Effect::None } else { Effect::Wait(self) }
    }

    fn finish(self, is_success: bool) {
        let queues = &deferral().queues;
        if !self.queues.is_empty() {
            queues.host_wait_ends(&self.queues, is_success);
        }
        // After a failure nothing more is asked: the thread's last error is the call's own.
        if self.is_recorded && is_success {
            queues.check_all_if_recorded();
        }
        for event in self.events.into_iter().filter(|&event| event != 0 && is_success) {
            queues.event_seen(event);
        }
    }
}
