//! Resumes stopped processes, whatever happens to the tracer.
//!
//! A traced command is stopped for some milliseconds when it loads a runtime that is not probed yet. If the tracer is
//! killed in that time, nothing else would resume the command. So a shell waits for the tracer's end and resumes it.
//! Only processes of the tracer's own process group are ever stopped, so one signal reaches them.

use std::io;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use xsched_terminal::Internal;

use crate::error::TracerError;

/// The waiting shell.
pub(super) struct Guardian(Child);

/// Standard input is a pipe whose other end only the tracer has: `read` returns when the tracer is gone. Signals from
/// the terminal are ignored.
const SCRIPT: &str = "trap '' INT TERM HUP QUIT TSTP; read -r _; kill -s CONT 0";

impl Guardian {
    pub(super) fn start() -> Result<Self, TracerError> {
        Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
            .map_err(|cause: io::Error| Internal::at("starting /bin/sh")(cause).into())
    }

    /// Ends the shell: no process is stopped any more.
    pub(super) fn dismiss(mut self) {
        // Both fail only if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn go_on(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // This fails only if the process has ended.
    let _ = kill_process(pid, Signal::CONT);
}
