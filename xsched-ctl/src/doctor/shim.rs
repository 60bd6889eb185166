//! `xsched-ctl doctor --pid`: how the shim intercepts the HIP calls of a running process.
//!
//! The shim keeps a small structure under a symbol (`xsched_protocol::shim_status`). It is read from the process's
//! memory, so nothing in the process needs to answer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use xsched_protocol::shim_status::{
    SHIM_STATUS_MAGIC, SHIM_STATUS_SYMBOL, SHIM_STATUS_VERSION, ShimCopy, ShimState, ShimStatus,
    ShimVerdicts, ShimWay,
};
use xsched_symbols::{is_hip_runtime, process_folder, variable_address};
use xsched_terminal::print;
use xsched_tracer::{TracerError, why_nothing_is_mapped};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::controller;
use crate::absence::{SHIM_FILE_PREFIX, why_passed_over};
use crate::failure::Failure;

/// A file as it is mapped into the process.
#[derive(Debug, PartialEq, Eq)]
struct Mapped {
    /// The address of its first byte.
    base: u64,
    path: String,
}

fn no_program(pid: u32) -> Failure {
    TracerError::NoProgram { pid, why: why_nothing_is_mapped(pid) }.into()
}

/// Prints the shim's state in a process, a line for each copy of the runtime, and whether the controller knows the
/// process.
pub(crate) async fn run(pid: u32) -> Result<u8, Failure> {
    let maps =
        std::fs::read_to_string(process_folder(pid).join("maps")).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TracerError::NoSuchProcess(pid).into(),
            io::ErrorKind::PermissionDenied => Failure::ForeignProcess(pid),
            _ => no_program(pid),
        })?;
    if maps.is_empty() {
        return Err(no_program(pid));
    }
    let files = files(&maps);
    let runtimes: Vec<_> = files.iter().filter(|file| is_hip_runtime(Path::new(&file.path))).collect();
    let shim = files.iter().find(|file| file.name().starts_with(SHIM_FILE_PREFIX));
    let Some(shim) = shim else {
        let why = why_passed_over(pid, &maps).map_or_else(String::new, |why| format!(": {why}"));
        let absent = line("shim", "absent", &format!("not loaded into process {pid}{why}"));
        print(&(absent + &about(&runtimes, None)))?;
        return Ok(0);
    };
    let status = read(pid, shim).map_err(|cause| Failure::Shim { pid, cause: cause.to_string() })?;
    let state = match status.state {
        state if state == ShimState::Active as u32 => "active",
        state if state == ShimState::Disabled as u32 => "disabled",
        _ => "idle",
    };
    let mut text = line("shim", state, &shim.path) + &about(&runtimes, Some(&status));
    let (word, detail) = callers(&status);
    text += &line("callers", word, detail);
    if status.sites_full != 0 {
        text += &line(
            "call sites",
            "full",
            "more places call HIP than the shim's table has entries: calls from others take longer",
        );
    }
    let (word, detail) = controller::joined(pid).await;
    text += &line("controller", word, &detail);
    print(&text)?;
    Ok(0)
}

fn line(name: &str, word: &str, detail: &str) -> String {
    format!("{name:<12} {word:<8} {detail}\n")
}

/// A line for each copy of the runtime.
fn about(runtimes: &[&Mapped], status: Option<&ShimStatus>) -> String {
    if runtimes.is_empty() {
        return line("runtime", "absent", "no libamdhip64 is mapped");
    }
    let lines = runtimes.iter().map(|runtime| {
        let copy = status.and_then(|status| status.copies.iter().find(|copy| copy.base == runtime.base));
        let (way, detail) = copy.map_or(("unseen", String::new()), describe);
        line("runtime", way, &format!("{}{detail}", runtime.path))
    });
    lines.collect()
}

