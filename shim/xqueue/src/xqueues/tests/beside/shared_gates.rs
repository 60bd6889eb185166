//! Gates that the arbiter shuts by itself.

use super::*;

pub(super) fn stand(standing: AdmissionState) -> Arc<Stand> {
    let page = Some(Arc::new(GatePage::for_tests(GATE_ALLOWED)));
    let stand = Stand { page, ..Arc::into_inner(Stand::new(BELOW)).unwrap() };
    stand.decide(standing);
    Arc::new(stand)
}

/// A process whose gate the arbiter shares.
pub(super) fn process() -> Process {
    let process = Process::at(stand(BELOW));
    process.bench.shares_gates.store(true, Ordering::SeqCst);
    process.has_gates()
}

/// One on a device that has no gates.
pub(super) fn without_gate() -> Process {
    let process = Process::at(stand(BELOW));
    process.queues.make_gates();
    process
}

fn is_kept_open(process: &Process) -> bool {
    let page = process.stand.page.as_ref().unwrap();
    page.is_open() && !page.is_allowed()
}

fn asked_for_gate(process: &Process) -> usize {
    process.stand.asked_for_gate.load(Ordering::SeqCst)
}

#[test]
fn the_arbiter_shuts_a_gate_before_the_process_knows() {
    let process = process();
    assert!(process.launch() && process.launch());
    assert_eq!((process.bench.gated.load(Ordering::SeqCst), process.is_shut()), (2, false));
    process.stand.decide(HELD);
    assert!(process.is_shut());
    assert!(!process.launch());
    process.tend();
    assert!(process.is_shut(), "nor does it open it when it looks");
    process.stand.decide(BELOW);
    assert!(!process.is_shut());
    process.complete_all();
    process.tend_until("it goes on", Process::launch);
    assert_eq!(asked_for_gate(&process), 0);
    assert!(!process.bench.is_shut.load(Ordering::SeqCst), "it has none of its own");
}

#[test]
fn a_device_that_cannot_look_there_has_a_gate_of_its_own() {
    let process = Process::at(stand(BELOW)).has_gates();
    assert!(process.launch());
    process.stands(HELD);
    assert!(process.bench.is_shut.load(Ordering::SeqCst));
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 1);
}

/// With this it does not poll either: there is nothing that it could be late for.
#[test]
fn nobody_polls_for_a_gate_that_the_arbiter_shuts() {
    let process = process();
    process.queues.poll_below(Nanos::from_micros(80));
    process.stands(HELD);
    process.stands(BELOW);
    assert!(process.launch());
    assert!(process.queues.polled().is_empty());
}

#[test]
fn a_gate_stays_open_while_its_arbiter_is_silent() {
    let process = process();
    assert!(process.launch());
    process.stand.decide(HELD);
    assert!(process.is_shut());
    process.stand.is_silent.store(true, Ordering::SeqCst);
    *process.stand.standing.lock().unwrap() = AdmissionState::Alone;
    process.tend();
    assert!(is_kept_open(&process));
    assert_eq!(asked_for_gate(&process), 0, "there is nobody to ask");
    process.stand.is_silent.store(false, Ordering::SeqCst);
    *process.stand.standing.lock().unwrap() = HELD;
    process.tend();
    assert!(process.is_shut());
}

#[test]
fn an_arbiter_whose_mask_says_something_else_than_its_gate_is_asked() {
    let process = process();
    *process.stand.standing.lock().unwrap() = HELD;
    process.tend();
    assert!(asked_for_gate(&process) > 0, "it should be shut");
    process.stands(HELD);
    let asked = asked_for_gate(&process);
    *process.stand.standing.lock().unwrap() = BELOW;
    process.tend();
    assert!(asked_for_gate(&process) > asked, "it should be open");
    process.stands(BELOW);
    let asked = asked_for_gate(&process);
    process.tend();
    assert_eq!(asked_for_gate(&process), asked);
}

/// Commands may wait there, and their arbiter writes no more.
#[test]
fn a_gate_opens_for_good_when_its_place_is_given_away_and_the_next_place_has_another() {
    let process = process();
    assert!(process.launch());
    process.stands(HELD);
    assert!(process.is_shut());
    process.queues.register(process.claim, None);
    process.tend();
    assert!(is_kept_open(&process));
    let next = stand(HELD);
    process.queues.register(process.claim, Some(Arc::clone(&next) as Arc<dyn Registration>));
    process.tend();
    process.queues.make_gates();
    process.tend();
    assert!(is_kept_open(&process) && !next.page.as_ref().unwrap().is_open());
    next.decide(BELOW);
    process.complete_all();
    let gated = process.bench.gated.load(Ordering::SeqCst);
    process.tend_until("it goes on", Process::launch);
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), gated + 1);
}

#[test]
fn it_opens_for_good_when_the_process_ends_or_the_device_is_reset() {
    let ends: [fn(&Process); 2] =
        [|process| process.queues.close(Instant::now()), |process| process.queues.retire_gates()];
    for end in ends {
        let process = process();
        assert!(process.launch());
        process.stands(HELD);
        end(&process);
        process.tend();
        assert!(is_kept_open(&process));
    }
}
