use xsched_protocol::{
    events::Record,
    verdict::{Action, RuleId},
};

use super::*;
use crate::call::RuntimeCall;
use crate::call::tests::call;
use crate::scheduling::calls::Told;
use crate::scheduling::entry::{Doing, Holder};

const PID: u32 = 10;
const TID: u32 = 11;
const DEVICE: u64 = 7;

struct Bench {
    process: Process,
    arbiter: Arbiter,
    calls: Calls,
    judgements: Judgements,
    entries: Vec<Entry>,
}

impl Bench {
    fn new() -> Self {
        let (process, arbiter) = (Process::new(PID), Arbiter::default());
        let (calls, judgements) = (Calls::default(), Judgements::default());
        let mut bench = Self { process, arbiter, calls, judgements, entries: Vec::new() };
        bench.take(
            1,
            Event::QueueOpened {
                queue: 1,
                stream: 0x100,
                device: DEVICE,
                stream_priority: 0,
                deferred: 0,
                in_flight: 0,
                launched: 0,
            },
        );
        bench
    }

    fn take(&mut self, time_ns: u64, event: Event) {
        let record: Record = event.record(time_ns, TID);
        self.process.take(time_ns, &record, &event, &self.arbiter, &mut self.entries);
    }

    fn called(&mut self, begin_ns: u64, end_ns: u64) -> Rc<Followed> {
        let mut call = RuntimeCall {
            pid: PID,
            tid: TID,
            begin_ns,
            end_ns: Some(end_ns),
            kernel: Some("k".into()),
            ..call("hipLaunchKernel")
        };
        self.calls.note(&mut call, Told::Since(0));
        call.followed.unwrap()
    }

    fn launched(&mut self, begun_ns: u64, number: u64, waited_since_ns: u64, position: u64) {
        let returned_ns = begun_ns + 5;
        let judgement = Judgement::new(Action::Passthrough, 0, RuleId::NONE);
        let event = Event::Launched {
            queue: 1,
            number,
            returned_ns,
            position,
            waited_since_ns,
            ahead_ns: 0,
            judgement,
            is_gated: false,
        };
        self.take(begun_ns, event);
    }

    /// Behind a gate.
    fn launched_gated(&mut self, begun_ns: u64, number: u64) {
        let event = Event::Launched {
            queue: 1,
            number,
            returned_ns: begun_ns + 5,
            position: 0,
            waited_since_ns: 0,
            ahead_ns: 0,
            judgement: Judgement::NONE,
            is_gated: true,
        };
        self.take(begun_ns, event);
    }

    /// It is suspended and its gate closed, or the opposite.
    fn suspended(&mut self, time_ns: u64, suspended: bool) {
        self.take(time_ns, Event::Gate { device: DEVICE, stream_priority: 0, is_open: !suspended });
        self.take(
            time_ns,
            Event::Admission { device: DEVICE, stream_priority: 0, suspended, level: 3, ready: 2 },
        );
    }

    fn completed(&mut self, time_ns: u64, through: u64, observed: Observed) {
        self.take(time_ns, Event::Completed { queue: 1, through, device_ns: 0, observed });
    }

    fn executions(&mut self, called_until_ns: u64) -> Vec<Execution> {
        let known = (&self.calls, &self.judgements);
        self.process.emit(Called::Until(called_until_ns), known, &mut self.entries);
        let executions = self.entries.iter().filter_map(|entry| match entry {
            Entry::Execution(execution) => Some(execution.clone()),
            _ => None,
        });
        executions.collect()
    }
}

/// The intervals from the call to the end.
fn parts(one: &Execution) -> u64 {
    one.host_ns + one.buffered_ns + one.behind_ns + one.gated_ns + (one.end_ns - one.begin_ns)
}

#[test]
fn an_execution_lasts_from_the_launch_to_its_marker() {
    let mut bench = Bench::new();
    let call = bench.called(100, 120);
    bench.launched(105, 1, 0, 0);
    bench.completed(200, 1, Observed::Marker);
    assert!(bench.executions(300).is_empty(), "its call is not in the timeline yet");
    call.settle(&"liba.so".into(), true);
    let executions = bench.executions(300);
    let [one] = &executions[..] else { panic!("{executions:?}") };
    assert_eq!((one.begin_ns, one.end_ns, one.timing), (110, 200, Timing::Measured));
    assert_eq!(
        (one.name.as_deref(), one.api, one.flow),
        (Some("k"), Some("hipLaunchKernel"), Some(call.flow))
    );
    assert_eq!((one.called_ns, one.host_ns, one.buffered_ns, one.behind_ns), (100, 10, 0, 0));
    let judged = one.judged.as_ref().map(|judged| (judged.verdict, &*judged.rule));
    assert_eq!((one.origin.as_deref(), judged), (Some("liba.so"), Some(("passthrough", "none fits"))));
    assert_eq!(parts(one), 100);
}

