//! `xsched-ctl doctor --pid` of a process that uses CUDA.

use xsched_protocol::probe::Runtime;
use xsched_protocol::shim_status::{
    CUDA_STATUS_MAGIC, CUDA_STATUS_SYMBOL, CUDA_STATUS_VERSION, CudaContexts, CudaStatus, ShimState,
};
use xsched_symbols::Mapping;
use xsched_terminal::counted;

use super::controller;
use super::shim::{RUN, advice, line, other_version, read, shown, state};
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
    text += &gates(&status.contexts);
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

/// Whether the arbiter stops the process's work on the device.
fn gates(contexts: &CudaContexts) -> String {
    let &CudaContexts { shared, own, beyond, none, tried } = contexts;
    let of = |count: u32| counted(u64::from(count), "context", "contexts");
    let kinds = [
        (shared, "shared", "closed by the arbiter in the moment in which urgent work comes", ""),
        (
            beyond,
            "own",
            "closed by the process itself, which must be woken first: a page has room for 8 contexts on a device",
            "use fewer contexts on a device, or several processes",
        ),
        (
            own,
            "own",
            "closed by the process itself, which must be woken first: the driver refuses the arbiter's page",
            "XSCHED_LOG names a file in which the shim says more when the process ends",
        ),
        (
            none,
            "none",
            "the driver refuses gates: what is launched runs, so little is launched ahead",
            "a driver of CUDA 11.7 or later has them",
        ),
        (tried, "tried", "not known yet, behind what the device has to do first", ""),
    ];
    let text: String = kinds
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, word, detail, remedy)| {
            let line = line("gates", word, &format!("{}: {detail}", of(count)));
            if remedy.is_empty() { line } else { line + &advice(remedy) }
        })
        .collect();
    if text.is_empty() {
        line("gates", "unasked", "no context has needed one yet: no more urgent process has used its device")
    } else {
        text
    }
}

fn read_status(pid: u32, shim: &Mapping) -> Result<CudaStatus, std::io::Error> {
    let status: CudaStatus = read(pid, shim, CUDA_STATUS_SYMBOL)?;
    if status.magic != CUDA_STATUS_MAGIC || status.version != CUDA_STATUS_VERSION {
        return Err(other_version(shim));
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_gate_has_a_line_and_what_is_not_as_it_should_be_a_remedy() {
        assert!(gates(&CudaContexts::default()).starts_with("gates        unasked"));
        let shared = gates(&CudaContexts { shared: 2, ..CudaContexts::default() });
        let expected = "gates        shared   2 contexts: closed by the arbiter in the moment in which urgent work comes\n";
        assert_eq!(shared, expected);
        let all = gates(&CudaContexts { shared: 8, own: 1, beyond: 2, none: 1, tried: 1 });
        let words: Vec<_> = all.lines().map(|line| line.trim_start().split(' ').next().unwrap()).collect();
        assert_eq!(words, ["gates", "gates", "->", "gates", "->", "gates", "->", "gates"]);
        assert!(
            all.contains("2 contexts: closed by the process itself") && all.contains("1 context: the driver"),
            "{all}"
        );
    }
}
