//! What can be known to fail before anything is touched.

use std::fs;
use std::num::NonZeroU32;

use xsched_symbols::Processes;

use crate::failure::Failure;
use crate::{namespace, privilege};

/// Checks that tracing is permitted.
pub(crate) fn check_privileges() -> Result<(), Failure> {
    let missing = privilege::missing();
    if !missing.is_empty() {
        return Err(Failure::NotPermitted { missing: missing.join(", ") });
    }
    if !namespace::proc_is_own() {
        return Err(Failure::ForeignProc);
    }
    Ok(())
}

/// Checks that a process exists and uses HIP. The id of a thread, as `top -H` shows it, stands for its process.
pub(crate) fn find_process(pid: u32) -> Result<NonZeroU32, Failure> {
    let pid = thread_group(pid).ok_or(Failure::NoSuchProcess(pid))?;
    let mut processes = Processes::new();
    let readable = processes.scan(pid.get()).ok().and_then(|()| processes.process(pid.get()));
    let process = readable.ok_or(Failure::NoMemoryMap(pid.get()))?;
    if process.runtimes().next().is_none() {
        return Err(Failure::NoRuntime { pid: pid.get(), name: process.display_name().into_owned() });
    }
    Ok(pid)
}

/// The process of a process or thread id.
fn thread_group(id: u32) -> Option<NonZeroU32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_for_its_process() {
        // Test functions run on threads of their own.
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert_ne!(own, std::process::id());
        assert_eq!(thread_group(own).map(NonZeroU32::get), Some(std::process::id()));
        assert_eq!(thread_group(0), None);
    }
}
