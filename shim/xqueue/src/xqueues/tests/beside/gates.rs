//! Gates, and what they must not stop.

use super::*;
use crate::ids::QueueHints;

#[test]
fn gates_are_closed_while_more_urgent_work_is_ready() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch() && process.launch());
    assert_eq!((process.bench.gated.load(Ordering::SeqCst), process.is_closed()), (2, false));
    process.set_state(PREEMPTED);
    assert!(process.is_closed());
    process.set_state(BELOW);
    assert!(!process.is_closed());
}

#[test]
fn a_launch_closes_the_gate_before_the_watcher_does() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    *process.arbiter.state.lock().unwrap() = PREEMPTED;
    assert!(!process.launch() && process.is_closed());
}

/// It is not asked for before: what is in front of it says that it waits.
#[test]
fn a_deferred_command_closes_it_as_well() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    *process.arbiter.state.lock().unwrap() = PREEMPTED;
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    assert!(process.is_closed());
}

#[test]
fn gates_open_for_good_when_the_process_ends_or_the_device_is_reset() {
    let process = Process::new(PREEMPTED).has_gates();
    process.run_due();
    assert!(process.is_closed());
    process.queues.close(Instant::now());
    assert!(!process.is_closed());
    let process = Process::new(PREEMPTED).has_gates();
    process.run_due();
    process.queues.retire_gates(RuntimeId(0));
    process.run_due();
    assert!(!process.is_closed());
    process.set_state(BELOW);
    assert!(process.launch());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 0);
}

/// As a context of CUDA's, at whose address the next one may be.
#[test]
fn a_runtime_with_the_number_of_one_that_is_gone_has_gates_of_its_own() {
    let process = Process::new(BELOW).has_gates();
    process.queues.runtime_gone(RuntimeId(0));
    assert!(process.queues.destroy(process.queue));
    let queue = process.queues.create(0, Some(process.claim), status());
    process.make_gates();
    assert!(process.launch_on(queue, WORK));
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 1);
}

/// The reset takes its memory back.
#[test]
fn a_gate_that_is_in_the_making_when_the_device_is_reset_is_waited_for_and_not_used() {
    let process = Process::new(BELOW);
    process.bench.has_gates.store(true, Ordering::SeqCst);
    process.bench.is_slow.store(true, Ordering::SeqCst);
    let queues = Arc::clone(&process.queues);
    let maker = thread::spawn(move || queues.make_gates());
    wait_for("it is being made", || process.bench.was_busy.load(Ordering::SeqCst));
    process.queues.retire_gates(RuntimeId(0));
    assert!(!process.bench.is_busy.load(Ordering::SeqCst), "its memory would go meanwhile");
    maker.join().unwrap();
    process.queues.make_gates();
    assert!(process.launch());
    process.set_state(PREEMPTED);
    assert_eq!((process.bench.gated.load(Ordering::SeqCst), process.is_closed()), (0, false));
}

/// A process with gates that was preempted, and has two commands of this length on the device.
fn after_preemption(length: Nanos) -> Process {
    let process = Process::new(BELOW).has_gates();
    process.queues.poll_below(Nanos::from_micros(80));
    process.bench.took_ns.store(length.0, Ordering::SeqCst);
    for _ in 0..8 {
        assert!(process.launch());
        process.bench.complete.store(process.recorded(), Ordering::SeqCst);
        process.clock.advance(length.max(Nanos::from_micros(100)));
        process.run_due();
    }
    process.set_state(PREEMPTED);
    process.set_state(BELOW);
    assert!(process.launch() && process.launch());
    process
}

fn is_polled(process: &Process) -> bool {
    !process.queues.polled().is_empty()
}

#[test]
fn a_claim_with_short_commands_is_polled_after_a_preemption() {
    let process = after_preemption(Nanos::from_micros(30));
    assert!(is_polled(&process));
    process.set_state(PREEMPTED);
    assert!(!is_polled(&process), "its gate is closed");
    process.set_state(BELOW);
    assert!(is_polled(&process));
    process.queues.poll_below(Nanos::ZERO);
    assert!(!is_polled(&process), "polling is off");
    process.queues.poll_below(Nanos::from_micros(80));
    process.clock.advance(Nanos::from_millis(100));
    assert!(!is_polled(&process), "it was not preempted for long");
}

