//! Checks before anything is changed.

use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroU32;

use xsched_bpf::{namespace, privilege};
use xsched_symbols::{Processes, lacks_main_thread, process_folder};

use crate::error::TracerError;

/// Checks that tracing is permitted.
pub fn check_privileges() -> Result<(), TracerError> {
    let missing = privilege::missing();
    if !missing.is_empty() {
        return Err(TracerError::NotPermitted { missing: missing.join(", ") });
    }
    if !namespace::proc_is_own() {
        return Err(TracerError::ForeignProc);
    }
    Ok(())
}

/// Checks that a process exists and can be inspected. Whether it uses a GPU runtime is said once everything else is there. The id of a thread, as `top -H` shows it, is taken for its process.
pub fn find_process(pid: u32) -> Result<NonZeroU32, TracerError> {
    let pid = thread_group(pid).ok_or(TracerError::NoSuchProcess(pid))?;
    let mut processes = Processes::new();
    let readable = processes.scan(pid.get()).ok().and_then(|()| processes.process(pid.get()));
    if readable.is_none_or(|process| process.mappings().next().is_none()) {
        return Err(TracerError::NoProgram { pid: pid.get(), why: why_nothing_is_mapped(pid.get()) });
    }
    Ok(pid)
}

/// The process of a process or thread id.
fn thread_group(id: u32) -> Option<NonZeroU32> {
    status(id, "Tgid:")?.parse().ok()
}

/// Why nothing is mapped in a process, as far as can be read.
pub fn why_nothing_is_mapped(pid: u32) -> &'static str {
    let is_zombie = |state: String| state.starts_with(['Z', 'X']);
    if !lacks_main_thread(pid) && status(pid, "State:").is_none_or(is_zombie) {
        "it has ended"
    } else if fs::read_link(process_folder(pid).join("exe"))
        .is_err_and(|error| error.kind() == ErrorKind::NotFound)
    {
        "it is a kernel thread"
    } else {
        "it has no readable memory map"
    }
}

/// One line of the status of a process or thread.
fn status(id: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_for_its_process() {
        // Test functions run on separate threads.
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert_ne!(own, std::process::id());
        assert_eq!(thread_group(own).map(NonZeroU32::get), Some(std::process::id()));
        assert_eq!(thread_group(0), None);
    }

    #[test]
    fn a_process_that_has_ended_is_said_to_have() {
        let mut child =
            std::process::Command::new("true").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let ended = format!("process {} cannot be inspected: it has ended", child.id());
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(30);
        // Until then it is there.
        while find_process(child.id()).err().is_none_or(|error| !error.to_string().starts_with(&ended)) {
            assert!(std::time::Instant::now() < patience, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().unwrap();
    }
}
