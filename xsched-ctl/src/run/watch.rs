//! Checks whether the command's processes that use HIP have the shim. The loader drops a failing preload silently.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use xsched_protocol::probe::Runtime;
use xsched_symbols::{process_folder, runtime_of};
use xsched_terminal::say;

use crate::absence::{SHIM_FILE_PREFIX, why_passed_over};

/// Time until the first check; it doubles after each check.
const FIRST: Duration = Duration::from_millis(100);
/// The longest time between two checks.
const LONGEST: Duration = Duration::from_secs(5);

/// Warns once for each process below `root`, or `root` itself, that uses HIP without the shim.
pub(super) async fn warn_without_shim(root: u32) -> Infallible {
    let mut told = HashSet::new();
    let mut pause = FIRST;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
        for pid in family(root) {
            if told.contains(&pid) || !uses_hip_without_shim(pid) {
                continue;
            }
            let why = why_passed_over(pid).unwrap_or_else(|| {
                "the loader has not loaded it (setuid, another C library, or no access to the file)"
                    .to_owned()
            });
            say!("xsched-ctl: process {pid} uses HIP without the shim, and runs unscheduled: {why}");
            told.insert(pid);
        }
    }
}

/// A process and its descendants.
fn family(root: u32) -> Vec<u32> {
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&pid) = family.get(next) {
        next += 1;
        family.extend(children(pid));
    }
    family
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn uses_hip_without_shim(pid: u32) -> bool {
    std::fs::read_to_string(process_folder(pid).join("maps")).is_ok_and(|maps| is_without_shim(&maps))
}

fn is_without_shim(maps: &str) -> bool {
    let mut files = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    let (mut hip, mut shim) = (false, false);
    files
        .try_for_each(|file| {
            hip |= runtime_of(Path::new(file)) == Some(Runtime::Hip);
            shim |= file.rsplit('/').next().is_some_and(|name| name.starts_with(SHIM_FILE_PREFIX));
            if shim { Err(()) } else { Ok(()) }
        })
        .is_ok_and(|()| hip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hip_without_shim_is_reported() {
        let hip = "7f00-7f10 r--p 00000000 fe:01 7    /opt/rocm/lib/libamdhip64.so.6\n";
        let shim = "7f30-7f40 r--p 00000000 fe:01 8    /opt/libxsched_shim.so\n";
        assert!(is_without_shim(hip));
        assert!(!is_without_shim(&[hip, shim].concat()));
        assert!(!is_without_shim(shim));
        assert!(!is_without_shim("7f20-7f30 rw-p 00000000 00:00 0\n"));
    }

    #[test]
    fn children_of_children_belong_to_the_family() {
        let mut shell = std::process::Command::new("sh")
            // In the foreground: a shell gives background commands an input that has ended.
            .args(["-c", "sh -c 'echo; read _; :'; :"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        assert!(family(shell.id()).len() >= 2, "{:?}", family(shell.id()));
        assert!(family(std::process::id()).contains(&shell.id()));
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
