//! What has completed, and how that is found out.

use super::*;

#[test]
fn a_stream_that_orders_others_is_marked_at_once_or_not_at_all() {
    let process = Process::new(AdmissionState::Beside);
    process.bench.orders_others.store(true, Ordering::SeqCst);
    let null = process.queues.create(0, Some(process.claim), status());
    let recorded = || process.recorded();
    assert!(process.launch_on(null, WORK), "no other is more urgent");
    assert_eq!(recorded(), 1, "before the program gives anything to another stream");
    (0..10).for_each(|_| {
        process.clock.advance(Nanos::from_millis(5));
        process.run_due();
    });
    assert_eq!(recorded(), 1);
}

/// The runtime lets what was given to a stream go on when that is destroyed, or waits for it in the middle of the call.
#[test]
fn what_a_destroyed_stream_has_on_the_device_counts_until_it_is_done() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.launch() && process.launch());
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.writer()));
    assert!(process.queues.detach_stream(process.queue));
    let asked = process.asked();
    process.clock.advance(Nanos::from_millis(3));
    process.run_due();
    assert_eq!(process.arbiter.reports(), (1, 0), "others must wait for it as before");
    process.complete_all();
    process.tend_until("it is done", |process| process.arbiter.reports() == (1, 1));
    assert_eq!(process.asked(), asked, "the stream is not there any more");
    let used = process.queues.usage(process.claim).device_time;
    assert!(used >= Nanos::from_millis(3), "it is not charged: {used}");
    let mut completed = recorder.events().into_iter().filter_map(|event| match event {
        Event::Completed { through, observed, .. } => Some((through, observed)),
        _ => None,
    });
    assert_eq!(completed.next_back(), Some((2, Observed::Marker)));
    assert!(process.queues.lock().has_no_queues());
    assert_eq!(process.bench.retired.load(Ordering::SeqCst), process.recorded());
}

#[test]
fn a_destroyed_stream_that_is_done_leaves_nothing() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.launch());
    process.clock.advance(Nanos::from_millis(3));
    process.complete_all();
    assert!(process.queues.detach_stream(process.queue));
    assert!(process.queues.usage(process.claim).device_time > Nanos::ZERO);
    assert!(process.queues.lock().has_no_queues());
    assert_eq!(process.recorded(), 0);
}

/// Nothing can be recorded while a stream captures, say.
#[test]
fn a_destroyed_stream_whose_end_cannot_be_seen_does_not_count_for_ever() {
    let process = Process::new(BELOW);
    assert!(process.launch() && process.launch());
    let recorded = process.recorded();
    process.queues.pause_markers(true);
    assert!(process.queues.detach_stream(process.queue));
    process.queues.pause_markers(false);
    assert_eq!(process.recorded(), recorded);
    let asked = process.asked();
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    assert_eq!(process.asked(), asked);
    assert!(process.queues.lock().has_no_queues());
}

#[test]
fn what_destroyed_streams_had_ends_with_a_reset_of_the_device() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.launch());
    assert!(process.queues.detach_stream(process.queue));
    process.queues.forget_detached();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

/// The runtime's events go with the device: one that is given back later would be used again.
#[test]
fn a_reset_of_the_device_waits_until_the_watcher_has_retired_markers() {
    let process = Process::new(BELOW);
    assert!(process.launch());
    assert!(process.queues.detach_stream(process.queue));
    process.complete_all();
    process.clock.advance(Nanos::from_millis(1));
    process.bench.is_slow.store(true, Ordering::SeqCst);
    let (queues, bench) = (Arc::clone(&process.queues), Arc::clone(&process.bench));
    let reset = thread::spawn(move || {
        wait_for("a marker is given back", || bench.was_busy.load(Ordering::SeqCst));
        queues.forget_detached();
        !bench.is_busy.load(Ordering::SeqCst)
    });
    process.run_due();
    assert!(reset.join().unwrap(), "it is given back behind the reset");
    assert!(process.queues.lock().has_no_queues());
}

