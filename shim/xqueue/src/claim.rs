//! Claims: what a process does on one device at one stream priority, as the arbiter knows it.
//!
//! ```text
//!              first launch                      all complete, and the linger over
//!   idle ----------------------> ready ----------------------------------------------> idle
//!        reports: ready           |  renewed while it makes progress, or is preempted
//!                                 v
//!                   counted: pending launches, commands in flight, deferred commands
//! ```
//!
//! While no other process uses the device nothing of this is done: the claim is alone.

use std::sync::Arc;

use xsched_sched::{Limit, Nanos};

use crate::clock::now;
use crate::device::Device;
use crate::flight::Flight;
use crate::gate_page::GatePage;
use crate::ids::{ClaimKey, QueueHints};
use crate::origins::{Origin, OriginTimes};
use crate::registration::{AdmissionState, Registration};

/// For how much longer a claim that was preempted is expected to be preempted again soon, each time, and for how long at most.
/// So a claim that is preempted once a second is alert for a twentieth of it, and one that is preempted 20 times always.
const ALERT: Nanos = Nanos::from_millis(50);
const ALERT_MAX: Nanos = Nanos::from_secs(1);

/// How long a claim is kept after its last stream: another one may come soon.
const UNUSED: Nanos = Nanos::from_secs(1);
const REOPENED_MAX: u32 = 8;

/// What a claim has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Device time of what has completed while others used the device too.
    pub device_time: Nanos,
    /// Commands launched meanwhile.
    pub launched: u64,
    /// Those of them that were deferred before.
    pub deferred: u64,
    /// For how long commands were deferred because the claim was preempted.
    pub suspended: Nanos,
}

impl Usage {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            device_time: self.device_time + other.device_time,
            launched: self.launched + other.launched,
            deferred: self.deferred + other.deferred,
            suspended: self.suspended + other.suspended,
        }
    }
}

/// A claim's work, at a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The claim's admission state then.
    pub(crate) state: AdmissionState,
    /// There is some: in flight, deferred, or about to be launched.
    pub(crate) is_any: bool,
    /// Some is deferred, or a caller waits.
    pub(crate) is_deferred: bool,
    /// A command executes, and takes no longer than commands took before.
    pub(crate) is_executing: bool,
}

#[derive(Debug)]
pub(crate) struct Claim<D: Device> {
    pub(crate) key: ClaimKey,
    registration: Option<Arc<dyn Registration>>,
    pub(crate) usage: Usage,
    /// The parts of its device time.
    pub(crate) by_origin: OriginTimes,
    /// In flight, from streams that have no queue.
    unqueued: Flight<D::Marker>,
    /// Queues of its streams, and since when it has none any more.
    queues: usize,
    unused_since: Option<Nanos>,
    /// How often it had streams again after it was unused.
    reopened: u32,
    /// Callers that wait for admission.
    waiting: usize,
    /// Launches that were admitted and have not returned.
    launching: usize,
    /// When it last reported that it has work; None: it reported that it has none.
    reported: Option<Nanos>,
    /// Something was launched or has completed since.
    has_progressed: bool,
    /// The arbiter's last closing of its gate that was accounted for as time for which the claim was preempted, on the page's
    /// clock.
    preemption_noted: u64,
    /// When it last was seen to have work.
    busy: Option<Nanos>,
    /// Since when it is preempted, with something deferred.
    deferred_since: Option<Nanos>,
    /// Whether it was preempted when that was last looked at, and until when it is expected to be again soon.
    is_preempted: bool,
    alert_until: Nanos,
}

impl<D: Device> Claim<D> {
    pub(crate) fn new(key: ClaimKey, limit: Limit) -> Self {
        Self {
            key,
            registration: None,
            usage: Usage::default(),
            by_origin: OriginTimes::default(),
            unqueued: Flight::new(limit),
            queues: 0,
            unused_since: None,
            reopened: 0,
            waiting: 0,
            launching: 0,
            reported: None,
            has_progressed: false,
            preemption_noted: 0,
            busy: None,
            deferred_since: None,
            is_preempted: false,
            alert_until: Nanos::ZERO,
        }
    }

    /// A stream of it has a queue.
    pub(crate) fn queue_created(&mut self, now: Nanos) {
        self.reopened += u32::from(self.is_unused(now));
        self.queues += 1;
        self.unused_since = None;
    }

    /// Whether the arbiter is to be told of it: it has its first stream, and is not registered.
    pub(crate) fn wants_registration(&self) -> bool {
        self.queues == 1 && self.registration.is_none()
    }

    /// A queue of it is gone.
    pub(crate) fn queue_gone(&mut self, now: Nanos) {
        self.queues -= 1;
        self.unused_since = (self.queues == 0).then_some(now);
    }

    /// Whether the process is done with it: it has had no stream for a while. What a process does by default on a device, at the
    /// usual priority, it may do at any time, and what it did over and over it will do again: each time costs a gate page for good.
    pub(crate) fn is_unused(&self, now: Nanos) -> bool {
        let is_over = self.unused_since.is_some_and(|since| since + UNUSED <= now);
        let is_usual = self.key.stream_priority == 0 && self.key.hints == QueueHints::NONE;
        let may_return = is_usual || self.reopened >= REOPENED_MAX;
        is_over && !may_return && !self.is_reported_ready()
    }