#[test]
fn the_recorders_walk_before_a_call_of_the_shim_is_no_delay() {
    for waited_since_ns in [0, 40] {
        let mut bench = Bench::new();
        let call = bench.called(103, 104);
        bench.launched(100, 1, waited_since_ns, 0);
        bench.completed(200, 1, Observed::Marker);
        assert!(bench.executions(300).is_empty(), "its call is not in the timeline yet");
        call.settle(&"liba.so".into(), true);
        let executions = bench.executions(300);
        let [one] = &executions[..] else { panic!("{executions:?}") };
        let waited_ns = if waited_since_ns > 0 { 60 } else { 0 };
        assert_eq!((one.called_ns, one.host_ns, one.buffered_ns), (103 - waited_ns, 2, waited_ns));
        assert_eq!(call.queue_delay_ns(), Some(2 + waited_ns));
        assert_eq!(parts(one), one.end_ns - one.called_ns);
    }
}

#[test]
fn a_call_gets_the_same_delay_as_its_execution() {
    let mut bench = Bench::new();
    let calls = [bench.called(100, 120), bench.called(130, 140)];
    bench.launched(105, 1, 0, 0);
    bench.launched(135, 2, 0, 0);
    bench.completed(300, 2, Observed::Marker);
    assert!(bench.executions(310).is_empty());
    assert_eq!(calls[0].queue_delay_ns(), None, "a later observation may be better");
    assert!(bench.executions(320).is_empty());
    let told = calls.each_ref().map(|call| call.queue_delay_ns().unwrap());
    for call in &calls {
        call.settle(&"liba.so".into(), true);
    }
    let shown: Vec<_> = bench.executions(330).iter().map(|one| one.begin_ns - one.called_ns).collect();
    assert_eq!(shown, told);
    // The second waits for the first: 110 to 205, and 205 to 300.
    assert_eq!(told, [10, 75]);
}

#[test]
fn a_late_call_gets_its_delay_too() {
    let mut bench = Bench::new();
    bench.launched(105, 1, 0, 0);
    bench.completed(300, 1, Observed::Marker);
    assert!(bench.executions(310).is_empty() && bench.executions(320).is_empty());
    let call = bench.called(100, 120);
    assert!(bench.executions(330).is_empty());
    assert_eq!(call.queue_delay_ns(), Some(10));
}

#[test]
fn at_the_end_every_call_gets_its_delay() {
    let mut bench = Bench::new();
    let call = bench.called(100, 120);
    bench.launched(105, 1, 0, 0);
    bench.completed(300, 1, Observed::Marker);
    bench.process.tell_calls(&bench.calls);
    assert_eq!(call.queue_delay_ns(), Some(10));
}

#[test]
fn commands_of_one_marker_share_its_time_and_wait_for_each_other() {
    let mut bench = Bench::new();
    for (begun_ns, number) in [(100, 1), (110, 2), (120, 3)] {
        bench.called(begun_ns - 1, begun_ns + 6).settle(&"liba.so".into(), false);
        bench.launched(begun_ns, number, 0, 0);
    }
    bench.completed(405, 3, Observed::Wait);
    let executions = bench.executions(500);
    let times: Vec<_> = executions.iter().map(|one| (one.begin_ns, one.end_ns)).collect();
    assert_eq!(times, [(105, 205), (205, 305), (305, 405)]);
    for one in &executions {
        assert_eq!((one.timing, one.flow), (Timing::Estimated, None), "the calls are left out");
        assert_eq!(parts(one), one.end_ns - one.called_ns);
    }
    assert_eq!(executions[2].behind_ns, 305 - 125);
}

