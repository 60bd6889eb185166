//! Queues that the program itself suspends.

use super::*;
use crate::command::CallState;
use crate::launching::during;

fn made(queues: &Arc<XQueues<Notes>>, queue: QueueId, after: &[Position], command: u32) -> Position {
    queues.submit(queue, after.to_vec(), Load::Signal, command).unwrap()
}

/// A command of which the program has not made the call.
fn to_be_made(queues: &Arc<XQueues<Notes>>, queue: QueueId, command: u32) -> Position {
    let demand = Demand { call: CallState::ToBeMade, ..Load::Signal.into() };
    queues.submit(queue, Vec::new(), demand, command).unwrap()
}

/// Defers something on another thread, which is the one that uses the queue then.
fn by_another<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

#[test]
fn a_held_queue_launches_nothing_until_it_is_resumed() {
    let (queues, launched) = queues();
    let (held, free) = (queues.create((), None, status()), queues.create((), None, status()));
    queues.hold(held, true);
    assert!(queues.is_engaged() && !goes(&queues, held, &[]) && goes(&queues, free, &[]));
    by_another(|| made(&queues, held, &[], 1));
    assert!(launched.recv_timeout(A_WHILE).is_err());
    queues.hold(held, true);
    queues.hold(held, false);
    assert_eq!(next(&launched), 1);
    queues.wait_all_launched();
    assert!(!queues.is_engaged());
}

#[test]
fn a_call_for_a_held_queue_waits_until_it_is_resumed() {
    let (queues, launched) = queues();
    let held = queues.create((), None, status());
    queues.hold(held, true);
    let position = by_another(|| made(&queues, held, &[], 1));
    thread::scope(|scope| {
        let waits = scope.spawn(|| queues.wait_launched_by(Some(held), &[position]));
        thread::sleep(A_WHILE);
        assert!(!waits.is_finished() && launched.try_recv().is_err());
        queues.hold(held, false);
    });
    assert_eq!(next(&launched), 1);
}

/// None of these calls returns if the thread waits for itself.
#[test]
fn the_thread_that_has_suspended_a_queue_does_not_wait_for_it() {
    let (queues, launched) = queues();
    let held = queues.create((), None, status());
    queues.hold(held, true);
    made(&queues, held, &[], 1);
    let last = to_be_made(&queues, held, 2);
    made(&queues, held, &[], 3);
    queues.wait_launched_by(Some(held), &[last]);
    assert_eq!([next(&launched), next(&launched)], [1, 2]);
    assert!(launched.recv_timeout(A_WHILE).is_err(), "what comes behind is still kept");
    // A copy that cannot be deferred.
    assert!(queues.wait_for_admission(held, &[], Load::Signal).is_none());
    assert_eq!(next(&launched), 3, "it came behind all");
    by_another(|| made(&queues, held, &[], 4));
    assert!(launched.recv_timeout(A_WHILE).is_err(), "the queue is still held");
    queues.hold(held, false);
    assert_eq!(next(&launched), 4);
}

#[test]
fn a_full_queue_lets_its_oldest_command_go_for_the_thread_that_has_suspended_it() {
    let (queues, launched) = queues();
    let held = queues.create((), None, status());
    queues.hold(held, true);
    for command in 0..DEFERRED_MAX as u32 + 2 {
        queues.wait_while_full(held);
        made(&queues, held, &[], command);
    }
    assert_eq!([next(&launched), next(&launched)], [0, 1]);
    assert!(launched.recv_timeout(A_WHILE).is_err());
    thread::scope(|scope| {
        let other = scope.spawn(|| queues.wait_while_full(held));
        thread::sleep(A_WHILE);
        assert!(!other.is_finished(), "another thread waits until it is resumed");
        queues.hold(held, false);
    });
}

#[test]
fn a_thread_waits_for_its_own_work_in_a_held_queue() {
    let (queues, launched) = queues();
    let held = queues.create((), None, status());
    queues.hold(held, true);
    thread::scope(|scope| {
        let user = scope.spawn(|| {
            let position = made(&queues, held, &[], 1);
            queues.wait_launched(&[position]);
        });
        thread::sleep(A_WHILE);
        assert!(!user.is_finished() && launched.try_recv().is_err());
        queues.hold(held, false);
    });
    assert_eq!(next(&launched), 1);
}

#[test]
fn what_another_thread_waits_for_is_launched_and_nothing_behind_it() {
    let (queues, launched) = queues();
    let held = queues.create((), None, status());
    queues.hold(held, true);
    let first = by_another(|| {
        let first = made(&queues, held, &[], 1);
        made(&queues, held, &[], 2);
        first
    });
    queues.wait_launched(&[first]);
    assert_eq!(next(&launched), 1);
    assert!(launched.recv_timeout(A_WHILE).is_err(), "the second is still kept");
    queues.wait_all_launched();
    assert_eq!(next(&launched), 2);
}

