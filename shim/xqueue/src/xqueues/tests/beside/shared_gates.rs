//! Gates that the arbiter closes by itself.

use super::gates::Others;
use super::*;
use crate::ids::QueueHints;

pub(super) fn arbiter(state: AdmissionState) -> Arc<TestArbiter> {
    let page = Some(Arc::new(GatePage::for_tests(GATE_ALLOWED)));
    let arbiter = TestArbiter { page, ..Arc::into_inner(TestArbiter::new(BELOW)).unwrap() };
    arbiter.decide(state);
    Arc::new(arbiter)
}

/// A process whose gate the arbiter shares.
pub(super) fn process() -> Process {
    let process = Process::at(arbiter(BELOW));
    process.bench.shares_gates.store(true, Ordering::SeqCst);
    process.has_gates()
}

/// One on a device that has no gates.
pub(super) fn without_gate() -> Process {
    let process = Process::at(arbiter(BELOW));
    process.make_gates();
    process
}

fn is_kept_open(process: &Process) -> bool {
    let page = process.arbiter.page.as_ref().unwrap();
    page.is_open() && !page.is_allowed()
}

fn gate_checks(process: &Process) -> usize {
    process.arbiter.gate_checks.load(Ordering::SeqCst)
}

#[test]
fn the_arbiter_closes_a_gate_before_the_process_knows() {
    let process = process();
    assert!(process.launch() && process.launch());
    assert_eq!((process.bench.gated.load(Ordering::SeqCst), process.is_closed()), (2, false));
    process.arbiter.decide(PREEMPTED);
    assert!(process.is_closed());
    assert!(!process.launch());
    process.run_due();
    assert!(process.is_closed(), "nor does it open it when it looks");
    process.arbiter.decide(BELOW);
    assert!(!process.is_closed());
    process.complete_all();
    process.tend_until("it goes on", Process::launch);
    assert_eq!(gate_checks(&process), 0);
    assert!(process.bench.closed.lock().unwrap().is_empty(), "it has none of its own");
}

#[test]
fn a_device_that_cannot_look_there_has_a_gate_of_its_own() {
    let process = Process::at(arbiter(BELOW)).has_gates();
    assert!(process.launch());
    process.set_state(PREEMPTED);
    assert!(!process.bench.closed.lock().unwrap().is_empty());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 1);
}

/// With this it does not poll either: there is nothing that it could be late for.
#[test]
fn a_gate_that_the_arbiter_closes_is_not_polled_for() {
    let process = process();
    process.queues.poll_below(Nanos::from_micros(80));
    process.set_state(PREEMPTED);
    process.set_state(BELOW);
    assert!(process.launch());
    assert!(process.queues.polled().is_empty());
}

#[test]
fn a_gate_stays_open_while_its_arbiter_is_silent() {
    let process = process();
    assert!(process.launch());
    process.arbiter.decide(PREEMPTED);
    assert!(process.is_closed());
    process.arbiter.is_silent.store(true, Ordering::SeqCst);
    *process.arbiter.state.lock().unwrap() = AdmissionState::Alone;
    process.run_due();
    assert!(is_kept_open(&process));
    assert_eq!(gate_checks(&process), 0, "there is no controller to ask");
    process.arbiter.is_silent.store(false, Ordering::SeqCst);
    *process.arbiter.state.lock().unwrap() = PREEMPTED;
    process.run_due();
    assert!(process.is_closed());
}

#[test]
fn an_arbiter_whose_mask_says_something_else_than_its_gate_is_asked() {
    let process = process();
    *process.arbiter.state.lock().unwrap() = PREEMPTED;
    process.run_due();
    assert!(gate_checks(&process) > 0, "it should be closed");
    process.set_state(PREEMPTED);
    let asked = gate_checks(&process);
    *process.arbiter.state.lock().unwrap() = BELOW;
    process.run_due();
    assert!(gate_checks(&process) > asked, "it should be open");
    process.set_state(BELOW);
    let asked = gate_checks(&process);
    process.run_due();
    assert_eq!(gate_checks(&process), asked);
}

