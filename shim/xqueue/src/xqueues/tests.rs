mod beside;
mod held;

use std::sync::mpsc::{self, Receiver};
use std::thread;

use super::*;
use crate::clock::tests::Stopped;
use crate::command::{Load, Treatment};
use crate::device::Tried;
use crate::gate_page::GatePage;
use crate::queue::DEFERRED_MAX;

/// A device that is a function, which is called by launches. It has neither markers nor gates.
struct Calls<C>(Box<dyn Fn(C) + Send + Sync>);

/// Notes what was launched, in order.
type Notes = Calls<u32>;

impl<C: Send + 'static> Device for Calls<C> {
    type Command = C;
    type Stream = ();
    type Marker = ();
    type Gate = ();
    type Trial = ();

    fn stream_number(&self, (): ()) -> u64 {
        0
    }

    fn launch(&self, command: C) -> bool {
        (self.0)(command);
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

/// Long enough for a worker to launch what it should not.
const A_WHILE: Duration = Duration::from_millis(20);

/// A place that no other queue has.
pub(crate) fn status() -> &'static QueueStatus {
    Box::leak(Box::default())
}

fn queues() -> (Arc<XQueues<Notes>>, Receiver<u32>) {
    let (sender, launched) = mpsc::channel();
    let note = move |command| sender.send(command).unwrap();
    (XQueues::new(Calls(Box::new(note)), Setup::default()), launched)
}

fn next(launched: &Receiver<u32>) -> u32 {
    launched.recv_timeout(Duration::from_mins(1)).expect("it is launched soon")
}

fn goes(queues: &XQueues<Notes>, queue: QueueId, after: &[Position]) -> bool {
    matches!(queues.admit(queue, after, Load::Signal), Admission::Free)
}

#[test]
fn nothing_waits_while_nothing_is_suspended() {
    let (queues, _launched) = queues();
    let queue = queues.create((), None, status());
    assert!(!queues.is_engaged());
    assert!(goes(&queues, queue, &[]));
}

#[test]
fn a_suspended_queue_keeps_its_order_when_it_goes_on() {
    let (queues, launched) = queues();
    let queue = queues.create((), None, status());
    queues.suspend_all(true);
    assert!(queues.is_engaged() && !goes(&queues, queue, &[]));
    for command in 0..100 {
        queues.submit(queue, Vec::new(), Load::Signal, command).unwrap();
    }
    assert!(launched.recv_timeout(A_WHILE).is_err(), "it is suspended");
    queues.suspend_all(false);
    assert!((0..100).eq((0..100).map(|_| next(&launched))));
    queues.wait_all_launched();
    assert!(!queues.is_engaged(), "and then nothing is in the way");
}

#[test]
fn what_is_read_without_the_lock_agrees_with_it() {
    let (queues, launched) = queues();
    let (held, free) = (status(), status());
    let first = queues.create((), None, held);
    queues.create((), None, free);
    assert_eq!((queues.admission_mode(), held.queue(), held.is_clear()), (AdmissionMode::Open, first, true));
    queues.suspend_all(true);
    assert_eq!(queues.admission_mode(), AdmissionMode::Suspended);
    queues.suspend(first, true);
    queues.suspend_all(false);
    assert_eq!(
        (queues.admission_mode(), held.is_clear(), free.is_clear()),
        (AdmissionMode::ByQueue, false, true)
    );
    queues.submit(first, Vec::new(), Load::Signal, 1).unwrap();
    queues.observe_all_calls();
    assert_eq!(queues.admission_mode(), AdmissionMode::UnderLock, "each call is looked at");
    queues.suspend(first, false);
    assert_eq!(next(&launched), 1);
    queues.wait_all_launched();
    assert!(held.is_clear());
}