#[test]
fn what_the_work_of_another_queue_comes_after_is_launched() {
    let (queues, launched) = queues();
    let (held, between, other) = (
        queues.create((), None, status()),
        queues.create((), None, status()),
        queues.create((), None, status()),
    );
    queues.hold(held, true);
    queues.hold(between, true);
    let last = by_another(|| {
        let first = made(&queues, held, &[], 1);
        let second = made(&queues, between, &[first], 2);
        made(&queues, other, &[second], 3)
    });
    queues.wait_launched_as_expected(Some(other), &[last]);
    assert_eq!([next(&launched), next(&launched), next(&launched)], [1, 2, 3]);
}

#[test]
fn a_queue_that_is_held_while_a_thread_waits_does_not_keep_it() {
    let (queues, launched) = queues();
    let (held, plain) = (queues.create((), None, status()), queues.create((), None, status()));
    queues.suspend(held, true);
    let position = by_another(|| made(&queues, held, &[], 1));
    thread::scope(|scope| {
        scope.spawn(|| queues.wait_launched_by(Some(plain), &[position]));
        thread::sleep(A_WHILE);
        queues.hold(held, true);
        queues.suspend(held, false);
    });
    assert_eq!(next(&launched), 1);
}

#[test]
fn other_threads_do_not_wait_for_calls_that_were_not_made() {
    let (queues, launched) = queues();
    let held = queues.create((), None, status());
    let before = by_another(|| to_be_made(&queues, held, 0));
    queues.wait_launched(&[before]);
    assert_eq!(next(&launched), 0, "as long as the queue is not held, they do");
    queues.hold(held, true);
    let kept = by_another(|| to_be_made(&queues, held, 1));
    assert_eq!((queues.all_last(), queues.last_for_others(held)), (vec![], None));
    assert_eq!(queues.last(held), Some(kept));
    // A position from before the queue was held.
    queues.wait_launched(&[kept]);
    queues.wait_all_launched();
    queues.wait_behind_all(Treatment::Schedule);
    assert!(launched.recv_timeout(A_WHILE).is_err());
    by_another(|| made(&queues, held, &[], 2));
    queues.wait_all_launched();
    assert_eq!([next(&launched), next(&launched)], [1, 2], "unless one that was made comes after them");
}

/// A callback that drains the device: what comes after its own command cannot be launched before it returns.
#[test]
fn a_command_does_not_wait_for_what_comes_after_it() {
    let (queues, launched) = queues();
    let [own, between, last, other] = [(); 4].map(|()| queues.create((), None, status()));
    for queue in [own, between, last, other] {
        queues.suspend(queue, true);
    }
    let first = made(&queues, own, &[], 1);
    let second = made(&queues, between, &[first], 2);
    let third = made(&queues, last, &[second], 3);
    // It returns at once, or this test never ends.
    during(own, || queues.wait_launched(&[first, second, third]));
    let unrelated = made(&queues, other, &[], 4);
    thread::scope(|scope| {
        let waits = scope.spawn(|| during(own, || queues.wait_launched(&[third, unrelated])));
        thread::sleep(A_WHILE);
        assert!(!waits.is_finished(), "for other work it waits as ever");
        queues.suspend(other, false);
    });
    assert_eq!(next(&launched), 4);
}

#[test]
fn a_queue_that_is_gone_takes_no_command() {
    let (queues, _launched) = queues();
    let queue = queues.create((), None, status());
    assert!(queues.exists(queue) && queues.destroy(queue) && !queues.exists(queue));
    assert_eq!(queues.submit(queue, Vec::new(), Load::Signal, 1), Err((Refused::Gone, 1)));
    queues.hold(queue, true);
    queues.set_queue_limit(queue, Some(Limit::default()));
    assert!(!queues.is_engaged());
    let detached = queues.create((), None, status());
    queues.hold(detached, true);
    assert!(queues.detach_stream(detached));
    assert_eq!(queues.submit(detached, Vec::new(), Load::Signal, 1), Err((Refused::Gone, 1)));
    assert!(!queues.is_engaged());
}

#[test]
fn a_process_that_ends_holds_nothing() {
    let (queues, launched) = queues();
    let queue = queues.create((), None, status());
    queues.hold(queue, true);
    to_be_made(&queues, queue, 1);
    queues.close(Instant::now() + Duration::from_mins(1));
    assert_eq!(next(&launched), 1);
    queues.hold(queue, true);
    assert!(!queues.is_deferring());
}
