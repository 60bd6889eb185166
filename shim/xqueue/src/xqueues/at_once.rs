//! Launches beside other processes that take no lock: `state/journals.rs` says when this is allowed.

use xsched_sched::Nanos;

use crate::clock::{about_now, now};
use crate::command::{Demand, KnownEnd, Load, PendingLaunch, Treatment};
use crate::device::Device;
use crate::ids::{QueueId, Source};
use crate::journal::{Journal, Launched, Ticket};
use crate::registration::AdmissionState;
use crate::status::{AdmissionMode, QueueStatus};
use crate::xqueues::XQueues;
use crate::xqueues::locked::Locked;

/// How a launch that may be made now is followed.
#[derive(Debug)]
#[must_use]
pub enum AdmissionAtOnce {
    /// Its completion is not followed.
    Free,
    /// [`XQueues::finish_at_once`] must be called after the launch.
    Followed(JournalledLaunch),
}

/// An admitted launch that [`XQueues::finish_at_once`] finishes.
#[derive(Debug)]
#[must_use]
pub struct JournalledLaunch {
    status: &'static QueueStatus,
    queue: QueueId,
    ticket: Ticket,
    /// What the journal gets to know when the launch has returned.
    launched: Launched,
}

impl<D: Device> XQueues<D> {
    /// The same as [`Self::admit`] on the queue with this status, without the lock. Answers only beside other processes, and while
    /// nothing is deferred. None: ask [`Self::admit`].
    #[inline]
    pub fn admit_at_once(&self, status: &'static QueueStatus, demand: &Demand) -> Option<AdmissionAtOnce> {
        let is_known_later = matches!(demand.end, KnownEnd::ByEvent(_));
        if self.admission_mode() != AdmissionMode::Beside
            || demand.treatment != Treatment::Schedule
            || is_known_later
        {
            return None;
        }
        let admission_state = self.admission_state.get()?;
        let journal = status.journal();
        let mut opening = journal.look()?;
        let Load::Work(class) = demand.load else {
            // After a wait, the durations of commands mean something else, so waits are noted under the lock.
            let goes = demand.load == Load::Signal && is_as_opened(journal, admission_state);
            return goes.then_some(AdmissionAtOnce::Free);
        };
        let admitted = about_now();
        loop {
            let queue = status.queue();
            let work = if journal.is_below() { Some(journal.fits(class)?) } else { None };
            if !is_as_opened(journal, admission_state) {
                return None;
            }
            if let Some(ticket) = journal.enter(opening) {
                if let Some(work) = work {
                    journal.spend(work);
                }
                let Demand { origin, judgement, .. } = *demand;
                let launched =
                    Launched { admitted, returned: admitted, class, origin, judgement, on_device: true };
                return Some(AdmissionAtOnce::Followed(JournalledLaunch { status, queue, ticket, launched }));
            }
            // Another thread has entered, or the journal was closed.
            opening = journal.look()?;
        }
    }

    /// Notes that an admitted launch has returned. With `on_device` the runtime took it.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a launch is finished once")]
    pub fn finish_at_once(&self, launch: JournalledLaunch, on_device: bool) {
        let JournalledLaunch { status, queue, ticket, launched } = launch;
        let launched = Launched { returned: about_now(), on_device, ..launched };
        status.journal().leave(ticket, &launched);
        if launched.returned >= status.journal().marker_due() {
            self.mark_at_once(queue);
        }
    }

    /// Records a marker in a queue's stream, unless another thread did.
    #[cold]
    fn mark_at_once(&self, queue: QueueId) {
        let due = self.lock_for(Source::Queue(queue)).wants_marker_at_once(queue, now());
        let Some(due) = due else { return };
        let marker = self.mark(due.stream);
        let unneeded = self.lock_for(Source::Queue(queue)).marked_at_once(queue, &due, marker, now());
        self.retire(Vec::from_iter(unneeded));
    }

    /// Lets a queue's launches go without the lock from now on, if that is allowed.
    pub(super) fn open_journal(&self, state: &mut Locked<'_, D>, launch: &PendingLaunch<D>, now: Nanos) {
        if let Source::Queue(queue) = launch.source
            && self.mode.get() == AdmissionMode::Beside
        {
            state.open_journal(queue, launch.class, now);
        }
    }
}

/// Whether the arbiter's page says of a journal's claim what it said when the journal was opened. If the journal was closed meanwhile,
/// nothing enters, whatever the answer.
#[inline]
fn is_as_opened(journal: &Journal, admission_state: impl Fn(u64) -> AdmissionState) -> bool {
    let opened =
        if journal.is_below() { AdmissionState::Below { preempted: false } } else { AdmissionState::Beside };
    admission_state(journal.claim()) == opened
}