/// A thread of the program may wait in the runtime for what is behind the gate, and hold a lock that the watcher's call needs.
#[test]
fn a_gate_is_open_while_the_watcher_is_stuck() {
    let process = process();
    assert!(process.launch());
    process.arbiter.decide(PREEMPTED);
    let guard_after = |ms| process.queues.guard_gates(now() + Nanos::from_millis(ms));
    guard_after(1000);
    assert!(process.is_closed(), "it sleeps");
    process.queues.watcher_sleeps(false);
    guard_after(50);
    assert!(process.is_closed(), "it is at work");
    guard_after(200);
    assert!(is_kept_open(&process));
    process.run_due();
    assert!(is_kept_open(&process), "whichever thread looks");
    process.queues.watcher_sleeps(true);
    guard_after(200);
    assert!(process.is_closed());
}

/// Commands may wait there, and their arbiter writes no more.
#[test]
fn a_gate_opens_for_good_when_its_registration_goes_and_the_next_one_has_another() {
    let process = process();
    assert!(process.launch());
    process.set_state(PREEMPTED);
    assert!(process.is_closed());
    process.queues.register(process.claim, None);
    process.run_due();
    assert!(is_kept_open(&process));
    let next = arbiter(PREEMPTED);
    process.queues.register(process.claim, Some(Arc::clone(&next) as Arc<dyn Registration>));
    process.run_due();
    process.make_gates();
    process.run_due();
    assert!(is_kept_open(&process) && !next.page.as_ref().unwrap().is_open());
    next.decide(BELOW);
    process.complete_all();
    process.clock.advance(Nanos::from_millis(5));
    process.run_due();
    let gated = process.bench.gated.load(Ordering::SeqCst);
    process.tend_until("it goes on", Process::launch);
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), gated + 1);
}

#[test]
fn it_opens_for_good_when_the_process_ends_or_the_device_is_reset() {
    let ends: [fn(&Process); 2] =
        [|process| process.queues.close(Instant::now()), |process| process.queues.retire_gates(RuntimeId(0))];
    for end in ends {
        let process = process();
        assert!(process.launch());
        process.set_state(PREEMPTED);
        end(&process);
        process.run_due();
        assert!(is_kept_open(&process));
    }
}

/// A process whose claim is on this level, and a claim on another for which the program asks a priority.
fn on_levels(usual: u8, hinted: u8) -> (Process, Others) {
    let process = process();
    process.arbiter.level.store(usual, Ordering::SeqCst);
    let hints = QueueHints { priority: Some(0), ..QueueHints::NONE };
    let page = arbiter(BELOW);
    page.level.store(hinted, Ordering::SeqCst);
    let hinted = Others::with_key(&process, ClaimKey { hints, ..ClaimKey::new(1, 0) }, page);
    process.make_gates();
    (process, hinted)
}

/// Whether what is behind the gate stops when this arbiter preempts its claim, and no other does. None is preempted afterwards.
fn is_the_gate_of(process: &Process, claim: ClaimId, arbiter: &TestArbiter) -> bool {
    arbiter.decide(PREEMPTED);
    let is_closed = !arbiter.page.as_ref().unwrap().is_open();
    arbiter.decide(BELOW);
    is_closed && process.queues.lock().gate_belongs_to() == Some(claim)
}

/// The other claim's priority is that of the process, which no hint of its own says.
#[test]
fn a_gate_stops_nothing_of_the_claim_on_the_most_urgent_level_whatever_the_other_claim_asks() {
    let (process, hinted) = on_levels(1, 2);
    assert!(process.launch() && hinted.launch(&process));
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 2);
    hinted.arbiter.decide(PREEMPTED);
    assert!(is_the_gate_of(&process, process.claim, &process.arbiter), "before the process has looked");
    process.run_due();
    assert!(process.launch(), "nor does it stop");
    assert!(is_the_gate_of(&process, process.claim, &process.arbiter));
}

#[test]
fn a_gate_follows_the_order_of_levels_but_no_slice_against_starvation() {
    let (process, hinted) = on_levels(1, 2);
    let set_level = |arbiter: &TestArbiter, level| {
        arbiter.level.store(level, Ordering::SeqCst);
        process.run_due();
        process.make_gates();
        process.run_due();
    };
    let is_usuals = || is_the_gate_of(&process, process.claim, &process.arbiter);
    set_level(&hinted.arbiter, 0);
    assert!(is_usuals(), "the slice passes");
    set_level(&hinted.arbiter, 3);
    assert!(is_usuals());
    set_level(&process.arbiter, 4);
    assert!(!is_usuals() && is_the_gate_of(&process, hinted.claim, &hinted.arbiter));
    set_level(&process.arbiter, 3);
    assert!(is_usuals(), "of equals it is the first one's");
}