#[test]
fn a_deferred_command_shows_for_how_long_and_by_which_process() {
    let mut bench = Bench::new();
    let word = xsched_protocol::arbiter_page::ClaimWord::new(1, 0, 1).with_ready(true).0;
    let seat = Event::Claim {
        slot: 0,
        generation: 1,
        pid: 99,
        device: DEVICE,
        priority: 5,
        stream_priority: 0,
        word,
    };
    bench.arbiter.take(1, &seat, &mut bench.entries);
    let stands =
        |suspended| Event::Admission { device: DEVICE, stream_priority: 0, suspended, level: 3, ready: 2 };
    bench.called(1_000, 1_020).settle(&"liba.so".into(), true);
    bench.take(1_010, Event::Waits { queue: 1, position: 1, judgement: Judgement::NONE });
    bench.take(1_100, stands(true));
    bench.take(1_900, stands(false));
    // Launched by another thread.
    let launched = Event::Launched {
        queue: 1,
        number: 1,
        returned_ns: 2_005,
        position: 1,
        waited_since_ns: 1_010,
        ahead_ns: 0,
        judgement: Judgement::NONE,
        is_gated: false,
    };
    let record = launched.record(2_000, TID + 1);
    bench.process.take(2_000, &record, &launched, &bench.arbiter, &mut bench.entries);
    bench.completed(2_500, 1, Observed::Marker);
    let executions = bench.executions(3_000);
    let [one] = &executions[..] else { panic!("{executions:?}") };
    let holder = Some(Holder { pid: 99, level: 1 });
    assert_eq!((one.buffered_ns, one.suspended_ns, one.holder), (990, 800, holder));
    assert_eq!((one.called_ns, one.host_ns, parts(one)), (1_000, 15, 1_500));
    assert!(one.flow.is_some(), "it is that of the calling thread");
    let phases: Vec<_> = bench
        .entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Phase(phase) => Some((phase.doing, phase.begin_ns, phase.end_ns, phase.holder)),
            _ => None,
        })
        .collect();
    let expected = [
        (Doing::Buffered, 1_010, 1_100, None),
        (Doing::Suspended, 1_100, 1_900, holder),
        (Doing::Buffered, 1_900, 2_000, None),
        (Doing::Running, 2_000, 2_500, None),
    ];
    assert_eq!(phases, expected);
}

#[test]
fn a_call_that_never_comes_is_not_waited_for_long_and_counted() {
    let mut bench = Bench::new();
    bench.launched(100, 1, 0, 0);
    bench.completed(200, 1, Observed::Marker);
    assert!(bench.executions(105 + CALL_PATIENCE_NS).is_empty());
    assert_eq!(bench.process.uncalled(), 0);
    let executions = bench.executions(106 + CALL_PATIENCE_NS);
    assert_eq!(executions.len(), 1);
    assert_eq!((&executions[0].name, executions[0].called_ns), (&None, 100));
    assert_eq!(bench.process.uncalled(), 1);
}

#[test]
fn an_execution_of_a_call_before_the_recording_is_not_counted() {
    let mut bench = Bench { calls: Calls::new(true), ..Bench::new() };
    bench.launched(100, 1, 0, 0);
    bench.completed(200, 1, Observed::Marker);
    bench.called(299, 306).settle(&"liba.so".into(), true);
    assert_eq!(bench.executions(106 + CALL_PATIENCE_NS).len(), 1);
    assert_eq!(bench.process.uncalled(), 0);
}

#[test]
fn a_call_is_waited_for_until_the_calls_were_looked_at() {
    let mut bench = Bench::new();
    bench.launched(100, 1, 0, 0);
    bench.completed(200, 1, Observed::Marker);
    // The tracer may have been busy for a long time.
    assert!(bench.executions(90).is_empty());
    bench.called(99, 106).settle(&"liba.so".into(), true);
    assert_eq!(bench.executions(110)[0].api, Some("hipLaunchKernel"));
    assert_eq!(bench.process.uncalled(), 0);
}

#[test]
fn a_call_is_waited_for_while_it_waits_itself() {
    let mut bench = Bench::new();
    let call = bench.called(99, 106);
    bench.launched(100, 1, 0, 0);
    bench.completed(200, 1, Observed::Marker);
    assert!(bench.executions(u64::MAX).is_empty(), "however long the tracer takes");
    call.settle(&"liba.so".into(), true);
    assert_eq!(bench.executions(u64::MAX)[0].flow, Some(call.flow));
}

