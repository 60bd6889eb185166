//! A process beside others, on a device, an arbiter and a clock of the test's own: nothing happens but what the test says.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use xsched_protocol::arbiter_page::GATE_ALLOWED;
use xsched_protocol::events::{Event, Observed};
use xsched_sched::{Limit, Nanos};

use crate::clock::now;
use crate::clock::tests::Stopped;
use crate::command::{Demand, DurationClass, KnownEnd, Load, PendingLaunch, Treatment};
use crate::device::{Device, Tried};
use crate::event_writer::tests::Recorder;
use crate::gate_page::GatePage;
use crate::ids::{ClaimId, ClaimKey, QueueId, RuntimeId, Source};
use crate::registration::{AdmissionState, Registration};
use crate::xqueues::tests::status;
use crate::xqueues::{Admission, AdmissionAtOnce, Setup, XQueues};

mod at_once;
mod below;
mod completions;
mod gates;
mod leases;
mod limits;
mod own;
mod recorded;
mod samples;
mod shared_gates;
mod waking;

/// A device whose commands complete when the test says so.
#[derive(Debug, Default)]
struct Bench {
    launched: Mutex<Vec<u32>>,
    /// Markers recorded, and how many of them are complete.
    recorded: AtomicU64,
    complete: AtomicU64,
    retired: AtomicU64,
    /// How often a stream was asked whether it is done. It is once everything is complete.
    asked: AtomicU64,
    is_mute: AtomicBool,
    /// The time that it measures between two markers; 0: it measures none.
    took_ns: AtomicU64,
    /// Whether some launches get markers before and behind them.
    measures: AtomicBool,
    /// Whether it can wait where the arbiter writes.
    shares_gates: AtomicBool,
    /// Whether it has gates, and refuses to put them before commands; how many it has put there and refused, and which are
    /// closed.
    has_gates: AtomicBool,
    refuses_gates: AtomicBool,
    /// Whether trials wait for what is before them; how often one was looked at, and released.
    is_backlogged: AtomicBool,
    looked: AtomicU64,
    released: AtomicU64,
    gated: AtomicU64,
    refused: AtomicU64,
    closed: Mutex<Vec<usize>>,
    /// What queues are made for from now on.
    orders_others: AtomicBool,
    is_free: AtomicBool,
    /// Whether it takes a while to ask a stream, to make a gate and to take a marker back, and whether it is at that.
    is_slow: AtomicBool,
    is_busy: AtomicBool,
    /// It was busy at some time. Under load, a thread that waits for that may come too late to see it busy.
    was_busy: AtomicBool,
}

/// A gate that is tried by looking at it once, when nothing is before it.
struct Trial {
    gate: usize,
    is_released: bool,
}

const LOOK_AGAIN: Nanos = Nanos::from_millis(1);

impl Bench {
    fn take_a_while(&self) {
        if self.is_slow.load(Ordering::SeqCst) {
            self.is_busy.store(true, Ordering::SeqCst);
            self.was_busy.store(true, Ordering::SeqCst);
            thread::sleep(A_WHILE);
            self.is_busy.store(false, Ordering::SeqCst);
        }
    }
}

impl Device for Arc<Bench> {
    type Command = u32;
    /// Its runtime.
    type Stream = usize;
    type Marker = u64;
    /// The same.
    type Gate = usize;
    type Trial = Trial;

    const GATED: Limit = Limit::of_time(Nanos::from_millis(4), 2);

    fn stream_number(&self, _: usize) -> u64 {
        7
    }

    fn orders_others(&self, _: usize) -> bool {
        self.orders_others.load(Ordering::SeqCst)
    }

    fn is_ordered(&self, _: usize) -> bool {
        !self.is_free.load(Ordering::SeqCst)
    }

    fn runtime(&self, stream: usize) -> RuntimeId {
        RuntimeId(stream)
    }

    fn launch(&self, command: u32) -> bool {
        self.launched.lock().unwrap().push(command);
        true
    }

    fn mark(&self, _: usize) -> Option<u64> {
        Some(self.recorded.fetch_add(1, Ordering::SeqCst))
    }

