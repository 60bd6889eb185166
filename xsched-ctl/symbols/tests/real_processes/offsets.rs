//! Offsets for probes: those of functions in the file that is actually mapped.

use std::fs::File;

use xsched_harness::needs;
use xsched_harness::needs::CC_32_BIT;
use xsched_symbols::{ElfError, Patience, open_mapped, symbol_file_offsets};

use crate::subject::{Subject, WATCHING, Watch, build, folder, library, subject};

const VERSIONED: [&str; 4] = ["-O1", "-shared", "-fPIC", "-Wl,--version-script=versioned.map"];

#[needs(nothing)]
fn every_version_of_a_function_is_found_and_nothing_else() {
    let folder = folder();
    let path = build(folder.path(), "libversioned.so", "versioned.c", &VERSIONED);
    let file = File::open(&path).unwrap();
    let found =
        symbol_file_offsets(&file, |name| ["twice", "indirect", "number", "absent"].contains(&name)).unwrap();
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["twice", "twice"], "two versions; no data, no resolver");
    assert_ne!(found[0].1, found[1].1);
    let once = symbol_file_offsets(&file, |name| name == "once").unwrap();
    assert_eq!(once.len(), 1);
}

#[needs(WATCHING)]
fn an_offset_matches_the_loaders_address() {
    let (program, mut watch) = (subject(), Watch::start());
    let folder = folder();
    let path = build(folder.path(), "libversioned.so", "versioned.c", &VERSIONED);
    let mut subject = Subject::start(program);
    subject.must(&format!("open {}", path.display()));
    let (once, twice) = (subject.address("symbol once"), subject.address("symbol twice"));
    std::fs::remove_file(&path).unwrap();
    watch.catch_up();
    let location = watch.locate(subject.pid(), once, u64::MAX);
    // From the mapped file itself, although its path is deleted.
    let file = open_mapped(subject.pid(), &location.mapping, Patience::Long).unwrap();
    let offsets = symbol_file_offsets(&file, |name| name == "once" || name == "twice").unwrap();
    let has = |name: &str, offset| offsets.contains(&(name.to_owned(), offset));
    assert!(has("once", location.file_offset.unwrap()));
    let twice = watch.locate(subject.pid(), twice, u64::MAX);
    assert!(has("twice", twice.file_offset.unwrap()), "the default version is among them");
}

#[needs(nothing)]
fn files_that_are_not_libraries_are_refused() {
    let folder = folder();
    let any = |_: &str| true;
    let text = folder.path().join("text");
    std::fs::write(&text, "libamdhip64.so").unwrap();
    assert_eq!(symbol_file_offsets(&File::open(&text).unwrap(), any), Err(ElfError::NotElf));
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    assert_eq!(symbol_file_offsets(&File::open(&empty).unwrap(), any), Err(ElfError::NotElf));
    assert!(symbol_file_offsets(&File::open(folder.path()).unwrap(), any).is_err());

    let path = library(folder.path(), "libcut.so", "entry");
    let bytes = std::fs::read(&path).unwrap();
    for part in [20, 100, 1000, bytes.len() / 2, bytes.len() - 100] {
        std::fs::write(&text, &bytes[..part]).unwrap();
        assert!(symbol_file_offsets(&File::open(&text).unwrap(), any).is_err(), "cut after {part} bytes");
    }
}

#[needs(CC_32_BIT)]
fn a_32_bit_library_is_read() {
    let folder = folder();
    let flags = ["-m32", "-O1", "-shared", "-fPIC", "-nostdlib", "-DENTRY=small_entry"];
    let path = build(folder.path(), "libsmall.so", "library.c", &flags);
    let found = symbol_file_offsets(&File::open(&path).unwrap(), |_| true).unwrap();
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["small_entry"]);
}