    pub(crate) fn registration(&self) -> Option<&Arc<dyn Registration>> {
        self.registration.as_ref()
    }

    pub(crate) fn admission_state(&self) -> AdmissionState {
        self.registration.as_ref().map_or(AdmissionState::Alone, |registration| registration.state())
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.admission_state() == AdmissionState::Alone
    }

    pub(crate) fn is_below(&self) -> bool {
        matches!(self.admission_state(), AdmissionState::Below { .. })
    }

    pub(crate) fn unqueued(&self) -> &Flight<D::Marker> {
        &self.unqueued
    }

    pub(crate) fn unqueued_mut(&mut self) -> &mut Flight<D::Marker> {
        &mut self.unqueued
    }

    /// A deferred command of it is about to be launched.
    pub(crate) fn count_deferred(&mut self) {
        self.usage.deferred += 1;
    }

    /// These parts of its device time were these libraries'. With `is_charged` false they do not count.
    pub(crate) fn charge(&mut self, charges: impl Iterator<Item = (Origin, Nanos)>, is_charged: bool) {
        charge(&mut self.by_origin, charges, is_charged);
    }

    /// The same of what has completed from streams that have no queue.
    pub(crate) fn charge_unqueued(&mut self, is_charged: bool) {
        charge(&mut self.by_origin, self.unqueued.take_charges(), is_charged);
    }

    /// Origins' numbers have lost their meaning.
    pub(crate) fn forget_origins(&mut self) {
        self.unqueued.forget_origins();
        self.by_origin.forget_origins();
    }

    /// It has work from now on. True if that was reported just now.
    pub(crate) fn has_work_now(&mut self, now: Nanos) -> bool {
        self.busy = Some(now);
        let is_new = self.reported.is_none() && self.registration.is_some();
        if is_new {
            self.report_ready(now);
        }
        is_new
    }

    fn report_ready(&mut self, now: Nanos) {
        if let Some(registration) = &self.registration {
            registration.report_ready();
            self.reported = Some(now);
            self.has_progressed = false;
        }
    }

    /// A command of it is launched beside others. True if that it has work was reported just now.
    pub(crate) fn launches(&mut self, now: Nanos) -> bool {
        let is_new = self.has_work_now(now);
        self.has_progressed = true;
        self.launching += 1;
        self.usage.launched += 1;
        is_new
    }

    /// A command of it is launched while it is alone.
    pub(crate) fn launches_alone(&mut self) {
        self.launching += 1;
    }

    /// Commands of it were launched beside others without the lock: so many, of which the last has returned at this time.
    pub(crate) fn launched_at_once(&mut self, count: u64, last: Nanos) {
        self.usage.launched += count;
        self.has_progressed = true;
        self.busy = self.busy.max(Some(last));
    }

    /// So many such launches are pending in a queue, and so many were before.
    pub(crate) fn launch_at_once(&mut self, before: u64, pending: u64) {
        self.launching = self.launching + pending as usize - before as usize;
    }

    /// A launch has returned.
    pub(crate) fn launch_returned(&mut self) {
        self.launching -= 1;
    }

    /// Whether a launch is pending.
    pub(crate) fn is_launching(&self) -> bool {
        self.launching > 0
    }

    /// A caller waits for its admission from now on.
    pub(crate) fn caller_waits(&mut self) {
        self.waiting += 1;
    }

    /// A caller does not wait any more.
    pub(crate) fn caller_waits_no_more(&mut self) {
        self.waiting -= 1;
    }

    /// Whether callers wait for its admission.
    pub(crate) fn has_waiting_callers(&self) -> bool {
        self.waiting > 0
    }

    /// Something of it has completed, and took so long.
    pub(crate) fn completed(&mut self, now: Nanos, took: Nanos) {
        self.has_progressed = true;
        self.busy = Some(now);
        self.usage.device_time += took;
    }

    /// Whether it was seen to have work since a time, beside others.
    pub(crate) fn has_had_work_since(&self, since: Nanos) -> bool {
        self.busy.is_some_and(|busy| busy >= since)
    }

    /// Its level; the lowest number is the most urgent. None: no arbiter knows it.
    pub(crate) fn level(&self) -> Option<u8> {
        self.registration.as_ref().map(|registration| registration.levels().0)
    }

    /// Whether it last reported that it has work.
    pub(crate) fn is_reported_ready(&self) -> bool {
        self.reported.is_some()
    }

