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
//! While no other process uses the device, the claim is alone: it reports nothing and is not followed.

use std::sync::Arc;

use xsched_sched::{Level, Limit, Nanos};

use crate::clock::now;
use crate::device::Device;
use crate::flight::Flight;
use crate::gate_page::GatePage;
use crate::ids::{ClaimKey, QueueHints};
use crate::origins::{Origin, OriginTimes};
use crate::registration::{AdmissionState, Registration};

/// After each preemption a claim is alert for this much longer, up to [`ALERT_MAX`]: it expects to be preempted again. A claim
/// that is preempted once a second is alert for a twentieth of the time; one that is preempted 20 times a second always is.
const ALERT: Nanos = Nanos::from_millis(50);
const ALERT_MAX: Nanos = Nanos::from_secs(1);

/// How long a claim stays registered after its last stream is gone, since a new stream may come soon.
const UNUSED: Nanos = Nanos::from_secs(1);
const REOPENED_MAX: u32 = 8;

/// What a claim has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Device time of commands that completed while other processes used the device, too.
    pub device_time: Nanos,
    /// Commands launched while other processes used the device, too.
    pub launched: u64,
    /// How many of the launched commands had been deferred.
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

/// A claim's work when it was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The claim's admission state at that time.
    pub(crate) state: AdmissionState,
    /// It has work: in flight, deferred, or about to be launched.
    pub(crate) is_any: bool,
    /// Some of the work is deferred, or a caller waits in place.
    pub(crate) is_deferred: bool,
    /// A command executes, and does not take longer than commands took before.
    pub(crate) is_executing: bool,
}

#[derive(Debug)]
pub(crate) struct Claim<D: Device> {
    pub(crate) key: ClaimKey,
    registration: Option<Arc<dyn Registration>>,
    /// Its level at the last look, see [`Self::note_level`].
    usual_level: Option<u8>,
    pub(crate) usage: Usage,
    /// Device time by origin.
    pub(crate) by_origin: OriginTimes,
    /// What streams without a queue have in flight. The claim's queues share what it has learnt.
    unqueued: Flight<D::Marker>,
    /// How many queues its streams have, and when the last of them went.
    queues: usize,
    unused_since: Option<Nanos>,
    /// How often a stream came after the claim was unused.
    reopened: u32,
    /// Callers that wait in place for admission.
    waiting: usize,
    /// Launches that were admitted and have not returned.
    launching: usize,
    /// When the claim last reported ready; None: it last reported idle.
    reported: Option<Nanos>,
    /// Whether something was launched or has completed since that report.
    has_progressed: bool,
    /// The last closing of its gate by the arbiter that was accounted for as preemption, in the page's clock.
    preemption_noted: u64,
    /// When the claim was last seen to have work.
    busy: Option<Nanos>,
    /// From when on it has had work whose time is not charged. Device time is how long a claim has commands on the device, so what
    /// several streams have there at once, or late looks make too long, is never more than that.
    uncharged_since: Nanos,
    /// When the claim was preempted while something was deferred, if both still hold.
    deferred_since: Option<Nanos>,
    /// Whether the last look found the claim preempted, and until when the claim is alert.
    is_preempted: bool,
    alert_until: Nanos,
    /// When it was last preempted, and how long after the time before.
    preempted_at: Option<Nanos>,
    preempted_after: Nanos,
}

impl<D: Device> Claim<D> {
    pub(crate) fn new(key: ClaimKey, limit: Limit) -> Self {
        Self {
            key,
            registration: None,
            usual_level: None,
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
            uncharged_since: Nanos::ZERO,
            deferred_since: None,
            is_preempted: false,
            alert_until: Nanos::ZERO,
            preempted_at: None,
            preempted_after: Nanos::ZERO,
        }
    }

    /// A stream of the claim has a new queue.
    pub(crate) fn queue_created(&mut self, now: Nanos) {
        self.reopened += u32::from(self.is_unused(now));
        self.queues += 1;
        self.unused_since = None;
    }

    /// Whether the arbiter should be told of the claim: it has a stream and is not registered.
    pub(crate) fn wants_registration(&self) -> bool {
        self.queues == 1 && self.registration.is_none()
    }

    /// A queue of the claim is gone.
    pub(crate) fn queue_gone(&mut self, now: Nanos) {
        self.queues -= 1;
        self.unused_since = (self.queues == 0).then_some(now);
    }

    /// Whether the process has no more use for the claim: its last stream is gone for a while. A claim at the default priority is
    /// always of use, and so is one that came back often: each new registration costs a gate page for good.
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

