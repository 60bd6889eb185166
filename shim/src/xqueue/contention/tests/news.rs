//! When the watcher has to hear what the arbiter tells everybody.

use super::*;

/// A process whose watcher has looked, and how often it was woken since.
fn with_bell(standing: Standing) -> (Process, Arc<AtomicUsize>) {
    let process = Process::new(standing);
    let rung = Arc::new(AtomicUsize::new(0));
    let bell = Arc::clone(&rung);
    process.queues.set_alarm(Box::new(move || {
        bell.fetch_add(1, Ordering::SeqCst);
    }));
    process.tend();
    (process, rung)
}

#[test]
fn who_has_no_work_beside_others_is_not_concerned() {
    for standing in [Standing::Beside, BELOW, HELD] {
        let (process, _) = with_bell(standing);
        assert!(process.queues.is_watcher_deaf() && process.queues.is_unconcerned(), "{standing:?}");
    }
    let (process, _) = with_bell(Standing::Alone);
    assert!(!process.queues.is_watcher_deaf(), "somebody may come");
    let nobody = XQueues::new(Arc::new(Bench::default()));
    nobody.tend(now());
    assert!(!nobody.is_watcher_deaf() && !nobody.is_contended());
}

#[test]
fn the_first_launch_wakes_the_watcher_however_soon_it_would_look() {
    let (process, rung) = with_bell(Standing::Beside);
    assert!(process.launch());
    assert_eq!(rung.load(Ordering::SeqCst), 1);
    process.tend();
    assert!(!process.queues.is_watcher_deaf(), "it has work");
    assert!(process.launch());
    assert_eq!(rung.load(Ordering::SeqCst), 1, "it is awake");
    process.complete_all();
    process.tend_until("it is idle", |process| process.stand.told() == (1, 1));
    process.tend();
    assert!(process.queues.is_watcher_deaf());
}

#[test]
fn the_first_command_that_is_held_back_wakes_the_watcher() {
    let (process, rung) = with_bell(HELD);
    assert!(matches!(process.queues.admit(process.queue, &[], WORK), Admission::Wait));
    process.queues.submit(process.queue, Vec::new(), WORK, 1).unwrap();
    assert_eq!(rung.load(Ordering::SeqCst), 1);
    process.tend();
    assert!(!process.queues.is_watcher_deaf(), "it waits for the others");
}

/// The others go, it launches, and others come, before the watcher looks.
#[test]
fn nobody_is_alone_while_the_watcher_is_deaf() {
    let (process, rung) = with_bell(Standing::Beside);
    *process.stand.standing.lock().unwrap() = Standing::Alone;
    assert!(process.queues.is_contended());
    assert!(process.launch());
    assert_eq!((process.stand.told(), rung.load(Ordering::SeqCst)), ((1, 0), 1), "others hear of it");
    process.tend();
    assert!(!process.queues.is_contended());
}
