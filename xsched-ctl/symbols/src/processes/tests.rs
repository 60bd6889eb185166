//! Events in all orders, for processes that do not exist: no read of `/proc` succeeds here.

use super::*;
use crate::mapping::FileId;
use crate::tests::seeded;

/// Larger than any pid of the kernel (2^22).
const PARENT: u32 = 5_000_001;
const CHILD: u32 = 5_000_002;

fn mapped(time_ns: u64, pid: u32, start: u64, name: &str) -> PerfEvent {
    let inode = name.len() as u64;
    let file = FileId { device_major: 250, device_minor: 250, inode, generation: Some(1) };
    let mapping = Mapping::new(start, start + 0x1000, 0, Some(file), name.as_bytes());
    PerfEvent { time_ns, pid, tid: pid, kind: PerfEventKind::Mapped(Arc::new(mapping)) }
}

fn forked(time_ns: u64, pid: u32, tid: u32, parent: u32) -> PerfEvent {
    PerfEvent { time_ns, pid, tid, kind: PerfEventKind::Forked { parent, parent_tid: parent } }
}

fn executed(time_ns: u64, pid: u32, name: &str) -> PerfEvent {
    PerfEvent { time_ns, pid, tid: pid, kind: PerfEventKind::Executed { name: name.into() } }
}

fn renamed(time_ns: u64, pid: u32, tid: u32, name: &str) -> PerfEvent {
    PerfEvent { time_ns, pid, tid, kind: PerfEventKind::Renamed { name: name.into() } }
}

fn exited(time_ns: u64, pid: u32, tid: u32) -> PerfEvent {
    PerfEvent { time_ns, pid, tid, kind: PerfEventKind::Exited }
}

fn path_at(processes: &mut Processes, pid: u32, address: u64, time_ns: u64) -> Option<String> {
    let location = processes.locate(pid, address, time_ns)?;
    Some(location.mapping.path.to_string_lossy().into_owned())
}

/// A parent that loads, forks and ends; a child that executes another program and ends.
fn story() -> Vec<PerfEvent> {
    vec![
        executed(10, PARENT, "parent"),
        mapped(11, PARENT, 0x1000, "/bin/parent"),
        mapped(20, PARENT, 0x5000, "/lib/early.so"),
        forked(30, CHILD, CHILD, PARENT),
        mapped(35, CHILD, 0x7000, "/lib/childs.so"),
        mapped(36, PARENT, 0x8000, "/lib/parents.so"),
        executed(40, CHILD, "child"),
        mapped(41, CHILD, 0x1000, "/bin/childs_own"),
        exited(50, CHILD, CHILD),
        exited(60, PARENT, PARENT),
    ]
}

fn check(processes: &mut Processes) {
    let expected = [
        (PARENT, 0x1000, 15, Some("/bin/parent")),
        (PARENT, 0x5000, 15, None),
        (PARENT, 0x5000, 25, Some("/lib/early.so")),
        (CHILD, 0x5000, 33, Some("/lib/early.so")),
        (CHILD, 0x7000, 33, None),
        (CHILD, 0x7000, 38, Some("/lib/childs.so")),
        (CHILD, 0x8000, 38, None),
        (PARENT, 0x8000, 38, Some("/lib/parents.so")),
        (CHILD, 0x5000, 45, None),
        (CHILD, 0x1000, 38, Some("/bin/parent")),
        (CHILD, 0x1000, 45, Some("/bin/childs_own")),
    ];
    for (pid, address, time_ns, path) in expected {
        assert_eq!(
            path_at(processes, pid, address, time_ns).as_deref(),
            path,
            "{pid} {address:#x} at {time_ns}"
        );
    }
    assert_eq!(processes.running().count(), 0);
    let child = processes.process(CHILD).unwrap();
    assert_eq!((child.name(), child.parent()), ("child", Some(PARENT)));
    assert_eq!(child.executable().unwrap().to_str(), Some("/bin/childs_own"));
}

#[test]
fn lookups_use_the_program_of_the_time() {
    let mut processes = Processes::new();
    for event in story() {
        processes.apply(&event);
    }
    check(&mut processes);
}

#[test]
fn an_event_of_a_child_may_arrive_before_its_fork() {
    let mut processes = Processes::new();
    let mut events = story();
    events.swap(3, 4);
    for event in events {
        processes.apply(&event);
    }
    check(&mut processes);
}

#[test]
fn a_late_event_does_not_revive_a_process() {
    let mut processes = Processes::new();
    for event in [
        executed(10, PARENT, "parent"),
        exited(50, PARENT, PARENT),
        renamed(45, PARENT, PARENT, "late"),
        mapped(46, PARENT, 0x1000, "/lib/late.so"),
    ] {
        processes.apply(&event);
    }
    assert_eq!(processes.running().count(), 0);
    assert_eq!(path_at(&mut processes, PARENT, 0x1000, 47).as_deref(), Some("/lib/late.so"));
}

