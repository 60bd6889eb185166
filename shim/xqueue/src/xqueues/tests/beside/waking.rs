//! When changes of ready masks must wake the watcher.

use super::*;

/// A process whose watcher has looked, and how often it was woken since.
fn with_bell(state: AdmissionState) -> (Process, Arc<AtomicUsize>) {
    let process = Process::new(state);
    let rung = Arc::new(AtomicUsize::new(0));
    let bell = Arc::clone(&rung);
    process.queues.set_alarm(Box::new(move || {
        bell.fetch_add(1, Ordering::SeqCst);
    }));
    process.run_due();
    (process, rung)
}

#[test]
fn a_process_without_work_beside_others_is_not_concerned() {
    for state in [AdmissionState::Beside, BELOW, PREEMPTED] {
        let (process, _) = with_bell(state);
        assert!(process.queues.ignores_masks() && process.queues.is_unconcerned(), "{state:?}");
    }
    let (process, _) = with_bell(AdmissionState::Alone);
    assert!(!process.queues.ignores_masks(), "another process may come");
    let unused = XQueues::new(Arc::new(Bench::default()), Setup::default());
    unused.run_due(now());
    assert!(!unused.ignores_masks() && !unused.is_contended());
}

#[test]
fn the_first_launch_wakes_the_watcher_however_soon_it_would_look() {
    let (process, rung) = with_bell(AdmissionState::Beside);
    assert!(process.launch());
    assert_eq!(rung.load(Ordering::SeqCst), 1);
    process.run_due();
    assert!(!process.queues.ignores_masks(), "it has work");
    assert!(process.launch());
    assert_eq!(rung.load(Ordering::SeqCst), 1, "it is awake");
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    process.run_due();
    assert!(process.queues.ignores_masks());
}

#[test]
fn the_first_deferred_command_wakes_the_watcher() {
    let (process, rung) = with_bell(PREEMPTED);
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Wait));
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    assert_eq!(rung.load(Ordering::SeqCst), 1);
    process.run_due();
    assert!(!process.queues.ignores_masks(), "it waits for the others");
}

/// A process that launched a deferred command, is idle, and is preempted since the watcher last looked.
fn preempted_unseen() -> Process {
    let (process, _) = with_bell(PREEMPTED);
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    process.set_state(BELOW);
    wait_for("the command is launched", || process.launched() == 1);
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    process.arbiter.decide(PREEMPTED);
    process
}

/// Its worker would sleep for up to 100 ms.
#[test]
fn a_command_deferred_by_an_unseen_preemption_is_launched_when_that_is_over() {
    let process = preempted_unseen();
    wait_for("its worker sleeps", || process.do_workers_sleep());
    process.queues.submit(process.queue, Vec::new(), WORK, 2).unwrap();
    assert!(process.do_workers_sleep() && process.launched() == 1);
    process.arbiter.decide(BELOW);
    process.run_due();
    assert!(!process.do_workers_sleep() || process.launched() == 2);
}

#[test]
fn a_caller_that_waits_by_an_unseen_preemption_is_woken_when_that_is_over() {
    let process = preempted_unseen();
    thread::scope(|scope| {
        let waits = scope.spawn(|| process.queues.wait_for_admission(process.queue, &[], WORK));
        wait_for("it waits", || process.queues.lock().waiters.callers == 1);
        process.arbiter.decide(BELOW);
        assert!(process.queues.lock().take_has_new_admission_state(), "the watcher wakes it");
        process.queues.finish(waits.join().unwrap().unwrap(), true);
    });
}

/// The others go, it launches, and others come, before the watcher looks.
#[test]
fn no_process_counts_as_alone_while_the_watcher_ignores_masks() {
    let (process, rung) = with_bell(AdmissionState::Beside);
    *process.arbiter.state.lock().unwrap() = AdmissionState::Alone;
    assert!(process.queues.is_contended());
    assert!(process.launch());
    assert_eq!((process.arbiter.reports(), rung.load(Ordering::SeqCst)), ((1, 0), 1), "others hear of it");
    process.run_due();
    assert!(!process.queues.is_contended());
}

