//! When the watcher has to hear what the arbiter tells everybody.

use super::*;

/// A process whose watcher has looked, and how often it was woken since.
fn with_bell(standing: AdmissionState) -> (Process, Arc<AtomicUsize>) {
    let process = Process::new(standing);
    let rung = Arc::new(AtomicUsize::new(0));
    let bell = Arc::clone(&rung);
    process.queues.set_alarm(Box::new(move || {
        bell.fetch_add(1, Ordering::SeqCst);
    }));
    process.tend();
    (process, rung)
}

#[test]
fn who_has_no_work_beside_others_is_not_concerned() {
    for standing in [AdmissionState::Beside, BELOW, HELD] {
        let (process, _) = with_bell(standing);
        assert!(process.queues.ignores_masks() && process.queues.is_unconcerned(), "{standing:?}");
    }
    let (process, _) = with_bell(AdmissionState::Alone);
    assert!(!process.queues.ignores_masks(), "somebody may come");
    let nobody = XQueues::new(Arc::new(Bench::default()), Setup::default());
    nobody.tend(now());
    assert!(!nobody.ignores_masks() && !nobody.is_contended());
}

#[test]
fn the_first_launch_wakes_the_watcher_however_soon_it_would_look() {
    let (process, rung) = with_bell(AdmissionState::Beside);
    assert!(process.launch());
    assert_eq!(rung.load(Ordering::SeqCst), 1);
    process.tend();
    assert!(!process.queues.ignores_masks(), "it has work");
    assert!(process.launch());
    assert_eq!(rung.load(Ordering::SeqCst), 1, "it is awake");
    process.complete_all();
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
    process.tend();
    assert!(process.queues.ignores_masks());
}

#[test]
fn the_first_command_that_is_held_back_wakes_the_watcher() {
    let (process, rung) = with_bell(HELD);
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Wait));
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    assert_eq!(rung.load(Ordering::SeqCst), 1);
    process.tend();
    assert!(!process.queues.ignores_masks(), "it waits for the others");
}

/// The others go, it launches, and others come, before the watcher looks.
#[test]
fn nobody_is_alone_while_the_watcher_is_deaf() {
    let (process, rung) = with_bell(AdmissionState::Beside);
    *process.stand.standing.lock().unwrap() = AdmissionState::Alone;
    assert!(process.queues.is_contended());
    assert!(process.launch());
    assert_eq!((process.stand.told(), rung.load(Ordering::SeqCst)), ((1, 0), 1), "others hear of it");
    process.tend();
    assert!(!process.queues.is_contended());
}

/// A process with work beside others that has an arbiter's word of when it had to give way, with gates or without.
fn at_work(gates: bool) -> Process {
    let process = if gates { shared_gates::process() } else { shared_gates::without_gate() };
    assert!(process.launch());
    process.tend();
    process
}

/// Whether it is to be woken when it has to give way.
fn is_woken(process: &Process) -> bool {
    !process.stand.page.as_ref().is_some_and(|page| page.is_quiet())
}

#[test]
fn who_has_the_arbiters_word_of_it_is_not_woken_to_give_way() {
    assert!(!is_woken(&at_work(true)) && !is_woken(&at_work(false)));
}

#[test]
fn who_shuts_gates_himself_or_is_recorded_is_woken_to_give_way() {
    let own_gate = Process::at(shared_gates::stand(BELOW)).has_gates();
    own_gate.tend();
    assert!(is_woken(&own_gate));
    let recorded = at_work(true);
    let recorder = Recorder::new();
    recorded.queues.record(Some(recorder.writer()));
    recorded.tend();
    assert!(is_woken(&recorded));
    recorded.queues.record(None);
    recorded.tend();
    assert!(!is_woken(&recorded));
}

#[test]
fn a_turn_that_nobody_noticed_counts_when_somebody_looks() {
    for gates in [true, false] {
        let process = at_work(gates);
        let is_alert = || process.queues.lock().is_alert(process.claim);
        assert!(!is_alert());
        process.stand.decide(HELD);
        process.stand.decide(BELOW);
        process.tend();
        assert!(is_alert());
        process.clock.advance(Nanos::from_secs(2));
        process.tend();
        assert!(!is_alert(), "once");
    }
}

/// What is charged to a process for a command that its device is done with 300 us after somebody more urgent has gone, who had the
/// device for 50 ms while nobody looked.
fn charged(process: &Process, end: impl Fn(&Process)) -> Nanos {
    let us = Nanos::from_micros;
    process.clock.advance(us(2));
    process.stand.decide(HELD);
    process.clock.advance(us(50_000));
    process.stand.decide(BELOW);
    process.clock.advance(us(300));
    process.complete_all();
    let used = |process: &Process| process.queues.usage(process.claim).device_time;
    end(process);
    process.tend_until("it is done", |process| !used(process).is_zero());
    used(process)
}

#[test]
fn time_at_a_gate_that_nobody_saw_shut_is_nobodys() {
    let expected = Nanos::from_micros(100)..Nanos::from_micros(1_000);
    let seen_by_the_watcher = charged(&at_work(true), |_| {});
    assert!(expected.contains(&seen_by_the_watcher), "{seen_by_the_watcher}");
    let process = at_work(true);
    let waited = process.queues.host_wait_begins(&[process.queue]);
    let seen_by_who_waits = charged(&process, |process| process.queues.host_wait_ends(&waited, true));
    assert!(expected.contains(&seen_by_who_waits), "{seen_by_who_waits}");
}
