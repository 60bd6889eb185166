//! Files that are deleted, replaced or stripped.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use xsched_harness::needs;
use xsched_symbols::{ElfError, NameError, OpenError, Patience, hold_root, open_mapped};

use crate::subject::{Subject, WATCHING, Watch, build, folder, library, replace, subject};

const NOW: u64 = u64::MAX;

#[needs(WATCHING)]
fn a_library_is_deleted_while_it_is_used() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let path = library(folder.path(), "libgone.so", "gone_entry");
    let mut subject = Subject::start(program);
    subject.must(&format!("open {}", path.display()));
    let entry = subject.address("symbol gone_entry");
    let data = subject.address("symbol library_data");
    fs::remove_file(&path).unwrap();
    watch.catch_up();
    let pid = subject.pid();
    assert_eq!(watch.describe(pid, entry + 1, NOW), "gone_entry+1 in libgone.so");
    assert_eq!(watch.describe(pid, data, NOW), "library_data+0 in libgone.so");

    // A later scan sees the deletion by the kernel's mark.
    let mut late = Watch::start();
    late.processes.scan(pid).unwrap();
    assert_eq!(late.describe(pid, entry, NOW), "gone_entry+0 in libgone.so");
    assert!(late.locate(pid, entry, NOW).mapping.deleted);
}

#[needs(WATCHING)]
fn a_library_is_replaced_while_it_is_used() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let path = library(folder.path(), "libpart.so", "old_entry");
    let newer = library(folder.path(), "libnewer.so", "new_entry");
    let mut subject = Subject::start(program);
    subject.must(&format!("open {}", path.display()));
    let entry = subject.address("symbol old_entry");
    replace(&path, &newer);
    watch.catch_up();
    let pid = subject.pid();
    assert_eq!(watch.describe(pid, entry, NOW), "old_entry+0 in libpart.so");

    let mut second = Subject::start(program);
    second.must(&format!("open {}", path.display()));
    let entry = second.address("symbol new_entry");
    watch.catch_up();
    assert_eq!(watch.describe(second.pid(), entry, NOW), "new_entry+0 in libpart.so");
}

#[needs(WATCHING)]
fn a_library_is_rebuilt_into_the_same_inode() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let path = library(folder.path(), "libpart.so", "old_entry");
    let newer = library(folder.path(), "libnewer.so", "new_entry");
    assert_eq!(fs::metadata(&path).unwrap().len(), fs::metadata(&newer).unwrap().len());
    for entry in ["old_entry", "new_entry"] {
        let mut subject = Subject::start(program);
        subject.must(&format!("open {}", path.display()));
        let address = subject.address(&format!("symbol {entry}"));
        watch.catch_up();
        assert_eq!(watch.describe(subject.pid(), address, NOW), format!("{entry}+0 in libpart.so"));
        subject.end();
        fs::write(&path, fs::read(&newer).unwrap()).unwrap();
    }
}

#[needs(WATCHING)]
fn a_library_is_replaced_and_its_process_ends_before_the_lookup() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let path = library(folder.path(), "libpart.so", "old_entry");
    let newer = library(folder.path(), "libnewer.so", "new_entry");
    let mut subject = Subject::start(program);
    subject.must(&format!("open {}", path.display()));
    let (entry, asked_ns) = (subject.address("symbol old_entry"), subject.time_ns());
    subject.end();
    replace(&path, &newer);
    let pid = subject.pid();
    watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
    let location = watch.locate(pid, entry, asked_ns);
    assert_eq!(location.mapping.library(), "libpart.so");
    assert_eq!(watch.processes.name(&location), Err(NameError::Gone), "no name is better than a wrong one");
    assert_eq!(
        open_mapped(pid, &location.mapping, Patience::Long).unwrap_err(),
        OpenError::Gone { path: path.clone() }
    );
}

