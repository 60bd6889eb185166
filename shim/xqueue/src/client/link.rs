//! What all threads of the process know of the arbiter: the page, and whether it is in force.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_protocol::arbiter_page::{ClaimWord, Report, Word, more_urgent};
use xsched_protocol::wire::{Keeper, PacketKind, Reported};
use xsched_sched::Level;

use crate::client::arbiter_page::MappedPage;
use crate::client::connection::Connection;
use crate::client::outbox::About;
use crate::client::report_probe::report as call_probe;
use crate::registration::AdmissionState;

use crate::trouble::Trouble;

/// The process's view of the arbiter.
#[derive(Debug)]
pub(crate) struct Link {
    pub(super) page: MappedPage,
    /// Whether the page is in force: a controller is connected, and its heartbeat is fresh.
    is_in_force: AtomicBool,
    /// Nothing is to be deferred: the controller only observes.
    only_observes: AtomicBool,
    /// For reports where no BPF program is attached.
    socket: Mutex<Option<Arc<Connection>>>,
    trouble: fn(Trouble),
}

/// A claim of this process in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) index: u32,
    pub(super) generation: u32,
    pub(super) keeper: Keeper,
}

impl Slot {
    /// Its name for launches: index and generation.
    pub(super) fn name(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}

impl Link {
    pub(super) fn new(trouble: fn(Trouble)) -> Self {
        Self {
            page: MappedPage::none(),
            is_in_force: AtomicBool::new(false),
            only_observes: AtomicBool::new(false),
            socket: Mutex::new(None),
            trouble,
        }
    }

    /// There is a controller from now on, or there is none.
    pub(super) fn connect(&self, socket: Option<Arc<Connection>>, only_observes: bool) {
        self.only_observes.store(only_observes, Ordering::Relaxed);
        *self.socket() = socket;
    }

    /// The page is in force from now on, or is not.
    pub(super) fn put_in_force(&self, is_in_force: bool) {
        self.is_in_force.store(is_in_force, Ordering::Release);
    }

    /// The page is in force unless its controller's heartbeat is missing. A controller that only observes defers no process and so
    /// writes no heartbeat; it is to know which processes have work all the same.
    pub(super) fn judge_heartbeat(&self, is_silent: bool) {
        self.put_in_force(!is_silent || self.only_observes.load(Ordering::Relaxed));
    }

    pub(super) fn is_in_force(&self) -> bool {
        self.is_in_force.load(Ordering::Acquire)
    }

    /// The claim's word, if the claim is there.
    pub(super) fn word(&self, slot: Slot) -> Option<ClaimWord> {
        self.word_of(slot.name())
    }

    fn word_of(&self, name: u64) -> Option<ClaimWord> {
        let word = ClaimWord(self.page.load(Word::claim(name & u64::from(u32::MAX))));
        (word.is_open() && u64::from(word.generation()) == name >> 32).then_some(word)
    }

    /// A claim's admission state.
    pub(super) fn state_of(&self, slot: Slot) -> AdmissionState {
        self.state_by_name(slot.name())
    }

    /// The same of the claim with this name.
    pub(super) fn state_by_name(&self, name: u64) -> AdmissionState {
        if !self.is_in_force() {
            return AdmissionState::Alone;
        }
        let Some(word) = self.word_of(name) else { return AdmissionState::Alone };
        let (device, level) = (word.device(), word.level());
        let exists = self.page.load(Word::exists(device));
        let has_neighbours = self.page.load(Word::exist_count(device, level)) > 1;
        if exists & !(1 << level) == 0 && !has_neighbours {
            return AdmissionState::Alone;
        }
        let is_obeyed = self.page.load(Word::OBEY) != 0 && !self.only_observes.load(Ordering::Relaxed);
        let held = self.page.load(Word::ready(device)) & more_urgent(level) != 0;
        if is_obeyed && (held || Level::new(level).is_limited()) {
            AdmissionState::Below { preempted: held }
        } else {
            AdmissionState::Beside
        }
    }

    /// Reports something to the arbiter. Never waits. If the socket is full, what must not be lost is sent later: that a claim has
    /// work, has none, or is closed. The rest is reported again as long as there is a reason; it is counted.
    pub(super) fn report(&self, report: Report, slot: u32, argument: u64, keeper: Keeper) {
        if keeper == Keeper::Programs {
            return call_probe(report as u64, slot.into(), argument);
        }
        let Some(socket) = self.socket().clone() else { return };
        let packet = Reported { kind: PacketKind::Reported as u32, slot, operation: report as u64, argument };
        let sent = match report {
            Report::Ready | Report::Idle => socket.post(&packet, Some(About::Work(slot))),
            Report::Close => socket.post(&packet, None),
            Report::Join | Report::Expire | Report::Check | Report::Gate => socket.send(&packet),
        };
        if sent.is_err() {
            (self.trouble)(Trouble::UnsentReport);
        }
    }

    fn socket(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "maps a page for an arbiter of its own")]
mod tests;
