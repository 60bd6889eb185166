//! Processes with another root directory, as in containers: their paths lead to other files than ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::subject::{Subject, Watch, build, folder, hexadecimal};

const NOW: u64 = u64::MAX;
const ALONE: [&str; 4] = ["-O1", "-static", "-nostdlib", "-ffreestanding"];

fn alone(folder: &Path, name: &str, entry: &str) -> Option<PathBuf> {
    build(folder, name, "alone.c", &[&ALONE[..], &[&format!("-DENTRY={entry}")]].concat())
}

/// Whether `command` works here; if not, prints why.
fn works(what: &str, command: &mut Command) -> bool {
    match command.output() {
        Ok(done) if done.status.success() => true,
        Ok(done) => {
            println!("skipped: {what}: {}", String::from_utf8_lossy(&done.stderr).trim());
            false
        }
        Err(error) => {
            println!("skipped: {what}: {error}");
            false
        }
    }
}

#[test]
fn a_path_leads_to_another_file_inside_a_changed_root() {
    let Some(mut watch) = Watch::start() else { return };
    if !works("chroot", Command::new("chroot").args(["/", "true"])) {
        return;
    }
    let folder = folder();
    // The same path inside and outside leads to two programs.
    let Some(outside) = alone(folder.path(), "program", "outside_entry") else { return };
    let root = folder.path().join("root");
    let inside = root.join(outside.strip_prefix("/").unwrap());
    std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
    let Some(_) = alone(inside.parent().unwrap(), "program", "inside_entry") else { return };

    let mut subject = Subject::run(Command::new("chroot").arg(&root).arg(&outside));
    let address = hexadecimal(&subject.line());
    watch.catch_up();
    let pid = subject.pid();
    let location = watch.locate(pid, address, NOW);
    assert_eq!(location.mapping.path.as_ref(), outside, "the path as the process sees it");
    assert_eq!(watch.describe(pid, address, NOW), "inside_entry+0 in program");

    // After its end, only the file outside has that path. It must not be taken for the one inside.
    let Some(mut second) = Watch::start() else { return };
    let mut subject = Subject::run(Command::new("chroot").arg(&root).arg(&outside));
    let address = hexadecimal(&subject.line());
    subject.end();
    let pid = subject.pid();
    second.catch_up_until("the exit", |watch| watch.has_exited(pid));
    assert_eq!(second.describe(pid, address, NOW), "the file is gone or replaced in program");
}

#[test]
fn a_program_is_on_an_overlay_as_in_a_container() {
    let Some(mut watch) = Watch::start() else { return };
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    let Some(_) = alone(&at("lower"), "program", "lower_entry") else { return };
    let mount = format!(
        "mount -t overlay overlay -o lowerdir={},upperdir={},workdir={} {merged}",
        at("lower").display(),
        at("upper").display(),
        at("work").display(),
        merged = at("merged").display()
    );
    // In a separate mount namespace: the mount ends with the process, and is not visible outside.
    if !works("overlay", Command::new("unshare").args(["-m", "sh", "-c", &mount])) {
        return;
    }
    let script = format!("{mount} && exec {}/program", at("merged").display());
    let mut subject = Subject::run(Command::new("unshare").args(["-m", "sh", "-c", &script]));
    let address = hexadecimal(&subject.line());
    watch.catch_up();
    assert_eq!(watch.describe(subject.pid(), address, NOW), "lower_entry+0 in program");

    let Some(mut late) = Watch::start() else { return };
    late.processes.scan(subject.pid()).unwrap();
    assert_eq!(late.describe(subject.pid(), address, NOW), "lower_entry+0 in program");
}
