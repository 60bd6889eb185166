//! Launches without the lock: when a queue's journal is open, and how the state learns of the launches ([`crate::journal`]).
//!
//! A journal is open only while all of this holds. Whatever ends it closes the journal first:
//!
//! * The process's admission mode is [`AdmissionMode::Beside`](crate::AdmissionMode::Beside).
//! * The queue is neither held nor suspended and has nothing deferred, and it needs no marker behind each command.
//! * Its claim has reported that it has work, and no caller waits for its admission.
//! * The claim is beside others, or more urgent ones have no work and the arbiter closes its gate.
//!
//! The arbiter may preempt the claim or change its level at any time, so each launch looks at the arbiter's page.
//!
//! Below more urgent neighbours, a launch may need a gate or a marker, or have to wait. So only as much work enters as may be launched
//! before any of that, of classes whose durations are known. Then one launch takes the lock.

use xsched_sched::Nanos;

use crate::command::DurationClass;
use crate::device::Device;
use crate::ids::{ClaimId, QueueId, RuntimeId};
use crate::journal::Standing;
use crate::queue::Queue;
use crate::registration::AdmissionState;
use crate::state::State;

/// A marker to record behind a stream's first so many commands.
pub(crate) struct DueMarker<D: Device> {
    claim: ClaimId,
    pub(crate) stream: D::Stream,
    launched: u64,
}

/// A journal without a launch for this long is closed: as long as it is open, its queue is looked at.
const UNUSED: Nanos = Nanos::from_millis(10);

impl<D: Device> State<D> {
    /// Opens a queue's journal, if nothing forbids it, after a launch of this class. The caller knows that the process's admission mode
    /// allows it.
    pub(crate) fn open_journal(&mut self, id: QueueId, class: DurationClass, now: Nanos) {
        let Some(queue) = self.queues.get(id) else { return };
        let journal = queue.journal();
        if journal.is_open() && !journal.is_below() {
            return;
        }
        let Some(claim) = queue.claim().map(|claim| self.claims.get(claim)) else { return };
        let Some(name) = claim.registration().and_then(|registration| registration.name()) else { return };
        let is_free = queue.stream().is_some() && queue.is_clear() && self.may_be_asked(queue);
        if !is_free || !claim.is_reported_ready() || claim.has_waiting_callers() {
            return;
        }
        let Some(standing) = self.standing(queue, claim.admission_state(), now) else { return };
        match standing {
            Standing::Below { left } if journal.is_open() => journal.allow(left),
            Standing::Below { left } if left.is_zero() => return,
            Standing::Below { .. } | Standing::Beside => {
                // It may be open for other terms.
                journal.close();
                let marker_due = queue.flight().marker_due(now, self.marked_later());
                if !journal.open(name, marker_due, standing) {
                    return;
                }
            }
        }
        journal.note_duration(class, queue.flight().expected(class));
        self.queues.has_journal(id);
    }

    /// How a queue's launches may go without the lock, if they may.
    fn standing(&self, queue: &Queue<D>, state: AdmissionState, now: Nanos) -> Option<Standing> {
        match state {
            AdmissionState::Beside => Some(Standing::Beside),
            AdmissionState::Below { preempted: false } => {
                let every = self.shared_gate_every(queue.claim()?, queue.runtime())?;
                let left = queue.flight().work_at_once(now, every);
                queue.uses_gates().then_some(Standing::Below { left })
            }
            AdmissionState::Below { preempted: true } | AdmissionState::Alone => None,
        }
    }

    /// Takes the launches that took no lock and have returned out of a queue's journal.
    pub(crate) fn collect_launches(&mut self, id: QueueId) {
        let later = self.marked_later();
        let Self { queues, claims, events, .. } = self;
        let Some(queue) = queues.get_journalled(id).filter(|queue| queue.journal().has_news()) else {
            return;
        };
        let Some(claim) = queue.claim() else { return };
        let (mut count, mut last) = (0, Nanos::ZERO);
        while let Some(launched) = queue.journal().collect() {
            let usual = queue.flight_mut().launched_at_once(&launched);
            if launched.on_device && queue.journal().is_below() {
                queue.journal().note_duration(launched.class, usual);
            }
            if let Some(events) = events {
                super::events::write_launch_at_once(events, id, queue.flight().launched_so_far(), &launched);
            }
            (count, last) = (count + 1, last.max(launched.returned));
        }
        if count > 0 {
            let due = queue.flight().marker_due(last, later);
            queue.journal().set_marker_due(due);
            claims.get_mut(claim).launched_at_once(count, last);
        }
        let (before, pending) = queue.journal().count_pending();
        claims.get_mut(claim).launch_at_once(before, pending);
    }

