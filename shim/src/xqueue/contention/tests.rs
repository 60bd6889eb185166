//! A process beside others, on a device, an arbiter and a clock of the test's own: nothing happens but what the test says.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use xsched_abi::events::{Event, Observed};
use xsched_sched::{Limit, Nanos};

use crate::journal::tests::Recorder;
use crate::xqueue::clock::tests::Stopped;
use crate::xqueue::contention::Place;
use crate::xqueue::state::Queue;
use crate::xqueue::tests::face;
use crate::xqueue::{
    Admission, Begun, ClaimId, ClaimKey, Class, Demand, Device, End, Load, QueueId, Seat, Standing,
    Treatment, XQueues, now,
};

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
    /// Whether it has gates; how many were put before commands, and whether they are shut.
    has_gates: AtomicBool,
    gated: AtomicU64,
    is_shut: AtomicBool,
    /// What queues are made for from now on.
    orders_others: AtomicBool,
}

impl Device for Arc<Bench> {
    type Command = u32;
    type Stream = ();
    type Marker = u64;
    type Gate = ();

    fn stream_number(&self, (): ()) -> u64 {
        7
    }

    fn orders_others(&self, (): ()) -> bool {
        self.orders_others.load(Ordering::SeqCst)
    }

    fn launch(&self, command: u32) -> bool {
        self.launched.lock().unwrap().push(command);
        true
    }

    fn mark(&self, (): ()) -> Option<u64> {
        Some(self.recorded.fetch_add(1, Ordering::SeqCst))
    }

    fn is_done(&self, (): ()) -> Option<bool> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let is_mute = self.is_mute.load(Ordering::SeqCst);
        (!is_mute).then(|| self.complete.load(Ordering::SeqCst) == u64::MAX)
    }

    fn is_complete(&self, marker: u64) -> bool {
        marker < self.complete.load(Ordering::SeqCst)
    }

    fn between(&self, _: u64, _: u64) -> Option<Nanos> {
        None
    }

    fn retire(&self, _: u64) {
        self.retired.fetch_add(1, Ordering::SeqCst);
    }

    fn make_gate(&self, (): ()) -> Option<()> {
        self.has_gates.load(Ordering::SeqCst).then_some(())
    }

    fn put_gate(&self, (): (), (): ()) -> bool {
        self.gated.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn set_gate(&self, (): (), is_open: bool) {
        self.is_shut.store(!is_open, Ordering::SeqCst);
    }
}

/// An arbiter that lets the test decide, and notes what it is told.
#[derive(Debug)]
struct Stand {
    standing: Mutex<Standing>,
    is_ready: AtomicBool,
    told_ready: AtomicUsize,
    told_idle: AtomicUsize,
    lease: Nanos,
}

impl Stand {
    fn new(standing: Standing) -> Arc<Self> {
        Arc::new(Self {
            standing: Mutex::new(standing),
            is_ready: AtomicBool::new(false),
            told_ready: AtomicUsize::new(0),
            told_idle: AtomicUsize::new(0),
            lease: Nanos::from_secs(3600),
        })
    }

    fn told(&self) -> (usize, usize) {
        (self.told_ready.load(Ordering::SeqCst), self.told_idle.load(Ordering::SeqCst))
    }
}

const LINGER: Nanos = Nanos::from_micros(200);

impl Seat for Stand {
    fn standing(&self) -> Standing {
        *self.standing.lock().unwrap()
    }

    fn tell_ready(&self) {
        self.told_ready.fetch_add(1, Ordering::SeqCst);
        self.is_ready.store(true, Ordering::SeqCst);
    }

    fn tell_idle(&self) {
        self.told_idle.fetch_add(1, Ordering::SeqCst);
        self.is_ready.store(false, Ordering::SeqCst);
    }

    fn levels(&self) -> (u8, u64) {
        (3, 1 << 1)
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
}

struct Process {
    clock: Stopped,
    bench: Arc<Bench>,
    queues: Arc<XQueues<Arc<Bench>>>,
    stand: Arc<Stand>,
    claim: ClaimId,
    queue: QueueId,
}

const WORK: Load = Load::Work(Class(1));
const BELOW: Standing = Standing::Below { held: false };
const HELD: Standing = Standing::Below { held: true };

impl Process {
    fn new(standing: Standing) -> Self {
        let clock = Stopped::now();
        let bench = Arc::new(Bench::default());
        let queues = XQueues::new(Arc::clone(&bench));
        let stand = Stand::new(standing);
        let claim = queues.claim(ClaimKey { device: 1, stream_priority: 0 });
        queues.seat(claim, Some(Arc::clone(&stand) as Arc<dyn Seat>));
        let queue = queues.create((), Some(claim), face());
        Self { clock, bench, queues, stand, claim, queue }
    }