    /// A deferred command of the claim is about to be launched.
    pub(crate) fn count_deferred(&mut self) {
        self.usage.deferred += 1;
    }

    /// Commands of the claim have completed, which took this long together. Returns how much of it is charged.
    pub(crate) fn completed(&mut self, now: Nanos, took: Nanos) -> Nanos {
        (self.has_progressed, self.busy) = (true, Some(now));
        let charged = took.min(now - self.uncharged_since);
        self.uncharged_since += charged;
        self.usage.device_time += charged;
        charged
    }

    /// Divides what is charged among the libraries that used it. Charges that come to `took` are taken all the same: otherwise the next
    /// call would find them.
    pub(crate) fn charge(
        &mut self,
        charges: impl Iterator<Item = (Origin, Nanos)>,
        took: Nanos,
        charged: Nanos,
    ) {
        charge(&mut self.by_origin, charges, took, charged);
    }

    /// The same for what completed on streams without a queue.
    pub(crate) fn charge_unqueued(&mut self, took: Nanos, charged: Nanos) {
        charge(&mut self.by_origin, self.unqueued.take_charges(), took, charged);
    }

    /// The numbers that stand for origins have changed their meaning.
    pub(crate) fn forget_origins(&mut self) {
        self.unqueued.forget_origins();
        self.by_origin.forget_origins();
    }

