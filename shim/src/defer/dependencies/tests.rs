use std::sync::Arc;

use xsched_sched::Nanos;

use super::*;
use xsched_xqueue::{GatePage, Load, Setup, Tried};

/// Launches nothing: in these tests everything stays deferred.
struct Nowhere;

impl Device for Nowhere {
    type Command = ();
    type Stream = ();
    type Marker = ();
    type Gate = ();
    type Trial = ();

    fn stream_number(&self, (): ()) -> u64 {
        0
    }

    fn launch(&self, (): ()) -> bool {
        true
    }

    fn mark(&self, (): ()) -> Option<()> {
        None
    }

    fn is_done(&self, (): ()) -> Option<bool> {
        None
    }

    fn is_complete(&self, (): ()) -> bool {
        true
    }

    fn time_between(&self, (): (), (): ()) -> Option<Nanos> {
        None
    }

    fn retire(&self, (): ()) {}

    fn make_gate(&self, (): (), _: Option<&'static GatePage>) -> Option<()> {
        None
    }

    fn look_at_trial(&self, (): &mut ()) -> Tried<()> {
        Tried::Refused
    }

    fn release_trial(&self, (): &mut ()) {}

    fn put_gate(&self, (): (), (): ()) -> bool {
        false
    }

    fn set_gate(&self, (): (), _: bool) {}
}

const COPY: usize = 0;
const DEVICE: i32 = 0;
const NULL: StreamKey = StreamKey::Legacy { copy: COPY, device: DEVICE };
const EVENT: EventKey = (COPY, 0xe0);

fn created(handle: usize) -> StreamKey {
    StreamKey::Created { copy: COPY, handle }
}

struct Bench {
    dependencies: Dependencies,
    queues: Arc<XQueues<Nowhere>>,
}

impl Bench {
    fn new() -> Self {
        let queues = XQueues::new(Nowhere, Setup::default());
        queues.suspend_all(true);
        Self { dependencies: Dependencies::default(), queues }
    }

    fn add(&mut self, key: StreamKey, device: i32, is_blocking: bool) {
        self.dependencies.add_stream(key, device, is_blocking, |status| {
            self.queues.create((), None, status);
        });
    }

    /// Defers a command on a stream.
    fn submit(&mut self, key: StreamKey, uses: &[EventUse]) -> Position {
        let queue = self.dependencies.stream(key).unwrap().queue();
        let position = self.queues.submit(queue, Vec::new(), Load::Signal, ()).unwrap();
        self.dependencies.used(uses, position, &self.queues);
        position
    }

    fn predecessors_on(&self, key: StreamKey) -> Vec<Position> {
        self.dependencies.predecessors_on(key, &self.queues)
    }
}

#[test]
fn the_null_stream_comes_after_blocking_streams_of_its_device_only() {
    let mut bench = Bench::new();
    bench.add(NULL, DEVICE, true);
    bench.add(created(1), DEVICE, true);
    bench.add(created(2), DEVICE, false);
    bench.add(created(3), DEVICE + 1, true);
    let [blocking, ..] = [1, 2, 3].map(|handle| bench.submit(created(handle), &[]));
    assert_eq!(bench.predecessors_on(NULL), [blocking]);
}

#[test]
fn blocking_streams_come_after_the_null_stream_and_others_do_not() {
    let mut bench = Bench::new();
    bench.add(NULL, DEVICE, true);
    bench.add(created(1), DEVICE, true);
    bench.add(created(2), DEVICE, false);
    let null = bench.submit(NULL, &[]);
    assert_eq!(bench.predecessors_on(created(1)), [null]);
    assert_eq!(bench.predecessors_on(created(2)), []);
}

#[test]
fn a_wait_comes_after_the_record_and_the_next_record_after_the_wait() {
    let mut bench = Bench::new();
    for handle in 1..=3 {
        bench.add(created(handle), DEVICE, false);
    }
    let (record, wait) = (EventUse::Record(EVENT), EventUse::Wait(EVENT));
    assert_eq!(bench.dependencies.predecessors_of_uses(&[wait]), [], "nothing was recorded");

    let recorded = bench.submit(created(1), &[record]);
    assert_eq!(bench.dependencies.predecessors_of_uses(&[wait]), [recorded]);
    let waits = [2, 3].map(|handle| bench.submit(created(handle), &[wait]));
    assert_eq!(bench.dependencies.predecessors_of_uses(&[wait]), [recorded], "waits do not order each other");
    assert_eq!(bench.dependencies.predecessors_of_uses(&[record]), [recorded, waits[0], waits[1]]);

    let again = bench.submit(created(1), &[record]);
    assert_eq!(
        bench.dependencies.predecessors_of_uses(&[wait]),
        [again],
        "a later wait is for the later record"
    );
    assert_eq!(bench.dependencies.record_of(EVENT), Some(again));
    bench.dependencies.remove_event(EVENT);
    assert_eq!(bench.dependencies.predecessors_of_uses(&[record]), []);
}