#[test]
fn a_pid_is_reused() {
    let mut processes = Processes::new();
    for event in [
        executed(10, PARENT, "parent"),
        forked(20, CHILD, CHILD, PARENT),
        mapped(21, CHILD, 0x1000, "/lib/first.so"),
        exited(30, CHILD, CHILD),
        forked(40, CHILD, CHILD, PARENT),
        mapped(41, CHILD, 0x1000, "/lib/the_second.so"),
    ] {
        processes.apply(&event);
    }
    assert_eq!(path_at(&mut processes, CHILD, 0x1000, 25).as_deref(), Some("/lib/first.so"));
    assert_eq!(path_at(&mut processes, CHILD, 0x1000, 45).as_deref(), Some("/lib/the_second.so"));
    assert_eq!(processes.find(CHILD, 25).unwrap().ended_ns().unwrap(), 30);
    processes.forget_exited(35);
    assert_eq!(path_at(&mut processes, CHILD, 0x1000, 45).as_deref(), Some("/lib/the_second.so"));
    assert_eq!(processes.running().count(), 2);
}

#[test]
fn a_record_after_the_end_belongs_to_a_missed_program() {
    let mut processes = Processes::new();
    for event in [
        executed(10, PARENT, "parent"),
        mapped(11, PARENT, 0x1000, "/lib/first.so"),
        exited(30, PARENT, PARENT),
    ] {
        processes.apply(&event);
    }
    assert_eq!(path_at(&mut processes, PARENT, 0x1000, 30).as_deref(), Some("/lib/first.so"));
    assert_eq!(path_at(&mut processes, PARENT, 0x1000, 31), None);
    assert_eq!(path_at(&mut processes, PARENT, 0x1000, u64::MAX).as_deref(), Some("/lib/first.so"));
}

#[test]
fn the_process_ends_with_its_last_thread() {
    let mut processes = Processes::new();
    let mut apply = |event| processes.apply(&event);
    apply(executed(10, PARENT, "parent"));
    apply(forked(20, PARENT, PARENT + 10, PARENT));
    apply(renamed(21, PARENT, PARENT + 10, "worker"));
    assert!(apply(exited(30, PARENT, PARENT)).is_none());
    assert!(matches!(apply(exited(40, PARENT, PARENT + 10)), Some(Change::Exited { pid: PARENT })));
    let process = processes.process(PARENT).unwrap();
    assert_eq!(process.thread_name(PARENT + 10), Some("worker"));
    assert_eq!(process.ended_ns().unwrap(), 40);
}

#[test]
fn memory_that_becomes_executable_again_is_not_reported() {
    let mut processes = Processes::new();
    processes.apply(&executed(10, PARENT, "parent"));
    let is_mapped = |change: Option<Change>| matches!(change, Some(Change::Mapped { .. }));
    assert!(is_mapped(processes.apply(&mapped(20, PARENT, 0x1000, "/lib/libamdhip64.so.6"))));
    assert!(!is_mapped(processes.apply(&mapped(30, PARENT, 0x1000, "/lib/libamdhip64.so.6"))));
    let found: Vec<_> = processes.runtimes().map(|(pid, mapping)| (pid, mapping.start)).collect();
    assert_eq!(found, [(PARENT, 0x1000)]);
}

#[test]
fn invariants_hold_for_random_events() {
    let mut rng = seeded();
    for _ in 0..200 {
        let mut processes = Processes::new();
        for _ in 0..200 {
            let time_ns = rng.u64(..1_000);
            let pid = 5_000_000 + rng.u64(..6) as u32;
            let tid = pid + 10 * rng.u64(..2) as u32;
            let other = 5_000_000 + rng.u64(..6) as u32;
            let event = match rng.u64(..6) {
                0 => forked(time_ns, pid, tid, other),
                1 => executed(time_ns, pid, "next"),
                2 => renamed(time_ns, pid, tid, "name"),
                3 => exited(time_ns, pid, tid),
                4 => PerfEvent { time_ns, pid: 0, tid: 0, kind: PerfEventKind::Lost { count: 1 } },
                _ => mapped(time_ns, pid, rng.u64(..20) * 0x800, "/lib/any.so"),
            };
            processes.apply(&event);
            if let Some(location) = processes.locate(pid, rng.u64(..0x9000), time_ns) {
                assert!(location.mapping.contains(location.address));
                // A busy machine may take its time to say so.
                let named = processes.name(&location);
                assert!(matches!(named, Err(NameError::Gone | NameError::Unanswered)), "{named:?}");
            }
        }
        assert!(processes.by_pid.values().all(|programs| !programs.is_empty()));
        for process in processes.running() {
            assert!(process.threads.values().any(|thread| thread.ended_ns.is_none()), "{process:?}");
        }
        // Ends found by reading `/proc` have the real time, not a random one.
        processes.forget_exited(u64::MAX);
        assert_eq!(processes.by_pid.len(), processes.running().count());
    }
}