#[needs(WATCHING)]
fn a_known_library_is_deleted_and_its_next_process_ends() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let path = library(folder.path(), "libshared.so", "shared_entry");
    let run = |watch: &mut Watch, look: bool| {
        let mut subject = Subject::start(program);
        subject.must(&format!("open {}", path.display()));
        let (entry, asked_ns, pid) =
            (subject.address("symbol shared_entry"), subject.time_ns(), subject.pid());
        if look {
            watch.catch_up();
            assert_eq!(watch.describe(pid, entry, asked_ns), "shared_entry+0 in libshared.so");
        }
        subject.end();
        (pid, entry, asked_ns)
    };
    run(&mut watch, true);
    let (pid, entry, asked_ns) = run(&mut watch, false);
    fs::remove_file(&path).unwrap();
    watch.catch_up_until("the exit", |watch| watch.has_exited(pid));
    assert_eq!(watch.describe(pid, entry, asked_ns), "shared_entry+0 in libshared.so");
}

#[needs(WATCHING)]
fn a_library_without_symbols_still_has_offsets() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    // Its only function is found by address: no table has its name.
    let flags = ["-O1", "-shared", "-fPIC", "-s", "-fvisibility=hidden", "-DENTRY=unnamed"];
    let path = build(folder.path(), "libstripped.so", "library.c", &flags);
    let mut subject = Subject::start(program);
    subject.must(&format!("open {}", path.display()));
    watch.catch_up();
    let pid = subject.pid();
    let process = watch.processes.process(pid).unwrap();
    let mapping = process.mappings().find(|mapping| mapping.library() == "libstripped.so").unwrap().clone();
    let location = watch.locate(pid, mapping.start + 8, NOW);
    assert_eq!(location.file_offset, Some(mapping.file_offset + 8));
    assert_eq!(watch.processes.name(&location), Err(NameError::Elf(ElfError::NoSymbols)));
}

#[needs(WATCHING)]
fn a_stripped_program_keeps_its_dynamic_names_only() {
    let mut watch = Watch::start();
    let folder = folder();
    let flags = ["-O1", "-pie", "-fPIE", "-pthread", "-ldl", "-s", "-rdynamic"];
    let program = build(folder.path(), "stripped", "subject.c", &flags);
    let mut subject = Subject::start(&program);
    let (code, hidden) = (subject.address("code"), subject.address("hidden"));
    watch.catch_up();
    let pid = subject.pid();
    assert_eq!(watch.describe(pid, code, NOW), "subject_code+0 in stripped");
    assert_eq!(watch.symbol(pid, hidden, NOW), Err(NameError::NoSymbol));
}

/// Short programs in a chroot: their paths lead nowhere once they have ended.
#[needs(WATCHING)]
fn a_short_process_in_another_root_ends_before_its_files_are_read() {
    let (root, mut watch) = (folder(), Watch::start());
    let listed = Command::new("ldd").arg("/bin/sleep").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for file in listed.split_whitespace().filter(|word| word.starts_with('/')).chain(["/bin/sleep"]) {
        let copy = root.path().join(&file[1..]);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
    let start = || {
        let child = Command::new("chroot").arg(root.path()).args(["/bin/sleep", "1000"]).spawn().unwrap();
        let exe = format!("/proc/{}/exe", child.id());
        while !fs::read_link(&exe).unwrap().starts_with(root.path()) {
            std::thread::yield_now();
        }
        child
    };
    let (mut long, mut short) = (start(), start());
    hold_root(long.id());
    watch.catch_up();
    for child in [&mut short, &mut long] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let process = watch.processes.process(short.id()).unwrap();
    let (_, program) = process.code().find(|(_, code)| code.library() == "sleep").unwrap();
    let opened = open_mapped(short.id(), program, Patience::Long).unwrap();
    let inode = fs::metadata(root.path().join("bin/sleep")).unwrap().ino();
    assert_eq!(opened.metadata().unwrap().ino(), inode);
}
