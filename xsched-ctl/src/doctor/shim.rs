//! `xsched-ctl doctor --pid` of a process that uses HIP, and how the status of a shim is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use xsched_protocol::probe::Runtime;
use xsched_protocol::shim_status::{
    SHIM_STATUS_MAGIC, SHIM_STATUS_SYMBOL, SHIM_STATUS_VERSION, ShimCopy, ShimState, ShimStatus,
    ShimVerdicts, ShimWay,
};
use xsched_symbols::{Mapping, Patience, open_mapped, process_folder, variable_address};
use zerocopy::{FromBytes, IntoBytes};

use super::controller;
use super::gates::{self, Of};
use crate::absence::{SHIM_FILE_PREFIX, why_passed_over};
use crate::failure::Failure;

/// The lines about HIP.
pub(super) async fn describe(pid: u32, files: &[Mapping]) -> Result<String, Failure> {
    let runtimes: Vec<_> = files.iter().filter(|file| file.runtime() == Some(Runtime::Hip)).collect();
    let shim = files.iter().find(|file| file.library().starts_with(SHIM_FILE_PREFIX));
    let Some(shim) = shim else {
        let why = why_passed_over(pid).map_or_else(String::new, |why| format!(": {why}"));
        let absent = line("shim", "absent", &format!("not loaded into process {pid}{why}"));
        let advice = if runtimes.is_empty() { String::new() } else { advice(RUN) };
        return Ok(absent + &advice + &about(&runtimes, None));
    };
    let status = read_hips(pid, shim).map_err(|cause| Failure::Shim { pid, cause: cause.to_string() })?;
    let mut text = line("shim", state(status.state), &shown(shim)) + &about(&runtimes, Some(&status));
    text += &callers(status.verdicts, "no verdict was needed yet");
    text += &gates::lines(Of::Devices, &status.gates);
    if status.sites_full != 0 {
        text += &line(
            "call sites",
            "full",
            "more places call HIP than the shim's table has entries: calls from others take longer",
        );
    }
    let (word, detail) = controller::joined(pid, (&status).into()).await;
    Ok(text + &line("controller", word, &detail))
}

/// The word for a [`ShimState`].
pub(super) fn state(state: u32) -> &'static str {
    match state {
        state if state == ShimState::Active as u32 => "active",
        state if state == ShimState::Disabled as u32 => "disabled",
        _ => "idle",
    }
}

/// What to do about a process without the shim.
pub(super) const RUN: &str = "the loader gives it to a program that starts: `xsched-ctl run -- CMD`";

/// What can be done about the line before.
pub(super) fn advice(advice: &str) -> String {
    format!("{:21} -> {advice}\n", "")
}

pub(super) fn line(name: &str, word: &str, detail: &str) -> String {
    format!("{name:<12} {word:<8} {detail}\n")
}

/// The path of a file, and what became of it.
pub(super) fn shown(file: &Mapping) -> String {
    format!("{}{}", file.path.display(), if file.deleted { " (deleted or replaced since)" } else { "" })
}

/// A line for each copy of the runtime.
fn about(runtimes: &[&Mapping], status: Option<&ShimStatus>) -> String {
    if runtimes.is_empty() {
        return line("runtime", "absent", "neither libamdhip64 nor libcuda is mapped");
    }
    let lines = runtimes.iter().map(|runtime| {
        let copy = status.and_then(|status| status.copies.iter().find(|copy| copy.base == runtime.start));
        let (way, detail) = copy.map_or(("unseen", String::new()), way_of);
        line("runtime", way, &format!("{}{detail}", shown(runtime)))
    });
    lines.collect()
}

/// A line on how the origin of calls is determined; `unasked` says why it was not, if it was not.
pub(super) fn callers(verdicts: u32, unasked: &str) -> String {
    let (word, detail) = if verdicts == ShimVerdicts::Programs as u32 {
        ("chains", "rules see the whole call chain, which BPF programs walk")
    } else if verdicts == ShimVerdicts::Caller as u32 {
        (
            "callers",
            "rules see the immediate caller only: a controller with CAP_BPF would see the whole chain",
        )
    } else {
        ("unasked", unasked)
    };
    line("callers", word, detail)
}

/// How the calls of a copy are intercepted.
fn way_of(copy: &ShimCopy) -> (&'static str, String) {
    let [_, runtime] = copy.ways;
    if runtime == ShimWay::Table as u32 {
        let newer = match copy.newer_entries {
            0 => String::new(),
            count => format!(", {count} of them newer than the shim"),
        };
        ("table", format!(" ({} entries replaced{newer})", copy.entries))
    } else if runtime == ShimWay::Symbols as u32 {
        ("symbols", String::new())
    } else {
        ("unseen", " (no call yet)".to_owned())
    }
}

/// Reads the status of the shim for HIP.
fn read_hips(pid: u32, shim: &Mapping) -> Result<ShimStatus, io::Error> {
    let status: ShimStatus = read(pid, shim, SHIM_STATUS_SYMBOL)?;
    if status.magic != SHIM_STATUS_MAGIC || status.version != SHIM_STATUS_VERSION {
        return Err(other_version(shim));
    }
    Ok(status)
}

pub(super) fn other_version(shim: &Mapping) -> io::Error {
    io::Error::other(format!("{} is of another version", shim.path.display()))
}

/// Reads what lies under a symbol of a shim.
pub(super) fn read<T: FromBytes + IntoBytes>(pid: u32, shim: &Mapping, symbol: &str) -> Result<T, io::Error> {
    let file = open_mapped(pid, shim, Patience::Long).map_err(io::Error::other)?;
    let path = shim.path.display();
    let address = variable_address(&file, symbol)
        .map_err(io::Error::other)?
        .ok_or_else(|| io::Error::other(format!("no symbol `{symbol}` in {path}")))?;
    let mut found = T::new_zeroed();
    // Libraries are linked for a base address of 0.
    File::open(process_folder(pid).join("mem"))?.read_exact_at(found.as_mut_bytes(), shim.start + address)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_described_by_how_its_calls_are_intercepted() {
        let copy = |way: ShimWay, newer_entries| ShimCopy {
            base: 1,
            ways: [0, way as u32],
            entries: 526,
            newer_entries,
        };
        assert_eq!(way_of(&copy(ShimWay::Symbols, 0)).0, "symbols");
        assert_eq!(way_of(&copy(ShimWay::Undecided, 0)).0, "unseen");
        let (way, detail) = way_of(&copy(ShimWay::Table, 3));
        assert_eq!(
            (way, detail.as_str()),
            ("table", " (526 entries replaced, 3 of them newer than the shim)")
        );
    }
}
