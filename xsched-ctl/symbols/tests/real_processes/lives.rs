//! Processes that have changed or ended before the lookup.

use std::path::Path;

use xsched_harness::needs;
use xsched_symbols::{Change, now_ns};

use crate::subject::{Subject, WATCHING, Watch, folder, library, subject};

/// Some pids may be used twice while a test runs. A time after all events still selects the newest process.
const NOW: u64 = u64::MAX;

#[needs(WATCHING)]
fn a_library_is_replaced_by_another_before_the_lookup() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let first = library(folder.path(), "libfirst.so", "first_entry");
    let second = library(folder.path(), "libsecond.so", "other_entry");

    let mut subject = Subject::start(program);
    let mut visit = |library: &Path, entry: &str| {
        subject.must(&format!("open {}", library.display()));
        let symbols = [entry, "library_data", "library_zeroed", "library_constant"];
        let addresses = symbols.map(|symbol| subject.address(&format!("symbol {symbol}")));
        let time_ns = subject.time_ns();
        subject.must("close");
        (addresses, time_ns)
    };
    let (first_addresses, first_ns) = visit(&first, "first_entry");
    let (second_addresses, second_ns) = visit(&second, "other_entry");
    let pid = subject.pid();
    subject.end();

    watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
    assert_eq!(first_addresses, second_addresses, "the second library was loaded where the first had been");
    for (library, entry, addresses, time_ns) in [
        ("libfirst.so", "first_entry", first_addresses, first_ns),
        ("libsecond.so", "other_entry", second_addresses, second_ns),
    ] {
        for (name, address) in
            [entry, "library_data", "library_zeroed", "library_constant"].iter().zip(addresses)
        {
            assert_eq!(watch.describe(pid, address, time_ns), format!("{name}+0 in {library}"));
        }
    }
    let mapped = |name: &str| {
        watch.changes.iter().any(|change| {
            matches!(change, Change::Mapped { pid: by, mapping } if *by == pid && mapping.library() == name)
        })
    };
    assert!(mapped("libfirst.so") && mapped("libsecond.so"));
    assert!(watch.processes.process(pid).unwrap().ended_ns().is_some());
    assert_eq!((watch.sideband.lost(), watch.sideband.unreadable()), (0, 0));
}

#[needs(WATCHING)]
fn a_process_executes_another_program_before_the_lookup() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let flags = ["-O1", "-no-pie", "-fno-pie", "-pthread", "-ldl"];
    let next = crate::subject::build(folder.path(), "next", "subject.c", &flags);

    let mut subject = Subject::start(program);
    let (old_code, old_ns) = (subject.address("code"), subject.time_ns());
    assert_eq!(subject.ask(&format!("exec {}", next.display())), "ready");
    let (new_code, new_ns) = (subject.address("code"), subject.time_ns());
    let pid = subject.pid();
    subject.end();

    watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
    assert_eq!(watch.describe(pid, old_code, old_ns), "subject_code+0 in subject");
    assert_eq!(watch.describe(pid, new_code, new_ns), "subject_code+0 in next");
    assert!(watch.processes.locate(pid, old_code, new_ns).is_none(), "nothing of the old program is left");
    let old = watch.processes.find(pid, old_ns).unwrap();
    assert_eq!((old.name(), old.ended_ns().is_some()), ("subject", true));
    assert_eq!(old.executable().unwrap().as_ref(), program);
    let new = watch.processes.find(pid, new_ns).unwrap();
    assert_eq!((new.name(), new.ended_ns().is_some()), ("next", true));
    assert_eq!(new.executable().unwrap().as_ref(), next);
    assert_eq!(new.parent(), Some(std::process::id()));
    assert!(old.ended_ns().unwrap() == new.started_ns() && old.started_ns() < new.started_ns());
}

