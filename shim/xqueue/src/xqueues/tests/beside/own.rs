//! What the program asks of single queues: limits of their own, no gates, and claims of their own.

use super::*;
use crate::ids::QueueHints;

const TWO: Limit = Limit::Commands { threshold: 2, batch: 1 };

#[test]
fn a_queue_with_a_limit_of_its_own_has_it_also_while_it_is_alone() {
    let process = Process::new(AdmissionState::Alone);
    assert!(!process.queues.is_engaged());
    process.queues.set_queue_limit(process.queue, Some(TWO));
    assert!(process.queues.is_engaged());
    process.launch_twenty_two_at_a_time();
    assert_eq!(process.arbiter.reports(), (0, 0), "there is no one to be told");
    assert_eq!(process.queues.usage(process.claim).device_time, Nanos::ZERO, "nor is it charged");
    process.complete_all();
    process.queues.set_queue_limit(process.queue, None);
    process.tend_until("nothing is looked at any more", |process| !process.queues.is_engaged());
}

#[test]
fn a_queue_without_the_limit_is_not_limited_beside_one_that_has_it() {
    let process = Process::new(AdmissionState::Alone);
    process.queues.set_queue_limit(process.queue, Some(TWO));
    let free = process.queues.create(1, Some(process.claim), status());
    let goes = |queue| !matches!(process.queues.admit(queue, &[], WORK), Admission::Wait);
    assert!((0..50).all(|_| goes(free)));
    assert!(process.queues.destroy(process.queue) && !process.queues.is_engaged());
}

#[test]
fn a_limit_of_the_controllers_goes_before() {
    let process = Process::new(BELOW);
    process.queues.set_queue_limit(process.queue, Some(Limit::Commands { threshold: 9, batch: 9 }));
    process.queues.set_limit(Limit::of_time(Nanos::from_micros(1), 1));
    assert!(process.launch() && !process.launch());
}

#[test]
fn a_queue_goes_to_another_claim_with_what_it_has() {
    let process = Process::new(BELOW);
    assert!(process.launch());
    let hints = QueueHints { priority: Some(7), ..QueueHints::NONE };
    let other = process.queues.claim(ClaimKey { hints, ..ClaimKey::new(1, 0) });
    assert_ne!(other, process.claim);
    let arbiter = TestArbiter::new(PREEMPTED);
    process.queues.register(other, Some(Arc::clone(&arbiter) as Arc<dyn Registration>));
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    process.tend_until("it is launched", |process| process.launched() == 1);
    process.queues.move_to_claim(process.queue, other);
    assert!(!process.launch(), "it is preempted now");
    process.queues.submit(process.queue, Vec::new(), WORK, 2).unwrap();
    assert_eq!((arbiter.reports(), process.launched()), ((1, 0), 1));
    process.complete_all();
    process.tend_until("the former claim is idle", |process| process.arbiter.reports() == (1, 1));
    *arbiter.state.lock().unwrap() = BELOW;
    process.tend_until("it goes on", |process| process.launched() == 2);
    process.complete_all();
    process.tend_until("the other one is idle", |_| arbiter.reports() == (1, 1));
}

/// Another claim of the process, which is known to be beside others.
fn with_claim_beside(process: &Process) -> (ClaimId, Arc<TestArbiter>) {
    let other = process.queues.claim(ClaimKey::new(1, 1));
    let arbiter = TestArbiter::new(AdmissionState::Beside);
    process.queues.register(other, Some(Arc::clone(&arbiter) as Arc<dyn Registration>));
    process.run_due();
    (other, arbiter)
}

/// Until it reports, the arbiter preempts no one for it and charges it nothing.
#[test]
fn what_a_queue_has_in_flight_is_work_of_the_claim_that_it_goes_to() {
    let process = Process::new(BELOW);
    assert!(process.launch());
    let (other, arbiter) = with_claim_beside(&process);
    process.queues.move_to_claim(process.queue, other);
    assert_eq!(arbiter.reports(), (1, 0));
    process.tend_until("the former claim is idle", |process| process.arbiter.reports() == (1, 1));
    assert_eq!(arbiter.reports(), (1, 0), "its work is not done");
    process.complete_all();
    process.tend_until("the other one is idle", |_| arbiter.reports() == (1, 1));
}

#[test]
fn a_queue_without_work_reports_none_where_it_goes() {
    let process = Process::new(BELOW);
    let (other, arbiter) = with_claim_beside(&process);
    process.queues.move_to_claim(process.queue, other);
    process.run_due();
    assert_eq!((process.arbiter.reports(), arbiter.reports()), ((0, 0), (0, 0)));
}

/// A preempted process, a claim that is preempted as well, and its arbiter.
fn with_another_claim() -> (Process, ClaimId, Arc<TestArbiter>) {
    let process = Process::new(PREEMPTED);
    let hints = QueueHints { priority: Some(7), ..QueueHints::NONE };
    let other = process.queues.claim(ClaimKey { hints, ..ClaimKey::new(1, 0) });
    let arbiter = TestArbiter::new(PREEMPTED);
    process.queues.register(other, Some(Arc::clone(&arbiter) as Arc<dyn Registration>));
    (process, other, arbiter)
}

/// A thread that waits in place, and then launches. Whether it had a queue to launch for.
fn waits_in_place(process: &Process) -> thread::JoinHandle<bool> {
    let (clock, queues, queue) = (process.clock.clone(), Arc::clone(&process.queues), process.queue);
    let waiting = thread::spawn(move || {
        clock.enter();
        queues.wait_for_admission(queue, &[], WORK).map(|begun| queues.finish(begun, true)).is_some()
    });
    wait_for("it waits", || process.arbiter.reports() == (1, 0));
    waiting
}

/// The claim that it waited for first would keep others waiting, and that for which it waits would never get a slice.
#[test]
fn a_caller_that_waits_while_its_queue_goes_to_another_claim_waits_for_that_one() {
    let (process, other, arbiter) = with_another_claim();
    let waiting = waits_in_place(&process);
    process.queues.move_to_claim(process.queue, other);
    assert_eq!(arbiter.reports(), (1, 0));
    process.tend_until("the former claim is idle", |process| process.arbiter.reports() == (1, 1));
    process.arbiter.decide(BELOW);
    process.run_due();
    assert_eq!((process.arbiter.reports(), arbiter.reports()), ((1, 1), (1, 0)));
    arbiter.decide(BELOW);
    process.run_due();
    assert!(waiting.join().unwrap());
    process.complete_all();
    process.tend_until("no one waits any more", |_| arbiter.reports() == (1, 1));
    assert!(process.queues.is_unconcerned());
}

#[test]
fn a_caller_that_waits_while_its_queue_goes_waits_for_no_claim() {
    let (process, ..) = with_another_claim();
    let waiting = waits_in_place(&process);
    assert!(process.queues.destroy(process.queue));
    assert!(!waiting.join().unwrap());
    process.tend_until("its claim is idle", |process| process.arbiter.reports() == (1, 1));
    assert!(process.queues.is_unconcerned());
}