#[test]
fn the_call_of_a_long_kernel_is_not_forgotten() {
    let mut bench = Bench::new();
    let second = 1_000_000_000;
    bench.called(99, 106).settle(&"liba.so".into(), true);
    bench.launched(100, 1, 0, 0);
    assert!(bench.executions(200).is_empty());
    bench.calls.forget_old(100 * second);
    bench.completed(100 * second, 1, Observed::Marker);
    assert_eq!(bench.executions(100 * second)[0].api, Some("hipLaunchKernel"));
}

#[test]
fn a_process_that_has_ended_is_closed_when_its_calls_are_known() {
    let mut bench = Bench::new();
    bench.launched(100, 1, 0, 0);
    bench.completed(200, 1, Observed::Marker);
    bench.process.ended(300);
    bench.executions(90);
    bench.called(99, 106).settle(&"liba.so".into(), true);
    assert_eq!(bench.executions(300)[0].api, Some("hipLaunchKernel"));
    assert!(!bench.process.is_done(), "others may come, and are then treated as its calls");
    bench.executions(301);
    assert!(bench.process.is_done());
}

#[test]
fn losses_leave_no_trace_behind() {
    let mut bench = Bench::new();
    // The launch of 1 and all events of 2 are lost.
    bench.launched(300, 3, 0, 0);
    bench.completed(400, 2, Observed::Marker);
    bench.completed(500, 3, Observed::Marker);
    bench.launched(600, 4, 0, 0);
    bench.completed(700, 4, Observed::Lost);
    bench.completed(650, 2, Observed::Marker);
    bench.take(
        800,
        Event::Launched {
            queue: 9,
            number: 1,
            returned_ns: 0,
            position: 0,
            waited_since_ns: 0,
            ahead_ns: 0,
            judgement: Judgement::NONE,
            is_gated: false,
        },
    );
    let executions = bench.executions(u64::MAX);
    let times: Vec<_> = executions.iter().map(|one| (one.begin_ns, one.end_ns)).collect();
    assert_eq!(times, [(305, 500)]);
}

#[test]
fn any_numbers_are_accepted() {
    let random = fastrand_like();
    let mut bench = Bench::new();
    for (kind, [a, b, c, d, e]) in random {
        let record =
            Record { kind: kind % 6, thread: TID, time_ns: a, queue: b % 3, values: [a, b, c, d, e] };
        if let Some(event) = Event::of(&record) {
            bench.process.take(e, &record, &event, &bench.arbiter, &mut bench.entries);
        }
    }
    for one in bench.executions(u64::MAX) {
        assert!(one.begin_ns <= one.end_ns && one.called_ns <= one.begin_ns);
    }
}

/// Pseudorandom numbers of all sizes, always the same.
fn fastrand_like() -> impl Iterator<Item = (u32, [u64; 5])> {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 7) >> (state % 60)
    };
    (0..20_000).map(move |_| (next() as u32, [next(), next(), next(), next(), next()]))
}

#[test]
fn open_intervals_end_with_their_process_however_late_that_is_noticed() {
    let mut bench = Bench::new();
    bench.launched(100, 1, 0, 0);
    bench.process.ended(5_000);
    bench.executions(u64::MAX);
    assert!(bench.process.is_done());
    let ends: Vec<_> = bench
        .entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Phase(phase) => Some(phase.end_ns),
            _ => None,
        })
        .collect();
    assert_eq!(ends.last(), Some(&5_000), "{:?}", bench.entries);
}

fn opened(queue: u64, device: u64) -> Event {
    let (stream, stream_priority, deferred, in_flight, launched) = (0x100 + queue, 0, 0, 0, 0);
    Event::QueueOpened { queue, stream, device, stream_priority, deferred, in_flight, launched }
}