/// Another copy of the runtime does not know the memory.
#[test]
fn a_gate_of_one_runtime_is_put_before_no_launch_of_another() {
    let process = Process::new(BELOW).has_gates();
    let elsewhere = process.queues.create(1, Some(process.claim), status());
    let launch_elsewhere = || process.launch_on(elsewhere, WORK);
    assert!(process.launch() && launch_elsewhere() && process.launch());
    let put = || [&process.bench.gated, &process.bench.refused].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(put(), [2, 0]);
    process.queues.make_gates();
    assert!(launch_elsewhere());
    assert_eq!(put(), [3, 0], "it has one of its own now");
    process.set_state(PREEMPTED);
    assert_eq!(process.bench.closed.lock().unwrap().len(), 2);
    process.queues.retire_gates(RuntimeId(1));
    assert_eq!(*process.bench.closed.lock().unwrap(), [0], "devices of the other are not reset");
}

#[test]
fn a_gate_that_was_refused_is_opened_and_not_tried_again() {
    for process in [|| Process::new(BELOW).has_gates(), shared_gates::process] {
        let process = process();
        assert!(process.launch());
        process.bench.refuses_gates.store(true, Ordering::SeqCst);
        let mut begun = process.admit().unwrap();
        process.arbiter.decide(PREEMPTED);
        process.queues.prepare(&mut begun);
        process.queues.finish(begun, true);
        assert!(!process.is_closed(), "nothing would open it");
        process.set_state(BELOW);
        process.bench.refuses_gates.store(false, Ordering::SeqCst);
        process.complete_all();
        process.tend_until("it goes on", Process::launch);
        process.queues.make_gates();
        assert!(process.launch());
        let put = [&process.bench.gated, &process.bench.refused].map(|count| count.load(Ordering::SeqCst));
        assert_eq!(put, [1, 1]);
    }
}

/// For how long a process polls that was preempted so often, every 20 ms. Its commands take next to no time.
fn polls_after_preemptions(times: u32) -> Nanos {
    let process = after_preemption(Nanos::from_micros(30));
    process.clock.advance(Nanos::from_secs(2));
    for _ in 0..times {
        process.set_state(PREEMPTED);
        process.set_state(BELOW);
        process.clock.advance(Nanos::from_millis(20));
    }
    let mut polls = Nanos::from_millis(20);
    let is_polled_anew = || {
        process.complete_all();
        process.run_due();
        assert!(process.launch());
        is_polled(&process)
    };
    while is_polled_anew() {
        process.clock.advance(Nanos::from_millis(5));
        polls += Nanos::from_millis(5);
    }
    polls
}

#[test]
fn a_claim_that_is_preempted_more_often_is_polled_for_longer() {
    assert_eq!(polls_after_preemptions(1), Nanos::from_millis(50));
    assert_eq!(polls_after_preemptions(2), Nanos::from_millis(80));
    assert_eq!(polls_after_preemptions(1000), Nanos::from_secs(1));
}

#[test]
fn a_claim_with_long_commands_or_none_is_not_polled() {
    assert!(!is_polled(&after_preemption(Nanos::from_millis(1))), "a thread wakes in time");
    let process = after_preemption(Nanos::from_micros(30));
    process.complete_all();
    process.tend_until("all is done", |process| process.arbiter.reports().1 > 0);
    assert!(!is_polled(&process), "nothing is to be stopped");
}

#[test]
fn a_claim_with_an_overdue_command_is_not_polled() {
    let process = after_preemption(Nanos::from_micros(30));
    process.clock.advance(Nanos::from_micros(40));
    assert!(is_polled(&process));
    process.clock.advance(Nanos::from_millis(1));
    assert!(!is_polled(&process), "it is none of the short ones");
}