/// A process with work beside others whose gate page tells when it was preempted, with gates or without.
fn at_work(gates: bool) -> Process {
    let process = if gates { shared_gates::process() } else { shared_gates::without_gate() };
    assert!(process.launch());
    process.run_due();
    process
}

/// Whether it is to be woken when it is preempted.
fn is_woken(process: &Process) -> bool {
    !process.arbiter.page.as_ref().is_some_and(|page| page.is_quiet())
}

#[test]
fn a_process_whose_gate_the_arbiter_closes_is_not_woken_when_preempted() {
    assert!(!is_woken(&at_work(true)) && !is_woken(&at_work(false)));
}

#[test]
fn a_process_that_closes_its_gates_or_is_recorded_is_woken_when_preempted() {
    let own_gate = Process::at(shared_gates::arbiter(BELOW)).has_gates();
    own_gate.run_due();
    assert!(is_woken(&own_gate));
    let recorded = at_work(true);
    let recorder = Recorder::new();
    recorded.queues.record(Some(recorder.writer()));
    recorded.run_due();
    assert!(is_woken(&recorded));
    recorded.queues.record(None);
    recorded.run_due();
    assert!(!is_woken(&recorded));
}

#[test]
fn an_unseen_preemption_counts_at_the_next_look() {
    for gates in [true, false] {
        let process = at_work(gates);
        let is_alert = || process.queues.lock().is_alert(process.claim);
        assert!(!is_alert());
        process.arbiter.decide(PREEMPTED);
        process.arbiter.decide(BELOW);
        process.run_due();
        assert!(is_alert());
        process.clock.advance(Nanos::from_secs(2));
        process.run_due();
        assert!(!is_alert(), "once");
    }
}

#[test]
fn a_process_that_is_seldom_preempted_has_few_gates() {
    let process = at_work(true);
    let us_between = || process.queues.lock().work_between_gates(process.claim).0 / 1_000;
    assert_eq!(us_between(), 10, "it never was");
    for (apart_ms, expected) in [(20, 5), (70, 7), (500, 10)] {
        for _ in 0..2 {
            process.clock.advance(Nanos::from_millis(apart_ms));
            process.arbiter.decide(PREEMPTED);
            process.arbiter.decide(BELOW);
            process.run_due();
        }
        assert_eq!(us_between(), expected, "{apart_ms} ms apart");
    }
    for _ in 0..2 {
        process.clock.advance(Nanos::from_millis(1));
        process.arbiter.decide(PREEMPTED);
        process.arbiter.decide(BELOW);
        process.run_due();
    }
    assert_eq!(us_between(), 5);
    process.clock.advance(Nanos::from_millis(80));
    assert_eq!(us_between(), 8, "that was a while ago");
}

/// What is charged to a process for a command that its device is done with 300 us after a more urgent process, which had the
/// device for 50 ms between two looks.
fn charged(process: &Process, end: impl Fn(&Process)) -> Nanos {
    let us = Nanos::from_micros;
    process.clock.advance(us(2));
    process.arbiter.decide(PREEMPTED);
    process.clock.advance(us(50_000));
    process.arbiter.decide(BELOW);
    process.clock.advance(us(300));
    process.complete_all();
    let used = |process: &Process| process.queues.usage(process.claim).device_time;
    end(process);
    process.tend_until("it is done", |process| !used(process).is_zero());
    used(process)
}

#[test]
fn time_at_a_gate_that_was_closed_unseen_is_not_charged() {
    let expected = Nanos::from_micros(100)..Nanos::from_micros(1_000);
    let seen_by_the_watcher = charged(&at_work(true), |_| {});
    assert!(expected.contains(&seen_by_the_watcher), "{seen_by_the_watcher}");
    let process = at_work(true);
    let waited = process.queues.host_wait_begins(&[process.queue]);
    let seen_by_who_waits = charged(&process, |process| process.queues.host_wait_ends(&waited, true));
    assert!(expected.contains(&seen_by_who_waits), "{seen_by_who_waits}");
}