/// How the origin of calls is determined.
fn callers(status: &ShimStatus) -> (&'static str, &'static str) {
    if status.verdicts == ShimVerdicts::Programs as u32 {
        ("chains", "rules see the whole call chain, which BPF programs walk")
    } else if status.verdicts == ShimVerdicts::Caller as u32 {
        (
            "callers",
            "rules see the immediate caller only: a controller with CAP_BPF would see the whole chain",
        )
    } else {
        ("unasked", "no verdict was needed yet")
    }
}

/// How the calls of a copy are intercepted.
fn describe(copy: &ShimCopy) -> (&'static str, String) {
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

impl Mapped {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The files of a memory map, each with the address of its beginning.
fn files(maps: &str) -> Vec<Mapped> {
    let beginnings = maps.lines().filter_map(|line| {
        let mut words = line.splitn(6, ' ');
        let (range, _, offset) = (words.next()?, words.next()?, words.next()?);
        let path = words.nth(2)?.trim_start();
        let (start, _) = range.split_once('-')?;
        let is_beginning = u64::from_str_radix(offset, 16) == Ok(0) && path.starts_with('/');
        is_beginning
            .then(|| Some(Mapped { base: u64::from_str_radix(start, 16).ok()?, path: path.to_owned() }))?
    });
    let mut files: Vec<Mapped> = Vec::new();
    for file in beginnings {
        // Another mapping of the same file may begin at its first byte too.
        if files.last().is_none_or(|last| last.path != file.path) {
            files.push(file);
        }
    }
    files
}

/// Reads the shim's status.
fn read(pid: u32, shim: &Mapped) -> Result<ShimStatus, io::Error> {
    let process = process_folder(pid);
    let file = File::open(format!("{}/root{}", process.display(), shim.path))?;
    let address = variable_address(&file, SHIM_STATUS_SYMBOL)
        .map_err(io::Error::other)?
        .ok_or_else(|| io::Error::other(format!("no symbol `{SHIM_STATUS_SYMBOL}` in {}", shim.path)))?;
    let mut status = ShimStatus::read_from_bytes(&[0; size_of::<ShimStatus>()])
        .map_err(|error| io::Error::other(error.to_string()))?;
    // Libraries are linked for a base address of 0.
    File::open(process.join("mem"))?.read_exact_at(status.as_mut_bytes(), shim.base + address)?;
    if status.magic != SHIM_STATUS_MAGIC || status.version != SHIM_STATUS_VERSION {
        return Err(io::Error::other(format!("{} is of another version", shim.path)));
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_where_its_beginning_is_mapped() {
        let maps = "\
7f00-7f10 r--p 00000000 fe:01 7                          /opt/my rocm/libamdhip64.so.6
7f10-7f20 r-xp 00010000 fe:01 7                          /opt/my rocm/libamdhip64.so.6
7f20-7f30 rw-p 00000000 00:00 0
7f30-7f40 r--p 00000000 fe:01 8                          /lib/libxsched_shim.so
7ffe-7fff rw-p 00000000 00:00 0                          [stack]
";
        let found = files(maps);
        let expected = [(0x7f00, "/opt/my rocm/libamdhip64.so.6"), (0x7f30, "/lib/libxsched_shim.so")];
        assert_eq!(found, expected.map(|(base, path)| Mapped { base, path: path.to_owned() }));
    }

    #[test]
    fn a_copy_is_described_by_how_its_calls_are_intercepted() {
        let copy = |way: ShimWay, newer_entries| ShimCopy {
            base: 1,
            ways: [0, way as u32],
            entries: 526,
            newer_entries,
        };
        assert_eq!(describe(&copy(ShimWay::Symbols, 0)).0, "symbols");
        assert_eq!(describe(&copy(ShimWay::Undecided, 0)).0, "unseen");
        let (way, detail) = describe(&copy(ShimWay::Table, 3));
        assert_eq!(
            (way, detail.as_str()),
            ("table", " (526 entries replaced, 3 of them newer than the shim)")
        );
    }
}
