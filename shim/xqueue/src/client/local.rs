//! Scheduling without a controller, among the streams of this process: `XSCHED_SCHEDULER=LCL`.
//!
//! The scheduler and its masks are in this process. It schedules claims as the controller schedules processes: one claim for each
//! stream priority. A process whose streams have no priorities is alone on its devices, and nothing is done.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_sched::{
    Attributes, Changes, ClaimChange, ClaimId as ScheduledId, DeviceId, Local, Nanos, PolicyKind, ProcessId,
    Settings,
};

use crate::claim::Usage;
use crate::clock::now;
use crate::device::Device;
use crate::ids::{ClaimId, ClaimKey};
use crate::registration::{AdmissionState, Registration};
use crate::state::ClaimState;
use crate::tuning::Tuning;
use crate::xqueues::XQueues;

const LEASE: Nanos = Nanos::from_millis(50);
const LINGER: Nanos = Nanos::from_micros(100);

/// How often the scheduler is given what claims have used, at most.
const USAGE_EVERY: Nanos = Nanos::from_millis(10);

/// The scheduler of this process's streams.
pub(super) struct LocalArbiter {
    state: Mutex<State>,
    /// Wakes the watcher, which wakes threads that may go on.
    ring: Box<dyn Fn() + Send + Sync>,
}

struct State {
    core: Local,
    policy: PolicyKind,
    settings: Settings,
    /// Keys of devices, by number.
    devices: Vec<u64>,
    claims: Vec<Claim>,
    again: Option<Nanos>,
    usage_at: Nanos,
    is_over: bool,
}

struct Claim {
    id: ClaimId,
    device: u16,
    is_open: bool,
    shared: Arc<SharedState>,
    /// What the scheduler knows of its usage.
    known: Usage,
}

/// What launches read.
#[derive(Debug)]
struct SharedState {
    state: AtomicU8,
    is_ready: AtomicBool,
    /// Until when it counts as ready without another report.
    lease_until: AtomicU64,
}

const ALONE: u8 = 0;
const BESIDE: u8 = 1;
const BELOW: u8 = 2;
const PREEMPTED: u8 = 3;

impl LocalArbiter {
    pub(super) fn new(policy: PolicyKind, tuning: Tuning, ring: Box<dyn Fn() + Send + Sync>) -> Arc<Self> {
        let settings = tuning.applied_to(Settings::default());
        let state = State {
            core: Local::new(policy, settings),
            policy,
            settings,
            devices: Vec::new(),
            claims: Vec::new(),
            again: None,
            usage_at: Nanos::ZERO,
            is_over: false,
        };
        Arc::new(Self { state: Mutex::new(state), ring })
    }

    /// Takes in new claims, and what has been used; decides what time has brought.
    pub(super) fn step<D: Device>(self: &Arc<Self>, queues: &XQueues<D>, now: Nanos) {
        for (index, claim) in queues.claims().into_iter().enumerate() {
            let is_open = self.lock().claims.get(index).is_some_and(|known| known.is_open);
            if claim.is_used && !is_open {
                let (scheduled, shared) = self.lock().open(now, index, &claim);
                let registration = LocalRegistration { arbiter: Arc::clone(self), scheduled, shared };
                queues.register(claim.id, Some(Arc::new(registration)));
            } else if !claim.is_used && is_open {
                queues.register(claim.id, None);
                self.lock().close(now, index);
            }
        }
        if self.lock().usage_at <= now {
            // Read without this lock: a thread that launches holds the queues' lock and asks for this one.
            let ids: Vec<_> = self.lock().claims.iter().map(|claim| claim.id).collect();
            let used: Vec<_> = ids.into_iter().map(|id| queues.usage(id)).collect();
            self.lock().take_usage(now, &used);
        }
        let mut state = self.lock();
        state.expire(now);
        let changes = state.core.look(now);
        state.apply(&changes);
    }

    /// When to come again even if nothing happens.
    pub(super) fn again(&self) -> Option<Nanos> {
        self.lock().again
    }