#[needs(WATCHING)]
fn a_forked_child_calls_a_library_of_its_parent() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let inherited = library(folder.path(), "libinherited.so", "inherited_entry");
    let own = library(folder.path(), "libown.so", "own_entry");

    let mut subject = Subject::start(program);
    let parent = subject.pid();
    subject.must(&format!("open {}", inherited.display()));
    let inherited_entry = subject.address("symbol inherited_entry");
    let child: u32 = subject.ask("fork").parse().unwrap();
    subject.must(&format!("open {}", own.display()));
    let own_entry = subject.address("symbol own_entry");
    let in_child_ns = subject.time_ns();
    assert_eq!(subject.ask("quit"), "parent");
    subject.end();

    watch.catch_up_until("both exits", |watch| watch.has_exited(parent) && watch.has_exited(child));
    assert_eq!(watch.describe(child, inherited_entry, in_child_ns), "inherited_entry+0 in libinherited.so");
    assert_eq!(watch.describe(child, own_entry, in_child_ns), "own_entry+0 in libown.so");
    assert!(watch.processes.locate(parent, own_entry, in_child_ns).is_none(), "the parent did not load it");
    let process = watch.processes.process(child).unwrap();
    assert_eq!(
        (process.parent(), process.name(), process.display_name().as_ref()),
        (Some(parent), "subject", "subject")
    );
}

#[needs(WATCHING)]
fn a_process_started_before_the_watch() {
    let program = subject();
    let mut subject = Subject::start(program);
    let code = subject.address("code");
    let mut watch = Watch::start();
    let pid = subject.pid();
    assert_eq!(watch.describe(pid, code, now_ns()), "subject_code+0 in subject");
    assert_eq!(watch.processes.command_line(pid), [program.to_str().unwrap()]);
    let process = watch.processes.process(pid).unwrap();
    assert_eq!((process.name(), process.parent()), ("subject", Some(std::process::id())));
    assert_eq!(process.executable().unwrap().as_ref(), program);
    assert!(now_ns() - process.started_ns() < 60_000_000_000);
    assert!(watch.processes.running().any(|process| process.pid() == pid));
}

#[needs(WATCHING)]
fn the_first_thread_ends_and_another_continues() {
    let (program, mut watch) = (subject(), Watch::start());
    let mut subject = Subject::start(program);
    let pid = subject.pid();
    let code = subject.address("code");
    let worker: u32 = subject.ask("leave-to-thread").parse().unwrap();
    assert_eq!(subject.ask("go on"), "still here");
    watch.catch_up_until("the new name", |watch| {
        watch.processes.process(pid).and_then(|process| process.thread_name(worker)) == Some("worker")
    });
    let status = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !status().contains(") Z ") {
        std::thread::yield_now();
    }
    watch.catch_up();
    assert!(!watch.has_exited(pid), "one thread is left");
    assert_eq!(watch.describe(pid, code, NOW), "subject_code+0 in subject");
    subject.end();
    watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
    assert_eq!(watch.processes.process(pid).unwrap().thread_name(worker), Some("worker"));
}

#[needs(WATCHING)]
fn a_process_renames_itself() {
    let (program, mut watch) = (subject(), Watch::start());
    let mut subject = Subject::start(program);
    let pid = subject.pid();
    subject.must("rename pt_main_thread");
    watch.catch_up_until("the new name", |watch| {
        watch
            .changes
            .iter()
            .any(|change| matches!(change, Change::Renamed { pid: by, tid } if *by == pid && *tid == pid))
    });
    assert_eq!(watch.processes.process(pid).unwrap().name(), "pt_main_thread");
}

#[needs(WATCHING)]
fn ended_processes_are_forgotten_on_request() {
    let (program, mut watch) = (subject(), Watch::start());
    let mut subject = Subject::start(program);
    let pid = subject.pid();
    let (code, asked_ns) = (subject.address("code"), subject.time_ns());
    subject.end();
    watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
    watch.processes.forget_exited(asked_ns);
    assert_eq!(watch.describe(pid, code, asked_ns), "subject_code+0 in subject");
    watch.processes.forget_exited(now_ns());
    assert!(watch.processes.process(pid).is_none());
    assert!(watch.processes.locate(pid, code, asked_ns).is_none());
}
