//! Events in every order, about processes that do not exist: nothing here reads `/proc` with success.

use super::*;
use crate::mapping::FileId;
use crate::random::Random;

/// Beyond the largest id that the kernel gives out (2^22).
const PARENT: u32 = 5_000_001;
const CHILD: u32 = 5_000_002;

fn mapped(time_ns: u64, pid: u32, start: u64, name: &str) -> Event {
    let inode = name.len() as u64;
    let file = FileId { device_major: 250, device_minor: 250, inode, generation: Some(1) };
    let mapping = Mapping::new(start, start + 0x1000, 0, Some(file), name.as_bytes());
    Event { time_ns, pid, tid: pid, kind: EventKind::Mapped(Arc::new(mapping)) }
}

fn forked(time_ns: u64, pid: u32, tid: u32, parent: u32) -> Event {
    Event { time_ns, pid, tid, kind: EventKind::Forked { parent, parent_tid: parent } }
}

fn executed(time_ns: u64, pid: u32, name: &str) -> Event {
    Event { time_ns, pid, tid: pid, kind: EventKind::Executed { name: name.into() } }
}

fn renamed(time_ns: u64, pid: u32, tid: u32, name: &str) -> Event {
    Event { time_ns, pid, tid, kind: EventKind::Renamed { name: name.into() } }
}

fn exited(time_ns: u64, pid: u32, tid: u32) -> Event {
    Event { time_ns, pid, tid, kind: EventKind::Exited }
}

fn path_at(processes: &mut Processes, pid: u32, address: u64, time_ns: u64) -> Option<String> {
    let location = processes.locate(pid, address, time_ns)?;
    Some(location.mapping.path.to_string_lossy().into_owned())
}

/// A parent that loads, forks and ends; a child that runs another program and ends.
fn story() -> Vec<Event> {
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
fn each_record_sees_the_program_of_its_time() {
    let mut processes = Processes::new();
    for event in story() {
        processes.apply(&event);
    }
    check(&mut processes);
}

#[test]
fn a_childs_event_overtakes_its_fork() {
    let mut processes = Processes::new();
    let mut events = story();
    events.swap(3, 4);
    for event in events {
        processes.apply(&event);
    }
    check(&mut processes);
}

#[test]
fn an_event_comes_after_the_end_and_leaves_no_ghost() {
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
fn a_process_id_is_used_again() {
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
    assert_eq!(processes.find(CHILD, 25).unwrap().end().unwrap().time_ns, 30);
    processes.forget_exited(35);
    assert_eq!(path_at(&mut processes, CHILD, 0x1000, 45).as_deref(), Some("/lib/the_second.so"));
    assert_eq!(processes.running().count(), 2);
}

#[test]
fn a_record_younger_than_the_end_belongs_to_a_program_that_was_missed() {
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
    assert_eq!(process.end().unwrap().time_ns, 40);
}

#[test]
fn memory_that_becomes_executable_again_is_no_news() {
    let mut processes = Processes::new();
    processes.apply(&executed(10, PARENT, "parent"));
    let news = |change: Option<Change>| matches!(change, Some(Change::Mapped { .. }));
    assert!(news(processes.apply(&mapped(20, PARENT, 0x1000, "/lib/libamdhip64.so.6"))));
    assert!(!news(processes.apply(&mapped(30, PARENT, 0x1000, "/lib/libamdhip64.so.6"))));
    let found: Vec<_> = processes.runtimes().map(|(pid, mapping)| (pid, mapping.start)).collect();
    assert_eq!(found, [(PARENT, 0x1000)]);
}

#[test]
fn random_events_keep_every_promise() {
    let mut random = Random::from_clock();
    for _ in 0..200 {
        let mut processes = Processes::new();
        for _ in 0..200 {
            let time_ns = random.below(1_000);
            let pid = 5_000_000 + random.below(6) as u32;
            let tid = pid + 10 * random.below(2) as u32;
            let other = 5_000_000 + random.below(6) as u32;
            let event = match random.below(6) {
                0 => forked(time_ns, pid, tid, other),
                1 => executed(time_ns, pid, "next"),
                2 => renamed(time_ns, pid, tid, "name"),
                3 => exited(time_ns, pid, tid),
                4 => Event { time_ns, pid: 0, tid: 0, kind: EventKind::Lost { count: 1 } },
                _ => mapped(time_ns, pid, random.below(20) * 0x800, "/lib/any.so"),
            };
            processes.apply(&event);
            if let Some(location) = processes.locate(pid, random.below(0x9000), time_ns) {
                assert!(location.mapping.contains(location.address));
                assert_eq!(processes.name(&location), Err(NameError::Gone));
            }
        }
        assert!(processes.by_pid.values().all(|programs| !programs.is_empty()));
        for process in processes.running() {
            assert!(process.threads.values().any(|thread| thread.ended_ns.is_none()), "{process:?}");
        }
        // Ends that a reading of `/proc` finds have the real time, not the random events'.
        processes.forget_exited(u64::MAX);
        assert_eq!(processes.by_pid.len(), processes.running().count());
    }
}