#[test]
fn a_destroyed_stream_leaves_its_status_to_others() {
    let process = Process::new(BELOW);
    let shared = status();
    let gone = process.queues.create(0, Some(process.claim), shared);
    let Admission::Now(begun) = process.queues.admit(gone, &[], WORK) else {
        panic!("no other is more urgent")
    };
    process.queues.finish(begun, true);
    process.queues.suspend(gone, true);
    assert!(process.queues.detach_stream(gone));
    let next = process.queues.create(0, Some(process.claim), shared);
    process.queues.suspend(next, true);
    process.queues.suspend(gone, false);
    assert!(!shared.is_clear(), "it is the next one's");
    process.queues.suspend(next, false);
    assert!(!process.queues.lock().is_any_suspended());
}

#[test]
fn no_gate_is_made_by_a_destroyed_stream() {
    let process = Process::new(BELOW);
    assert!(process.launch());
    assert!(process.queues.detach_stream(process.queue));
    assert!(process.queues.lock().wanted_gate().is_none());
    process.queues.create(0, Some(process.claim), status());
    assert!(process.queues.lock().wanted_gate().is_some());
}

/// Its last command has no marker, since it could be asked, and cannot be asked any more.
#[test]
fn what_a_null_stream_had_while_it_was_the_only_one_does_not_count_for_ever() {
    let process = Process::new(AdmissionState::Beside);
    process.queues.destroy(process.queue);
    process.bench.orders_others.store(true, Ordering::SeqCst);
    let process = Process { queue: process.queues.create(0, Some(process.claim), status()), ..process };
    assert!(process.launch());
    process.bench.orders_others.store(false, Ordering::SeqCst);
    process.queues.create(0, Some(process.claim), status());
    process.complete_all();
    (0..10).for_each(|_| {
        process.clock.advance(Nanos::from_millis(1));
        process.run_due();
    });
    assert_eq!((process.arbiter.reports(), process.asked(), process.recorded()), ((1, 1), 0, 0));
}

#[test]
fn a_caller_that_has_waited_for_a_stream_needs_no_marker() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.launch());
    let waited = process.queues.host_wait_begins(&[process.queue]);
    process.pass(Duration::from_millis(1));
    process.run_due();
    process.queues.host_wait_ends(&waited, true);
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    assert_eq!(process.recorded(), 0);
}

#[test]
fn the_watcher_is_woken_to_tell_of_the_end_in_time() {
    let process = Process::new(AdmissionState::Beside);
    let rung = Arc::new(AtomicUsize::new(0));
    let bell = Arc::clone(&rung);
    process.queues.set_alarm(Box::new(move || {
        bell.fetch_add(1, Ordering::SeqCst);
    }));
    assert!(process.launch());
    process.queues.run_due(now() + Nanos::from_secs(1));
    let waited = process.queues.host_wait_begins(&[process.queue]);
    process.queues.run_due(now() + Nanos::from_secs(1));
    let before = rung.load(Ordering::SeqCst);
    process.queues.host_wait_ends(&waited, true);
    assert_eq!(rung.load(Ordering::SeqCst), before + 1, "it would sleep for long");
    process.queues.run_due(now() + Nanos::from_secs(1));
    process.queues.host_wait_ends(&[], true);
    assert_eq!(rung.load(Ordering::SeqCst), before + 1, "it comes in time");
}

#[test]
fn a_wait_that_failed_proves_nothing() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.launch());
    let waited = process.queues.host_wait_begins(&[process.queue]);
    process.queues.host_wait_ends(&waited, false);
    process.tend_until("it is asked for", |process| process.asked() > 0);
    assert_eq!(process.arbiter.reports(), (1, 0));
}

#[test]
fn a_stream_that_is_always_busy_gets_a_marker_now_and_then() {
    let process = Process::new(AdmissionState::Beside);
    for launched in 0..300 {
        assert!(process.launch());
        process.clock.advance(Nanos::from_micros(10));
        process.run_due();
        assert_eq!(
            (process.asked(), process.recorded()),
            (0, u64::from(launched >= 200)),
            "after {launched}"
        );
    }
}

