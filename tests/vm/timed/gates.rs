//! Gates on AMD's own runtime: what a less urgent process has launched ahead waits on the device, while an urgent one executes.
//!
//! Kernels say when they were executed, by the device's clock. Its order is that of the device.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use xsched_harness::needs;
use xsched_harness::needs::VM_TIMED;

use crate::recording::{host, program};
use crate::scheduling::{scheduled, serve, wait_for_gate};
use crate::sharer::{Executed, Request, SYSTEM, Sharer, WHEEL};

/// Requests of the urgent process.
const REQUESTS: usize = 10;

/// Urgent kernels take longer than it takes to launch the next one.
const URGENT: Request = Request { kernels: 4, rounds: 60_000 };
const BATCH: Request = Request { kernels: 32, rounds: 20_000 };

/// For each urgent request, how many kernels of a copy of the runtime began while those of the request were executed.
type Began = Vec<usize>;

/// Runs an urgent program beside one with these libraries.
fn side_by_side(
    urgent: Command,
    batch: Command,
    libraries: &[&str],
    once_both_run: impl FnOnce(u32),
) -> Vec<Began> {
    let mut batch = Sharer::start(batch, libraries);
    let mut urgent = Sharer::start(urgent, &[SYSTEM]);
    let stop = AtomicBool::new(false);
    let mut requests = Vec::new();
    let executed = thread::scope(|scope| {
        let run = batch.child.id();
        let batch = scope.spawn(|| batch.keep_busy(BATCH, &stop));
        urgent.execute(URGENT);
        once_both_run(run);
        for _ in 0..REQUESTS {
            thread::sleep(Duration::from_millis(100));
            requests.push(urgent.execute(URGENT));
        }
        stop.store(true, Ordering::Relaxed);
        batch.join().expect("the thread does not panic")
    });
    urgent.finish();
    batch.finish();
    let of_copy = |copy| {
        let kernels = executed.chunks(BATCH.kernels).skip(copy).step_by(libraries.len());
        began_within(&requests, &kernels.flatten().copied().collect::<Vec<_>>())
    };
    (0..libraries.len()).map(of_copy).collect()
}

fn began_within(requests: &[Vec<Executed>], executed: &[Executed]) -> Began {
    let within = |request: &Vec<Executed>| {
        let (begin, end) = (request[0].0, request[URGENT.kernels - 1].1);
        assert!(executed[0].0 < begin && end < executed[executed.len() - 1].1, "not side by side");
        executed.iter().filter(|(began, _)| (begin..end).contains(began)).count()
    };
    requests.iter().map(within).collect()
}

/// Launched kernels of every copy of the runtime wait while urgent ones are executed, as they do not natively.
fn waits_at_the_gate(libraries: &[&str]) {
    let natively = side_by_side(program("shares"), program("shares"), libraries, |_| ());
    let begin_many = |began: &Began| began.iter().sum::<usize>() > REQUESTS;
    assert!(natively.iter().all(begin_many), "all use the device at a time: {natively:?}");

    let (_controller, serve_log) = serve(&[]);
    let log = host("batch.log");
    let _ = fs::remove_file(&log); // from an earlier run
    let mut batch = scheduled("low", "shares");
    batch.env("XSCHED_LOG", &log);
    let scheduled = side_by_side(scheduled("high", "shares"), batch, libraries, wait_for_gate);
    let summary = fs::read_to_string(&log).expect("the shim writes a summary");
    let serve_log = fs::read_to_string(serve_log).expect("the controller writes a log");
    assert!(serve_log.contains("page kept by BPF programs"), "{serve_log}");
    assert!(summary.contains("gates before commands, which stop them on the device\n"), "{summary}");
    // One may have passed the gate before it closed. More begin where this machine is so busy that an urgent kernel ends before the
    // next one is launched.
    for (scheduled, natively) in scheduled.iter().zip(&natively) {
        let totals = [scheduled, natively].map(|began| began.iter().sum::<usize>());
        assert!(totals[0] * 3 < totals[1], "{scheduled:?}, natively {natively:?}: {summary}");
    }
    eprintln!("began beside urgent kernels: {scheduled:?}, natively {natively:?}");
}

#[needs(VM_TIMED)]
fn launched_kernels_wait_at_the_gate_while_urgent_ones_are_executed() {
    waits_at_the_gate(&[SYSTEM]);
}

/// Each copy has a gate of its own, which the other does not know.
#[needs(VM_TIMED)]
fn launched_kernels_of_two_runtime_copies_wait_at_their_gates() {
    waits_at_the_gate(&[SYSTEM, WHEEL]);
}