    /// Reports that it has work or has none, as is due at this time. Returns when to look again.
    pub(crate) fn report_as_due(&mut self, work: Work, now: Nanos) -> Option<Nanos> {
        let has_work = work.is_any;
        let registration = Arc::clone(self.registration.as_ref()?);
        let state = work.state;
        self.note_deferring(state.is_preempted() && work.is_deferred, now);
        self.note_preempted(state.is_preempted(), now);
        let reported = self.reported?;
        if has_work {
            self.busy = Some(now);
        }
        let idle_at = self.busy.map_or(now, |busy| busy + registration.linger());
        if !has_work && (idle_at <= now || state == AdmissionState::Alone) {
            registration.report_idle();
            self.reported = None;
            return None;
        }
        // It cannot help being preempted, or that a command takes its time; but a claim whose work does not end does not keep
        // others waiting.
        let is_alive = self.has_progressed || self.deferred_since.is_some() || work.is_executing;
        let renew_at = reported + registration.lease() / 4;
        if is_alive && (renew_at <= now || !registration.is_ready()) {
            self.report_ready(now);
        }
        let renew_at = if is_alive { Some(renew_at.max(now)) } else { None };
        let idle_at = if has_work { None } else { Some(idle_at) };
        renew_at.into_iter().chain(idle_at).min()
    }

    /// Whether it reports that it has no work, in this state, as soon as that is so.
    pub(crate) fn is_idle_due(&self, state: AdmissionState, now: Nanos) -> bool {
        let is_linger_over = || self.idle_at().is_none_or(|at| at <= now);
        self.is_reported_ready() && (state == AdmissionState::Alone || is_linger_over())
    }

    /// When it may report that it has no work, given that it has none.
    pub(crate) fn idle_at(&self) -> Option<Nanos> {
        self.reported?;
        Some(self.busy? + self.registration.as_ref()?.linger())
    }

    /// Whether it is preempted, or expected to be soon.
    pub(crate) fn is_alert(&self, now: Nanos) -> bool {
        self.is_preempted || now < self.alert_until
    }

    /// It was preempted and is not any more, between two looks.
    fn was_preempted(&mut self, now: Nanos) {
        self.note_preempted(true, now);
        self.note_preempted(false, now);
    }

    fn note_preempted(&mut self, is_preempted: bool, now: Nanos) {
        if self.is_preempted && !is_preempted {
            self.alert_until = (self.alert_until.max(now) + ALERT).min(now + ALERT_MAX);
        }
        self.is_preempted = is_preempted;
    }

    fn note_deferring(&mut self, is_deferring: bool, now: Nanos) {
        match self.deferred_since {
            None if is_deferring => self.deferred_since = Some(now),
            Some(since) => {
                self.usage.suspended += now - since;
                self.deferred_since = is_deferring.then_some(now);
            }
            None => {}
        }
    }

    /// The page in which the arbiter closes its gate.
    pub(crate) fn gate_page(&self) -> Option<&Arc<GatePage>> {
        self.registration.as_ref()?.gate_page()
    }

    /// When the arbiter last closed its gate, and opened it again, on the page's clock; None: it still is closed. None at all if
    /// that is not known.
    fn last_closure(&self) -> Option<(u64, Option<u64>)> {
        self.gate_page()?.last_closure()
    }

    /// The arbiter's last closing of its gate, on the page's clock; 0: there was none.
    pub(crate) fn last_gate_closing(&self) -> u64 {
        self.last_closure().map_or(0, |(closed, _)| closed)
    }

    /// When the arbiter last closed its gate, if that is another closing than `noted`, and opened it again. Then it is noted.
    pub(crate) fn take_gate_closure(&self, noted: &mut u64) -> Option<(Nanos, Option<Nanos>)> {
        let (closed, opened) = self.last_closure().filter(|&(closed, _)| closed != *noted)?;
        *noted = closed;
        let registration = self.registration.as_ref()?;
        let at = |page_ns| now() - registration.age_of(page_ns);
        Some((at(closed), opened.map(at)))
    }

    /// When the arbiter last opened its gate, if it has since it last closed it.
    pub(crate) fn gate_opened_at(&self) -> Option<Nanos> {
        let (_, opened) = self.last_closure()?;
        Some(now() - self.registration.as_ref()?.age_of(opened?))
    }

    /// Takes note of the arbiter's last closing of its gate. True if no look has seen that the claim was preempted then and
    /// is not any more, where `is_unseen` says that its state did not change otherwise.
    pub(crate) fn note_unseen_preemption(
        &mut self,
        now: Nanos,
        state: AdmissionState,
        is_unseen: bool,
    ) -> bool {
        let Some((closed, _)) = self.last_closure().filter(|&(closed, _)| closed != self.preemption_noted)
        else {
            return false;
        };
        self.preemption_noted = closed;
        let was_preempted = is_unseen && !state.is_preempted();
        if was_preempted {
            self.was_preempted(now);
        }
        was_preempted
    }

    /// Another registration with the arbiter, or none any more.
    pub(crate) fn register(&mut self, registration: Option<Arc<dyn Registration>>, now: Nanos) {
        // What preempted it does so no more.
        self.note_deferring(false, now);
        self.registration = registration;
        self.reported = None;
        // Closings from before do not concern it.
        self.preemption_noted = self.last_gate_closing();
    }
}

fn charge(times: &mut OriginTimes, charges: impl Iterator<Item = (Origin, Nanos)>, is_charged: bool) {
    // Charges that do not count are taken as well: they are not asked for again.
    for (origin, part) in charges {
        if is_charged {
            times.add(origin, part);
        }
    }
}