    /// The program tunes the policy.
    pub(super) fn tune(&self, tuning: Tuning) {
        let mut state = self.lock();
        state.settings = tuning.applied_to(state.settings);
        let settings = state.settings;
        state.core.set_settings(now(), settings);
        drop(state);
        // The watcher looks what follows.
        (self.ring)();
    }

    /// No claim is preempted any more.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.apply(&Changes::default());
    }

    fn report(&self, event: ClaimChange) {
        let mut state = self.lock();
        let before = state.again;
        let changes = state.core.handle(now(), event);
        state.apply(&changes);
        drop(state);
        let comes_too_late = changes.again.is_some_and(|again| before.is_none_or(|before| again < before));
        if comes_too_late || !changes.suspended.is_empty() || !changes.resumed.is_empty() {
            (self.ring)();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Opens the claim with this index.
    fn open(
        &mut self,
        now: Nanos,
        index: usize,
        &ClaimState { id, key: ClaimKey { device, stream_priority, hints }, .. }: &ClaimState,
    ) -> (ScheduledId, Arc<SharedState>) {
        let known = self.devices.iter().position(|known| *known == device);
        let device = known.unwrap_or_else(|| {
            self.devices.push(device);
            self.devices.len() - 1
        }) as u16;
        let scheduled = ScheduledId(index as u32);
        // Where time is shared, each has its own share; by priority, they are streams of one process.
        let process = if self.policy == PolicyKind::Priority { 0 } else { 1 + scheduled.0 };
        let attributes = Attributes {
            // Streams of one process go by this. What the program says of a queue goes before what it said of the stream.
            stream_priority: hints.priority.map_or(stream_priority, i32::from),
            priority: if process == 0 { 0 } else { hints.priority.unwrap_or(0) },
            ceiling: i16::MAX,
            share: hints.utilization,
            deadline: hints.deadline_us.map(|deadline| Nanos::from_micros(deadline.into())),
            ..Attributes::new(DeviceId(device), ProcessId(process))
        };
        let shared = Arc::new(SharedState {
            state: AtomicU8::new(ALONE),
            is_ready: AtomicBool::new(false),
            lease_until: AtomicU64::new(0),
        });
        if let Some(known) = self.claims.get_mut(index) {
            (known.is_open, known.shared) = (true, Arc::clone(&shared));
        } else {
            self.claims.push(Claim {
                id,
                device,
                is_open: true,
                shared: Arc::clone(&shared),
                known: Usage::default(),
            });
        }
        let changes = self.core.handle(now, ClaimChange::Opened { claim: scheduled, attributes });
        self.apply(&changes);
        (scheduled, shared)
    }

    /// Closes a claim that is not used any more.
    fn close(&mut self, now: Nanos, index: usize) {
        self.claims[index].is_open = false;
        let changes = self.core.handle(now, ClaimChange::Closed { claim: ScheduledId(index as u32) });
        self.apply(&changes);
    }

    fn take_usage(&mut self, now: Nanos, used: &[Usage]) {
        self.usage_at = now + USAGE_EVERY;
        let mut events = Vec::new();
        for (index, (claim, used)) in self.claims.iter_mut().zip(used).enumerate() {
            let device = used.device_time - claim.known.device_time;
            let commands = used.launched.saturating_sub(claim.known.launched);
            if !device.is_zero() {
                claim.known = *used;
                events.push(ClaimChange::Used { claim: ScheduledId(index as u32), device, commands });
            }
        }
        for event in events {
            let changes = self.core.handle(now, event);
            self.apply(&changes);
        }
    }

    /// A claim that has launched and completed nothing for the length of a lease counts as idle until it does. What it has on the
    /// device may wait for the claims that it preempts.
    fn expire(&mut self, now: Nanos) {
        let is_over = |shared: &SharedState| {
            shared.is_ready.load(Ordering::Acquire) && shared.lease_until.load(Ordering::Acquire) < now.0
        };
        let over: Vec<_> =
            (0..self.claims.len()).filter(|&index| is_over(&self.claims[index].shared)).collect();
        for index in over {
            self.claims[index].shared.is_ready.store(false, Ordering::Release);
            let changes = self.core.handle(now, ClaimChange::Idle { claim: ScheduledId(index as u32) });
            self.apply(&changes);
        }
    }

    /// Writes all admission states.
    fn apply(&mut self, changes: &Changes) {
        self.again = changes.again;
        for (index, claim) in self.claims.iter().enumerate() {
            let scheduled = ScheduledId(index as u32);
            let neighbours = self.claims.iter().filter(|other| other.device == claim.device && other.is_open);
            let is_alone = neighbours.count() < 2;
            let state = match () {
                () if is_alone || self.is_over => ALONE,
                () if !self.core.may_launch(scheduled) => PREEMPTED,
                () if self.core.is_limited(scheduled) => BELOW,
                () => BESIDE,
            };
            claim.shared.state.store(state, Ordering::Release);
        }
    }
}

/// A claim's registration with the scheduler of this process.
struct LocalRegistration {
    arbiter: Arc<LocalArbiter>,
    scheduled: ScheduledId,
    shared: Arc<SharedState>,
}

impl std::fmt::Debug for LocalRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalRegistration")
            .field("scheduled", &self.scheduled)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Registration for LocalRegistration {
    fn state(&self) -> AdmissionState {
        match self.shared.state.load(Ordering::Acquire) {
            PREEMPTED => AdmissionState::Below { preempted: true },
            BELOW => AdmissionState::Below { preempted: false },
            BESIDE => AdmissionState::Beside,
            _ => AdmissionState::Alone,
        }
    }

    fn report_ready(&self) {
        self.shared.lease_until.store((now() + LEASE).0, Ordering::Release);
        self.shared.is_ready.store(true, Ordering::Release);
        self.arbiter.report(ClaimChange::Ready { claim: self.scheduled });
    }

    fn report_idle(&self) {
        self.shared.is_ready.store(false, Ordering::Release);
        self.arbiter.report(ClaimChange::Idle { claim: self.scheduled });
    }

    fn levels(&self) -> (u8, u64) {
        let state = self.arbiter.lock();
        let claims = || state.core.scheduler().claims();
        let level = |claim: &xsched_sched::ClaimState| claim.level.map_or(0, |level| level.number() as u8);
        let Some(own) = claims().find(|claim| claim.id == self.scheduled) else { return (0, 0) };
        let ready = claims().filter(|other| other.ready && other.attributes.device == own.attributes.device);
        (level(&own), ready.fold(0, |mask, other| mask | 1 << level(&other)))
    }

    fn is_ready(&self) -> bool {
        self.shared.is_ready.load(Ordering::Acquire)
    }

    fn lease(&self) -> Nanos {
        LEASE
    }

    fn linger(&self) -> Nanos {
        LINGER
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::ids::QueueHints;

    fn registrations(priorities: &[i32]) -> (Vec<LocalRegistration>, Arc<AtomicUsize>) {
        registrations_by(PolicyKind::Priority, priorities)
    }

    fn registrations_by(
        policy: PolicyKind,
        priorities: &[i32],
    ) -> (Vec<LocalRegistration>, Arc<AtomicUsize>) {
        let rung = Arc::new(AtomicUsize::new(0));
        let bell = Arc::clone(&rung);
        let ring = move || {
            bell.fetch_add(1, Ordering::SeqCst);
        };
        let arbiter = LocalArbiter::new(policy, Tuning::default(), Box::new(ring));
        let open = |(index, &priority): (usize, &i32)| {
            let key = ClaimKey::new(7, priority);
            let claim = ClaimState { id: ClaimId(index), key, is_used: true };
            let (scheduled, shared) = arbiter.lock().open(now(), index, &claim);
            LocalRegistration { arbiter: Arc::clone(&arbiter), scheduled, shared }
        };
        (priorities.iter().enumerate().map(open).collect(), rung)
    }

    #[test]
    fn a_more_urgent_stream_preempts_the_other_while_it_has_work() {
        let (registrations, rung) = registrations(&[0, 1]);
        let [usual, urgent] = registrations.as_slice() else { panic!("there are two") };
        usual.report_ready();
        assert_eq!(usual.state(), AdmissionState::Below { preempted: false });
        urgent.report_ready();
        assert!(usual.state().is_preempted() && !urgent.state().is_preempted());
        assert!(urgent.levels().0 < usual.levels().0 && urgent.levels().1.count_ones() == 2);
        assert_eq!(rung.load(Ordering::SeqCst), 1);
        urgent.report_idle();
        assert_eq!(
            (usual.state(), rung.load(Ordering::SeqCst)),
            (AdmissionState::Below { preempted: false }, 2)
        );
    }

    #[test]
    fn a_claim_without_progress_preempts_no_other_for_long() {
        let (registrations, _) = registrations(&[0, 1]);
        let [usual, urgent] = registrations.as_slice() else { panic!("there are two") };
        usual.report_ready();
        urgent.report_ready();
        let later = |time: Nanos| {
            urgent.arbiter.lock().expire(now() + time);
            usual.report_ready();
        };
        later(LEASE / 2);
        assert!(usual.state().is_preempted() && urgent.is_ready());
        later(LEASE.times(2));
        assert!(!usual.state().is_preempted() && !urgent.is_ready());
        urgent.report_ready();
        assert!(usual.state().is_preempted() && urgent.is_ready(), "it goes on");
    }

    #[test]
    fn the_watcher_knows_the_end_of_a_time_slice_that_begins_while_it_sleeps() {
        let (registrations, rung) = registrations_by(PolicyKind::Fair, &[0, 1]);
        registrations[0].report_ready();
        assert_eq!((rung.load(Ordering::SeqCst), registrations[0].arbiter.again()), (1, None));
        registrations[1].report_ready();
        assert!(registrations[0].arbiter.again().is_some() && registrations[1].state().is_preempted());
        assert_eq!(rung.load(Ordering::SeqCst), 2, "it had no reason to come so soon");
        registrations[1].report_idle();
        assert_eq!((rung.load(Ordering::SeqCst), registrations[0].arbiter.again()), (2, None));
    }

    #[test]
    fn what_the_program_says_of_a_queue_goes_before_the_priority_of_its_stream() {
        let arbiter = LocalArbiter::new(PolicyKind::Priority, Tuning::default(), Box::new(|| ()));
        let open = |index: usize, stream_priority, priority| {
            let hints = QueueHints { priority, ..QueueHints::NONE };
            let key = ClaimKey { hints, ..ClaimKey::new(7, stream_priority) };
            let claim = ClaimState { id: ClaimId(index), key, is_used: true };
            let (scheduled, shared) = arbiter.lock().open(now(), index, &claim);
            LocalRegistration { arbiter: Arc::clone(&arbiter), scheduled, shared }
        };
        let (low, high) = (open(0, 1, Some(1)), open(1, 0, Some(2)));
        low.report_ready();
        high.report_ready();
        assert!(low.state().is_preempted() && !high.state().is_preempted());
    }

    #[test]
    fn streams_of_one_priority_are_alone() {
        let (registrations, _) = registrations(&[0]);
        registrations[0].report_ready();
        assert_eq!(registrations[0].state(), AdmissionState::Alone);
    }

    #[test]
    fn at_the_end_no_claim_is_preempted() {
        let (registrations, _) = registrations(&[0, 1]);
        registrations[1].report_ready();
        assert!(registrations[0].state().is_preempted());
        registrations[0].arbiter.release();
        assert_eq!(
            (registrations[0].state(), registrations[1].state()),
            (AdmissionState::Alone, AdmissionState::Alone)
        );
    }
}
