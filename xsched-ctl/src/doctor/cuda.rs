//! `xsched-ctl doctor --pid` of a process that uses CUDA.

use xsched_protocol::probe::Runtime;
use xsched_protocol::shim_status::{
    CUDA_STATUS_MAGIC, CUDA_STATUS_SYMBOL, CUDA_STATUS_VERSION, CudaStatus, ShimState,
};
use xsched_symbols::Mapping;

use super::controller;
use super::gates::{self, Of};
use super::shim::{RUN, advice, callers, line, other_version, read, shown, state};
use crate::absence::CUDA_SHIM_FILE_PREFIX;
use crate::failure::Failure;

/// Beginning of the file names of CUDA's runtime, which stands above the driver library.
const RUNTIME_PREFIX: &str = "libcudart";

/// The lines about CUDA.
pub(super) async fn describe(pid: u32, files: &[Mapping]) -> Result<String, Failure> {
    let libraries = libraries(files);
    let shim = files.iter().find(|file| file.library().starts_with(CUDA_SHIM_FILE_PREFIX));
    let Some(shim) = shim else {
        let absent = line("CUDA shim", "absent", &format!("not loaded into process {pid}"));
        return Ok(absent + &advice(RUN) + &libraries);
    };
    let status = read_status(pid, shim).map_err(|cause| Failure::Shim { pid, cause: cause.to_string() })?;
    let mut text = line("CUDA shim", state(status.state), &shown(shim)) + &libraries;
    text += &idle(&status);
    text += &instances(status.instances);
    text += &callers(status.verdicts, "no rule has needed more than the immediate caller");
    text += &gates::lines(Of::Contexts, &status.contexts);
    let (word, detail) = controller::joined(pid, (&status).into()).await;
    Ok(text + &line("controller", word, &detail))
}

/// A line for each file of the driver library, and one about CUDA's runtime.
fn libraries(files: &[Mapping]) -> String {
    let drivers = files.iter().filter(|file| file.runtime() == Some(Runtime::Cuda));
    let mut text: String = drivers.map(|file| line("CUDA driver", "mapped", &shown(file))).collect();
    let runtimes: Vec<_> = files.iter().filter(|file| file.library().starts_with(RUNTIME_PREFIX)).collect();
    for runtime in &runtimes {
        text += &line("CUDA runtime", "mapped", &shown(runtime));
    }
    if runtimes.is_empty() {
        text += &line(
            "CUDA runtime",
            "linked",
            "no libcudart is mapped: the program calls the driver itself, or has the runtime inside",
        );
    }
    text
}

/// What a shim through which no call has come needs to be told.
fn idle(status: &CudaStatus) -> String {
    if status.state == ShimState::Idle as u32 {
        advice(
            "no call has come through it: the process has not begun, or has the driver's functions by a way that is not \
             seen (docs/cuda.md has those that are)",
        )
    } else {
        String::new()
    }
}

/// A line for a process that has a part of a device only.
fn instances(count: u32) -> String {
    match count {
        0 => String::new(),
        count => line(
            "MIG",
            "untried",
            &format!("{count} of its devices are instances: nothing was measured there"),
        ),
    }
}

fn read_status(pid: u32, shim: &Mapping) -> Result<CudaStatus, std::io::Error> {
    let status: CudaStatus = read(pid, shim, CUDA_STATUS_SYMBOL)?;
    if status.magic != CUDA_STATUS_MAGIC || status.version != CUDA_STATUS_VERSION {
        return Err(other_version(shim));
    }
    Ok(status)
}
