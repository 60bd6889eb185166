//! Two copies of AMD's own runtime in one process, as on a system with ROCm and a wheel that brings its own.

use std::fs;
use std::process::Command;

use xsched_harness::needs;
use xsched_harness::needs::VM;

use crate::recording::program;
use crate::sharer::{RUNTIMES, Request, SYSTEM, Sharer, WHEEL};
use crate::{SUSPENDED, preload, summary};

/// Has both copies compute. The program ends at the first error that a call leaves with its thread.
fn computes(command: Command) {
    let mut sharer = Sharer::start(command, &[SYSTEM, WHEEL]);
    let maps = fs::read_to_string(format!("/proc/{}/maps", sharer.child.id())).expect("it runs");
    assert!(RUNTIMES.iter().all(|runtime| maps.contains(runtime)), "{maps}");
    for _ in 0..12 {
        assert_eq!(sharer.execute(Request { kernels: 8, rounds: 100 }).len(), 16);
    }
    sharer.finish();
}

#[needs(VM)]
fn two_runtime_copies_compute_the_same_natively_and_while_they_are_suspended() {
    computes(program("shares"));
    for suspended in [None].into_iter().chain(SUSPENDED.map(Some)) {
        let mut command = program("shares");
        preload(&mut command, suspended);
        computes(command);
        let summary = summary();
        assert!(summary.contains("192  kernels, created streams"), "{suspended:?}: {summary}");
        assert_eq!(summary.contains("  deferred\n"), suspended.is_some(), "{suspended:?}: {summary}");
        assert!(summary.ends_with("trouble\n               0  none\n"), "{suspended:?}: {summary}");
    }
}
