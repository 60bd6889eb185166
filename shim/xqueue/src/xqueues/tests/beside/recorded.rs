//! What is written while the process is recorded.

use super::*;

/// The launches and completions among events: number and whether it had waited, or how far.
fn course(events: &[Event]) -> Vec<(&'static str, u64)> {
    let steps = events.iter().filter_map(|event| match *event {
        Event::Waits { position, .. } => Some(("waits", position)),
        Event::Launched { number, .. } => Some(("launched", number)),
        Event::Completed { through, .. } => Some(("completed", through)),
        Event::Admission { suspended: held, .. } => Some(("stands", held.into())),
        _ => None,
    });
    steps.collect()
}

#[test]
fn a_process_that_is_recorded_is_followed_also_when_it_is_alone() {
    let process = Process::new(AdmissionState::Alone);
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.writer()));
    assert!(process.queues.is_engaged());
    let events = recorder.events();
    let opened: Vec<_> = events
        .iter()
        .filter_map(|event| match *event {
            Event::QueueOpened { stream, device, in_flight, .. } => Some((stream, device, in_flight)),
            _ => None,
        })
        .collect();
    assert_eq!(opened, [(2, 1, 0), (7, 1, 0)], "what has no queue, and the queue");
    assert!(process.launch() && process.launch());
    process.complete_all();
    process.tend_until("it is done", |process| process.bench.retired.load(Ordering::SeqCst) >= 1);
    let events = recorder.events();
    let steps = [("launched", 1), ("launched", 2), ("completed", 1), ("completed", 2)];
    assert_eq!(course(&events), steps);
    let all_measured = events
        .iter()
        .all(|event| !matches!(event, Event::Completed { observed: Observed::Wait | Observed::Lost, .. }));
    assert!(all_measured, "{events:?}");
    assert_eq!(process.arbiter.reports(), (0, 0), "the arbiter has nothing to do with it");
    assert_eq!(process.queues.usage(process.claim).device_time, Nanos::ZERO, "nor has the scheduler");
    process.queues.record(None);
    assert!(!process.queues.is_engaged());
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Free));
    assert!(recorder.events().is_empty());
}

#[test]
fn a_deferred_command_is_recorded_with_its_reason_and_its_end() {
    let process = Process::new(BELOW);
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.writer()));
    process.run_due();
    process.set_state(PREEMPTED);
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    process.pass(A_WHILE);
    process.set_state(BELOW);
    process.tend_until("it goes on", |process| process.launched() == 1);
    process.complete_all();
    process.tend_until("it is done", |process| process.queues.usage(process.claim).device_time > Nanos::ZERO);
    let records = recorder.records();
    let events: Vec<_> = records.iter().map(|record| Event::of(record).unwrap()).collect();
    // The first look after a change notes it.
    let steps: Vec<_> = course(&events).into_iter().filter(|(what, _)| *what != "stands").collect();
    assert_eq!(steps, [("waits", 1), ("launched", 1), ("completed", 1)]);
    let held = |is: bool| {
        events
            .iter()
            .filter(move |event| matches!(event, Event::Admission { suspended, .. } if *suspended == is))
    };
    assert_eq!(held(true).count(), 1);
    assert!(matches!(held(true).next(), Some(Event::Admission { level: 3, ready: 2, .. })));
    let launched = events.iter().zip(&records).find_map(|(event, record)| match *event {
        Event::Launched { waited_since_ns, position: 1, .. } => Some(record.time_ns - waited_since_ns),
        _ => None,
    });
    assert!(launched.is_some_and(|waited_ns| waited_ns >= A_WHILE.as_nanos() as u64), "{events:?}");
}

#[test]
fn a_wait_for_a_stream_looks_at_its_markers_first() {
    let process = Process::new(AdmissionState::Beside);
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.writer()));
    for _ in 0..3 {
        assert!(process.launch());
    }
    process.complete_all();
    let waited = process.queues.host_wait_begins(&[process.queue]);
    process.queues.host_wait_ends(&waited, true);
    let completed: Vec<_> =
        course(&recorder.events()).into_iter().filter(|step| step.0 == "completed").collect();
    assert_eq!(completed, [("completed", 1), ("completed", 2), ("completed", 3)]);
}

#[test]
fn a_refused_launch_is_recorded_as_one() {
    let process = Process::new(BELOW);
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.writer()));
    let begun = process.admit().unwrap();
    process.queues.finish(begun, false);
    assert_eq!(course(&recorder.events()).last(), Some(&("launched", 0)));
}

#[test]
fn what_a_caller_has_seen_complete_makes_room_at_once() {
    let process = Process::new(BELOW);
    process.queues.set_limit(Limit::Commands { threshold: 2, batch: 1 });
    let recorder = Recorder::new();
    process.queues.record(Some(recorder.writer()));
    for command in 0..3 {
        process.queues.submit(process.queue, Vec::new(), WORK, command).unwrap();
    }
    process
        .tend_until("two are on the device", |process| process.launched() == 2 && process.do_workers_sleep());
    process.bench.complete.store(1, Ordering::SeqCst);
    // The watcher would find nothing new after that. A worker that is not woken looks by itself some milliseconds later.
    process.queues.check_all_if_recorded();
    assert!(!process.do_workers_sleep() || process.launched() == 3, "no thread has woken the worker");
    process.tend_until("the third goes", |process| process.launched() == 3);
}

#[test]
fn time_at_a_closed_gate_is_recorded_as_such_and_not_charged() {
    let process = Process::new(BELOW).has_gates();
    let mut recorder = Recorder::new();
    process.queues.record(Some(recorder.writer()));
    let step = |us: u64| process.clock.advance(Nanos::from_micros(us));
    assert!(process.launch() && process.launch());
    step(500);
    process.set_state(PREEMPTED);
    step(500);
    process.bench.complete.store(1, Ordering::SeqCst);
    process.run_due();
    step(89_000);
    process.set_state(BELOW);
    step(1_000);
    process.complete_all();
    process.bench.took_ns.store(90_000_000, Ordering::SeqCst);
    process.tend_until("both are done", |process| process.queues.usage(process.claim).launched == 2);
    process.tend_until("nothing is left", |process| process.arbiter.reports().1 > 0);
    let used = process.queues.usage(process.claim).device_time;
    assert!((Nanos::from_micros(1_500)..Nanos::from_micros(2_200)).contains(&used), "{used}");
    let records = recorder.records();
    let gates: Vec<_> = records
        .iter()
        .filter_map(|record| match Event::of(record)? {
            Event::Gate { is_open, .. } => Some((is_open, record.time_ns)),
            _ => None,
        })
        .collect();
    let [(true, _), (false, shut_ns), (true, open_ns)] = gates[..] else { panic!("{gates:?}") };
    assert_eq!(open_ns - shut_ns, 89_500_000);
    let events: Vec<_> = records.iter().filter_map(Event::of).collect();
    let is_gated = |event: &Event| matches!(event, Event::Launched { is_gated: true, .. });
    assert_eq!(events.iter().filter(|event| is_gated(event)).count(), 2);
}
