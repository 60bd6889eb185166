//! Launches that take no lock.

use std::sync::mpsc;

use super::*;
use crate::journal::ENTRIES;
use crate::status::QueueStatus;
use crate::xqueues::JournalledLaunch;

impl Process {
    fn status_of(&self, queue: QueueId) -> &'static QueueStatus {
        self.queues.lock_only().status_of(queue).expect("it is there")
    }

    fn admit_at_once(&self) -> Option<JournalledLaunch> {
        match self.queues.admit_at_once(self.status_of(self.queue), &WORK.into()) {
            Some(AdmissionAtOnce::Followed(begun)) => Some(begun),
            Some(AdmissionAtOnce::Free) => panic!("others are there"),
            None => None,
        }
    }

    /// Whether a launch goes without the lock. Then it has returned.
    fn launches_at_once(&self) -> bool {
        let begun = self.admit_at_once();
        begun.map(|begun| self.queues.finish_at_once(begun, true)).is_some()
    }

    fn is_open(&self, queue: QueueId) -> bool {
        self.status_of(queue).journal().is_open()
    }

    fn launches_under_the_lock(&self) -> bool {
        let Admission::Now(begun) = self.queues.admit(self.queue, &[], WORK) else { return false };
        self.queues.finish(begun, true);
        true
    }

    fn launched_so_far(&self) -> u64 {
        self.queues.usage(self.claim).launched
    }
}

/// One that has reported its work.
fn busy() -> Process {
    let process = Process::new(AdmissionState::Beside);
    assert!(!process.launches_at_once(), "the first one reports");
    assert!(process.launch());
    process
}

#[test]
fn a_launch_beside_others_takes_no_lock() {
    let process = busy();
    let (queues, status) = (Arc::clone(&process.queues), process.status_of(process.queue));
    let held = process.queues.lock_only();
    let (sender, launched) = mpsc::channel();
    let clock = process.clock.clone();
    thread::spawn(move || {
        clock.enter();
        for _ in 0..ENTRIES {
            let Some(AdmissionAtOnce::Followed(begun)) = queues.admit_at_once(status, &WORK.into()) else {
                return;
            };
            queues.finish_at_once(begun, true);
            sender.send(()).unwrap();
        }
    });
    for number in 0..ENTRIES {
        launched
            .recv_timeout(Duration::from_mins(1))
            .unwrap_or_else(|error| panic!("launch {number}: {error}"));
    }
    drop(held);
    assert_eq!(process.launched_so_far(), ENTRIES + 1);
}

#[test]
fn what_was_launched_without_the_lock_is_followed_and_charged_like_others() {
    let course = |launch: fn(&Process) -> bool| {
        let process = busy();
        process.clock.advance(Nanos::from_micros(10));
        assert!(launch(&process));
        process.clock.advance(Nanos::from_micros(5));
        assert!(launch(&process));
        let waited = process.queues.host_wait_begins(&[process.queue]);
        assert_eq!(waited, [(process.queue, 3)]);
        process.clock.advance(Nanos::from_millis(3));
        process.run_due();
        assert_eq!(process.arbiter.reports(), (1, 0), "it has work");
        process.complete_all();
        process.queues.host_wait_ends(&waited, true);
        let used = process.queues.usage(process.claim);
        assert!(used.device_time > Nanos::from_millis(2));
        (process, used)
    };
    let (process, used) = course(Process::launches_at_once);
    assert_eq!(used, course(Process::launches_under_the_lock).1);
    assert_eq!(used.launched, 3);
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    assert!(!process.launches_at_once(), "the next one reports");
    assert!(process.launch());
    assert_eq!(process.arbiter.reports(), (2, 1));
}

#[test]
fn a_launch_that_has_not_returned_is_work_and_one_that_was_refused_is_none() {
    let process = busy();
    process.complete_all();
    let begun = process.admit_at_once().expect("nothing keeps it");
    for _ in 0..10 {
        process.clock.advance(Nanos::from_millis(1));
        process.run_due();
    }
    assert_eq!(process.arbiter.reports(), (1, 0), "it may be on the device at any moment");
    assert!(!process.queues.is_unconcerned());
    process.queues.finish_at_once(begun, false);
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    assert_eq!(process.launched_so_far(), 2);
}

/// Another claim of the process has work meanwhile, so the watcher is not at rest.
#[test]
fn a_claim_that_has_reported_idle_reports_again_at_its_next_launch() {
    let process = busy();
    let other = process.queues.claim(ClaimKey::new(1, 1));
    let arbiter = TestArbiter::new(AdmissionState::Beside);
    process.queues.register(other, Some(Arc::clone(&arbiter) as Arc<dyn Registration>));
    let queue = process.queues.create(0, Some(other), status());
    let Admission::Now(begun) = process.queues.admit(queue, &[], WORK) else { panic!("nothing keeps it") };
    assert!(process.launches_at_once());
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    assert_eq!((arbiter.reports(), process.queues.ignores_masks()), ((1, 0), false));
    assert!(!process.launches_at_once() && process.launch());
    assert_eq!(process.arbiter.reports(), (2, 1));
    process.queues.finish(begun, true);
}