    fn is_done(&self, _: usize) -> Option<bool> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.take_a_while();
        let is_mute = self.is_mute.load(Ordering::SeqCst);
        (!is_mute).then(|| self.complete.load(Ordering::SeqCst) == u64::MAX)
    }

    fn is_complete(&self, marker: u64) -> bool {
        marker < self.complete.load(Ordering::SeqCst)
    }

    fn time_between(&self, _: u64, _: u64) -> Option<Nanos> {
        let took_ns = self.took_ns.load(Ordering::SeqCst);
        (took_ns > 0).then_some(Nanos(took_ns))
    }

    fn measures(&self) -> bool {
        self.measures.load(Ordering::SeqCst)
    }

    fn retire(&self, _: u64) {
        self.take_a_while();
        self.retired.fetch_add(1, Ordering::SeqCst);
    }

    fn make_gate(&self, stream: usize, page: Option<&'static GatePage>) -> Option<Trial> {
        self.take_a_while();
        let has_any = if page.is_some() { &self.shares_gates } else { &self.has_gates };
        let trial = Trial { gate: stream, is_released: false };
        has_any.load(Ordering::SeqCst).then_some(trial)
    }

    fn look_at_trial(&self, trial: &mut Trial) -> Tried<usize> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        if self.is_backlogged.load(Ordering::SeqCst) {
            return Tried::Pending { again: LOOK_AGAIN };
        }
        let is_released = std::mem::take(&mut trial.is_released);
        if is_released { Tried::Undecided } else { Tried::Works(trial.gate) }
    }

    fn release_trial(&self, trial: &mut Trial) {
        trial.is_released = true;
        self.released.fetch_add(1, Ordering::SeqCst);
    }

    fn put_gate(&self, gate: usize, stream: usize) -> bool {
        let is_taken = gate == stream && !self.refuses_gates.load(Ordering::SeqCst);
        let count = if is_taken { &self.gated } else { &self.refused };
        count.fetch_add(1, Ordering::SeqCst);
        is_taken
    }

    fn set_gate(&self, gate: usize, is_open: bool) {
        let mut closed = self.closed.lock().unwrap();
        closed.retain(|other| *other != gate);
        closed.extend((!is_open).then_some(gate));
    }
}

/// An arbiter that lets the test decide, and counts what is reported to it.
#[derive(Debug)]
struct TestArbiter {
    state: Mutex<AdmissionState>,
    level: AtomicU8,
    is_ready: AtomicBool,
    ready_reports: AtomicUsize,
    idle_reports: AtomicUsize,
    lease: Nanos,
    /// A gate that it closes, if it has any; whether its heartbeat is missing, and how often it was asked to check the gate.
    page: Option<Arc<GatePage>>,
    is_silent: AtomicBool,
    gate_checks: AtomicUsize,
}

impl TestArbiter {
    fn new(state: AdmissionState) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(state),
            level: AtomicU8::new(3),
            is_ready: AtomicBool::new(false),
            ready_reports: AtomicUsize::new(0),
            idle_reports: AtomicUsize::new(0),
            lease: Nanos::from_secs(3600),
            page: None,
            is_silent: AtomicBool::new(false),
            gate_checks: AtomicUsize::new(0),
        })
    }

    /// What an arbiter does when a mask changes.
    fn decide(&self, state: AdmissionState) {
        *self.state.lock().unwrap() = state;
        let Some(page) = &self.page else { return };
        if page.is_allowed() == state.is_preempted() {
            page.allow(!state.is_preempted(), now().0);
        }
    }

    fn reports(&self) -> (usize, usize) {
        (self.ready_reports.load(Ordering::SeqCst), self.idle_reports.load(Ordering::SeqCst))
    }
}

const LINGER: Nanos = Nanos::from_micros(200);

/// By which launches ask for its claim.
const NAME: u64 = 7;

impl Registration for TestArbiter {
    fn state(&self) -> AdmissionState {
        *self.state.lock().unwrap()
    }

    fn name(&self) -> Option<u64> {
        Some(NAME)
    }

    fn report_ready(&self) {
        self.ready_reports.fetch_add(1, Ordering::SeqCst);
        self.is_ready.store(true, Ordering::SeqCst);
    }

    fn report_idle(&self) {
        self.idle_reports.fetch_add(1, Ordering::SeqCst);
        self.is_ready.store(false, Ordering::SeqCst);
    }

    fn levels(&self) -> (u8, u64) {
        (self.level.load(Ordering::SeqCst), 1 << 1)
    }

    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::SeqCst)
    }

    fn lease(&self) -> Nanos {
        self.lease
    }

    fn linger(&self) -> Nanos {
        LINGER
    }

    fn gate_page(&self) -> Option<&Arc<GatePage>> {
        self.page.as_ref()
    }

    fn is_in_force(&self) -> bool {
        !self.is_silent.load(Ordering::SeqCst)
    }

    fn request_gate_check(&self) {
        self.gate_checks.fetch_add(1, Ordering::SeqCst);
    }

    fn age_of(&self, page_ns: u64) -> Nanos {
        now() - Nanos(page_ns)
    }
}

struct Process {
    clock: Stopped,
    bench: Arc<Bench>,
    queues: Arc<XQueues<Arc<Bench>>>,
    arbiter: Arc<TestArbiter>,
    claim: ClaimId,
    queue: QueueId,
}

