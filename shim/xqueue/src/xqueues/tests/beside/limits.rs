//! What is launched beside others, and what waits: limits, time slices, and claims that have a use for the device.

use super::*;

impl Process {
    /// Submits twenty commands; as many as are ahead by a limit of two are launched, and the next as each completes.
    pub(super) fn launch_twenty_two_at_a_time(&self) {
        for command in 0..20 {
            self.queues.submit(self.queue, Vec::new(), WORK, command).unwrap();
        }
        for done in 0..18 {
            let expected = done as usize + 2;
            self.tend_until("two are on the device", |process| process.launched() == expected);
            self.bench.complete.store(done + 1, Ordering::SeqCst);
        }
        self.tend_until("all are launched", |process| process.launched() == 20);
    }
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

/// Otherwise its command is deferred, and so are all that follow while the launch worker is slower than the program.
#[test]
fn a_caller_whose_queue_is_full_finds_completions_before_the_watcher_does() {
    let process = Process::new(BELOW);
    assert!(process.launch() && process.launch() && !process.launch());
    process.bench.complete.store(1, Ordering::SeqCst);
    assert!(process.launch(), "one has completed");
    assert!(!process.launch());
    process.set_state(PREEMPTED);
    process.bench.complete.store(3, Ordering::SeqCst);
    assert!(!process.launch(), "it is not the limit that keeps it");
}

/// A program with many streams would otherwise have two commands of each in flight, however short they are.
#[test]
fn what_one_stream_has_shown_of_a_kernel_holds_for_the_others() {
    let process = Process::new(BELOW);
    let other = process.queues.create(1, Some(process.claim), status());
    let moved = process.queues.create(2, None, status());
    process.queues.move_to_claim(moved, process.claim);
    process.bench.took_ns.store(10_000, Ordering::SeqCst);
    for _ in 0..40 {
        assert!(process.launch());
        process.clock.advance(Nanos::from_micros(100));
        process.bench.complete.store(process.recorded(), Ordering::SeqCst);
        process.run_due();
    }
    process.bench.complete.store(0, Ordering::SeqCst);
    for queue in [other, moved] {
        let launched = (0..100).take_while(|_| process.launch_on(queue, WORK)).count();
        assert!((5..=10).contains(&launched), "{launched} of 10 us in 100 us");
    }
}

#[test]
fn commands_behind_the_limit_are_launched_in_order_as_others_complete() {
    let process = Process::new(BELOW);
    process.queues.set_limit(Limit::Commands { threshold: 2, batch: 1 });
    process.launch_twenty_two_at_a_time();
    assert!((0..20).eq(process.bench.launched.lock().unwrap().iter().copied()));
    let usage = process.queues.usage(process.claim);
    assert_eq!((usage.launched, usage.deferred), (20, 20));
    assert!(usage.device_time > Nanos::ZERO);
}

#[test]
fn a_preempted_claim_launches_nothing_and_still_has_work() {
    let process = Process::new(PREEMPTED);
    assert!(!process.launch());
    process.queues.submit(process.queue, Vec::new(), WORK, 7).unwrap();
    assert_eq!(process.arbiter.reports(), (1, 0), "those below it have to wait");
    process.run_due();
    process.pass(A_WHILE);
    process.run_due();
    assert_eq!((process.launched(), process.arbiter.reports()), (0, (1, 0)));
    process.set_state(BELOW);
    process.tend_until("it goes on", |process| process.launched() == 1);
    assert!(process.queues.usage(process.claim).suspended >= Nanos::from(A_WHILE));
}

#[test]
fn nothing_is_suspended_while_there_is_no_controller() {
    let process = Process::new(PREEMPTED);
    process.queues.submit(process.queue, Vec::new(), WORK, 0).expect("it is deferred");
    process.run_due();
    process.clock.advance(Nanos::from_millis(1));
    process.queues.register(process.claim, None);
    process.run_due();
    process.queues.wait_all_launched();
    process.clock.advance(Nanos::from_secs(3_600));
    process.queues.register(process.claim, Some(Arc::clone(&process.arbiter) as Arc<dyn Registration>));
    process.set_state(BELOW);
    assert_eq!(process.queues.usage(process.claim).suspended, Nanos::from_millis(1));
}

#[test]
fn a_caller_that_waits_in_place_is_preempted_as_well() {
    let process = Process::new(PREEMPTED);
    let waiter = {
        let (clock, queues, queue) = (process.clock.clone(), Arc::clone(&process.queues), process.queue);
        thread::spawn(move || {
            clock.enter();
            queues.wait_for_admission(queue, &[], WORK).map(|begun| queues.finish(begun, true))
        })
    };
    process.tend_until("it reports work", |process| process.arbiter.reports() == (1, 0));
    process.pass(A_WHILE);
    process.run_due();
    assert!(!waiter.is_finished());
    process.set_state(AdmissionState::Beside);
    assert!(waiter.join().unwrap().is_some());
}

#[test]
fn the_limit_is_lifted_for_a_waiting_caller_while_nothing_completes() {
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
    assert_eq!(process.launched(), 100, "no caller waits any more");
    process.complete_all();
    process.tend_until("all markers are seen", |process| process.launched() == 101);
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

#[test]
fn a_claim_with_short_time_slices_is_seen_to_be_stuck_as_well() {
    let process = Process::new(BELOW);
    // The start of a time slice is recognised by the state before it.
    process.run_due();
    assert!(process.launch() && process.launch() && !process.launch());
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    for slice in 0..3 {
        assert_eq!(process.launched(), 0, "in time slice {slice}");
        process.clock.advance(Nanos::from_millis(4));
        process.set_state(PREEMPTED);
        process.clock.advance(Nanos::from_millis(50));
        process.set_state(BELOW);
    }
    wait_for("it was stuck for 12 ms", || process.launched() == 1);
}

#[test]
fn a_caller_that_waits_for_deferred_commands_has_no_use_for_the_device_yet() {
    let process = Process::new(PREEMPTED);
    let position = process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    let urgent = process.queues.claim(ClaimKey::new(1, 1));
    let arbiter = TestArbiter::new(AdmissionState::Beside);
    process.queues.register(urgent, Some(Arc::clone(&arbiter) as Arc<dyn Registration>));
    let waiter = {
        let (clock, queues) = (process.clock.clone(), Arc::clone(&process.queues));
        thread::spawn(move || {
            clock.enter();
            queues.wait_for_unqueued_admission(Some(urgent), 0, &[position], Load::Signal).is_none()
        })
    };
    wait_for("it waits", || process.queues.lock().waiters.callers > 0);
    process.run_due();
    assert_eq!(arbiter.reports(), (0, 0), "what it waits for would be deferred for its sake");
    process.set_state(BELOW);
    wait_for("it goes on", || waiter.is_finished());
    assert!(waiter.join().unwrap());
}

/// Beside a claim that is more urgent: held while that is ready.
#[derive(Debug)]
pub(super) struct Behind(pub(super) Arc<TestArbiter>);

impl Registration for Behind {
    fn state(&self) -> AdmissionState {
        AdmissionState::Below { preempted: self.0.is_ready() }
    }

    fn report_ready(&self) {}

    fn report_idle(&self) {}

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
fn a_command_behind_one_deferred_for_its_sake_has_no_use_for_the_device_yet() {
    let process = Process::new(BELOW);
    let (urgent, usual) = (process.queue, ClaimKey::new(1, -1));
    let usual = process.queues.claim(usual);
    process.queues.register(usual, Some(Arc::new(Behind(Arc::clone(&process.arbiter)))));
    let other = process.queues.create(0, Some(usual), status());
    // It is at work, so the other is deferred, and the next of its own with it.
    assert!(process.launch() && process.arbiter.is_ready());
    process.queues.submit(other, Vec::new(), WORK, 1).unwrap();
    let record = process.queues.submit(other, Vec::new(), Load::Signal, 2).unwrap();
    process.queues.submit(urgent, vec![record], Load::Signal, 3).unwrap();
    process.queues.submit(urgent, Vec::new(), WORK, 4).unwrap();
    process.pass(A_WHILE);
    process.run_due();
    assert_eq!(process.launched(), 0);
    process.complete_all();
    process.tend_until("both go on in their order", |process| process.launched() == 4);
    assert_eq!(*process.bench.launched.lock().unwrap(), [1, 2, 3, 4]);
    let (ready_reports, _) = process.arbiter.reports();
    assert_eq!(ready_reports, 2, "again when it had a use for the device again");
}

#[test]
fn a_command_behind_a_deferred_one_is_reported_once_that_is_launched() {
    let process = Process::new(PREEMPTED);
    let usual = process.queues.claim(ClaimKey::new(1, -1));
    let arbiter = TestArbiter::new(PREEMPTED);
    process.queues.register(usual, Some(Arc::clone(&arbiter) as Arc<dyn Registration>));
    let other = process.queues.create(0, Some(usual), status());
    let first = process.queues.submit(other, Vec::new(), WORK, 1).unwrap();
    process.queues.submit(process.queue, vec![first], WORK, 2).unwrap();
    process.queues.submit(process.queue, Vec::new(), WORK, 3).unwrap();
    assert_eq!((arbiter.reports(), process.arbiter.reports()), ((1, 0), (0, 0)));
    *arbiter.state.lock().unwrap() = BELOW;
    process.tend_until("it has work now", |process| process.arbiter.reports() == (1, 0));
    assert_eq!(process.launched(), 1, "and is held");
}

#[test]
fn without_a_registration_or_at_the_end_everything_is_launched() {
    let process = Process::new(PREEMPTED);
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    process.queues.register(process.claim, None);
    process.tend_until("nothing preempts it", |process| process.launched() == 1);
    let process = Process::new(PREEMPTED);
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
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

#[test]
fn while_markers_are_paused_nothing_is_limited_or_looked_at() {
    let process = Process::new(BELOW);
    assert!(process.launch() && process.launch() && !process.launch());
    let recorded = process.recorded();
    process.queues.pause_markers(true);
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    process.complete_all();
    process.run_due();
    assert_eq!(process.recorded(), recorded);
    process.queues.pause_markers(false);
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

#[test]
fn a_destroyed_queue_retires_its_markers() {
    let process = Process::new(BELOW);
    assert!(process.launch() && process.launch());
    process.queues.destroy(process.queue);
    assert_eq!(process.bench.retired.load(Ordering::SeqCst), process.recorded());
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

#[test]
fn a_claim_that_was_expired_is_renewed_by_progress_only() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.launch());
    let expire = || {
        process.arbiter.is_ready.store(false, Ordering::SeqCst);
        process.run_due();
        process.arbiter.reports()
    };
    assert_eq!(expire(), (2, 0), "it has launched something since it told");
    assert_eq!(expire(), (2, 0), "and nothing since");
    assert!(process.launch());
    assert_eq!(expire(), (3, 0));
}

#[test]
fn per_thread_streams_are_preempted_and_limited_too() {
    let process = Process::new(BELOW);
    let go = |load| process.queues.wait_for_unqueued_admission(Some(process.claim), 0, &[], load);
    for _ in 0..2 {
        process.queues.finish(go(WORK).unwrap(), true);
    }
    assert!(go(Load::Signal).is_none(), "it goes, and its end is not followed");
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    assert_eq!(process.recorded(), 2, "only its own thread could record them");
}

#[test]
fn a_refused_launch_on_a_per_thread_stream_does_not_make_others_forgotten() {
    let process = Process::new(AdmissionState::Beside);
    let go = || process.queues.wait_for_unqueued_admission(Some(process.claim), 0, &[], WORK).unwrap();
    process.queues.finish(go(), true);
    process.queues.finish(go(), false);
    (0..10).for_each(|_| {
        process.clock.advance(Nanos::from_millis(1));
        process.run_due();
    });
    assert_eq!(process.arbiter.reports(), (1, 0), "the first is there");
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}