#[test]
fn streams_that_come_and_go_are_followed_however_many_there_were() {
    let mut bench = Bench::new();
    // The first stays in use, and another one has work on the device all the time.
    let of = |queue, number, begun_ns| Event::Launched {
        queue,
        number,
        returned_ns: begun_ns + 1,
        position: 0,
        waited_since_ns: 0,
        ahead_ns: 0,
        judgement: Judgement::NONE,
        is_gated: false,
    };
    bench.take(2, opened(2, DEVICE));
    bench.take(3, of(2, 1, 3));
    let (mut time_ns, mut count) = (10, 0);
    let queues = 3..3 * STREAMS_MAX as u64;
    for queue in queues.clone() {
        bench.take(time_ns, opened(queue, DEVICE));
        for (queue, number) in [(queue, 1), (1, queue)] {
            bench.take(time_ns + 1, of(queue, number, time_ns + 1));
            let observed = Observed::Marker;
            bench.take(time_ns + 5, Event::Completed { queue, through: number, device_ns: 0, observed });
        }
        if queue % 512 == 0 || queue + 1 == queues.end {
            count += bench.executions(u64::MAX).len() as u64;
            bench.entries.clear();
        }
        time_ns += 10;
    }
    assert_eq!(count, 2 * (queues.end - queues.start));
    assert_eq!(bench.process.streams.len(), STREAMS_MAX);
    assert_eq!(bench.process.unseen(), 1, "commands still on the device");
}

#[test]
fn state_of_a_misbehaving_process_is_bounded() {
    let mut bench = Bench::new();
    for device in 0..10 * XQUEUES_MAX as u64 {
        bench.take(
            device,
            Event::Admission { device, stream_priority: 0, suspended: true, level: 3, ready: 0 },
        );
        bench.take(device, opened(device + 2, device));
    }
    assert_eq!(bench.process.xqueues.len(), XQUEUES_MAX);
    assert_eq!(bench.process.streams.len(), XQUEUES_MAX + 1, "one device has two");
}

const US: u64 = 1_000;

/// Begin and end, and the time at the gate, in microseconds.
fn gated(bench: &mut Bench) -> Vec<(u64, u64, u64)> {
    let calls = [bench.called(99 * US, 101 * US), bench.called(101 * US, 103 * US)];
    for call in calls {
        call.settle(&"liba.so".into(), true);
    }
    let executions = bench.executions(1_000_000_000);
    let times = executions.iter().map(|one| {
        assert_eq!(parts(one), one.end_ns - one.called_ns);
        (one.begin_ns / US, one.end_ns / US, one.gated_ns / US)
    });
    times.collect()
}

#[test]
fn commands_at_a_closed_gate_are_not_executed_meanwhile() {
    let mut bench = Bench::new();
    bench.launched_gated(100 * US, 1);
    bench.launched_gated(102 * US, 2);
    bench.suspended(600 * US, true);
    bench.completed(1_100 * US, 1, Observed::Marker);
    bench.suspended(90_000 * US, false);
    bench.completed(91_000 * US, 2, Observed::Marker);
    let times = gated(&mut bench);
    // The first had passed the gate when it was closed.
    assert_eq!(times, [(100, 1_100, 0), (90_000, 91_000, 88_900)]);
}

#[test]
fn commands_without_a_gate_run_on() {
    let mut bench = Bench::new();
    bench.launched(100 * US, 1, 0, 0);
    bench.suspended(50 * US, true);
    bench.suspended(90_000 * US, false);
    bench.completed(91_000 * US, 1, Observed::Marker);
    assert_eq!(gated(&mut bench), [(100, 91_000, 0)]);
}

#[test]
fn commands_that_share_a_marker_share_the_time_in_which_the_gate_was_open() {
    let mut bench = Bench::new();
    bench.launched_gated(100 * US, 1);
    bench.launched_gated(102 * US, 2);
    bench.suspended(600 * US, true);
    bench.suspended(90_600 * US, false);
    bench.completed(91_100 * US, 2, Observed::Wait);
    let times = gated(&mut bench);
    let [(begin, end, 0), (next, last, waited)] = times[..] else { panic!("{times:?}") };
    assert_eq!((begin, end / 10, next, last), (100, 60, 90_600, 91_100));
    assert!((89_990..=90_000).contains(&waited), "{times:?}");
}

#[test]
fn commands_completed_while_the_gate_is_closed_had_passed_it() {
    for open_us in [2_101, 90_000] {
        let mut bench = Bench::new();
        bench.launched_gated(100 * US, 1);
        bench.launched_gated(102 * US, 2);
        bench.suspended(1_300 * US, true);
        bench.completed(2_100 * US, 2, Observed::Wait);
        bench.suspended(open_us * US, false);
        assert_eq!(gated(&mut bench), [(100, 1_100, 0), (1_100, 2_100, 0)]);
    }
}