    /// The claim has work from now on. Returns whether this call reported it ready.
    pub(crate) fn has_work_now(&mut self, now: Nanos) -> bool {
        self.busy = Some(now);
        let is_new = self.reported.is_none() && self.registration.is_some();
        if self.reported.is_none() {
            self.uncharged_since = now;
        }
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

    /// A command of the claim is launched while other processes use the device. Returns whether this call reported the claim
    /// ready.
    pub(crate) fn launches(&mut self, now: Nanos) -> bool {
        let is_new = self.has_work_now(now);
        self.has_progressed = true;
        self.launching += 1;
        self.usage.launched += 1;
        is_new
    }

    /// A command of the claim is launched while it is alone.
    pub(crate) fn launches_alone(&mut self) {
        self.launching += 1;
    }

    /// `count` commands of the claim were launched without the lock while other processes used the device. The last returned at
    /// `last`.
    pub(crate) fn launched_at_once(&mut self, count: u64, last: Nanos) {
        self.usage.launched += count;
        self.has_progressed = true;
        self.busy = self.busy.max(Some(last));
    }

    /// A queue's count of pending launches without the lock has changed from `before` to `pending`.
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

    /// So many callers begin to wait for the claim's admission.
    pub(crate) fn callers_wait(&mut self, callers: usize) {
        self.waiting += callers;
    }

    /// So many callers' waits for the claim's admission are over.
    pub(crate) fn callers_wait_no_more(&mut self, callers: usize) {
        self.waiting -= callers;
    }

    /// Whether callers wait for its admission.
    pub(crate) fn has_waiting_callers(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the claim had work at or after `since`, while other processes used the device.
    pub(crate) fn has_had_work_since(&self, since: Nanos) -> bool {
        self.busy.is_some_and(|busy| busy >= since)
    }

    /// The claim's level; 0 is the most urgent. None: the claim is not registered with an arbiter.
    pub(crate) fn level(&self) -> Option<u8> {
        self.registration.as_ref().map(|registration| registration.levels().0)
    }

    /// Notes the claim's level, and returns whether it has changed. A slice against starvation is no change, since it passes.
    pub(crate) fn note_level(&mut self) -> bool {
        // That is also the level of a claim that its arbiter does not know.
        let is_usual = |level: &u8| u64::from(*level) != Level::STARVED.number();
        let before = self.usual_level;
        self.usual_level = self.level().filter(is_usual).or(before);
        self.usual_level != before
    }

    /// The level that was noted last. None: no level is known since the claim was registered.
    pub(crate) fn usual_level(&self) -> Option<u8> {
        self.usual_level
    }

    /// Whether the claim's last report was ready.
    pub(crate) fn is_reported_ready(&self) -> bool {
        self.reported.is_some()
    }

    /// Reports ready or idle if that is due. Returns when to look again.
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
        // Being preempted, or one long command, is not the claim's fault, so it stays ready. Without either, work that makes no
        // progress must not keep other processes waiting.
        let is_alive = self.has_progressed || self.deferred_since.is_some() || work.is_executing;
        let renew_at = reported + registration.lease() / 4;
        if is_alive && (renew_at <= now || !registration.is_ready()) {
            self.report_ready(now);
        }
        let renew_at = if is_alive { Some(renew_at.max(now)) } else { None };
        let idle_at = if has_work { None } else { Some(idle_at) };
        renew_at.into_iter().chain(idle_at).min()
    }

    /// Whether the claim should report idle right away, given that it has no work. `state` is its admission state.
    pub(crate) fn is_idle_due(&self, state: AdmissionState, now: Nanos) -> bool {
        let is_linger_over = || self.idle_at().is_none_or(|at| at <= now);
        self.is_reported_ready() && (state == AdmissionState::Alone || is_linger_over())
    }

    /// When the claim may report idle, given that it has no work.
    pub(crate) fn idle_at(&self) -> Option<Nanos> {
        self.reported?;
        Some(self.busy? + self.registration.as_ref()?.linger())
    }

    /// Whether the claim is preempted, or expects to be preempted soon.
    pub(crate) fn is_alert(&self, now: Nanos) -> bool {
        self.is_preempted || now < self.alert_until
    }

    /// How much of its work may follow a command before the next gate. The more seldom it is preempted, the less a gate is worth.
    pub(crate) fn gate_every(&self, now: Nanos) -> Nanos {
        let Some(preempted_at) = self.preempted_at else { return D::GATE_EVERY };
        let apart = self.preempted_after.max(now - preempted_at);
        (apart / D::GATES_FOR_PREEMPTION).clamp(D::GATE_EVERY_LEAST, D::GATE_EVERY)
    }

    /// The claim was preempted and released between two looks.
    fn was_preempted(&mut self, now: Nanos) {
        self.note_preempted(true, now);
        self.note_preempted(false, now);
    }

    fn note_preempted(&mut self, is_preempted: bool, now: Nanos) {
        if self.is_preempted && !is_preempted {
            self.alert_until = (self.alert_until.max(now) + ALERT).min(now + ALERT_MAX);
        }
        if is_preempted && !self.is_preempted {
            self.preempted_after = self.preempted_at.replace(now).map_or(Nanos::ZERO, |before| now - before);
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

    /// The page in which the arbiter closes the claim's gate.
    pub(crate) fn gate_page(&self) -> Option<&Arc<GatePage>> {
        self.registration.as_ref()?.gate_page()
    }

    /// When the arbiter last closed the claim's gate and when it opened it again, in the page's clock. The second is None while
    /// the gate is closed. None as a whole if the times are not known.
    fn last_closure(&self) -> Option<(u64, Option<u64>)> {
        self.gate_page()?.last_closure()
    }

    /// When the arbiter last closed the claim's gate, in the page's clock; 0 if it never did.
    pub(crate) fn last_gate_closing(&self) -> u64 {
        self.last_closure().map_or(0, |(closed, _)| closed)
    }

    /// When the arbiter last closed the claim's gate and when it opened it again. None if `noted` is that closing already;
    /// otherwise `noted` becomes it.
    pub(crate) fn take_gate_closure(&self, noted: &mut u64) -> Option<(Nanos, Option<Nanos>)> {
        let (closed, opened) = self.last_closure().filter(|&(closed, _)| closed != *noted)?;
        *noted = closed;
        let registration = self.registration.as_ref()?;
        let at = |page_ns| now() - registration.age_of(page_ns);
        Some((at(closed), opened.map(at)))
    }

    /// When the arbiter last opened the claim's gate; None while the gate is closed.
    pub(crate) fn gate_opened_at(&self) -> Option<Nanos> {
        let (_, opened) = self.last_closure()?;
        Some(now() - self.registration.as_ref()?.age_of(opened?))
    }

    /// Notes the arbiter's last closing of the claim's gate. Returns true if the claim was preempted then and no look has seen
    /// it. `is_unseen` says that the claim's state is what it was at the last look.
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

    /// The claim gets another registration with the arbiter, or loses the one it had.
    pub(crate) fn register(&mut self, registration: Option<Arc<dyn Registration>>, now: Nanos) {
        // A new arbiter page preempts nothing yet.
        self.note_deferring(false, now);
        self.registration = registration;
        self.usual_level = None;
        self.note_level();
        self.reported = None;
        // The closings before this registration do not count.
        self.preemption_noted = self.last_gate_closing();
    }
}

/// Parts of `took` become parts of `charged`. They come to the whole, however they are rounded.
fn charge(
    times: &mut OriginTimes,
    charges: impl Iterator<Item = (Origin, Nanos)>,
    took: Nanos,
    charged: Nanos,
) {
    let (mut done, mut given) = (0, 0);
    for (origin, part) in charges {
        done += u128::from(part.0);
        let until_here = (done * u128::from(charged.0)).checked_div(u128::from(took.0)).unwrap_or(0);
        times.add(origin, Nanos((until_here - given) as u64));
        given = until_here;
    }
}