    fn stands(&self, standing: Standing) {
        *self.stand.standing.lock().unwrap() = standing;
        self.tend();
    }

    fn tend(&self) {
        self.queues.tend(now());
    }

    /// Tends every 50 us until this is so. The clock goes on while the workers sleep: they are threads of their own, and what
    /// they do takes no time, however long the machine keeps them from it.
    fn tend_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.stand);
            self.tend();
            thread::sleep(Duration::from_micros(50));
            if self.do_workers_sleep() {
                self.clock.advance(Nanos::from_micros(50));
            }
        }
    }

    fn do_workers_sleep(&self) -> bool {
        let state = self.queues.lock();
        let sleeps = |queue: &Queue<Arc<Bench>>| queue.worker_sleeps || !queue.has_worker;
        state.queues.values().all(|queue| queue.launching.is_none() && sleeps(queue))
    }

    /// Time passes, for the workers too.
    fn pass(&self, time: Duration) {
        thread::sleep(time);
        self.clock.advance(time.into());
    }

    fn admit(&self) -> Option<Begun<Arc<Bench>>> {
        match self.queues.admit(self.queue, &[], WORK) {
            Admission::Now(begun) => Some(begun),
            Admission::Wait => None,
            Admission::Free => panic!("others are there"),
        }
    }

    /// A launch by the application's own thread. False if it has to wait.
    fn launch(&self) -> bool {
        let launched = self.admit().map(|begun| {
            self.queues.prepare(&begun);
            self.queues.finish(begun, true);
        });
        launched.is_some()
    }

    fn has_gates(self) -> Self {
        self.bench.has_gates.store(true, Ordering::SeqCst);
        self.queues.make_gates();
        self
    }

    fn is_shut(&self) -> bool {
        self.bench.is_shut.load(Ordering::SeqCst)
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

/// Long enough for a worker to launch what it should not.
const A_WHILE: Duration = Duration::from_millis(30);

#[test]
fn who_is_alone_tells_nobody_anything() {
    let process = Process::new(Standing::Alone);
    assert!(!process.queues.is_engaged());
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    assert_eq!((process.stand.told(), process.recorded()), ((0, 0), 0));
}

#[test]
fn who_is_on_the_first_level_and_has_nothing_to_wait_for_is_urgent() {
    let process = Process::new(Standing::Alone);
    let is_urgent = || process.queues.is_urgent();
    assert!(!is_urgent(), "nobody else is there");
    process.stands(Standing::Beside);
    assert!(is_urgent());
    process.queues.suspend(process.queue, true);
    assert!(!is_urgent(), "a queue is suspended");
    process.queues.submit(process.queue, Vec::new(), WORK, 0).expect("it is held back");
    process.queues.suspend_all(true);
    process.queues.suspend(process.queue, false);
    assert!(!is_urgent(), "all are");
    process.queues.suspend_all(false);
    process.queues.wait_all_launched();
    assert!(is_urgent());
    for standing in [BELOW, HELD] {
        process.stands(standing);
        assert!(!is_urgent(), "somebody may be more urgent");
    }
}

#[test]
fn work_is_told_once_and_its_end_after_the_linger() {
    let process = Process::new(Standing::Beside);
    assert!(process.queues.is_engaged());
    for _ in 0..10 {
        assert!(process.launch(), "nobody is more urgent");
    }
    assert_eq!(process.stand.told(), (1, 0));
    process.tend_until("it is asked for when it is quiet", |process| process.asked() > 0);
    assert_eq!(process.recorded(), 0, "nothing is put behind what the program may have put there");
    process.pass(LINGER.into());
    process.tend();
    assert_eq!(process.stand.told(), (1, 0), "it is not done");
    process.complete_all();
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
    assert!(process.launch());
    assert_eq!(process.stand.told(), (2, 1));
}

#[test]
fn a_stream_that_orders_others_is_marked_at_once_or_not_at_all() {
    let process = Process::new(Standing::Beside);
    process.bench.orders_others.store(true, Ordering::SeqCst);
    let null = process.queues.create((), Some(process.claim), face());
    let recorded = || process.recorded();
    let Admission::Now(begun) = process.queues.admit(null, &[], WORK) else {
        panic!("nobody is more urgent")
    };
    process.queues.prepare(&begun);
    process.queues.finish(begun, true);
    assert_eq!(recorded(), 1, "before the program gives anything to another stream");
    (0..10).for_each(|_| {
        process.clock.advance(Nanos::from_millis(5));
        process.tend();
    });
    assert_eq!(recorded(), 1);
}

#[test]
fn who_has_waited_for_a_stream_needs_no_marker() {
    let process = Process::new(Standing::Beside);
    assert!(process.launch());
    let waited = process.queues.waits_for(&[process.queue]);
    process.pass(Duration::from_millis(1));
    process.tend();
    process.queues.has_waited(&waited, true);
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
    assert_eq!(process.recorded(), 0);
}

#[test]
fn the_watcher_is_woken_to_tell_of_the_end_in_time() {
    let process = Process::new(Standing::Beside);
    let rung = Arc::new(AtomicUsize::new(0));
    let bell = Arc::clone(&rung);
    process.queues.set_alarm(Box::new(move || {
        bell.fetch_add(1, Ordering::SeqCst);
    }));
    assert!(process.launch());
    process.queues.tend(now() + Nanos::from_secs(1));
    let waited = process.queues.waits_for(&[process.queue]);
    process.queues.tend(now() + Nanos::from_secs(1));
    let before = rung.load(Ordering::SeqCst);
    process.queues.has_waited(&waited, true);
    assert_eq!(rung.load(Ordering::SeqCst), before + 1, "it would sleep for long");
    process.queues.tend(now() + Nanos::from_secs(1));
    process.queues.has_waited(&[], true);
    assert_eq!(rung.load(Ordering::SeqCst), before + 1, "it comes in time");
}

#[test]
fn a_wait_that_failed_proves_nothing() {
    let process = Process::new(Standing::Beside);
    assert!(process.launch());
    let waited = process.queues.waits_for(&[process.queue]);
    process.queues.has_waited(&waited, false);
    process.tend_until("it is asked for", |process| process.asked() > 0);
    assert_eq!(process.stand.told(), (1, 0));
}

#[test]
fn a_stream_that_is_always_busy_gets_a_marker_now_and_then() {
    let process = Process::new(Standing::Beside);
    for launched in 0..300 {
        assert!(process.launch());
        process.clock.advance(Nanos::from_micros(10));
        process.tend();
        assert_eq!(
            (process.asked(), process.recorded()),
            (0, u64::from(launched >= 200)),
            "after {launched}"
        );
    }
}

#[test]
fn a_stream_that_cannot_tell_is_not_followed() {
    let process = Process::new(Standing::Beside);
    process.bench.is_mute.store(true, Ordering::SeqCst);
    assert!(process.launch());
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
}

#[test]
fn a_call_that_cannot_ask_leaves_that_to_the_watcher() {
    let process = Process::new(BELOW);
    let copy = || match process.queues.admit(process.queue, &[], Demand { end: End::ByReturn, ..WORK.into() })
    {
        Admission::Now(begun) => process.queues.finish(begun, true),
        other => panic!("there is room: {other:?}"),
    };
    process.bench.is_mute.store(true, Ordering::SeqCst);
    copy();
    assert_eq!(process.recorded(), 0, "the call may have waited");
    process.bench.is_mute.store(false, Ordering::SeqCst);
    process.complete_all();
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
    process.bench.orders_others.store(true, Ordering::SeqCst);
    let null = process.queues.create((), Some(process.claim), face());
    process.bench.is_mute.store(true, Ordering::SeqCst);
    let demand = Demand { end: End::ByReturn, ..WORK.into() };
    let Admission::Now(begun) = process.queues.admit(null, &[], demand) else { panic!("there is room") };
    process.queues.finish(begun, true);
    assert_eq!(process.recorded(), 1, "nobody could ask that one later");
}

#[test]
fn a_call_that_waits_for_its_work_leaves_no_marker_behind() {
    let copies = Demand { end: End::ByReturn, ..WORK.into() };
    let process = Process::new(BELOW);
    let copy = || {
        let Admission::Now(begun) = process.queues.admit(process.queue, &[], copies) else {
            panic!("there is room")
        };
        process.queues.finish(begun, true);
    };
    copy();
    assert_eq!(process.recorded(), 1, "it has not waited");
    process.complete_all();
    (0..10).for_each(|_| copy());
    assert_eq!((process.recorded(), process.bench.retired.load(Ordering::SeqCst)), (1, 1));
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
}

#[test]
fn a_marker_is_waited_for_by_who_knows_what_is_before_it_to_be_done() {
    let process = Process::new(BELOW);
    let launch = |event| {
        let timed = Demand { end: End::ByEvent(event), ..WORK.into() };
        let Admission::Now(begun) = process.queues.admit(process.queue, &[], timed) else {
            panic!("there is room")
        };
        process.queues.finish(begun, true);
    };
    let in_doubt = || process.queues.lock().is_marker_in_doubt(Place::Queue(process.queue));
    process.queues.has_seen_event(7);
    launch(7);
    assert!(!in_doubt(), "the event was an earlier launch's");
    process.queues.has_seen_event(8);
    assert!(!in_doubt(), "another event");
    process.queues.has_seen_event(7);
    assert!(in_doubt());
    process.complete_all();
    process.queues.see_to_markers(Some(process.queue), None, ());
    launch(9);
    assert!(!in_doubt(), "of a launch before");
    process.queues.has_seen_event(9);
    assert!(in_doubt());
    process.tend_until("there is room", Process::launch);
    assert!(!in_doubt(), "no event is the last one's own");
}

#[test]
fn what_was_launched_while_alone_is_followed_when_others_come() {
    let process = Process::new(Standing::Alone);
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    process.tend();
    assert_eq!(process.asked(), 0);
    process.stands(BELOW);
    assert_eq!(process.stand.told(), (1, 0), "there may be work");
    assert!(process.launch() && !process.launch(), "one more is as much as may be ahead");
    process.complete_all();
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
}

#[test]
fn below_others_little_is_launched_ahead() {
    let process = Process::new(BELOW);
    assert!(process.launch() && process.launch() && !process.launch());
    assert!(matches!(process.queues.admit(process.queue, &[], Load::Signal), Admission::Free));
    process.bench.complete.store(1, Ordering::SeqCst);
    process.tend_until("there is room", Process::launch);
    assert!(!process.launch());
}

#[test]
fn what_waits_for_room_goes_in_order_as_room_comes() {
    let process = Process::new(BELOW);
    process.queues.set_limit(Limit::Commands { threshold: 2, batch: 1 });
    for command in 0..20 {
        process.queues.submit(process.queue, Vec::new(), WORK, command).unwrap();
    }
    for done in 0..18 {
        let expected = done as usize + 2;
        process.tend_until("two are on the device", |process| process.launched() == expected);
        process.bench.complete.store(done + 1, Ordering::SeqCst);
    }
    process.tend_until("all are launched", |process| process.launched() == 20);
    assert!((0..20).eq(process.bench.launched.lock().unwrap().iter().copied()));
    let usage = process.queues.usage(process.claim);
    assert_eq!((usage.launched, usage.held_back), (20, 20));
    assert!(usage.device_time > Nanos::ZERO);
}

#[test]
fn who_is_held_launches_nothing_and_still_has_work() {
    let process = Process::new(HELD);
    assert!(!process.launch());
    process.queues.submit(process.queue, Vec::new(), WORK, 7).unwrap();
    assert_eq!(process.stand.told(), (1, 0), "those below it have to wait");
    process.tend();
    process.pass(A_WHILE);
    process.tend();
    assert_eq!((process.launched(), process.stand.told()), (0, (1, 0)));
    process.stands(BELOW);
    process.tend_until("it goes on", |process| process.launched() == 1);
    assert!(process.queues.usage(process.claim).suspended >= Nanos::from(A_WHILE));
}

#[test]
fn who_waits_in_place_is_held_as_well() {
    let process = Process::new(HELD);
    let waiter = {
        let (clock, queues, queue) = (process.clock.clone(), Arc::clone(&process.queues), process.queue);
        thread::spawn(move || {
            clock.enter();
            queues.wait_turn(queue, &[], WORK).map(|begun| queues.finish(begun, true))
        })
    };
    process.tend_until("it wants its turn", |process| process.stand.told() == (1, 0));
    process.pass(A_WHILE);
    process.tend();
    assert!(!waiter.is_finished());
    process.stands(Standing::Beside);
    assert!(waiter.join().unwrap().is_some());
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

#[test]
fn the_limit_is_lifted_for_who_waits_while_nothing_completes() {
    let process = Process::new(BELOW);
    assert!(process.launch() && process.launch() && !process.launch());
    for command in 0..100 {
        process.queues.submit(process.queue, Vec::new(), WORK, command).unwrap();
    }
    process.clock.advance(Nanos::from_millis(150));
    wait_for("one more goes every 10 ms", || process.launched() == 14);
    let last = process.queues.last(process.queue).unwrap();
    let waiter = {
        let (clock, queues) = (process.clock.clone(), Arc::clone(&process.queues));
        thread::spawn(move || {
            clock.enter();
            queues.wait_launched(&[last]);
        })
    };
    wait_for("the rest goes", || waiter.is_finished());
    assert!((0..100).eq(process.bench.launched.lock().unwrap().iter().copied()));
    process.queues.submit(process.queue, Vec::new(), WORK, 100).unwrap();
    process.pass(A_WHILE);
    assert_eq!(process.launched(), 100, "nobody waits any more");
    process.complete_all();
    process.tend_until("all markers are seen", |process| process.launched() == 101);
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
}

#[test]
fn who_has_short_turns_is_seen_to_be_stuck_as_well() {
    let process = Process::new(BELOW);
    // Who begins a turn is known by what was before.
    process.tend();
    assert!(process.launch() && process.launch() && !process.launch());
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    for turn in 0..3 {
        assert_eq!(process.launched(), 0, "in turn {turn}");
        process.clock.advance(Nanos::from_millis(4));
        process.stands(HELD);
        process.clock.advance(Nanos::from_millis(50));
        process.stands(BELOW);
    }
    wait_for("it was stuck for 12 ms", || process.launched() == 1);
}

#[test]
fn who_waits_for_what_is_held_back_does_not_want_the_device_yet() {
    let process = Process::new(HELD);
    let position = process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    let urgent = process.queues.claim(ClaimKey { device: 1, stream_priority: 1 });
    let stand = Stand::new(Standing::Beside);
    process.queues.seat(urgent, Some(Arc::clone(&stand) as Arc<dyn Seat>));
    let waiter = {
        let (clock, queues) = (process.clock.clone(), Arc::clone(&process.queues));
        thread::spawn(move || {
            clock.enter();
            queues.wait_loose_turn(Some(urgent), (), &[position], Load::Signal).is_none()
        })
    };
    wait_for("it waits", || process.queues.lock().callers > 0);
    process.tend();
    assert_eq!(stand.told(), (0, 0), "what it waits for would be held back for it");
    process.stands(BELOW);
    wait_for("it goes on", || waiter.is_finished());
    assert!(waiter.join().unwrap());
}

/// Beside a claim that is more urgent: held while that is ready.
#[derive(Debug)]
struct Behind(Arc<Stand>);

impl Seat for Behind {
    fn standing(&self) -> Standing {
        Standing::Below { held: self.0.is_ready() }
    }

    fn tell_ready(&self) {}

    fn tell_idle(&self) {}

    fn levels(&self) -> (u8, u64) {
        (4, 1 << 4)
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn lease(&self) -> Nanos {
        self.0.lease()
    }

    fn linger(&self) -> Nanos {
        self.0.linger()
    }
}

#[test]
fn who_comes_after_what_is_held_back_for_him_does_not_want_the_device_yet() {
    let process = Process::new(BELOW);
    let (urgent, usual) = (process.queue, ClaimKey { device: 1, stream_priority: -1 });
    let usual = process.queues.claim(usual);
    process.queues.seat(usual, Some(Arc::new(Behind(Arc::clone(&process.stand)))));
    let other = process.queues.create((), Some(usual), face());
    // It is at work, so the other is held back, and the next of its own with it.
    assert!(process.launch() && process.stand.is_ready());
    process.queues.submit(other, Vec::new(), WORK, 1).unwrap();
    let record = process.queues.submit(other, Vec::new(), Load::Signal, 2).unwrap();
    process.queues.submit(urgent, vec![record], Load::Signal, 3).unwrap();
    process.queues.submit(urgent, Vec::new(), WORK, 4).unwrap();
    process.pass(A_WHILE);
    process.tend();
    assert_eq!(process.launched(), 0);
    process.complete_all();
    process.tend_until("both go on in their order", |process| process.launched() == 4);
    assert_eq!(*process.bench.launched.lock().unwrap(), [1, 2, 3, 4]);
    let (told_ready, _) = process.stand.told();
    assert_eq!(told_ready, 2, "again when it had a use for the device again");
}

#[test]
fn who_comes_after_what_is_held_back_tells_of_work_once_that_is_launched() {
    let process = Process::new(HELD);
    let usual = process.queues.claim(ClaimKey { device: 1, stream_priority: -1 });
    let stand = Stand::new(HELD);
    process.queues.seat(usual, Some(Arc::clone(&stand) as Arc<dyn Seat>));
    let other = process.queues.create((), Some(usual), face());
    let first = process.queues.submit(other, Vec::new(), WORK, 1).unwrap();
    process.queues.submit(process.queue, vec![first], WORK, 2).unwrap();
    process.queues.submit(process.queue, Vec::new(), WORK, 3).unwrap();
    assert_eq!((stand.told(), process.stand.told()), ((1, 0), (0, 0)));
    *stand.standing.lock().unwrap() = BELOW;
    process.tend_until("it has work now", |process| process.stand.told() == (1, 0));
    assert_eq!(process.launched(), 1, "and is held");
}

#[test]
fn without_a_seat_or_at_the_end_everything_goes() {
    let process = Process::new(HELD);
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    process.queues.seat(process.claim, None);
    process.tend_until("nobody holds it", |process| process.launched() == 1);
    let process = Process::new(HELD);
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    process.queues.close(Instant::now() + Duration::from_mins(1));
    assert_eq!(process.launched(), 1);
    assert!(!process.queues.is_engaged());
}

#[test]
fn a_refused_launch_leaves_nothing_behind() {
    let process = Process::new(BELOW);
    for _ in 0..10 {
        let begun = process.admit().expect("there is room: none of them is there");
        process.queues.finish(begun, false);
    }
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
}

#[test]
fn while_markers_are_paused_nothing_is_limited_or_looked_at() {
    let process = Process::new(BELOW);
    assert!(process.launch() && process.launch() && !process.launch());
    let recorded = process.recorded();
    process.queues.pause_markers(true);
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    process.complete_all();
    process.tend();
    assert_eq!(process.recorded(), recorded);
    process.queues.pause_markers(false);
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
}

#[test]
fn a_destroyed_queue_gives_its_markers_back() {
    let process = Process::new(BELOW);
    assert!(process.launch() && process.launch());
    process.queues.destroy(process.queue);
    assert_eq!(process.bench.retired.load(Ordering::SeqCst), process.recorded());
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
}

#[test]
fn a_claim_that_was_expired_is_renewed_by_progress_only() {
    let process = Process::new(Standing::Beside);
    assert!(process.launch());
    let expire = || {
        process.stand.is_ready.store(false, Ordering::SeqCst);
        process.tend();
        process.stand.told()
    };
    assert_eq!(expire(), (2, 0), "it has launched something since it told");
    assert_eq!(expire(), (2, 0), "and nothing since");
    assert!(process.launch());
    assert_eq!(expire(), (3, 0));
}

#[test]
fn per_thread_streams_are_held_and_limited_too() {
    let process = Process::new(BELOW);
    let go = |load| process.queues.wait_loose_turn(Some(process.claim), (), &[], load);
    for _ in 0..2 {
        process.queues.finish(go(WORK).unwrap(), true);
    }
    assert!(go(Load::Signal).is_none(), "it goes, and nobody needs to know");
    process.complete_all();
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
    assert_eq!(process.recorded(), 2, "only its own thread could record them");
}

#[test]
fn gates_are_shut_while_somebody_more_urgent_has_work() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch() && process.launch());
    assert_eq!((process.bench.gated.load(Ordering::SeqCst), process.is_shut()), (2, false));
    process.stands(HELD);
    assert!(process.is_shut());
    process.stands(BELOW);
    assert!(!process.is_shut());
}

#[test]
fn whoever_launches_shuts_the_gate_before_the_watcher_comes() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    *process.stand.standing.lock().unwrap() = HELD;
    assert!(!process.launch() && process.is_shut());
}

