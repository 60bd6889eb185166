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
        // .text in one segment with everything before it.
        ("joined", ["-pie", "-Wl,-z,noseparate-code"]),
        // Alignment for large pages.
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
        let addresses = expected.map(|(memory, _)| subject.address(memory));
        watch.catch_up();
        for ((memory, symbol), address) in expected.into_iter().zip(addresses) {
            assert_eq!(
                watch.describe(subject.pid(), address, NOW),
                format!("{symbol} in {name}"),
                "{memory}"
            );
            let location = watch.locate(subject.pid(), address, NOW);
            assert_eq!(location.file_offset.is_none(), memory == "zeroed", "{memory} of {name}");
        }
        // The same after the end, when `/proc` has nothing to read.
        subject.end();
        let pid = subject.pid();
        watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
        for ((memory, symbol), address) in expected.into_iter().zip(addresses) {
            assert_eq!(watch.describe(pid, address, NOW), format!("{symbol} in {name}"), "{memory}");
        }
    }
}

#[needs(WATCHING)]
fn memory_that_is_not_a_library() {
    let (program, mut watch) = (subject(), Watch::start());
    let mut subject = Subject::start(program);
    let pid = subject.pid();
    for (memory, backing) in [
        ("vdso", Backing::Vdso),
        ("heap", Backing::Heap),
        ("stack", Backing::Stack),
        ("generate", Backing::Anonymous),
    ] {
        let address = subject.address(memory);
        watch.catch_up();
        // After a miss, /proc is read at most every 50 ms.
        std::thread::sleep(std::time::Duration::from_millis(60));
        let location = watch.locate(pid, address, NOW);
        assert_eq!((location.mapping.backing, location.file_offset), (backing, None), "{memory}");
        assert_eq!(watch.processes.name(&location), Err(NameError::NoFile(backing)), "{memory}");
    }
    let unmapped = subject.address("unmapped");
    watch.catch_up();
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert!(watch.processes.locate(pid, unmapped, NOW).is_none());
    assert!(watch.processes.locate(pid, 0, NOW).is_none());
    assert!(watch.processes.locate(pid, u64::MAX, NOW).is_none());
}

#[needs(WATCHING)]
fn generated_code_is_found_from_the_event_alone() {
    let (program, mut watch) = (subject(), Watch::start());
    let mut subject = Subject::start(program);
    let pid = subject.pid();
    let (address, asked_ns) = (subject.address("generate"), subject.time_ns());
    subject.end();
    watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
    assert_eq!(watch.locate(pid, address, asked_ns).mapping.backing, Backing::Anonymous);
}

#[needs(WATCHING)]
fn a_library_in_memory_only() {
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
