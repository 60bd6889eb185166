//! Reads names, threads and times of running processes from `/proc`.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::clock::machine_ns;

/// Every process, in any order.
pub(crate) fn pids() -> Vec<u32> {
    numbers_in("/proc")
}

/// The threads of a process; empty if it does not exist.
pub(crate) fn tids(pid: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// The folder in `/proc` with what the threads of a process share: memory, files, root, program.
///
/// `/proc/PID` shows what its main thread has, which is nothing once that thread has ended (`pthread_exit` in `main`), although
/// other threads go on. Then the folder is the one of another thread.
pub fn process_folder(pid: u32) -> PathBuf {
    let process = folder_of_main_thread(pid);
    let has_ended = |folder: &Path| {
        fs::read_link(folder.join("exe")).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    if !has_ended(&process) {
        return process;
    }
    let mut threads = tids(pid).into_iter().map(|tid| process.join(format!("task/{tid}")));
    // Kernel threads have no program either.
    threads.find(|thread| !has_ended(thread)).unwrap_or(process)
}

/// Whether a process goes on without its main thread.
pub fn lacks_main_thread(pid: u32) -> bool {
    process_folder(pid) != folder_of_main_thread(pid)
}

fn folder_of_main_thread(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

fn numbers_in(folder: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The short name that the kernel keeps for a thread: at most 15 bytes.
pub(crate) fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(bytes.trim_ascii_end()).into_owned())
}

/// The arguments of the program; empty for kernel threads and ended processes.
pub(crate) fn command_line(pid: u32) -> Vec<String> {
    let Ok(bytes) = fs::read(process_folder(pid).join("cmdline")) else { return Vec::new() };
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The program's file as the process sees it; None for kernel threads and ended processes.
pub(crate) fn executable(pid: u32) -> Option<PathBuf> {
    let path = fs::read_link(process_folder(pid).join("exe")).ok()?.into_os_string().into_vec();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(&path);
    Some(OsString::from_vec(path.to_vec()).into())
}

/// The parts of `/proc/PID/stat` that are read: <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: u32,
    /// Boot-time nanoseconds, rounded down to the kernel's tick (10 ms).
    pub(crate) started_ns: u64,
    /// The first thread has ended: the process has ended, or other threads continue.
    pub(crate) is_zombie: bool,
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?, rustix::param::clock_ticks_per_second())
}

fn parse_stat(text: &[u8], ticks_per_second: u64) -> Option<Stat> {
    // The name in parentheses may itself contain parentheses and spaces: the last parenthesis ends it.
    let after_name = text.iter().rposition(|&byte| byte == b')')?;
    let mut fields = std::str::from_utf8(text.get(after_name + 1..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // State is field 3, parent field 4, and starttime field 22.
    let ticks: u64 = fields.nth(22 - 4 - 1)?.parse().ok()?;
    let started_ns = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second.max(1));
    let started_ns = machine_ns(u64::try_from(started_ns).ok()?);
    Some(Stat { parent, started_ns, is_zombie: matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = b"42 (a) R 7 (b) S 17 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 9 10";
        let stat = parse_stat(text, 100).unwrap();
        assert_eq!(stat, Stat { parent: 17, started_ns: 1_234_560_000_000, is_zombie: false });
    }

    #[test]
    fn broken_text_is_refused() {
        for text in
            ["", "42", "42 (a", "42 (a) S", "42 (a) S x 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"]
        {
            assert_eq!(parse_stat(text.as_bytes(), 100), None, "{text}");
        }
    }

    #[test]
    fn this_process_is_described_correctly() {
        let pid = std::process::id();
        let stat = stat(pid).unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        let now_ns = crate::now_ns();
        assert!(stat.started_ns <= now_ns && now_ns - stat.started_ns < 3_600_000_000_000, "{stat:?}");
        assert_eq!(executable(pid), std::env::current_exe().ok());
        assert_eq!(command_line(pid), std::env::args().collect::<Vec<_>>());
        assert!(pids().contains(&pid) && tids(pid).contains(&pid));
        assert!(thread_name(pid, pid).is_some_and(|name| !name.is_empty()));
    }
}
