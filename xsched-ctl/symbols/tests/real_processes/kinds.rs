//! Addresses in every kind of memory, in programs of every layout.

use xsched_harness::needs;
use xsched_symbols::{Backing, NameError};

use crate::subject::{Subject, WATCHING, Watch, build, folder, library, subject};

const NOW: u64 = u64::MAX;

#[needs(WATCHING)]
fn code_and_data_of_programs_at_fixed_and_at_random_addresses() {
    let mut watch = Watch::start();
    let folder = folder();
    for (name, flags) in [
        ("random", ["-pie", "-fPIE"]),
        ("fixed", ["-no-pie", "-fno-pie"]),
        // Everything before .text in one segment with it.
        ("joined", ["-pie", "-Wl,-z,noseparate-code"]),
        // As the loaders of large pages want it.
        ("aligned", ["-pie", "-Wl,-z,max-page-size=0x200000"]),
    ] {
        let flags = [&flags[..], &["-O1", "-pthread", "-ldl"]].concat();
        let program = build(folder.path(), name, "subject.c", &flags);
        let mut subject = Subject::start(&program);
        let expected = [
            ("code", "subject_code+0"),
            ("hidden", "hidden_code+0"),
            ("data", "subject_data+4"),
            ("zeroed", "subject_zeroed+19996"),
            ("constant", "subject_constant+4"),
        ];
        let addresses = expected.map(|(place, _)| subject.address(place));
        watch.catch_up();
        for ((place, symbol), address) in expected.into_iter().zip(addresses) {
            assert_eq!(watch.describe(subject.pid(), address, NOW), format!("{symbol} in {name}"), "{place}");
            let location = watch.locate(subject.pid(), address, NOW);
            assert_eq!(location.file_offset.is_none(), place == "zeroed", "{place} of {name}");
        }
        // The same after the end: nothing can be read from `/proc` any more.
        subject.end();
        let pid = subject.pid();
        watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
        for ((place, symbol), address) in expected.into_iter().zip(addresses) {
            assert_eq!(watch.describe(pid, address, NOW), format!("{symbol} in {name}"), "{place}");
        }
    }
}

#[needs(WATCHING)]
fn memory_that_is_no_library() {
    let (program, mut watch) = (subject(), Watch::start());
    let mut subject = Subject::start(program);
    let pid = subject.pid();
    for (place, backing) in [
        ("vdso", Backing::Vdso),
        ("heap", Backing::Heap),
        ("stack", Backing::Stack),
        ("generate", Backing::Anonymous),
    ] {
        let address = subject.address(place);
        watch.catch_up();
        // A miss is looked up in /proc at most every 50 ms.
        std::thread::sleep(std::time::Duration::from_millis(60));
        let location = watch.locate(pid, address, NOW);
        assert_eq!((location.mapping.backing, location.file_offset), (backing, None), "{place}");
        assert_eq!(watch.processes.name(&location), Err(NameError::NoFile(backing)), "{place}");
    }
    let unmapped = subject.address("unmapped");
    watch.catch_up();
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert!(watch.processes.locate(pid, unmapped, NOW).is_none());
    assert!(watch.processes.locate(pid, 0, NOW).is_none());
    assert!(watch.processes.locate(pid, u64::MAX, NOW).is_none());
}

#[needs(WATCHING)]
fn generated_code_is_known_from_the_event_alone() {
    let (program, mut watch) = (subject(), Watch::start());
    let mut subject = Subject::start(program);
    let pid = subject.pid();
    let (address, asked_ns) = (subject.address("generate"), subject.time_ns());
    subject.end();
    watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
    assert_eq!(watch.locate(pid, address, asked_ns).mapping.backing, Backing::Anonymous);
}

#[needs(WATCHING)]
fn a_library_that_exists_in_memory_only() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let path = library(folder.path(), "libseed.so", "seed_entry");
    let mut subject = Subject::start(program);
    subject.must(&format!("open-as-memfd {}", path.display()));
    let (entry, data) = (subject.address("symbol seed_entry"), subject.address("symbol library_zeroed"));
    watch.catch_up();
    let pid = subject.pid();
    assert_eq!(watch.locate(pid, entry, NOW).mapping.backing, Backing::Memfd);
    assert_eq!(watch.describe(pid, entry, NOW), "seed_entry+0 in memfd:generated");
    assert_eq!(watch.describe(pid, data, NOW), "library_zeroed+0 in memfd:generated");
}