/// It is not asked for before: what is in front of it says that it waits.
#[test]
fn whoever_is_held_back_shuts_it_as_well() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    *process.stand.standing.lock().unwrap() = HELD;
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    assert!(process.is_shut());
}

#[test]
fn gates_open_for_good_when_the_process_ends_or_the_device_is_reset() {
    let process = Process::new(HELD).has_gates();
    process.tend();
    assert!(process.is_shut());
    process.queues.close(Instant::now());
    assert!(!process.is_shut());
    let process = Process::new(HELD).has_gates();
    process.tend();
    process.queues.forget_gates();
    process.tend();
    assert!(!process.is_shut());
    process.stands(BELOW);
    assert!(process.launch());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 0);
}

#[test]
fn streams_of_several_priorities_have_no_gates() {
    let process = Process::new(BELOW);
    process.queues.claim(ClaimKey { device: 1, stream_priority: 1 });
    let process = process.has_gates();
    assert!(process.launch());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 0);
}

#[test]
fn no_gate_is_made_while_a_stream_captures() {
    let process = Process::new(BELOW);
    process.queues.pause_markers(true);
    let process = process.has_gates();
    process.queues.pause_markers(false);
    assert!(process.launch());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 0);
    let process = process.has_gates();
    assert!(process.launch());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 1);
}

