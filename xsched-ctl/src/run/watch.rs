//! Checks whether the command's processes that use HIP or CUDA have the shim for it. The loader drops a failing preload silently.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use xsched_protocol::probe::Runtime;
use xsched_symbols::{process_folder, runtime_of};
use xsched_terminal::say;

use crate::absence::{CUDA_SHIM_FILE_PREFIX, SHIM_FILE_PREFIX, why_passed_over};

/// Time until the first check; it doubles after each check.
const FIRST: Duration = Duration::from_millis(100);
/// The longest time between two checks.
const LONGEST: Duration = Duration::from_secs(5);

/// Warns once for each process below `root`, or `root` itself, that uses a runtime without the shim for it. `without_cuda` says why no
/// process has the one for CUDA.
pub(super) async fn warn_without_shim(root: u32, without_cuda: Option<String>) -> Infallible {
    let mut told = HashSet::new();
    let mut pause = FIRST;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
        for pid in family(root) {
            let Some(runtime) = unscheduled(pid).filter(|_| !told.contains(&pid)) else { continue };
            let known = match runtime {
                Runtime::Hip => why_passed_over(pid),
                Runtime::Cuda => without_cuda.clone(),
            };
            let why = known.unwrap_or_else(|| {
                "the loader has not loaded it (setuid, another C library, or no access to the file)"
                    .to_owned()
            });
            let name = runtime.name();
            say!("xsched-ctl: process {pid} uses {name} without the shim, and runs unscheduled: {why}");
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

/// The runtime that a process uses without the shim for it.
fn unscheduled(pid: u32) -> Option<Runtime> {
    let maps = std::fs::read_to_string(process_folder(pid).join("maps")).ok()?;
    [(Runtime::Hip, SHIM_FILE_PREFIX), (Runtime::Cuda, CUDA_SHIM_FILE_PREFIX)]
        .into_iter()
        .find_map(|(runtime, shim)| is_without(&maps, runtime, shim).then_some(runtime))
}

fn is_without(maps: &str, runtime: Runtime, shim: &str) -> bool {
    let files = || maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    let is_shim = |file: &str| file.rsplit('/').next().is_some_and(|name| name.starts_with(shim));
    files().any(|file| runtime_of(Path::new(file)) == Some(runtime)) && !files().any(is_shim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_runtime_without_its_own_shim_is_reported() {
        let is_without_shim = |maps: &str| is_without(maps, Runtime::Hip, SHIM_FILE_PREFIX);
        let hip = "7f00-7f10 r--p 00000000 fe:01 7    /opt/rocm/lib/libamdhip64.so.6\n";
        let shim = "7f30-7f40 r--p 00000000 fe:01 8    /opt/libxsched_shim.so\n";
        assert!(is_without_shim(hip));
        assert!(!is_without_shim(&[hip, shim].concat()));
        assert!(!is_without_shim(shim));
        assert!(!is_without_shim("7f20-7f30 rw-p 00000000 00:00 0\n"));
        let cuda = "7f00-7f10 r--p 00000000 fe:01 7    /usr/lib/libcuda.so.580.159.04\n";
        let is_without_cuda = |maps: &str| is_without(maps, Runtime::Cuda, CUDA_SHIM_FILE_PREFIX);
        assert!(is_without_cuda(&[cuda, shim].concat()), "the shim for HIP is none for CUDA");
        assert!(!is_without_cuda(&[cuda, &shim.replace("_shim", "_cuda")].concat()));
        assert!(!is_without_cuda(hip));
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
