//! Launches below more urgent processes that have no work.

use super::*;

const LONG: Load = Load::Work(DurationClass(3));

/// A process whose gate the arbiter closes, and whose commands are known to take a microsecond.
fn known() -> Process {
    let process = shared_gates::process();
    process.learn(WORK, Nanos::from_micros(1));
    process
}

impl Process {
    /// Launches commands until it is known how long they take.
    fn learn(&self, load: Load, took: Nanos) {
        self.bench.took_ns.store(took.0, Ordering::SeqCst);
        for _ in 0..20 {
            assert!(self.launch_under_the_lock(load));
            self.clock.advance(took.max(Nanos::from_micros(100)));
            self.bench.complete.store(self.recorded(), Ordering::SeqCst);
            self.run_due();
        }
    }

    fn launch_at_once(&self, load: Load) -> bool {
        let status = self.queues.lock_only().status_of(self.queue).expect("it is there");
        match self.queues.admit_at_once(status, &load.into()) {
            Some(AdmissionAtOnce::Followed(begun)) => self.queues.finish_at_once(begun, true),
            Some(AdmissionAtOnce::Free) => panic!("others are there"),
            None => return false,
        }
        true
    }

    fn launch_under_the_lock(&self, load: Load) -> bool {
        let Admission::Now(mut begun) = self.queues.admit(self.queue, &[], load) else { return false };
        self.queues.prepare(&mut begun);
        self.queues.finish(begun, true);
        true
    }

    fn gated(&self) -> u64 {
        self.bench.gated.load(Ordering::SeqCst)
    }
}

#[test]
fn most_launches_take_no_lock_and_gates_are_where_they_would_be() {
    const LAUNCHES: u64 = 200;
    let course = |at_once: bool| {
        let process = known();
        let (gates, markers) = (process.gated(), process.recorded());
        let taken = (0..LAUNCHES)
            .filter(|_| at_once && process.launch_at_once(WORK) || !process.launch_under_the_lock(WORK));
        let taken = taken.count() as u64;
        process.run_due();
        assert_eq!(process.queues.usage(process.claim).launched, LAUNCHES + 20);
        (taken, process.gated() - gates, process.recorded() - markers)
    };
    let (none, gates, markers) = course(false);
    let (taken, others, fewer) = course(true);
    assert_eq!(none, 0);
    assert!(taken > LAUNCHES * 8 / 10, "{taken} took no lock");
    assert!(gates.abs_diff(others) <= 1, "{others} gates, and {gates} under the lock");
    assert!(markers.abs_diff(fewer) <= 1, "{fewer} markers, and {markers} under the lock");
}

#[test]
fn no_launch_goes_without_the_lock_while_it_is_preempted() {
    let process = known();
    assert!(process.launch_under_the_lock(WORK) && process.launch_at_once(WORK));
    process.arbiter.decide(PREEMPTED);
    assert!(!process.launch_at_once(WORK), "the page says so");
    process.run_due();
    process.arbiter.decide(BELOW);
    assert!(!process.launch_at_once(WORK), "it was closed meanwhile");
    process.run_due();
    assert!(process.launch_under_the_lock(WORK) && process.launch_at_once(WORK));
    process.arbiter.decide(AdmissionState::Beside);
    assert!(!process.launch_at_once(WORK), "what nothing limits is opened again");
    process.run_due();
    assert!(process.launch_under_the_lock(WORK) && process.launch_at_once(WORK));
    process.arbiter.decide(BELOW);
    assert!(!process.launch_at_once(WORK), "and what is limited, too");
}

#[test]
fn a_command_of_unknown_length_takes_the_lock_and_so_does_a_long_one() {
    let process = known();
    assert!(process.launch_under_the_lock(WORK) && process.launch_at_once(WORK));
    assert!(!process.launch_at_once(LONG), "nothing is known of it");
    let process = shared_gates::process();
    process.learn(LONG, Nanos::from_micros(300));
    process.learn(WORK, Nanos::from_micros(1));
    assert!(process.launch_under_the_lock(WORK) && process.launch_at_once(WORK));
    assert!(!process.launch_at_once(LONG), "the next gate is due before it ends");
}

/// It is the launches that close such a gate.
#[test]
fn launches_behind_a_gate_of_the_process_take_the_lock() {
    let process = Process::new(BELOW).has_gates();
    process.learn(WORK, Nanos::from_micros(1));
    assert!(process.launch_under_the_lock(WORK) && !process.launch_at_once(WORK));
}

#[test]
fn without_a_gate_each_launch_takes_the_lock() {
    let process = shared_gates::without_gate();
    process.learn(WORK, Nanos::from_micros(1));
    assert!(process.launch_under_the_lock(WORK) && !process.launch_at_once(WORK));
}

/// The arbiter then stops nothing on the device.
#[test]
fn launches_take_the_lock_as_soon_as_the_gate_is_gone() {
    let ends: [fn(&Process); 3] = [
        |process| process.queues.use_gates(false),
        |process| process.queues.use_queue_gates(process.queue, false),
        |process| process.queues.retire_gates(RuntimeId(0)),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let process = known();
        assert!(process.launch_under_the_lock(WORK) && process.launch_at_once(WORK), "{number}");
        end(&process);
        assert!(!process.launch_at_once(WORK), "{number}");
        assert!(process.launch_under_the_lock(WORK) && !process.launch_at_once(WORK), "{number}");
    }
}

/// Commands of a millisecond, of which as many are launched as may be.
#[test]
fn more_is_ahead_of_a_gate_that_the_arbiter_closes() {
    let ahead = |process: &Process| {
        process.learn(LONG, Nanos::from_millis(1));
        process.complete_all();
        process.run_due();
        process.bench.complete.store(process.recorded(), Ordering::SeqCst);
        (0..100).take_while(|_| process.launch_under_the_lock(LONG)).count()
    };
    assert_eq!(ahead(&Process::new(BELOW).has_gates()), 2);
    assert_eq!(ahead(&shared_gates::process()), 4);
}