/// How often the watcher looks in 50 ms. At a thousand it is enough.
fn looks(process: &Process) -> usize {
    let since = now();
    let look = |_: &usize| {
        let next = process.queues.run_due(now() + Nanos::from_millis(10));
        process.clock.advance((next - now()).max(Nanos(1)));
        now() - since < Nanos::from_millis(50)
    };
    (0..1_000).take_while(look).count()
}

/// A copy that waits for its work, or a full hardware queue.
#[test]
fn a_launch_that_does_not_return_does_not_keep_the_watcher_busy() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.launch());
    let other = process.queues.create(0, Some(process.claim), status());
    let Admission::Now(begun) = process.queues.admit(other, &[], WORK) else {
        panic!("no other is more urgent")
    };
    let looks = looks(&process);
    assert!(looks < 100, "{looks}");
    assert_eq!(process.asked(), 0);
    process.complete_all();
    process.queues.finish(begun, true);
    let next = process.queues.run_due(now() + Nanos::from_millis(10));
    assert!(next - now() < Nanos::from_micros(200), "it is asked soon: {}", next - now());
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

/// While a stream captures, say.
#[test]
fn paused_markers_do_not_keep_the_watcher_busy() {
    for state in [BELOW, AdmissionState::Beside] {
        let process = Process::new(state);
        let rung = Arc::new(AtomicUsize::new(0));
        let bell = Arc::clone(&rung);
        assert!(process.launch());
        process.queues.set_alarm(Box::new(move || {
            bell.fetch_add(1, Ordering::SeqCst);
        }));
        process.queues.pause_markers(true);
        let looks = looks(&process);
        assert!(looks < 100, "{looks}, {state:?}");
        process.complete_all();
        process.queues.pause_markers(false);
        assert_eq!(rung.load(Ordering::SeqCst), 1, "it would come too late");
        process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    }
}

