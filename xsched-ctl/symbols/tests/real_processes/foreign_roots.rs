//! Processes with another root directory, as in containers: their paths lead to other files than ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use xsched_harness::needs;
use xsched_harness::needs::{OVERLAY, ROOT};

use crate::subject::{Subject, WATCHING, Watch, build, folder, hexadecimal};

const NOW: u64 = u64::MAX;
const ALONE: [&str; 4] = ["-O1", "-static", "-nostdlib", "-ffreestanding"];

fn alone(folder: &Path, name: &str, entry: &str) -> PathBuf {
    build(folder, name, "alone.c", &[&ALONE[..], &[&format!("-DENTRY={entry}")]].concat())
}

#[needs(WATCHING, ROOT)]
fn a_path_leads_to_another_file_inside_a_changed_root() {
    let mut watch = Watch::start();
    let folder = folder();
    // The same path inside and outside leads to two programs.
    let outside = alone(folder.path(), "program", "outside_entry");
    let root = folder.path().join("root");
    let inside = root.join(outside.strip_prefix("/").unwrap());
    std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
    alone(inside.parent().unwrap(), "program", "inside_entry");

    let mut subject = Subject::run(Command::new("chroot").arg(&root).arg(&outside));
    let address = hexadecimal(&subject.line());
    watch.catch_up();
    let pid = subject.pid();
    let location = watch.locate(pid, address, NOW);
    assert_eq!(location.mapping.path.as_ref(), outside, "the path as the process sees it");
    assert_eq!(watch.describe(pid, address, NOW), "inside_entry+0 in program");

    // After its end, only the file outside has that path. It must not be taken for the one inside.
    let mut second = Watch::start();
    let mut subject = Subject::run(Command::new("chroot").arg(&root).arg(&outside));
    let address = hexadecimal(&subject.line());
    subject.end();
    let pid = subject.pid();
    second.catch_up_until("the exit", |watch| watch.has_exited(pid));
    assert_eq!(second.describe(pid, address, NOW), "the file is gone or replaced in program");
}

#[needs(WATCHING, OVERLAY)]
fn a_program_is_on_an_overlay_as_in_a_container() {
    let mut watch = Watch::start();
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    alone(&at("lower"), "program", "lower_entry");
    let mount = format!(
        "mount -t overlay overlay -o lowerdir={},upperdir={},workdir={} {merged}",
        at("lower").display(),
        at("upper").display(),
        at("work").display(),
        merged = at("merged").display()
    );
    // In a separate mount namespace: the mount ends with the process, and is not visible outside.
    let script = format!("{mount} && exec {}/program", at("merged").display());
    let mut subject = Subject::run(Command::new("unshare").args(["-m", "sh", "-c", &script]));
    let address = hexadecimal(&subject.line());
    watch.catch_up();
    assert_eq!(watch.describe(subject.pid(), address, NOW), "lower_entry+0 in program");

    let mut late = Watch::start();
    late.processes.scan(subject.pid()).unwrap();
    assert_eq!(late.describe(subject.pid(), address, NOW), "lower_entry+0 in program");
}