#[test]
fn a_claim_with_an_unknown_command_is_not_polled_for_long() {
    let process = Process::new(BELOW).has_gates();
    process.queues.poll_below(Nanos::from_micros(80));
    process.set_state(PREEMPTED);
    process.set_state(BELOW);
    assert!(process.launch());
    process.clock.advance(Nanos::from_millis(1));
    assert!(!is_polled(&process), "it is not short, and no more is known of it");
}

#[test]
fn a_claim_on_the_first_level_or_with_pinned_work_is_not_polled() {
    let process = after_preemption(Nanos::from_micros(30));
    for state in [AdmissionState::Beside, AdmissionState::Alone] {
        process.set_state(state);
        assert!(!is_polled(&process), "no other is more urgent");
    }
    process.set_state(BELOW);
    assert!(is_polled(&process));
    process.queues.lock().pin_all();
    for state in [BELOW, PREEMPTED] {
        process.set_state(state);
        assert!(!is_polled(&process), "its gate stays open");
    }
}

/// Its commands there must not be kept waiting while it polls because of others.
#[test]
fn how_the_process_stands_on_other_devices_is_polled_as_well() {
    let process = after_preemption(Nanos::from_micros(30));
    let elsewhere = process.queues.claim(ClaimKey::new(2, 0));
    process.queues.register(elsewhere, Some(TestArbiter::new(PREEMPTED)));
    process.run_due();
    let standings: Vec<_> = process.queues.polled().into_iter().map(|(_, state)| state).collect();
    assert_eq!(standings, [BELOW, PREEMPTED]);
}

#[test]
fn short_commands_have_gates_of_their_own_after_a_preemption() {
    let process = after_preemption(Nanos::from_micros(8));
    let gates_of_six = || {
        let before = process.bench.gated.load(Ordering::SeqCst);
        (0..6).for_each(|_| assert!(process.launch()));
        process.bench.gated.load(Ordering::SeqCst) - before
    };
    assert_eq!(gates_of_six(), 6);
    process.clock.advance(Nanos::from_millis(100));
    assert!(gates_of_six() < 6, "in peace they share some");
}

#[test]
fn a_claim_without_a_gate_to_close_is_not_polled() {
    let process = Process::new(PREEMPTED);
    process.queues.poll_below(Nanos::from_micros(80));
    process.set_state(BELOW);
    assert!(process.launch());
    assert!(!is_polled(&process));
}

/// Streams of another priority of the process, on the same device.
pub(super) struct Others {
    pub(super) arbiter: Arc<TestArbiter>,
    pub(super) claim: ClaimId,
    queue: QueueId,
}

impl Others {
    fn of(process: &Process, stream_priority: i32, arbiter: Arc<TestArbiter>) -> Self {
        Self::with_key(process, ClaimKey::new(1, stream_priority), arbiter)
    }

    pub(super) fn with_key(process: &Process, key: ClaimKey, arbiter: Arc<TestArbiter>) -> Self {
        let claim = process.queues.claim(key);
        process.queues.register(claim, Some(Arc::clone(&arbiter) as Arc<dyn Registration>));
        let queue = process.queues.create(0, Some(claim), status());
        process.run_due();
        Self { arbiter, claim, queue }
    }

    pub(super) fn launch(&self, process: &Process) -> bool {
        process.launch_on(self.queue, WORK)
    }
}

fn gated(process: &Process) -> u64 {
    process.bench.gated.load(Ordering::SeqCst)
}

/// The gate is the whole process's: it must not stop what is more urgent.
#[test]
fn the_gate_follows_no_claim_for_which_the_program_asks_less() {
    let process = shared_gates::process();
    let hints = QueueHints { priority: Some(-100), ..QueueHints::NONE };
    let key = ClaimKey { hints, ..ClaimKey::new(1, 0) };
    let low = Others::with_key(&process, key, shared_gates::arbiter(BELOW));
    process.queues.make_gates();
    assert!(process.launch() && low.launch(&process));
    assert_eq!(gated(&process), 2);
    let is_open = || process.arbiter.page.as_ref().unwrap().is_open();
    low.arbiter.decide(PREEMPTED);
    assert!(is_open());
    process.arbiter.decide(PREEMPTED);
    assert!(!is_open(), "the process's own page is the gate, in the moment in which both are preempted");
}