#[test]
fn a_deferred_command_keeps_its_queue_from_being_clear_until_launched() {
    let (queues, launched) = queues();
    let held = status();
    let queue = queues.create((), None, held);
    queues.suspend_all(true);
    assert!(held.is_clear(), "nothing of its own keeps it");
    queues.submit(queue, Vec::new(), Load::Signal, 1).unwrap();
    assert!(!held.is_clear());
    queues.suspend_all(false);
    assert_eq!(next(&launched), 1);
    queues.wait_all_launched();
    assert_eq!((held.is_clear(), queues.admission_mode()), (true, AdmissionMode::Open));
}

#[test]
fn nothing_more_is_deferred_on_request_and_deferred_commands_stay_so() {
    let (queues, launched) = queues();
    let queue = queues.create((), None, status());
    queues.suspend_all(true);
    queues.submit(queue, Vec::new(), Load::Signal, 1).unwrap();
    queues.defer_nothing(true);
    assert_eq!(queues.submit(queue, Vec::new(), Load::Signal, 2), Err((Refused::DefersNothing, 2)));
    assert_eq!(queues.admission_mode(), AdmissionMode::UnderLock);
    assert!(launched.recv_timeout(A_WHILE).is_err(), "it is still suspended");
    queues.defer_nothing(false);
    queues.submit(queue, Vec::new(), Load::Signal, 3).unwrap();
    queues.suspend_all(false);
    assert_eq!([next(&launched), next(&launched)], [1, 3]);
}

#[test]
fn a_command_waits_for_another_queue_that_is_suspended() {
    let (queues, launched) = queues();
    let (first, second) = (queues.create((), None, status()), queues.create((), None, status()));
    queues.suspend(first, true);
    assert!(goes(&queues, second, &[]), "the other goes on");
    let recorded = queues.submit(first, Vec::new(), Load::Signal, 1).unwrap();
    assert!(!goes(&queues, second, &[recorded]), "unless it depends");
    queues.submit(second, vec![recorded], Load::Signal, 2).unwrap();
    assert!(!goes(&queues, second, &[]), "and what follows stays behind");
    queues.submit(second, Vec::new(), Load::Signal, 3).unwrap();
    assert!(launched.recv_timeout(A_WHILE).is_err());
    queues.suspend(first, false);
    assert_eq!([next(&launched), next(&launched), next(&launched)], [1, 2, 3]);
}

#[test]
fn queues_that_wait_for_each_other_alternately_all_go_on() {
    let (queues, launched) = queues();
    let (ping, pong) = (queues.create((), None, status()), queues.create((), None, status()));
    queues.suspend(ping, true);
    queues.suspend(pong, true);
    let mut before = Vec::new();
    for command in 0..200 {
        let queue = if command % 2 == 0 { ping } else { pong };
        before = vec![queues.submit(queue, before, Load::Signal, command).unwrap()];
    }
    queues.suspend(ping, false);
    assert_eq!(next(&launched), 0);
    queues.suspend(pong, false);
    assert!((1..200).eq((1..200).map(|_| next(&launched))));
}

#[test]
fn unrelated_queues_go_on_in_the_order_in_which_they_were_given_work() {
    // On a busy machine: some launches last for longer than others wait for them, but not by this clock.
    let _clock = Stopped::now();
    let (sender, launched) = mpsc::channel();
    let launch = move |command| {
        if command % 100 == 0 {
            thread::sleep(A_WHILE);
        }
        sender.send(command).unwrap();
    };
    let queues = XQueues::new(Calls(Box::new(launch)), Setup::default());
    let all = [(); 5].map(|()| queues.create((), None, status()));
    queues.suspend_all(true);
    for command in 0..500 {
        // A multiplier that is coprime to 5: one queue after the other, in an order of its own.
        queues.submit(all[command as usize * 3 % 5], Vec::new(), Load::Signal, command).unwrap();
    }
    queues.suspend_all(false);
    assert!((0..500).eq((0..500).map(|_| next(&launched))));
}