#[test]
fn a_stream_that_cannot_tell_is_not_followed() {
    let process = Process::new(AdmissionState::Beside);
    process.bench.is_mute.store(true, Ordering::SeqCst);
    assert!(process.launch());
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

#[test]
fn a_call_that_cannot_ask_leaves_that_to_the_watcher() {
    let process = Process::new(BELOW);
    let copy = || match process.queues.admit(
        process.queue,
        &[],
        Demand { end: KnownEnd::ByReturn, ..WORK.into() },
    ) {
        Admission::Now(begun) => process.queues.finish(begun, true),
        other => panic!("there is room: {other:?}"),
    };
    process.bench.is_mute.store(true, Ordering::SeqCst);
    copy();
    assert_eq!(process.recorded(), 0, "the call may have waited");
    process.bench.is_mute.store(false, Ordering::SeqCst);
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    process.bench.orders_others.store(true, Ordering::SeqCst);
    let null = process.queues.create(0, Some(process.claim), status());
    process.bench.is_mute.store(true, Ordering::SeqCst);
    let demand = Demand { end: KnownEnd::ByReturn, ..WORK.into() };
    let Admission::Now(begun) = process.queues.admit(null, &[], demand) else { panic!("there is room") };
    process.queues.finish(begun, true);
    assert_eq!(process.recorded(), 1, "that one could not be asked later");
}

#[test]
fn a_call_that_waits_for_its_work_leaves_no_marker_behind() {
    let copies = Demand { end: KnownEnd::ByReturn, ..WORK.into() };
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
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

#[test]
fn a_caller_that_knows_the_work_before_a_marker_to_be_done_waits_for_the_marker() {
    let process = Process::new(BELOW);
    let launch = |event| {
        let timed = Demand { end: KnownEnd::ByEvent(event), ..WORK.into() };
        let Admission::Now(begun) = process.queues.admit(process.queue, &[], timed) else {
            panic!("there is room")
        };
        process.queues.finish(begun, true);
    };
    let in_doubt = || process.queues.lock().is_marker_in_doubt(Source::Queue(process.queue));
    process.queues.event_seen(7);
    launch(7);
    assert!(!in_doubt(), "the event was an earlier launch's");
    process.queues.event_seen(8);
    assert!(!in_doubt(), "another event");
    process.queues.event_seen(7);
    assert!(in_doubt());
    process.complete_all();
    process.queues.await_doubtful_marker(Some(process.queue), None, 0);
    launch(9);
    assert!(!in_doubt(), "of a launch before");
    process.queues.event_seen(9);
    assert!(in_doubt());
    process.tend_until("there is room", Process::launch);
    assert!(!in_doubt(), "no event is the last one's own");
}

#[test]
fn what_was_launched_while_alone_is_followed_when_others_come() {
    let process = Process::new(AdmissionState::Alone);
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    process.run_due();
    assert_eq!(process.asked(), 0);
    process.set_state(BELOW);
    assert_eq!(process.arbiter.reports(), (1, 0), "there may be work");
    assert!(process.launch() && !process.launch(), "one more is as much as may be ahead");
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

/// Until then it counts as work in flight, and the time until the next look as time that it took.
#[test]
fn what_may_be_there_from_before_others_came_is_looked_for_at_once() {
    let process = Process::new(AdmissionState::Alone);
    process.run_due();
    *process.arbiter.state.lock().unwrap() = BELOW;
    process.run_due();
    assert_eq!((process.arbiter.reports(), process.asked()), ((1, 0), 1), "there may be something");
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

/// Another process goes and comes again while the first command runs.
#[test]
fn what_was_launched_while_alone_behind_what_is_followed_is_followed_as_well() {
    let process = Process::new(BELOW);
    assert!(process.launch());
    process.set_state(AdmissionState::Alone);
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    process.set_state(BELOW);
    process.bench.complete.store(1, Ordering::SeqCst);
    (0..20).for_each(|_| {
        process.clock.advance(Nanos::from_millis(1));
        process.run_due();
    });
    assert_eq!(process.arbiter.reports(), (1, 0), "the second one is there");
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

#[test]
fn work_in_flight_is_reported_to_another_controller() {
    let process = Process::new(AdmissionState::Beside);
    assert!(process.launch());
    process.queues.register(process.claim, None);
    process.run_due();
    process.clock.advance(Nanos::from_secs(1));
    process.run_due();
    process.queues.register(process.claim, Some(Arc::clone(&process.arbiter) as Arc<dyn Registration>));
    process.run_due();
    assert_eq!(process.arbiter.reports(), (2, 0));
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (2, 1));
}

#[test]
fn what_was_launched_before_the_first_registration_is_followed() {
    let process = Process::new(AdmissionState::Beside);
    let urgent = process.queues.claim(ClaimKey::new(1, 1));
    let queue = process.queues.create(0, Some(urgent), status());
    assert!(matches!(process.queues.admit(queue, &[], WORK), Admission::Free));
    let arbiter = TestArbiter::new(AdmissionState::Beside);
    process.queues.register(urgent, Some(Arc::clone(&arbiter) as Arc<dyn Registration>));
    process.run_due();
    assert_eq!(arbiter.reports(), (1, 0));
}

#[test]
fn what_was_launched_while_a_stream_captured_is_followed_afterwards() {
    let process = Process::new(AdmissionState::Beside);
    process.queues.create(0, Some(process.claim), status());
    process.queues.pause_markers(true);
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    process.queues.pause_markers(false);
    assert_eq!(process.arbiter.reports(), (1, 0), "it may be there still");
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    assert_eq!(process.asked(), 1);
    process.queues.pause_markers(true);
    process.queues.pause_markers(false);
    assert_eq!(process.arbiter.reports(), (1, 1), "nothing was launched");
}

/// It may wait for the other claim's work for long, and claims that are less urgent than this one with it.
#[test]
fn a_wait_for_the_device_does_not_hide_the_end_of_one_claims_work() {
    let process = Process::new(AdmissionState::Beside);
    let other = process.queues.claim(ClaimKey::new(1, -1));
    let other = process.queues.create(0, Some(other), status());
    assert!(process.launch());
    let waited = process.queues.host_wait_begins(&[process.queue]);
    process.clock.advance(Nanos::from_millis(1));
    process.run_due();
    assert_eq!(process.asked(), 0, "it sees the end");
    process.queues.host_wait_ends(&waited, false);
    let waited = process.queues.host_wait_begins(&[process.queue, other]);
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    process.queues.host_wait_ends(&waited, true);
}
