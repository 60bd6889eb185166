//! What single commands take is measured now and then, so that late looks do not lengthen what is charged.

use super::*;

const TOOK: Nanos = Nanos::from_micros(40);
const APART: Nanos = Nanos::from_millis(10);

fn measuring(state: AdmissionState) -> Process {
    let process = Process::new(state);
    process.bench.measures.store(true, Ordering::SeqCst);
    process.bench.took_ns.store(TOOK.0, Ordering::SeqCst);
    process.complete_all();
    process
}

fn device_time(process: &Process) -> Nanos {
    process.queues.usage(process.claim).device_time
}

/// Each queue launches one command, at which the watcher looks 10 ms later.
fn round(process: &Process, queues: &[QueueId]) -> Nanos {
    let before = device_time(process);
    for &queue in queues {
        assert!(process.launch_on(queue, WORK));
    }
    process.clock.advance(APART);
    process.run_due();
    device_time(process) - before
}

#[test]
fn streams_of_short_commands_are_charged_what_they_took_however_late_the_watcher_looks() {
    let process = measuring(AdmissionState::Beside);
    let queues = [(); 32].map(|()| process.queues.create(0, Some(process.claim), status()));
    round(&process, &queues);
    let charged: u64 = (0..100).map(|_| round(&process, &queues).0).sum();
    let took = 100 * 32 * TOOK.0;
    assert!((took..=2 * took).contains(&charged), "{charged} ns of {took}");
}

/// No duration is known here, and the looks are late.
#[test]
fn a_claim_is_never_charged_more_than_the_time_for_which_it_had_work() {
    let process = measuring(AdmissionState::Beside);
    process.bench.measures.store(false, Ordering::SeqCst);
    let queues = [(); 32].map(|()| process.queues.create(0, Some(process.claim), status()));
    for _ in 0..100 {
        let charged = round(&process, &queues);
        assert!(charged <= APART, "{charged}");
    }
}

#[test]
fn launches_that_take_no_lock_are_measured_as_well() {
    let process = measuring(AdmissionState::Beside);
    let recorded_with = |measures: bool| {
        process.bench.measures.store(measures, Ordering::SeqCst);
        let before = process.recorded();
        for _ in 0..2_000 {
            assert!(process.launch());
            process.clock.advance(Nanos::from_micros(500));
            process.run_due();
        }
        process.recorded() - before
    };
    let without = recorded_with(false);
    let more = recorded_with(true) - without;
    // In a second, one each 100 ms at most, and each has two markers.
    assert!((10..=20).contains(&more), "{more} more than {without}");
}

#[test]
fn a_command_is_not_measured_if_a_marker_could_contradict_the_program_or_delay_others() {
    let ends = [KnownEnd::Unknown, KnownEnd::ByEvent(3)];
    let is_measured = |demand: Demand| {
        let process = measuring(AdmissionState::Beside);
        let Admission::Now(begun) = process.queues.admit(process.queue, &[], demand) else {
            panic!("nothing keeps it")
        };
        begun.sample.is_some()
    };
    assert_eq!(ends.map(|end| is_measured(Demand { end, ..WORK.into() })), [true, false]);
    let process = measuring(AdmissionState::Beside);
    process.bench.orders_others.store(true, Ordering::SeqCst);
    let null = process.queues.create(0, Some(process.claim), status());
    let Admission::Now(begun) = process.queues.admit(null, &[], WORK) else { panic!("nothing keeps it") };
    assert!(begun.sample.is_none());
}

#[test]
fn a_stream_that_is_destroyed_leaves_no_markers_of_its_samples() {
    let process = measuring(AdmissionState::Beside);
    process.bench.complete.store(0, Ordering::SeqCst);
    assert!(process.launch());
    assert_eq!((process.recorded(), process.bench.retired.load(Ordering::SeqCst)), (2, 0));
    assert!(process.queues.destroy(process.queue));
    assert_eq!(process.bench.retired.load(Ordering::SeqCst), 2);
    process.complete_all();
    process.clock.advance(APART);
    process.run_due();
    assert_eq!(process.bench.retired.load(Ordering::SeqCst), 2, "none is retired twice");
}

#[test]
fn a_sample_without_its_second_marker_retires_the_first() {
    let process = measuring(AdmissionState::Beside);
    let mut begun = process.admit().expect("nothing keeps it");
    process.queues.prepare(&mut begun);
    process.queues.finish(begun, false);
    assert_eq!((process.recorded(), process.bench.retired.load(Ordering::SeqCst)), (1, 1), "it was refused");
}

#[test]
fn a_launch_by_a_thread_that_waited_for_a_processor_after_the_marker_is_not_measured() {
    let process = measuring(AdmissionState::Beside);
    let measured_with = |gap: Nanos| {
        let mut begun = process.admit().expect("nothing keeps it");
        process.queues.prepare(&mut begun);
        process.clock.advance(gap);
        process.bench.took_ns.store((TOOK + gap).0, Ordering::SeqCst);
        process.queues.finish(begun, true);
        process.clock.advance(Nanos::from_millis(200));
        process.run_due();
        let state = process.queues.lock();
        state.expected(process.queue, DurationClass(1)).expect("it has completed")
    };
    let about = TOOK..=TOOK + TOOK / 8;
    assert!(about.contains(&measured_with(Nanos::from_micros(1))));
    assert!(about.contains(&measured_with(Nanos::from_millis(5))), "this sample tells nothing");
    assert!(about.contains(&measured_with(Nanos::from_micros(1))));
}

/// The program may ask at once whether the stream is done, which then has nothing but the marker.
#[test]
fn no_marker_goes_before_a_launch_that_the_runtime_may_refuse() {
    let process = measuring(AdmissionState::Beside);
    let mut begun = process.admit().expect("nothing keeps it").gated_if(|| false);
    process.queues.prepare(&mut begun);
    process.queues.finish(begun, false);
    assert_eq!(process.recorded(), 0);
}