#[test]
fn a_suspended_queue_does_not_keep_younger_work_of_others_waiting() {
    let (queues, launched) = queues();
    let (old, young) = (queues.create((), None, status()), queues.create((), None, status()));
    queues.suspend_all(true);
    queues.submit(old, Vec::new(), Load::Signal, 1).unwrap();
    queues.submit(young, Vec::new(), Load::Signal, 2).unwrap();
    queues.suspend(old, true);
    queues.suspend_all(false);
    assert_eq!(next(&launched), 2);
    queues.suspend(old, false);
    assert_eq!(next(&launched), 1);
}

#[test]
fn a_launch_that_waits_for_younger_work_gets_it() {
    // The first command returns when the second was launched.
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let launch = move |waits| {
        if waits {
            receiver.lock().unwrap().recv_timeout(Duration::from_mins(1)).expect("the other goes on");
        } else {
            sender.send(()).unwrap();
        }
    };
    let queues = XQueues::new(Calls(Box::new(launch)), Setup::default());
    let (first, second) = (queues.create((), None, status()), queues.create((), None, status()));
    queues.suspend_all(true);
    queues.submit(first, Vec::new(), Load::Signal, true).unwrap();
    queues.submit(second, Vec::new(), Load::Signal, false).unwrap();
    queues.suspend_all(false);
    queues.wait_all_launched();
    assert!(!queues.is_engaged());
}

#[test]
fn a_full_queue_returns_the_command() {
    let (queues, _launched) = queues();
    let queue = queues.create((), None, status());
    queues.suspend_all(true);
    for command in 0..DEFERRED_MAX as u32 {
        queues.submit(queue, Vec::new(), Load::Signal, command).unwrap();
    }
    assert_eq!(queues.submit(queue, Vec::new(), Load::Signal, 7), Err((Refused::Full, 7)));
}

#[test]
fn a_caller_waits_while_its_queue_is_full() {
    let (queues, launched) = queues();
    let queue = queues.create((), None, status());
    queues.suspend_all(true);
    let last = DEFERRED_MAX as u32;
    let submitter = {
        let queues = Arc::clone(&queues);
        thread::spawn(move || {
            for command in 0..=last {
                queues.wait_while_full(queue);
                queues.submit(queue, Vec::new(), Load::Signal, command).unwrap();
            }
        })
    };
    thread::sleep(A_WHILE);
    assert!(!submitter.is_finished());
    queues.suspend_all(false);
    submitter.join().unwrap();
    assert!((0..=last).eq((0..=last).map(|_| next(&launched))));
}

#[test]
fn a_caller_that_waits_in_place_waits_as_a_command_would() {
    let (queues, launched) = queues();
    let queue = queues.create((), None, status());
    queues.suspend_all(true);
    queues.submit(queue, Vec::new(), Load::Signal, 7).unwrap();
    let waiter = {
        let queues = Arc::clone(&queues);
        thread::spawn(move || queues.wait_for_admission(queue, &[], Load::Signal).is_none())
    };
    thread::sleep(A_WHILE);
    assert!(!waiter.is_finished());
    queues.suspend_all(false);
    waiter.join().unwrap();
    assert_eq!(launched.try_recv(), Ok(7), "it came after what was there before");
}

#[test]
fn a_process_that_ends_lets_everything_go_and_takes_nothing_more() {
    let (queues, launched) = queues();
    let queue = queues.create((), None, status());
    queues.suspend_all(true);
    queues.suspend(queue, true);
    queues.submit(queue, Vec::new(), Load::Signal, 1).unwrap();
    queues.close(Instant::now() + Duration::from_mins(1));
    assert_eq!(launched.try_recv(), Ok(1));
    queues.suspend_all(true);
    assert!(!queues.is_engaged());
    assert_eq!(queues.submit(queue, Vec::new(), Load::Signal, 2), Err((Refused::Closed, 2)));
}

