//! For how long a claim counts as ready while a command of it runs.

use super::limits::Behind;
use super::*;

const LEASE: Nanos = Nanos::from_millis(50);
const LONG: Nanos = Nanos::from_millis(200);

impl Process {
    fn with_lease() -> Self {
        let mut arbiter = TestArbiter::new(AdmissionState::Beside);
        Arc::get_mut(&mut arbiter).expect("no other has it yet").lease = LEASE;
        Self::at(arbiter)
    }

    /// Time passes; how often readiness was reported in the last of it, for as long as a lease lasts.
    fn renewals_in(&self, time: Nanos) -> usize {
        let mut before = 0;
        let (begun, step) = (now(), Nanos::from_millis(1));
        while now() < begun + time {
            if now() < begun + time - LEASE {
                before = self.arbiter.reports().0;
            }
            self.clock.advance(step);
            self.run_due();
        }
        self.arbiter.reports().0 - before
    }

    /// A command runs for that long, and completes. How often readiness was reported shortly before that.
    fn run(&self, time: Nanos) -> usize {
        assert!(self.launch());
        let renewals = self.renewals_in(time);
        self.complete_all();
        self.tend_until("it is idle", |process| process.arbiter.reports().1 > 0);
        self.bench.complete.store(0, Ordering::SeqCst);
        self.arbiter.idle_reports.store(0, Ordering::SeqCst);
        renewals
    }
}

#[test]
fn a_command_that_takes_as_long_as_before_keeps_its_lease() {
    let process = Process::with_lease();
    assert_eq!(process.run(LONG), 0, "it could be one that never ends");
    assert!(process.run(LONG) > 0, "others began beside it");
    assert!(process.launch());
    assert_eq!(process.renewals_in(LONG.times(2)), 0, "it takes much longer than ever");
}

#[test]
fn a_command_of_an_unknown_length_keeps_its_lease_as_long_as_others_did() {
    let process = Process::with_lease();
    process.run(LONG);
    assert!(process.launch_on(process.queue, Load::Work(DurationClass(2))));
    assert!(process.renewals_in(LONG) > 0);
}

#[test]
fn a_command_that_waits_for_something_outside_the_device_does_not_keep_its_lease() {
    let process = Process::with_lease();
    process.run(LONG);
    assert!(matches!(process.queues.admit(process.queue, &[], Load::Wait), Admission::Free));
    assert_eq!(process.run(LONG), 0);
    assert!(process.run(LONG) > 0, "the wait is over");
    assert!(matches!(process.queues.admit(process.queue, &[], Load::Wait), Admission::Free));
    let waited = process.queues.host_wait_begins(&[process.queue]);
    process.queues.host_wait_ends(&waited, true);
    assert!(process.run(LONG) > 0, "the program knows that the wait is over");
}

#[test]
fn a_command_that_may_wait_for_a_preempted_one_of_its_process_does_not_keep_its_lease() {
    let process = Process::with_lease();
    process.run(LONG);
    let usual = process.queues.claim(ClaimKey::new(1, -1));
    process.queues.register(usual, Some(Arc::new(Behind(Arc::clone(&process.arbiter)))));
    let other = process.queues.create(0, Some(usual), status());
    assert!(process.launch());
    process.queues.submit(other, Vec::new(), WORK, 0).expect("it is deferred");
    assert_eq!(process.renewals_in(LONG), 0);
}