#[test]
fn who_is_not_below_anybody_puts_no_gates() {
    let process = Process::new(BELOW).has_gates();
    process.stands(Standing::Beside);
    assert!(process.launch());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 0);
}

fn launch_treated(process: &Process, treatment: Treatment) -> bool {
    match process.queues.admit(process.queue, &[], Demand { treatment, ..WORK.into() }) {
        Admission::Now(begun) => {
            process.queues.prepare(&begun);
            process.queues.finish(begun, true);
            true
        }
        Admission::Free => true,
        Admission::Wait => false,
    }
}

#[test]
fn gates_stay_open_while_something_is_on_the_device_that_must_not_be_stopped() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    process.stands(HELD);
    assert!(process.is_shut() && !process.launch());
    assert!(launch_treated(&process, Treatment::NeverSuspend), "it goes all the same");
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 1, "with no gate before it");
    assert!(!process.is_shut(), "and what it may wait for goes on");
    process.tend();
    assert!(!process.is_shut());
    process.complete_all();
    process.tend_until("the gate is shut when it has completed", Process::is_shut);
}

#[test]
fn what_may_be_kept_from_being_launched_only_is_not_stopped_afterwards() {
    let process = Process::new(BELOW).has_gates();
    assert!(launch_treated(&process, Treatment::Pinned));
    process.stands(HELD);
    assert!(!process.is_shut());
    assert!(!launch_treated(&process, Treatment::Pinned), "but it is held back");
}