/// Leases are renewed while it makes progress.
#[test]
fn launches_without_the_lock_are_progress() {
    let process = Process::at(Arc::new(TestArbiter {
        lease: Nanos::from_millis(50),
        ..Arc::into_inner(TestArbiter::new(AdmissionState::Beside)).unwrap()
    }));
    assert!(process.launch());
    for round in 2..5 {
        process.clock.advance(Nanos::from_millis(13));
        assert!(process.launch());
        process.run_due();
        assert_eq!(process.arbiter.reports(), (round, 0));
    }
}

#[test]
fn more_launches_than_a_journal_has_space_for_are_all_known() {
    let process = busy();
    let at_once = (0..ENTRIES * 3).filter(|_| process.launches_at_once() || !process.launch()).count();
    assert_eq!(at_once as u64, ENTRIES * 3 - 2, "one in so many collects the others");
    assert_eq!(process.launched_so_far(), ENTRIES * 3 + 1);
}

#[test]
fn a_stream_that_is_never_quiet_is_marked_all_the_same() {
    let process = busy();
    for _ in 0..100 {
        process.clock.advance(Nanos::from_micros(100));
        assert!(process.launches_at_once());
    }
    assert!((4..=5).contains(&process.recorded()), "one in 2 ms: {}", process.recorded());
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
    assert_eq!(process.launched_so_far(), 101);
}

#[test]
fn a_null_stream_is_launched_on_without_the_lock_while_it_is_the_only_one() {
    let process = Process::new(AdmissionState::Beside);
    process.queues.destroy(process.queue);
    process.bench.orders_others.store(true, Ordering::SeqCst);
    let null = process.queues.create(0, Some(process.claim), status());
    let process = Process { queue: null, ..process };
    assert!(process.launch() && process.launches_at_once());
    process.bench.is_free.store(true, Ordering::SeqCst);
    process.queues.create(0, Some(process.claim), status());
    assert!(process.launches_at_once(), "the null stream does not order that one");
    process.bench.is_free.store(false, Ordering::SeqCst);
    process.queues.create(1, Some(process.claim), status());
    assert!(process.launches_at_once(), "nor one of another runtime");
    let other = process.queues.create(0, Some(process.claim), status());
    assert!(!process.launches_at_once(), "it is marked at once from now on");
    assert!(process.launch());
    assert!(process.queues.detach_stream(other));
    assert!(process.launches_under_the_lock() && process.launches_at_once(), "the other one is gone");
}

/// What ends that launches go without the lock, and what takes it back.
#[test]
fn each_reason_to_look_at_launches_keeps_them_from_going_without_the_lock() {
    type Act = fn(&Process);
    let ways: [(&str, Act, Act); 12] = [
        (
            "its queue is suspended",
            |it| it.queues.suspend(it.queue, true),
            |it| it.queues.suspend(it.queue, false),
        ),
        ("all are", |it| it.queues.suspend_all(true), |it| it.queues.suspend_all(false)),
        (
            "the program suspends it",
            |it| it.queues.hold(it.queue, true),
            |it| it.queues.hold(it.queue, false),
        ),
        ("nothing is deferred", |it| it.queues.defer_nothing(true), |it| it.queues.defer_nothing(false)),
        ("a stream captures", |it| it.queues.pause_markers(true), |it| it.queues.pause_markers(false)),
        (
            "it is limited by itself",
            |it| it.queues.set_queue_limit(it.queue, Some(Limit::GATED)),
            |it| it.queues.set_queue_limit(it.queue, None),
        ),
        (
            "it is recorded",
            |it| it.queues.record(Some(Recorder::new().writer())),
            |it| it.queues.record(None),
        ),
        (
            "it is preempted",
            |it| it.arbiter.decide(PREEMPTED),
            |it| it.arbiter.decide(AdmissionState::Beside),
        ),
        ("it is below", |it| it.arbiter.decide(BELOW), |it| it.arbiter.decide(AdmissionState::Beside)),
        ("it is alone", |it| it.set_state(AdmissionState::Alone), |it| it.set_state(AdmissionState::Beside)),
        (
            "there is no controller",
            |it| it.queues.register(it.claim, None),
            |it| it.queues.register(it.claim, Some(Arc::clone(&it.arbiter) as Arc<dyn Registration>)),
        ),
        (
            "another queue defers",
            |it| {
                let other = it.queues.create(1, Some(it.claim), status());
                it.queues.suspend(other, true);
                it.queues.submit(other, Vec::new(), WORK, 1).expect("it is deferred");
            },
            |it| {
                let all = it.queues.lock().queue_ids();
                for queue in all {
                    it.queues.suspend(queue, false);
                }
                it.queues.wait_all_launched();
            },
        ),
    ];
    for (what, begins, ends) in ways {
        let process = busy();
        let begun = process.admit_at_once();
        assert!(begun.is_some(), "before {what}");
        begins(&process);
        assert!(!process.launches_at_once(), "{what}");
        // A thread that has looked before must not enter now either. Preemption it sees in the page.
        let is_seen_in_page = matches!(process.arbiter.state(), AdmissionState::Below { .. });
        assert!(is_seen_in_page || !process.is_open(process.queue), "{what}");
        // Its launch had begun before.
        if let Some(begun) = begun {
            process.queues.finish_at_once(begun, true);
        }
        ends(&process);
        assert!(process.launches_under_the_lock() && process.launches_under_the_lock(), "after {what}");
        assert!(process.launches_at_once(), "after {what}");
    }
}

