//! What applies to all commands of a process.

use crate::device::Device;
use crate::state::State;
use crate::status::AdmissionMode;

/// What applies to all commands.
#[derive(Debug, Default)]
pub(crate) struct Mode {
    all_suspended: bool,
    closed: bool,
    awaits_first_use: bool,
    observes_all: bool,
    defers_nothing: bool,
}

impl Mode {
    /// Whether the process ends.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the process is suspended.
    pub(crate) fn is_all_suspended(&self) -> bool {
        self.all_suspended
    }

    pub(crate) fn suspend_all(&mut self, suspended: bool) {
        self.all_suspended = suspended && !self.closed;
    }

    /// Until the first use of a device was noted, every call is looked at.
    pub(crate) fn await_first_use(&mut self, awaits: bool) {
        self.awaits_first_use = awaits;
    }

    /// Every call is looked at from now on.
    pub(crate) fn observe_all(&mut self) {
        self.observes_all = true;
    }

    /// Whether no command is deferred, though it may have to wait in place.
    pub(crate) fn is_deferring_nothing(&self) -> bool {
        self.defers_nothing
    }

    pub(crate) fn defer_nothing(&mut self, defers_nothing: bool) {
        self.defers_nothing = defers_nothing;
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.all_suspended = false;
    }
}

impl<D: Device> State<D> {
    /// Whether any command may have to wait, or to be looked at.
    fn is_engaged(&self) -> bool {
        self.mode.awaits_first_use || self.mode.observes_all || self.has_reason()
    }

    /// Whether there is any reason to look at calls, besides the first use of a device.
    pub(crate) fn has_reason(&self) -> bool {
        self.mode.all_suspended
            || self.is_any_queue_suspended()
            || self.is_any_deferred()
            || self.is_contended()
            || self.is_recorded()
    }

    /// What decides whether a command may be launched.
    pub(crate) fn admission_mode(&self) -> AdmissionMode {
        let is_decided_under_lock = self.mode.awaits_first_use
            || self.mode.observes_all
            || self.mode.defers_nothing
            || self.is_recorded()
            || self.is_contended();
        match self.is_engaged() {
            false => AdmissionMode::Open,
            true if is_decided_under_lock => AdmissionMode::UnderLock,
            true if self.mode.all_suspended => AdmissionMode::Suspended,
            true => AdmissionMode::ByQueue,
        }
    }

    /// The process ends: nothing is suspended any more.
    pub(crate) fn close(&mut self) {
        self.mode.close();
        self.queues.values_mut().for_each(|queue| queue.suspend(false));
    }
}