#[test]
fn what_passes_through_is_no_work_of_the_process() {
    let process = Process::new(HELD).has_gates();
    assert!(launch_treated(&process, Treatment::PassThrough));
    process.tend();
    assert_eq!((process.stand.told(), process.is_shut()), ((0, 0), true));
    assert_eq!(process.queues.usage(process.claim).launched, 0);
    assert!(launch_treated(&process, Treatment::NeverSuspend));
    assert_eq!(process.stand.told(), (1, 0), "what is never suspended is");
    assert_eq!(process.queues.usage(process.claim).launched, 1);
}

#[test]
fn what_passes_through_does_not_wait_behind_a_gate() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    process.stands(HELD);
    assert_eq!((process.bench.gated.load(Ordering::SeqCst), process.is_shut()), (1, true));
    let passes = Demand { treatment: Treatment::PassThrough, ..WORK.into() };
    assert!(matches!(process.queues.admit(process.queue, &[], passes), Admission::Free));
    assert!(!process.is_shut(), "it comes after what the gate is before");
    process.complete_all();
    process.tend_until("the gate is shut when that has completed", Process::is_shut);
}

/// Whatever puts no work of its own on the device, and must not wait behind a gate.
#[track_caller]
fn opens_the_gate(what: &str, goes: impl FnOnce(&Process)) {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    process.stands(HELD);
    assert!(process.is_shut());
    goes(&process);
    assert!(!process.is_shut(), "{what} comes after what the gate is before");
    process.tend();
    assert!(!process.is_shut(), "{what} is not there yet");
    process.complete_all();
    process.tend_until("the gate is shut when that has completed", Process::is_shut);
}