/// FSDP has such streams.
#[test]
fn streams_of_several_priorities_stay_gated() {
    let process = Process::new(BELOW);
    let urgent = Others::of(&process, 1, TestArbiter::new(BELOW));
    let process = process.has_gates();
    assert!(process.launch() && urgent.launch(&process));
    assert_eq!(gated(&process), 2);
    let set_states = |usual, others| {
        urgent.arbiter.decide(others);
        process.set_state(usual);
    };
    set_states(PREEMPTED, BELOW);
    assert!(!process.is_closed(), "they may wait for what is behind the gate");
    set_states(PREEMPTED, PREEMPTED);
    assert!(process.is_closed());
    set_states(BELOW, PREEMPTED);
    assert!(!process.is_closed(), "they have waited for too long, and go first");
    set_states(PREEMPTED, AdmissionState::Beside);
    process.complete_all();
    set_states(BELOW, AdmissionState::Beside);
    process.tend_until("it goes on", Process::launch);
    assert_eq!(gated(&process), 2, "a gate would never be closed");
}

#[test]
fn a_gate_is_closed_with_the_most_urgent_streams_that_there_are() {
    let process = shared_gates::process();
    assert!(process.launch());
    let urgent = Others::of(&process, 1, shared_gates::arbiter(BELOW));
    let is_open = |arbiter: &TestArbiter| arbiter.page.as_ref().unwrap().is_open();
    process.arbiter.decide(PREEMPTED);
    assert!(is_open(&process.arbiter), "what waits there goes on, whatever becomes of it");
    process.queues.make_gates();
    assert!(urgent.launch(&process));
    assert_eq!(gated(&process), 2);
    urgent.arbiter.decide(PREEMPTED);
    assert!(!is_open(&urgent.arbiter), "in the moment in which both are preempted");
    process.queues.register(urgent.claim, None);
    assert!(is_open(&urgent.arbiter));
    process.queues.make_gates();
    process.run_due();
    assert!(process.is_closed(), "the other claim's gate is used again");
    process.set_state(BELOW);
    process.complete_all();
    process.tend_until("it goes on", Process::launch);
    assert_eq!(gated(&process), 3);
}

#[test]
fn streams_of_a_priority_that_has_none_any_more_are_forgotten_a_second_later() {
    let process = Process::new(BELOW);
    let urgent = Others::of(&process, 1, TestArbiter::new(BELOW));
    let used = || process.queues.claims().iter().map(|claim| claim.is_used).collect::<Vec<_>>();
    assert!(urgent.launch(&process) && process.queues.detach_stream(urgent.queue));
    process.clock.advance(Nanos::from_secs(2));
    process.run_due();
    assert_eq!(used(), [true, true], "its work is not done");
    process.complete_all();
    process.tend_until("it is idle", |_| urgent.arbiter.reports().1 > 0);
    process.clock.advance(Nanos::from_secs(1));
    assert_eq!(used(), [true, false]);
    process.queues.register(urgent.claim, None);
    process.run_due();
    assert!(process.queues.ignores_masks(), "it is no work that others have to wait for");
    process.queues.create(0, Some(urgent.claim), status());
    assert_eq!(used(), [true, true], "there is one again");
    assert!(process.queues.destroy(process.queue));
    process.clock.advance(Nanos::from_secs(2));
    assert_eq!(used(), [true, true], "what a process does by default it may do at any time");
}

/// Each time the arbiter gives it another gate page, which stays mapped.
#[test]
fn a_priority_whose_streams_come_and_go_all_the_time_is_not_forgotten() {
    let process = Process::new(BELOW);
    let urgent = process.queues.claim(ClaimKey::new(1, 1));
    let is_used = || process.queues.claims()[1].is_used;
    let was_forgotten = (0..100).filter(|_| {
        let queue = process.queues.create(0, Some(urgent), status());
        assert!(is_used() && process.queues.destroy(queue));
        process.clock.advance(Nanos::from_secs(2));
        !is_used()
    });
    assert_eq!(was_forgotten.count(), 8);
}