#[test]
fn a_destroyed_queue_is_done() {
    let (queues, launched) = queues();
    let queue = queues.create((), None, status());
    queues.suspend_all(true);
    let position = queues.submit(queue, Vec::new(), Load::Signal, 1).unwrap();
    queues.suspend_all(false);
    queues.wait_launched(&[position]);
    queues.destroy(queue);
    assert!(queues.are_launched(&[position]));
    assert_eq!(next(&launched), 1);
}

fn treated(treatment: Treatment) -> Demand {
    Demand { treatment, ..Load::Signal.into() }
}

#[test]
fn a_command_that_is_never_suspended_is_launched_while_all_others_wait() {
    let (queues, launched) = queues();
    let (queue, other) = (queues.create((), None, status()), queues.create((), None, status()));
    queues.suspend_all(true);
    for treatment in [Treatment::NeverSuspend, Treatment::PassThrough] {
        assert!(matches!(queues.admit(queue, &[], treated(treatment)), Admission::Free), "{treatment:?}");
    }
    assert!(matches!(queues.admit(queue, &[], treated(Treatment::Pinned)), Admission::Wait));
    queues.submit(queue, Vec::new(), Load::Signal, 1).unwrap();
    queues.submit(other, Vec::new(), Load::Signal, 9).unwrap();
    let forced = treated(Treatment::NeverSuspend);
    assert!(matches!(queues.admit(queue, &[], forced), Admission::Wait), "it does not overtake");
    queues.submit(queue, Vec::new(), forced, 2).unwrap();
    queues.submit(queue, Vec::new(), Load::Signal, 3).unwrap();
    assert_eq!([next(&launched), next(&launched)], [1, 2]);
    assert!(launched.recv_timeout(A_WHILE).is_err(), "what comes later, or has nothing to do with it, waits");
    queues.suspend_all(false);
    let mut rest = [next(&launched), next(&launched)];
    rest.sort_unstable();
    assert_eq!(rest, [3, 9]);
}

#[test]
fn what_a_forced_command_comes_after_is_launched_and_nothing_else() {
    let (queues, launched) = queues();
    let [first, second, third] = [(); 3].map(|()| queues.create((), None, status()));
    queues.suspend_all(true);
    let a = queues.submit(first, Vec::new(), Load::Signal, 1).unwrap();
    queues.submit(first, Vec::new(), Load::Signal, 10).unwrap();
    queues.submit(second, Vec::new(), Load::Signal, 2).unwrap();
    let b = queues.submit(second, vec![a], Load::Signal, 3).unwrap();
    queues.submit(second, Vec::new(), Load::Signal, 20).unwrap();
    queues.submit(third, vec![b], treated(Treatment::PassThrough), 4).unwrap();
    let mut gone = [(); 4].map(|()| next(&launched));
    assert_eq!(gone[3], 4, "it comes last: {gone:?}");
    gone.sort_unstable();
    assert_eq!(gone, [1, 2, 3, 4]);
    assert!(launched.recv_timeout(A_WHILE).is_err(), "what comes after waits as before");
    queues.close(Instant::now() + Duration::from_mins(1));
}

#[test]
fn a_forced_call_does_not_wait_in_place() {
    let (queues, launched) = queues();
    let queue = queues.create((), None, status());
    queues.suspend_all(true);
    queues.submit(queue, Vec::new(), Load::Signal, 1).unwrap();
    assert!(queues.wait_for_admission(queue, &[], treated(Treatment::PassThrough)).is_none());
    assert_eq!(next(&launched), 1, "it was launched before");
    queues.submit(queue, Vec::new(), Load::Signal, 2).unwrap();
    queues.wait_behind_all(Treatment::NeverSuspend);
    assert_eq!(next(&launched), 2);
    let last = queues.submit(queue, Vec::new(), Load::Signal, 3).unwrap();
    assert!(launched.recv_timeout(A_WHILE).is_err());
    queues.force(&[last]);
    queues.wait_launched(&[last]);
    assert_eq!(next(&launched), 3);
}