const WORK: Load = Load::Work(DurationClass(1));
const BELOW: AdmissionState = AdmissionState::Below { preempted: false };
const PREEMPTED: AdmissionState = AdmissionState::Below { preempted: true };

impl Process {
    fn new(state: AdmissionState) -> Self {
        Self::at(TestArbiter::new(state))
    }

    fn at(arbiter: Arc<TestArbiter>) -> Self {
        let clock = Stopped::now();
        let bench = Arc::new(Bench::default());
        let queues = XQueues::new(Arc::clone(&bench), Setup::default());
        let claim = queues.claim(ClaimKey::new(1, 0));
        queues.register(claim, Some(Arc::clone(&arbiter) as Arc<dyn Registration>));
        let known = Arc::clone(&arbiter);
        queues.set_arbiter(Box::new(
            move |name| {
                if name == NAME { known.state() } else { AdmissionState::Alone }
            },
        ));
        // It has been so for long.
        queues.lock().take_has_new_admission_state();
        let queue = queues.create(0, Some(claim), status());
        Self { clock, bench, queues, arbiter, claim, queue }
    }

    fn set_state(&self, state: AdmissionState) {
        self.arbiter.decide(state);
        self.run_due();
    }

    fn run_due(&self) {
        self.queues.run_due(now());
    }

    /// Tends every 50 us until this is so. The clock goes on while the workers sleep: they are threads of their own, and what
    /// they do takes no time, however long the machine keeps them from it.
    fn tend_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.arbiter);
            self.run_due();
            thread::sleep(Duration::from_micros(50));
            if self.do_workers_sleep() {
                self.clock.advance(Nanos::from_micros(50));
            }
        }
    }

    fn do_workers_sleep(&self) -> bool {
        self.queues.lock().do_workers_sleep()
    }

    /// Time passes, for the workers too.
    fn pass(&self, time: Duration) {
        thread::sleep(time);
        self.clock.advance(time.into());
    }

    fn admit(&self) -> Option<PendingLaunch<Arc<Bench>>> {
        match self.queues.admit(self.queue, &[], WORK) {
            Admission::Now(begun) => Some(begun),
            Admission::Wait => None,
            Admission::Free => panic!("others are there"),
        }
    }

    /// A launch by the application's own thread. False if it has to wait.
    fn launch(&self) -> bool {
        self.launch_on(self.queue, WORK)
    }

    /// The same on any queue, of any load.
    fn launch_on(&self, queue: QueueId, load: Load) -> bool {
        let status = self.queues.lock().status_of(queue).expect("it is there");
        match self.queues.admit_at_once(status, &load.into()) {
            Some(AdmissionAtOnce::Followed(begun)) => {
                self.queues.finish_at_once(begun, true);
                return true;
            }
            Some(AdmissionAtOnce::Free) => panic!("others are there"),
            None => {}
        }
        match self.queues.admit(queue, &[], load) {
            Admission::Now(mut begun) => {
                self.queues.prepare(&mut begun);
                self.queues.finish(begun, true);
                true
            }
            Admission::Wait => false,
            Admission::Free => panic!("others are there"),
        }
    }

    fn has_gates(self) -> Self {
        self.bench.has_gates.store(true, Ordering::SeqCst);
        self.make_gates();
        self
    }

    /// As far as that is possible now.
    fn make_gates(&self) {
        while self.queues.make_gates().is_some_and(|at| at <= now()) {}
    }

    fn is_closed(&self) -> bool {
        let own = || !self.bench.closed.lock().unwrap().is_empty();
        self.arbiter.page.as_ref().map_or_else(own, |page| !page.is_open())
    }

    fn launched(&self) -> usize {
        self.bench.launched.lock().unwrap().len()
    }

    fn recorded(&self) -> u64 {
        self.bench.recorded.load(Ordering::SeqCst)
    }

    fn asked(&self) -> u64 {
        self.bench.asked.load(Ordering::SeqCst)
    }

    /// Everything that the device was given is done.
    fn complete_all(&self) {
        self.bench.complete.store(u64::MAX, Ordering::SeqCst);
    }
}

/// Until this is so, while the clock stands still.
#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Long enough for a worker to launch what it should not.
const A_WHILE: Duration = Duration::from_millis(30);

#[test]
fn a_claim_that_is_alone_reports_nothing() {
    let process = Process::new(AdmissionState::Alone);
    assert!(!process.queues.is_engaged());
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    assert_eq!((process.arbiter.reports(), process.recorded()), ((0, 0), 0));
}

