//! What applies to all commands of a process.

use crate::device::Device;
use crate::state::State;
use crate::status::AdmissionMode;

/// What applies to all commands.
#[derive(Debug, Default)]
pub(crate) struct Mode {
    /// The process is suspended.
    pub(crate) all_suspended: bool,
    /// The process ends.
    pub(crate) closed: bool,
    /// Every call is looked at, until the first use of a device is noted.
    pub(crate) awaits_first_use: bool,
    /// Every call is looked at.
    pub(crate) observes_all: bool,
    /// No command is deferred. A caller may still have to wait in place.
    pub(crate) defers_nothing: bool,
}

impl Mode {
    pub(crate) fn suspend_all(&mut self, suspended: bool) {
        self.all_suspended = suspended && !self.closed;
    }
}

impl<D: Device> State<D> {
    /// Whether any command may have to wait or be looked at.
    fn is_engaged(&self) -> bool {
        self.mode.awaits_first_use || self.mode.observes_all || self.has_reason()
    }

    /// Whether calls must be looked at for any other reason than the first use of a device.
    pub(crate) fn has_reason(&self) -> bool {
        self.is_anything_kept() || self.is_contended() || self.is_recorded() || self.does_any_limit_itself()
    }

    /// Whether anything is deferred, or is suspended by this process itself.
    fn is_anything_kept(&self) -> bool {
        self.mode.all_suspended || self.is_any_queue_kept() || self.is_any_deferred()
    }

    /// How launches are decided about, as all threads read it without the lock.
    pub(crate) fn admission_mode(&self) -> AdmissionMode {
        let is_decided_under_lock = self.mode.awaits_first_use
            || self.mode.observes_all
            || self.mode.defers_nothing
            || self.is_recorded()
            || self.does_any_limit_itself();
        // Completions are known, and no launch need look after gates.
        let is_followed = || !self.limits.is_paused && !self.closes_any_gate_itself();
        match self.is_engaged() {
            false => AdmissionMode::Open,
            true if is_decided_under_lock => AdmissionMode::UnderLock,
            true if self.is_contended() && !self.is_anything_kept() && is_followed() => AdmissionMode::Beside,
            true if self.is_contended() => AdmissionMode::UnderLock,
            true if self.mode.all_suspended => AdmissionMode::Suspended,
            true => AdmissionMode::ByQueue,
        }
    }

    /// The process ends: nothing is suspended from now on.
    pub(crate) fn close(&mut self) {
        self.mode.closed = true;
        self.mode.all_suspended = false;
        self.queues.keep_none();
    }
}
