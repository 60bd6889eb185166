//! `xsched-ctl doctor --pid`: how the shims intercept the HIP and CUDA calls of a running process.
//!
//! Each shim keeps a small structure under a symbol (`xsched_protocol::shim_status`). It is read from the process's
//! memory, so nothing in the process needs to answer.

use std::io;

use xsched_protocol::probe::Runtime;
use xsched_symbols::mapped_files;
use xsched_terminal::print;
use xsched_tracer::{TracerError, why_nothing_is_mapped};

use super::{cuda, shim};
use crate::failure::Failure;

fn no_program(pid: u32) -> Failure {
    TracerError::NoProgram { pid, why: why_nothing_is_mapped(pid) }.into()
}

/// Prints the state of each runtime that a process has: the shim's, a line for each copy of the runtime, and whether the
/// controller knows the process.
pub(crate) async fn run(pid: u32) -> Result<u8, Failure> {
    let files = mapped_files(pid).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TracerError::NoSuchProcess(pid).into(),
        io::ErrorKind::PermissionDenied => Failure::ForeignProcess(pid),
        _ => no_program(pid),
    })?;
    let has = |runtime| files.iter().any(|file| file.runtime() == Some(runtime));
    let mut text = String::new();
    if has(Runtime::Hip) || !has(Runtime::Cuda) {
        text += &shim::describe(pid, &files).await?;
    }
    if has(Runtime::Cuda) {
        text += &cuda::describe(pid, &files).await?;
    }
    print(&text)?;
    Ok(0)
}