    /// The same for all queues.
    pub(crate) fn collect_all_launches(&mut self) {
        for index in 0..self.queues.journals().len() {
            let (id, journal) = self.queues.journals()[index];
            if journal.has_news() {
                self.collect_launches(id);
            }
        }
    }

    /// Closes all journals: from now on all launches take the lock.
    pub(crate) fn close_journals(&self) {
        self.queues.with_journals().for_each(|(_, queue)| queue.journal().close());
    }

    /// The same for a claim's queues.
    pub(crate) fn close_journals_of(&self, claim: ClaimId) {
        let of_claim = self.queues.with_journals().filter(|(_, queue)| queue.claim() == Some(claim));
        of_claim.for_each(|(_, queue)| queue.journal().close());
    }

    /// The same for a runtime's streams that order others, since a new stream exists there.
    pub(super) fn close_journals_of_ordering_streams(&self, runtime: RuntimeId) {
        let is_concerned = |queue: &Queue<D>| queue.orders_others() && queue.runtime() == runtime;
        let ordering = self.queues.with_journals().filter(|(_, queue)| is_concerned(queue));
        ordering.for_each(|(_, queue)| queue.journal().close());
    }

    /// Closes a claim's journals before it reports idle. Returns false if a launch came first. After that, each launch takes the
    /// lock and reports.
    pub(super) fn ends_at_once(&mut self, claim: ClaimId) -> bool {
        self.close_journals_of(claim);
        self.collect_all_launches();
        !self.has_work(claim)
    }

    /// Closes journals without recent launches.
    pub(super) fn close_unused_journals(&mut self, now: Nanos) {
        let is_unused =
            |queue: &Queue<D>| queue.flight().is_empty() && queue.flight().last_launch() + UNUSED <= now;
        let unused = self.queues.with_journals().filter(|(_, queue)| is_unused(queue));
        unused.for_each(|(_, queue)| queue.journal().close());
        self.collect_all_launches();
        self.queues.leave_out_empty_journals();
    }

    /// Closes the journal of a queue whose stream goes.
    pub(super) fn leave_journal(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(id).filter(|queue| queue.stream().is_some()) else { return };
        queue.journal().close();
        self.collect_launches(id);
        self.queues.leave_out_journal(id);
        let Some(queue) = self.queues.get_mut(id) else { return };
        let before = queue.journal().forget_count();
        if let Some(claim) = queue.claim() {
            // The program destroys a stream while it launches there.
            self.claims.get_mut(claim).launch_at_once(before, 0);
        }
    }

    /// What is needed to record a marker in a queue's stream, if the last marker was long ago. A launch has just returned there.
    /// The claim counts as launching until [`Self::marked_at_once`].
    pub(crate) fn wants_marker_at_once(&mut self, id: QueueId, now: Nanos) -> Option<DueMarker<D>> {
        let queue = self.queues.get(id)?;
        let (claim, stream) = (queue.claim()?, queue.stream()?);
        let later = self.marked_later();
        if !queue.flight().is_unmarked_for_long(now, later) {
            queue.journal().set_marker_due(queue.flight().marker_due(now, later));
            return None;
        }
        let launched = queue.flight().launched_so_far();
        self.claims.get_mut(claim).launches_alone();
        Some(DueMarker { claim, stream, launched })
    }

    /// Notes that the marker was recorded or refused. Returns a marker to retire.
    pub(crate) fn marked_at_once(
        &mut self,
        id: QueueId,
        due: &DueMarker<D>,
        marker: Option<D::Marker>,
        now: Nanos,
    ) -> Option<D::Marker> {
        self.claims.get_mut(due.claim).launch_returned();
        let later = self.marked_later();
        let Some(queue) = self.queues.get_mut(id) else { return marker };
        let unneeded = marker.and_then(|marker| queue.flight_mut().marked(now, marker, due.launched));
        queue.journal().set_marker_due(queue.flight().marker_due(now, later));
        unneeded
    }
}
