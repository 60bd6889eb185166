//! Events that the kernel dropped are counted and compensated.

use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use xsched_harness::needs;
use xsched_symbols::{Change, PerfEvent, PerfEventKind, Sideband};

use crate::subject::{Subject, WATCHING, Watch, subject};

#[needs(WATCHING)]
fn a_ring_overflows_without_a_reader() {
    let (program, mut watch) = (subject(), Watch::start());
    watch.sideband = Sideband::with_ring_bytes(1).expect("permitted a moment ago");
    let mut subject = Subject::start(program);
    let code = subject.address("code");
    // Each start maps a few files; a page holds about twenty such events.
    let start = || assert!(Command::new("true").status().expect("start true").success());
    for _ in 0..100 {
        start();
    }
    let reported = |watch: &Watch| -> u64 {
        let count = |change: &Change| if let Change::Lost { count } = change { *count } else { 0 };
        watch.changes.iter().map(count).sum()
    };
    // The kernel reports a loss with the next event on that CPU.
    for round in 0.. {
        watch.catch_up();
        if reported(&watch) > 100 {
            break;
        }
        assert!(round < 100, "{} losses were reported", reported(&watch));
        start();
    }
    // The next drain returns the newest events of this one.
    watch.catch_up_until("each loss", |watch| reported(watch) == watch.sideband.lost());
    assert_eq!(watch.sideband.unreadable(), 0);

    watch.processes.scan_running();
    assert_eq!(watch.describe(subject.pid(), code, u64::MAX), "subject_code+0 in subject");
    let pid = subject.pid();
    subject.end();
    watch.processes.scan_running();
    assert!(watch.processes.process(pid).unwrap().ended_ns().is_some(), "an end without a report is noticed");
}

#[needs(WATCHING)]
fn the_end_event_of_a_process_is_lost() {
    let (program, mut watch) = (subject(), Watch::start());
    let mut subject = Subject::start(program);
    let pid = subject.pid();
    watch.processes.scan(pid).expect("it runs");
    assert!(watch.processes.process(pid).unwrap().ended_ns().is_none());
    subject.end();
    assert!(watch.processes.scan(pid).is_err());
    assert!(watch.processes.process(pid).unwrap().ended_ns().is_some(), "an end without a report is noticed");
}

#[needs(WATCHING)]
fn the_end_event_of_a_thread_is_lost() {
    let (program, mut watch) = (subject(), Watch::start());
    let mut subject = Subject::start(program);
    let pid = subject.pid();
    let time_ns = subject.time_ns();
    watch.catch_up();
    // A thread that was created, and of which the end event was lost.
    let kind = PerfEventKind::Forked { parent: pid, parent_tid: pid };
    watch.processes.apply(&PerfEvent { time_ns, pid, tid: u32::MAX, kind });
    watch.processes.scan(pid).expect("it runs");
    subject.end();
    watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
}

#[needs(WATCHING)]
fn records_are_whole_wherever_the_ring_wraps() {
    let mut watch = Watch::start();
    watch.sideband = Sideband::with_ring_bytes(16 << 10).expect("permitted a moment ago");
    // Each round writes a few kilobytes of events of varying length into rings of 16 KiB.
    for round in 0..200 {
        let name = format!("{:0width$}", round, width = 1 + round % 15);
        let status =
            Command::new("sh").args(["-c", "echo $1 > /proc/self/comm; exec true", "sh", &name]).status();
        assert!(status.expect("start sh").success());
        watch.catch_up();
    }
    assert_eq!((watch.sideband.lost(), watch.sideband.unreadable()), (0, 0));
    let executed = watch.changes.iter().filter(|change| matches!(change, Change::Executed { .. })).count();
    assert!(executed >= 400, "{executed}");
}

#[needs(WATCHING)]
fn the_side_band_can_be_waited_for() {
    let (program, mut watch) = (subject(), Watch::start());
    for _ in 0..3 {
        watch.catch_up();
        let subject = Subject::start(program);
        let pid = subject.pid();
        watch.changes.clear();
        while !watch.changes.iter().any(|change| matches!(change, Change::Executed { pid: by } if *by == pid))
        {
            let mut fds = [PollFd::new(&watch.sideband, PollFlags::IN)];
            let timeout = rustix::time::Timespec { tv_sec: 60, tv_nsec: 0 };
            assert_eq!(poll(&mut fds, Some(&timeout)).unwrap(), 1, "no wake-up");
            watch.catch_up();
        }
    }
}