#[test]
fn an_admitted_launch_does_not_wait_behind_a_gate_that_was_closed_unseen() {
    let process = Process::new(PREEMPTED).has_gates();
    process.run_due();
    assert!(process.is_closed() && process.queues.ignores_masks());
    *process.arbiter.state.lock().unwrap() = BELOW;
    let mut begun = process.queues.wait_for_unqueued_admission(Some(process.claim), 0, &[], WORK).unwrap();
    process.queues.prepare(&mut begun);
    assert_eq!((process.bench.gated.load(Ordering::SeqCst), process.is_closed()), (1, false));
    process.queues.finish(begun, true);
}

#[test]
fn gates_are_not_used_when_another_controller_forbids_them() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    process.set_state(PREEMPTED);
    assert!(process.is_closed());
    process.queues.use_gates(false);
    assert!(!process.is_closed(), "what is behind it goes on");
    process.set_state(BELOW);
    process.set_state(PREEMPTED);
    assert!(!process.is_closed());
    process.set_state(BELOW);
    assert!(process.launch());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 1);
    process.queues.use_gates(true);
    process.complete_all();
    process.tend_until("all is done", |process| process.arbiter.reports().1 > 0);
    assert!(process.launch());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 2, "the next one may allow them again");
}

/// A process whose gate's trial has work of hundreds of milliseconds before it.
fn beside_a_backlog() -> Process {
    let process = Process::new(BELOW);
    process.bench.is_backlogged.store(true, Ordering::SeqCst);
    process.has_gates()
}

fn is_gated(process: &Process) -> bool {
    process.complete_all();
    let before = gated(process);
    process.tend_until("it goes on", Process::launch);
    gated(process) > before
}

#[test]
fn a_trial_behind_a_backlog_is_looked_at_and_never_waited_for() {
    let process = beside_a_backlog();
    let looked = || process.bench.looked.load(Ordering::SeqCst);
    for turn in 1..1000 {
        assert_eq!((looked(), process.queues.make_gates()), (turn, Some(now() + LOOK_AGAIN)));
        process.run_due();
        process.clock.advance(LOOK_AGAIN);
        process.queues.make_gates();
    }
    assert!(!is_gated(&process), "it is not known whether a gate works");
    process.bench.is_backlogged.store(false, Ordering::SeqCst);
    process.clock.advance(LOOK_AGAIN);
    assert_eq!(process.queues.make_gates(), None);
    assert!(is_gated(&process), "however long that took");
    assert_eq!(process.bench.released.load(Ordering::SeqCst), 0);
}

#[test]
fn the_gates_of_eight_devices_are_tried_side_by_side_and_the_watcher_has_a_turn_before_each() {
    let process = Process::new(BELOW);
    for switch in [&process.bench.has_gates, &process.bench.is_backlogged] {
        switch.store(true, Ordering::SeqCst);
    }
    for device in 2..=8 {
        let claim = process.queues.claim(ClaimKey::new(device, 0));
        process.queues.register(claim, Some(TestArbiter::new(BELOW)));
        process.queues.create(0, Some(claim), status());
    }
    for tried in 1..=8 {
        let again = process.queues.make_gates();
        assert_eq!(process.bench.looked.load(Ordering::SeqCst), tried);
        assert_eq!(again, Some(if tried < 8 { now() } else { now() + LOOK_AGAIN }));
    }
    process.bench.is_backlogged.store(false, Ordering::SeqCst);
    process.clock.advance(LOOK_AGAIN);
    assert_eq!((process.queues.make_gates(), process.bench.looked.load(Ordering::SeqCst)), (None, 16));
}