#[test]
fn a_launch_that_began_before_its_queue_moves_is_its_new_claims() {
    let process = busy();
    let begun = process.admit_at_once().expect("nothing keeps it");
    let other = process.queues.claim(ClaimKey::new(1, 1));
    process.queues.move_to_claim(process.queue, other);
    process.queues.finish_at_once(begun, true);
    assert_eq!((process.launched_so_far(), process.queues.usage(other).launched), (1, 1));
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports() == (1, 1));
}

/// A process that destroys a stream while it launches there: that launch, and the process with the next stream, which has the
/// journal's memory.
fn with_stranger() -> (JournalledLaunch, Process) {
    let process = busy();
    let stranger = process.admit_at_once().expect("nothing keeps it");
    let status = process.status_of(process.queue);
    assert!(process.queues.destroy(process.queue));
    let queue = process.queues.create(0, Some(process.claim), status);
    (stranger, Process { queue, ..process })
}

#[test]
fn a_launch_on_a_stream_that_is_gone_is_not_counted_as_the_next_streams() {
    let (stranger, process) = with_stranger();
    assert!(process.launch() && !process.is_open(process.queue));
    process.queues.finish_at_once(stranger, true);
    assert_eq!(process.launched_so_far(), 2, "one on each stream under the lock");
    assert!(process.launch() && process.is_open(process.queue) && process.launches_at_once());
    assert_eq!(process.launched_so_far(), 4);
}

#[test]
fn a_launch_on_a_stream_that_is_gone_and_does_not_return_is_no_work() {
    let (stranger, process) = with_stranger();
    assert!(process.launch());
    process.complete_all();
    process.clock.advance(Nanos::from_millis(1));
    process.run_due();
    process.clock.advance(LINGER);
    process.run_due();
    assert_eq!(process.arbiter.reports(), (1, 1));
    process.queues.finish_at_once(stranger, true);
}

#[test]
fn a_journal_that_is_not_used_is_closed() {
    let process = busy();
    let other = process.queues.create(1, Some(process.claim), status());
    assert!(process.launch_on(other, WORK));
    process.complete_all();
    for _ in 0..300 {
        process.clock.advance(Nanos::from_micros(50));
        assert!(process.launch());
        process.run_due();
    }
    assert!(process.is_open(process.queue) && !process.is_open(other));
}

/// Whatever happens meanwhile, no launch begins once its queue was suspended, and each is counted.
#[test]
fn threads_that_launch_while_their_queue_is_suspended_again_and_again_keep_to_it() {
    const ROUNDS: usize = 300;
    let process = busy();
    // Odd while it is suspended.
    let (epoch, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let launched = thread::scope(|scope| {
        let launch = || {
            process.clock.clone().enter();
            let mut launched = 0;
            while !is_over.load(Ordering::SeqCst) {
                let before = epoch.load(Ordering::SeqCst);
                let admitted = process.admit_at_once();
                let is_suspended = before % 2 == 1 && epoch.load(Ordering::SeqCst) == before;
                assert!(admitted.is_none() || !is_suspended, "it was suspended");
                match admitted {
                    Some(begun) => process.queues.finish_at_once(begun, true),
                    None => match process.queues.admit(process.queue, &[], WORK) {
                        Admission::Now(begun) => process.queues.finish(begun, true),
                        Admission::Wait => continue,
                        Admission::Free => panic!("others are there"),
                    },
                }
                launched += 1;
            }
            launched
        };
        let threads = [scope.spawn(launch), scope.spawn(launch)];
        for round in 0..ROUNDS {
            process.queues.suspend(process.queue, true);
            epoch.fetch_add(1, Ordering::SeqCst);
            process.run_due();
            thread::yield_now();
            epoch.fetch_add(1, Ordering::SeqCst);
            process.queues.suspend(process.queue, false);
            thread::sleep(Duration::from_micros(50 * (round as u64 % 5)));
        }
        is_over.store(true, Ordering::SeqCst);
        threads.map(|thread| thread.join().unwrap()).iter().sum::<u64>()
    });
    assert_eq!(process.launched_so_far(), launched + 1);
    process.complete_all();
    process.tend_until("it is idle", |process| process.arbiter.reports().1 == process.arbiter.reports().0);
}