#[test]
fn a_signal_that_must_not_be_stopped_does_not_wait_behind_a_gate() {
    for treatment in [Treatment::PassThrough, Treatment::NeverSuspend] {
        let signal = Demand { treatment, ..Load::Signal.into() };
        opens_the_gate("a signal that is admitted", |process| {
            assert!(matches!(process.queues.admit(process.queue, &[], signal), Admission::Free));
        });
        opens_the_gate("one that has waited in place", |process| {
            assert!(process.queues.wait_turn(process.queue, &[], signal).is_none());
        });
        opens_the_gate("one that was held back", |process| {
            process.queues.suspend(process.queue, true);
            process.queues.submit(process.queue, Vec::new(), Load::Signal, 1).unwrap();
            let position = process.queues.submit(process.queue, Vec::new(), signal, 2).unwrap();
            process.queues.wait_launched(&[position]);
        });
        opens_the_gate("a launch on many streams", |process| process.queues.wait_turn_of_all(treatment));
        opens_the_gate("a wait", |process| process.queues.urge(&[]));
    }
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    process.stands(HELD);
    assert!(matches!(process.queues.admit(process.queue, &[], Load::Signal), Admission::Wait));
    assert!(process.is_shut(), "others do");
}

#[test]
fn what_is_launched_late_because_others_must_not_wait_is_not_stopped_either() {
    let process = Process::new(BELOW).has_gates();
    process.stands(HELD);
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    let forced = Demand { treatment: Treatment::NeverSuspend, ..WORK.into() };
    let last = process.queues.submit(process.queue, Vec::new(), forced, 2).unwrap();
    process.queues.wait_launched(&[last]);
    assert_eq!(*process.bench.launched.lock().unwrap(), [1, 2]);
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 0);
    process.tend();
    assert!(!process.is_shut());
}