#[test]
fn a_process_on_the_first_level_with_nothing_to_wait_for_is_urgent() {
    let process = Process::new(AdmissionState::Alone);
    let is_urgent = || process.queues.is_urgent();
    assert!(!is_urgent(), "no other process is there");
    process.set_state(AdmissionState::Beside);
    assert!(is_urgent());
    process.queues.suspend(process.queue, true);
    assert!(!is_urgent(), "a queue is suspended");
    process.queues.submit(process.queue, Vec::new(), WORK, 0).expect("it is deferred");
    process.queues.suspend_all(true);
    process.queues.suspend(process.queue, false);
    assert!(!is_urgent(), "all are");
    process.queues.suspend_all(false);
    process.queues.wait_all_launched();
    assert!(is_urgent());
    for state in [BELOW, PREEMPTED] {
        process.set_state(state);
        assert!(!is_urgent(), "others may be more urgent");
    }
}

#[test]
fn a_queue_is_behind_a_more_urgent_claim_of_its_process_that_has_work_or_had_some_just_now() {
    let process = Process::new(AdmissionState::Beside);
    let usual = process.queues.claim(ClaimKey::new(1, -1));
    process.queues.register(usual, Some(Arc::new(limits::Behind(Arc::clone(&process.arbiter)))));
    let less_urgent = process.queues.create(1, Some(usual), status());
    let elsewhere = process.queues.claim(ClaimKey::new(2, -1));
    process.queues.register(elsewhere, Some(Arc::new(limits::Behind(Arc::clone(&process.arbiter)))));
    let elsewhere = process.queues.create(2, Some(elsewhere), status());
    let within = Nanos::from_millis(100);
    let is_behind = |queue| process.queues.is_behind_own(queue, within);
    assert!(!is_behind(less_urgent), "the other has had no work");
    assert!(process.launch());
    assert!(is_behind(less_urgent) && !is_behind(process.queue) && !is_behind(elsewhere));
    process.complete_all();
    process.run_due();
    assert!(is_behind(less_urgent), "it had some just now");
    process.pass(Duration::from_millis(101));
    assert!(!is_behind(less_urgent));
}

/// Its own data is destroyed next.
#[test]
fn the_runtime_is_not_called_after_the_process_has_ended() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.launch());
    process.queues.close(Instant::now());
    process.queues.pause_markers(false);
    process.clock.advance(Nanos::from_millis(1));
    process.run_due();
    process.queues.check_all_if_recorded();
    assert_eq!(process.asked(), 0);
}

#[test]
fn a_process_that_ends_waits_until_the_watcher_has_left_the_runtime_but_not_for_long() {
    let is_waited_for = |limit: Duration| {
        let process = Process::new(AdmissionState::Beside);
        assert!(process.launch());
        process.clock.advance(Nanos::from_millis(1));
        process.bench.is_slow.store(true, Ordering::SeqCst);
        let (clock, queues) = (process.clock.clone(), Arc::clone(&process.queues));
        let watcher = thread::spawn(move || {
            clock.enter();
            queues.run_due(now());
        });
        wait_for("it asks", || process.bench.was_busy.load(Ordering::SeqCst));
        process.queues.close(Instant::now() + limit);
        let has_left = !process.bench.is_busy.load(Ordering::SeqCst);
        watcher.join().unwrap();
        has_left
    };
    assert!(is_waited_for(Duration::from_mins(1)) && !is_waited_for(Duration::ZERO));
}

/// Its capture ends on another thread, which waits for the watcher as the end of the process does.
#[test]
fn a_capture_that_ends_with_its_process_brings_no_markers_back() {
    for _ in 0..100 {
        let process = Process::new(AdmissionState::Beside);
        let watcher_is_at_it = process.queues.pause();
        let start = |act: fn(&XQueues<Arc<Bench>>)| {
            let queues = Arc::clone(&process.queues);
            thread::spawn(move || act(&queues))
        };
        let capturing = start(|queues| queues.pause_markers(false));
        // Now it waits.
        thread::sleep(Duration::from_millis(2));
        let ending = start(|queues| queues.close(Instant::now() + Duration::from_mins(1)));
        wait_for("it ends", || process.queues.is_closed());
        drop(watcher_is_at_it);
        capturing.join().unwrap();
        ending.join().unwrap();
        assert!(*process.queues.pause(), "the runtime's own data is gone");
    }
}

#[test]
fn work_is_reported_once_and_its_end_after_the_linger() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.queues.is_engaged());
    for _ in 0..10 {
        assert!(process.launch(), "no other is more urgent");
    }
    assert_eq!(process.arbiter.reports(), (1, 0));
    process.tend_until("it is asked for when it is quiet", |process| process.asked() > 0);
    assert_eq!(process.recorded(), 0, "nothing is put behind what the program may have put there");
    process.pass(LINGER.into());
    process.run_due();
    assert_eq!(process.arbiter.reports(), (1, 0), "it is not done");
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    assert!(process.launch());
    assert_eq!(process.arbiter.reports(), (2, 1));
}