#[test]
fn a_stream_ends_after_waits_for_its_records_and_the_null_streams_work() {
    let mut bench = Bench::new();
    bench.add(NULL, DEVICE, true);
    bench.add(created(1), DEVICE, true);
    for handle in 2..=4 {
        bench.add(created(handle), DEVICE, false);
    }
    let concerning = |bench: &Bench, key| bench.dependencies.concerning(key, &bench.queues);
    let (record, wait) = (EventUse::Record(EVENT), EventUse::Wait(EVENT));
    let first = bench.submit(created(3), &[wait]);
    assert_eq!(concerning(&bench, created(2)), [first], "what it waits for may be on any stream");
    bench.submit(created(2), &[record]);
    let second = bench.submit(created(4), &[wait]);
    assert_eq!(concerning(&bench, created(2)), [first, second]);
    assert_eq!(concerning(&bench, created(1)), [first], "the second record is on another stream");
    bench.submit(created(1), &[record]);
    assert_eq!(concerning(&bench, created(2)), [first, second], "they are for earlier records");
    let null = bench.submit(NULL, &[]);
    assert_eq!(concerning(&bench, created(1)), [first, second, null], "a blocking stream");
    assert_eq!(bench.dependencies.null_streams(COPY, &bench.queues), [null]);
    assert_eq!(concerning(&bench, StreamKey::Created { copy: COPY + 1, handle: 1 }), []);
}

#[test]
fn the_last_wait_of_a_queue_covers_its_earlier_ones() {
    let mut bench = Bench::new();
    bench.add(created(1), DEVICE, false);
    let wait = EventUse::Wait(EVENT);
    bench.submit(created(1), &[wait]);
    let last = bench.submit(created(1), &[wait]);
    assert_eq!(bench.dependencies.predecessors_of_uses(&[EventUse::Record(EVENT)]), [last]);
}

#[test]
fn a_reset_forgets_streams_and_captures_of_its_device_only() {
    let mut bench = Bench::new();
    let elsewhere = StreamKey::Created { copy: COPY + 1, handle: 1 };
    bench.add(created(1), DEVICE, true);
    bench.add(elsewhere, DEVICE, true);
    assert!(bench.dependencies.capture_begins((COPY, 1)));
    assert!(!bench.dependencies.capture_begins((COPY, 1)), "it captures already");
    bench.add(created(2), DEVICE + 1, true);
    assert_eq!(bench.dependencies.remove_streams(COPY, DEVICE).len(), 1);
    assert!(bench.dependencies.stream(elsewhere).is_some() && !bench.dependencies.is_any_capturing());
    assert!(bench.dependencies.capture_begins((COPY, 2)));
    assert_eq!(bench.dependencies.remove_streams(COPY, DEVICE).len(), 0);
    assert!(bench.dependencies.stream(created(2)).is_some() && bench.dependencies.is_any_capturing());
}

#[test]
fn a_second_free_comes_after_the_first() {
    let mut bench = Bench::new();
    bench.add(created(1), DEVICE, false);
    bench.add(created(2), DEVICE, false);
    let memory = EventUse::Free((COPY, 0x7000));
    let free = bench.submit(created(1), &[memory]);
    assert_eq!(bench.dependencies.predecessors_of_uses(&[memory]), [free]);
    assert_eq!(bench.dependencies.record_of((COPY, 0x7000)), Some(free));
    assert!(
        bench.dependencies.predecessors_of_uses(&[EventUse::Free((COPY, 0x8000))]).is_empty(),
        "other memory"
    );
    let again = bench.submit(created(2), &[memory]);
    assert_eq!(bench.dependencies.record_of((COPY, 0x7000)), Some(again));
    assert_eq!((memory.event(), EventUse::Wait(EVENT).event()), (None, Some(EVENT)));
}

#[test]
fn events_are_known_to_exist_until_any_is_destroyed() {
    let mut dependencies = Dependencies::default();
    assert!(!dependencies.is_alive(EVENT, 0));
    dependencies.exists(EVENT, 0);
    assert!(dependencies.is_alive(EVENT, 0) && !dependencies.is_alive((COPY + 1, EVENT.1), 0));
    assert!(!dependencies.is_alive(EVENT, 1), "it may be the one");
    dependencies.exists((COPY, 1), 1);
    assert!(!dependencies.is_alive(EVENT, 1) && dependencies.is_alive((COPY, 1), 1));
    dependencies.remove_streams(COPY, DEVICE);
    assert!(!dependencies.is_alive((COPY, 1), 1), "its device was reset");
}