/// They look at one word of the page: the end of one's trial would let the other's stream go on.
#[test]
fn the_gates_of_two_runtimes_on_a_device_are_tried_one_after_the_other() {
    let process = beside_a_backlog();
    let looked = || process.bench.looked.load(Ordering::SeqCst);
    process.queues.create(1, Some(process.claim), status());
    assert_eq!((process.queues.make_gates(), looked()), (Some(now() + LOOK_AGAIN), 1));
    process.bench.is_backlogged.store(false, Ordering::SeqCst);
    process.clock.advance(LOOK_AGAIN);
    assert_eq!((process.queues.make_gates(), looked()), (Some(now()), 2));
    assert_eq!((process.queues.make_gates(), looked()), (None, 3));
}

/// What the capture waits for may wait behind the trial, which is not looked at meanwhile.
#[test]
fn a_capture_ends_a_trial_that_begins_again_afterwards() {
    let process = beside_a_backlog();
    process.queues.pause_markers(true);
    assert_eq!(process.bench.released.load(Ordering::SeqCst), 1);
    process.bench.is_backlogged.store(false, Ordering::SeqCst);
    process.clock.advance(Nanos::from_secs(1));
    assert_eq!((process.queues.make_gates(), process.bench.looked.load(Ordering::SeqCst)), (None, 1));
    process.queues.pause_markers(false);
    assert_eq!((process.queues.make_gates(), process.bench.looked.load(Ordering::SeqCst)), (None, 3));
    assert!(is_gated(&process));
}

#[test]
fn a_trial_is_ended_by_a_reset_by_the_end_and_by_another_controller() {
    let ends: [fn(&Process); 2] =
        [|process| process.queues.close(Instant::now()), |process| process.queues.retire_gates(RuntimeId(0))];
    for end in ends {
        let process = beside_a_backlog();
        end(&process);
        assert_eq!((process.bench.released.load(Ordering::SeqCst), process.queues.make_gates()), (1, None));
    }
    let process = Process::at(shared_gates::arbiter(BELOW));
    for switch in [&process.bench.shares_gates, &process.bench.is_backlogged] {
        switch.store(true, Ordering::SeqCst);
    }
    process.queues.make_gates();
    let next = shared_gates::arbiter(BELOW);
    process.queues.register(process.claim, Some(Arc::clone(&next) as Arc<dyn Registration>));
    process.clock.advance(LOOK_AGAIN);
    process.queues.make_gates();
    assert_eq!(process.bench.released.load(Ordering::SeqCst), 1, "its page means nothing any more");
    process.bench.is_backlogged.store(false, Ordering::SeqCst);
    process.clock.advance(LOOK_AGAIN);
    process.make_gates();
    assert!(is_gated(&process));
    next.decide(PREEMPTED);
    process.run_due();
    assert!(!next.page.as_ref().unwrap().is_open());
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
fn a_claim_on_the_first_level_puts_no_gates() {
    let process = Process::new(BELOW).has_gates();
    process.set_state(AdmissionState::Beside);
    assert!(process.launch());
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 0);
}