/// The launches and completions among events: number and whether it had waited, or how far.
fn course(events: &[Event]) -> Vec<(&'static str, u64)> {
    let steps = events.iter().filter_map(|event| match *event {
        Event::Waits { position, .. } => Some(("waits", position)),
        Event::Launched { number, .. } => Some(("launched", number)),
        Event::Completed { through, .. } => Some(("completed", through)),
        Event::Stands { held, .. } => Some(("stands", held.into())),
        _ => None,
    });
    steps.collect()
}

#[test]
fn a_process_that_is_recorded_is_followed_also_when_it_is_alone() {
    let process = Process::new(Standing::Alone);
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.journal()));
    assert!(process.queues.is_engaged());
    let events = recorder.events();
    let opened: Vec<_> = events
        .iter()
        .filter_map(|event| match *event {
            Event::QueueOpened { stream, device, in_flight, .. } => Some((stream, device, in_flight)),
            _ => None,
        })
        .collect();
    assert_eq!(opened, [(2, 1, 0), (7, 1, 0)], "what has no queue, and the queue");
    assert!(process.launch() && process.launch());
    process.complete_all();
    process.tend_until("it is done", |process| process.bench.retired.load(Ordering::SeqCst) >= 1);
    let events = recorder.events();
    let steps = [("launched", 1), ("launched", 2), ("completed", 1), ("completed", 2)];
    assert_eq!(course(&events), steps);
    let all_measured = events
        .iter()
        .all(|event| !matches!(event, Event::Completed { observed: Observed::Wait | Observed::Lost, .. }));
    assert!(all_measured, "{events:?}");
    assert_eq!(process.stand.told(), (0, 0), "the arbiter has nothing to do with it");
    assert_eq!(process.queues.usage(process.claim).device_time, Nanos::ZERO, "nor has the scheduler");
    process.queues.record(None);
    assert!(!process.queues.is_engaged());
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    assert!(recorder.events().is_empty());
}

