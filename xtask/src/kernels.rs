//! `cargo xtask test --kernels [LIST]`: what xsched-ctl can do under the kernels of distributions, tried in virtual machines by
//! `tests/vm/boot.sh`, without a GPU. Prints the table of `docs/kernels.md`.
//!
//! Each kernel's result is kept, with what it was tried with: an interrupted run goes on where it was.

mod capabilities;

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, anyhow, bail};

use self::capabilities::Capabilities;
use crate::{
    artifacts, command,
    setup::{self, Need},
    subject,
    workspace::{Profile, Workspace},
};

/// The series that are tried without a list: those of long-term distributions, and the newest that Debian's archives have.
const SERIES: [&str; 8] = ["5.10", "5.15", "6.1", "6.8", "6.12", "6.18", "7.2", "7.3"];

/// Seconds for one kernel. Measured: 55 to 270 on a machine with two processors that had other work.
const TIME_MAX_S: u32 = 3000;

/// The exit status of `boot.sh` where it cannot get a kernel.
const NO_KERNEL: i32 = 2;

/// The program that runs in there.
const PROGRAM: &str = "kernel-capabilities";

/// Tries each kernel of the list, or all, and prints the table. An error if something fails that `doctor` calls usable.
pub(crate) fn run(workspace: &Workspace, list: &[String]) -> Result<()> {
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms, Need::VirtualMachine])?;
    let share = stage(workspace)?;
    let version = version_of(&share)?;
    let all = || SERIES.map(str::to_owned).to_vec();
    let list = if list.is_empty() { all() } else { list.to_vec() };
    let mut tried = Vec::new();
    for series in list {
        let result = one(workspace, &share, &series, version);
        if let Err(error) = &result {
            eprintln!("Linux {series}: {error:#}");
        }
        tried.push((series, result.map_err(|error| format!("{error:#}"))));
    }
    print!("{}", capabilities::table(&tried));
    let failures = tried.iter().flat_map(|(series, result)| match result {
        Ok(Some(capabilities)) => capabilities.failures(),
        Ok(None) => Vec::new(),
        Err(error) => vec![format!("Linux {series}: {error}")],
    });
    command::all(failures.map(|failure| Err(anyhow!(failure))))
}

/// What one kernel can do: from an earlier run with the same programs, or tried now. None if no archive has the kernel.
fn one(workspace: &Workspace, share: &Path, series: &str, version: u64) -> Result<Option<Capabilities>> {
    let kept = workspace.target_dir.join("kernels").join(format!("{series}-{version:016x}.json"));
    if let Some(known) = fs::read_to_string(&kept).ok().and_then(|text| serde_json::from_str(&text).ok()) {
        eprintln!("== Linux {series}: tried before ({})", kept.display());
        return Ok(Some(known));
    }
    eprintln!("== Linux {series}");
    let name = format!("result-{series}.json");
    let result = share.join(&name);
    let _ = fs::remove_file(&result); // of the kernel before
    let mut boot = command::command("bash");
    boot.arg(workspace.root.join("tests/vm/boot.sh"))
        .args(["-n", "-k", series, "-t", &TIME_MAX_S.to_string(), "-s"])
        .arg(share)
        .arg("--")
        .arg(format!(
            "XSCHED_ARTIFACTS=/host XSCHED_CTL=/host/xsched-ctl XSCHED_SHIM=/host/libxsched_shim.so ./{PROGRAM} {name}"
        ))
        .stdin(Stdio::null());
    match command::status(&mut boot)?.code() {
        Some(0) => {}
        Some(NO_KERNEL) => return Ok(None),
        _ => bail!("the virtual machine failed"),
    }
    let text = fs::read_to_string(&result).context("the virtual machine left no result")?;
    let capabilities: Capabilities = serde_json::from_str(&text).context("the result is not as expected")?;
    if capabilities.failures().is_empty() {
        let folder = kept.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        fs::write(&kept, text).with_context(|| format!("failed to write {}", kept.display()))?;
    }
    Ok(Some(capabilities))
}

/// Builds everything and puts it into one folder.
fn stage(workspace: &Workspace) -> Result<PathBuf> {
    artifacts::build(workspace)?;
    subject::build_with_switches(workspace)?;
    let mut build = command::cargo(&workspace.root);
    command::run(build.args(["build", "--package", "xsched-tests", "--bin", PROGRAM]))?;
    let share = workspace.target_dir.join("kernels/share");
    for name in ["xsched-ctl", "libxsched_shim.so", "libxsched_cuda.so", PROGRAM] {
        copy(&workspace.built(Profile::Debug, name), &share.join(name))?;
    }
    let runtime = "hip-sim/6/libamdhip64.so.6";
    copy(&workspace.target_dir.join(runtime), &share.join(runtime))?;
    let apps = workspace.target_dir.join("apps");
    let entries = fs::read_dir(&apps).with_context(|| format!("failed to read {}", apps.display()))?;
    let is_wanted = |name: &str| {
        ["deep_chain", "sched_client", "libdemo_twins.so"].contains(&name)
            || name.starts_with("libdeep_") && Path::new(name).extension().is_some_and(|it| it == "so")
    };
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        if is_wanted(&name) {
            copy(&apps.join(&name), &share.join("apps").join(&name))?;
        }
    }
    Ok(share)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    fs::copy(from, to).map(drop).with_context(|| format!("failed to copy {}", from.display()))
}

/// A number that changes with the programs that are tried.
fn version_of(share: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for name in ["xsched-ctl", "libxsched_shim.so", PROGRAM] {
        let path = share.join(name);
        let content = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        content.hash(&mut hasher);
    }
    Ok(hasher.finish())
}