fn launch_treated(process: &Process, treatment: Treatment) -> bool {
    match process.queues.admit(process.queue, &[], Demand { treatment, ..WORK.into() }) {
        Admission::Now(mut begun) => {
            process.queues.prepare(&mut begun);
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
    process.set_state(PREEMPTED);
    assert!(process.is_closed() && !process.launch());
    assert!(launch_treated(&process, Treatment::NeverSuspend), "it goes all the same");
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 1, "with no gate before it");
    assert!(!process.is_closed(), "and what it may wait for goes on");
    process.run_due();
    assert!(!process.is_closed());
    process.complete_all();
    process.tend_until("the gate is closed when it has completed", Process::is_closed);
}

#[test]
fn what_may_be_kept_from_being_launched_only_is_not_stopped_afterwards() {
    let process = Process::new(BELOW).has_gates();
    assert!(launch_treated(&process, Treatment::Pinned));
    process.set_state(PREEMPTED);
    assert!(!process.is_closed());
    assert!(!launch_treated(&process, Treatment::Pinned), "but it is deferred");
}

#[test]
fn what_passes_through_is_no_work_of_the_process() {
    let process = Process::new(PREEMPTED).has_gates();
    assert!(launch_treated(&process, Treatment::PassThrough));
    process.run_due();
    assert_eq!((process.arbiter.reports(), process.is_closed()), ((0, 0), true));
    assert_eq!(process.queues.usage(process.claim).launched, 0);
    assert!(launch_treated(&process, Treatment::NeverSuspend));
    assert_eq!(process.arbiter.reports(), (1, 0), "what is never suspended is");
    assert_eq!(process.queues.usage(process.claim).launched, 1);
}

#[test]
fn what_passes_through_does_not_wait_behind_a_gate() {
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    process.set_state(PREEMPTED);
    assert_eq!((process.bench.gated.load(Ordering::SeqCst), process.is_closed()), (1, true));
    let passes = Demand { treatment: Treatment::PassThrough, ..WORK.into() };
    assert!(matches!(process.queues.admit(process.queue, &[], passes), Admission::Free));
    assert!(!process.is_closed(), "it comes after what the gate is before");
    process.complete_all();
    process.tend_until("the gate is closed when that has completed", Process::is_closed);
}

/// Whatever puts no work of its own on the device, and must not wait behind a gate.
#[track_caller]
fn opens_the_gate(what: &str, goes: impl Fn(&Process)) {
    opens_the_gate_of(&Process::new(BELOW).has_gates(), what, &goes);
    opens_the_gate_of(&shared_gates::process(), what, &goes);
}

#[track_caller]
fn opens_the_gate_of(process: &Process, what: &str, goes: impl Fn(&Process)) {
    assert!(process.launch());
    process.set_state(PREEMPTED);
    assert!(process.is_closed());
    goes(process);
    assert!(!process.is_closed(), "{what} comes after what the gate is before");
    process.run_due();
    assert!(!process.is_closed(), "{what} is not there yet");
    process.complete_all();
    process.tend_until("the gate is closed when that has completed", Process::is_closed);
}

#[test]
fn a_signal_that_must_not_be_stopped_does_not_wait_behind_a_gate() {
    for treatment in [Treatment::PassThrough, Treatment::NeverSuspend] {
        let signal = Demand { treatment, ..Load::Signal.into() };
        opens_the_gate("a signal that is admitted", |process| {
            assert!(matches!(process.queues.admit(process.queue, &[], signal), Admission::Free));
        });
        opens_the_gate("one that has waited in place", |process| {
            assert!(process.queues.wait_for_admission(process.queue, &[], signal).is_none());
        });
        opens_the_gate("a deferred one", |process| {
            process.queues.suspend(process.queue, true);
            process.queues.submit(process.queue, Vec::new(), Load::Signal, 1).unwrap();
            let position = process.queues.submit(process.queue, Vec::new(), signal, 2).unwrap();
            process.queues.wait_launched(&[position]);
        });
        opens_the_gate("a launch on many streams", |process| process.queues.wait_behind_all(treatment));
        opens_the_gate("a wait", |process| process.queues.force(&[]));
    }
    let process = Process::new(BELOW).has_gates();
    assert!(process.launch());
    process.set_state(PREEMPTED);
    assert!(matches!(process.queues.admit(process.queue, &[], Load::Signal), Admission::Wait));
    assert!(process.is_closed(), "others do");
}

#[test]
fn what_is_launched_late_because_others_must_not_wait_is_not_stopped_either() {
    let process = Process::new(BELOW).has_gates();
    process.set_state(PREEMPTED);
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    let forced = Demand { treatment: Treatment::NeverSuspend, ..WORK.into() };
    let last = process.queues.submit(process.queue, Vec::new(), forced, 2).unwrap();
    process.queues.wait_launched(&[last]);
    assert_eq!(*process.bench.launched.lock().unwrap(), [1, 2]);
    assert_eq!(process.bench.gated.load(Ordering::SeqCst), 0);
    process.run_due();
    assert!(!process.is_closed());
}