#[test]
fn what_is_held_back_is_recorded_with_its_reason_and_its_end() {
    let process = Process::new(BELOW);
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.journal()));
    process.tend();
    process.stands(HELD);
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    process.pass(A_WHILE);
    process.stands(BELOW);
    process.tend_until("it goes on", |process| process.launched() == 1);
    process.complete_all();
    process.tend_until("it is done", |process| process.queues.usage(process.claim).device_time > Nanos::ZERO);
    let records = recorder.records();
    let events: Vec<_> = records.iter().map(|record| Event::of(record).unwrap()).collect();
    // Who looks first after a change tells of it.
    let steps: Vec<_> = course(&events).into_iter().filter(|(what, _)| *what != "stands").collect();
    assert_eq!(steps, [("waits", 1), ("launched", 1), ("completed", 1)]);
    let held = |is: bool| {
        events.iter().filter(move |event| matches!(event, Event::Stands { held, .. } if *held == is))
    };
    assert_eq!(held(true).count(), 1);
    assert!(matches!(held(true).next(), Some(Event::Stands { level: 3, ready: 2, .. })));
    let launched = events.iter().zip(&records).find_map(|(event, record)| match *event {
        Event::Launched { waited_since_ns, position: 1, .. } => Some(record.time_ns - waited_since_ns),
        _ => None,
    });
    assert!(launched.is_some_and(|waited_ns| waited_ns >= A_WHILE.as_nanos() as u64), "{events:?}");
}

#[test]
fn who_waits_for_a_stream_sees_its_markers_first() {
    let process = Process::new(Standing::Beside);
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.journal()));
    for _ in 0..3 {
        assert!(process.launch());
    }
    process.complete_all();
    let waited = process.queues.waits_for(&[process.queue]);
    process.queues.has_waited(&waited, true);
    let completed: Vec<_> =
        course(&recorder.events()).into_iter().filter(|step| step.0 == "completed").collect();
    assert_eq!(completed, [("completed", 1), ("completed", 2), ("completed", 3)]);
}

#[test]
fn a_refused_launch_is_recorded_as_one() {
    let process = Process::new(BELOW);
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.journal()));
    let begun = process.admit().unwrap();
    process.queues.finish(begun, false);
    assert_eq!(course(&recorder.events()).last(), Some(&("launched", 0)));
}
