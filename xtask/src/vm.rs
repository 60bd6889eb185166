//! `cargo xtask test --vm`: the tests of `tests/vm`, run by `tests/vm/boot.sh` in virtual machines that have AMD's driver.
//!
//! The programs are built on this machine. They run on the root file system of Debian 12, so this machine must have that, too.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, anyhow};
use serde::Deserialize;

use crate::{
    artifacts, clients, command,
    rocm::{programs, root::Root},
    setup::{self, Need},
    subject,
    workspace::{Profile, Workspace},
};

/// The series of kernels that Debian 12 has: its own, and its backports'.
const KERNELS: [&str; 2] = ["6.1", "6.12"];

/// Seconds for all tests under one kernel. Measured: 150 to 300 on a machine with two processors, and ten times as much with seven
/// times the work for them.
const TIME_MAX_S: u32 = 4500;

/// Programs of `tests/vm/programs`: some open the runtime, others are linked with it.
const PROGRAMS: [&str; 8] =
    ["streams", "compiled", "computes", "numbers", "queues", "random", "registers", "shares"];

/// Those that run with ROCm 6.4.
const PROGRAMS_OF_ROCM_6: [&str; 3] = ["computes", "numbers", "products"];

/// The program of the corpus that AMD's runtime does otherwise than the simulated one.
const BOXES: &str = "a_box_that_rocm_5_refuses.txt";

/// Libraries of the program `shares`, each linked with a runtime of this name.
const SHARES: [(&str, &str); 2] =
    [("libshare.so", "libamdhip64.so.5"), ("libshare_wheel.so", "libamdhip64-w.so")];

/// Libraries with names of AMD's, each with its kind of stack frames: see `tests/apps/origin_chain`.
const CHAIN: [(&str, u32); 2] = [("libtorch_hip.so", 3), ("librccl.so.1", 2)];

/// The module of tests that want time to go by the guest's instructions.
const TIMED: &str = "timed";

/// The module of tests that want a model of the device's time. It runs only if it is named: it makes a table of times.
const MODEL: &str = "preemption";

/// Its device: one SIMD of 100 MHz, whose clock is a hundred times as slow as the host's.
const MODEL_VARIABLES: [(&str, &str); 2] = [("FAKEGPU_TIME", "1 100"), ("FAKEGPU_SLOWER", "100")];

/// The module of tests that want ROCm 6.4. They run only if they are named: their root file system takes 13 GB.
const ROCM_6: &str = "rocm6";

/// MiB of a virtual machine with ROCm 6.4, whose libraries are larger.
const MEMORY_OF_ROCM_6: &str = "4096";

/// How a virtual machine is booted, and with what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Machine {
    /// With Debian 12's ROCm 5.2.
    Usual,
    /// The same, and its time goes by its instructions.
    Timed,
    /// The same, and kernels last as long as a model says.
    Modelled,
    /// With Debian sid's ROCm 6.4.
    Rocm6,
}

impl Machine {
    /// Which of them runs the tests that this filter selects.
    fn runs(self, filter: Option<&str>) -> bool {
        let named = |module| filter.is_some_and(|filter| filter.starts_with(module));
        match self {
            Self::Usual => !named(TIMED) && !named(MODEL) && !named(ROCM_6),
            Self::Timed => filter.is_none() || named(TIMED),
            Self::Modelled => named(MODEL),
            Self::Rocm6 => named(ROCM_6),
        }
    }
}

/// Runs the tests whose name contains `filter` under each kernel, and those of [`TIMED`], [`MODEL`] or [`ROCM_6`] under the newer one; an
/// error if any failed.
pub(crate) fn run(workspace: &Workspace, filter: Option<&str>) -> Result<()> {
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms, Need::VirtualMachine])?;
    let [older, newer] = KERNELS;
    let on_newer =
        [Machine::Usual, Machine::Timed, Machine::Modelled, Machine::Rocm6].map(|machine| (newer, machine));
    let boots = [(older, Machine::Usual)].into_iter().chain(on_newer);
    let boots: Vec<_> = boots.filter(|(_, machine)| machine.runs(filter)).collect();
    let mut rocm_6 = None;
    if boots.iter().any(|&(_, machine)| machine == Machine::Rocm6) {
        setup::ensure(workspace, &[Need::Rocm])?;
        rocm_6 = Some(Root::make()?);
    }
    let share = stage(workspace, rocm_6.as_ref())?;
    if boots.iter().any(|&(_, machine)| machine == Machine::Modelled) {
        subject::build_released(workspace)?;
        copy_commands(workspace, Profile::Release, &share)?;
    }
    let root = rocm_6.as_ref().map(Root::path);
    command::all(
        boots
            .into_iter()
            .map(|(kernel, machine)| boot(workspace, &share, kernel, (machine, root.as_deref()), filter)),
    )
}

/// Boots a machine, from this root file system if it is not the usual one.
fn boot(
    workspace: &Workspace,
    share: &Path,
    kernel: &str,
    (machine, root): (Machine, Option<&Path>),
    filter: Option<&str>,
) -> Result<()> {
    let mut boot = command::command("bash");
    boot.arg(workspace.root.join("tests/vm/boot.sh"));
    boot.args(["-k", kernel, "-t", &TIME_MAX_S.to_string(), "-s"]).arg(share);
    boot.env("FAKEGPU_EXECUTOR", workspace.built(Profile::Debug, "gcn3-device")).stdin(Stdio::null());
    match machine {
        Machine::Usual => {
            eprintln!("== Linux {kernel} with amdgpu");
            // Once, longer than QEMU waits by itself: `boot.sh` raises its limit.
            boot.env("FAKEGPU_PAUSE_S", "8");
        }
        Machine::Timed => {
            eprintln!("== Linux {kernel} with amdgpu, time by instructions");
            boot.arg("-i");
        }
        Machine::Modelled => {
            eprintln!("== Linux {kernel} with amdgpu, time by a model of the device");
            let list = share.join("kernels.list");
            let _ = fs::remove_file(&list); // of an earlier run
            boot.arg("-i").envs(MODEL_VARIABLES).env("FAKEGPU_LIST", list);
        }
        Machine::Rocm6 => eprintln!("== Linux {kernel} with amdgpu, ROCm 6.4"),
    }
    if let Some(root) = root {
        boot.args(["-m", MEMORY_OF_ROCM_6, "-r"]).arg(root);
    }
    boot.arg("--").arg(in_there(filter, machine));
    command::run(&mut boot).map_err(|_| anyhow!("Linux {kernel}: tests failed"))
}

/// The command in the virtual machine, where the shared folder is the working directory.
fn in_there(filter: Option<&str>, machine: Machine) -> OsString {
    let (kind, filter) = match machine {
        Machine::Usual => ("", filter),
        Machine::Timed => ("XSCHED_VM_TIMED=1 ", filter.or(Some(TIMED))),
        Machine::Modelled => ("XSCHED_VM_MODEL=1 ", filter),
        Machine::Rocm6 => ("XSCHED_VM_ROCM_6=1 ", filter),
    };
    let seeds = env::var("XSCHED_TEST_SEEDS").ok().and_then(|seeds| seeds.parse::<u64>().ok());
    let seeds = seeds.map(|seeds| format!("XSCHED_TEST_SEEDS={seeds} ")).unwrap_or_default();
    let filter = filter.map(|filter| format!(" '{}'", filter.replace('\'', r"'\''"))).unwrap_or_default();
    format!(
        "{kind}{seeds}XSCHED_VM=/host XSCHED_CTL=/host/xsched-ctl RUST_BACKTRACE=0 ./tests --test-threads=1{filter}"
    )
    .into()
}

/// Builds everything and puts it into one folder, for ROCm 5.2 or for that of the root file system.
fn stage(workspace: &Workspace, rocm_6: Option<&Root>) -> Result<PathBuf> {
    subject::build_with_switches(workspace)?;
    command::run(command::cargo(&workspace.root).args(["build", "--package", "xsched-gcn3"]))?;
    let share = workspace.target_dir.join(if rocm_6.is_some() { "vm-rocm6" } else { "vm" });
    fs::create_dir_all(&share).with_context(|| format!("failed to create {}", share.display()))?;
    copy_commands(workspace, Profile::Debug, &share)?;
    copy(&test_program(workspace)?, &share.join("tests"))?;
    // Cargo has built it as well, since it is a program of the same package.
    for peer in ["arbiter-peer", "origin-peer"] {
        copy(&workspace.built(Profile::Debug, peer), &share.join(peer))?;
    }
    for (name, shape) in CHAIN {
        let mut cc = command::command("cc");
        cc.args([
            "-x",
            "c++",
            "-O2",
            "-fPIC",
            "-fomit-frame-pointer",
            "-fno-optimize-sibling-calls",
            "-shared",
        ]);
        cc.args([&format!("-DSHAPE={shape}"), "-o"]).arg(share.join(name));
        command::run(cc.arg(workspace.root.join("tests/apps/origin_chain/level.cpp")))?;
    }
    for module in ["advance", "saxpy"] {
        let source = format!("tests/vm/programs/{module}.hip");
        artifacts::module_for_vm(workspace, &source, &share.join(module).with_extension("co"))?;
    }
    match rocm_6 {
        None => stage_rocm_5(workspace, &share)?,
        Some(root) => stage_rocm_6(workspace, root, &share)?,
    }
    Ok(share)
}

/// Command and shim: an emulated processor takes long for what is not optimised.
fn copy_commands(workspace: &Workspace, profile: Profile, share: &Path) -> Result<()> {
    for name in ["xsched-ctl", "libxsched_shim.so"] {
        copy(&workspace.built(profile, name), &share.join(name))?;
    }
    Ok(())
}

/// The client of the differential tests, with AMD's runtime of a major.
fn stage_differential(workspace: &Workspace, runtime: (u32, PathBuf), share: &Path) -> Result<()> {
    for file in artifacts::differential_for_vm(workspace, runtime)? {
        copy(&file, &share.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Runs rocBLAS's kernels without a machine, each by itself, and makes a library of mended ones.
fn stage_rocblas(workspace: &Workspace, rocm_6: &Root, share: &Path) -> Result<()> {
    eprintln!("== kernels of rocBLAS");
    let mut cargo = command::cargo(&workspace.root);
    cargo.args(["test", "--package", "xsched-gcn3", "--test", "rocblas"]);
    cargo.env("XSCHED_ROCM_6", rocm_6.path()).env("XSCHED_MENDED_ROCBLAS", share.join("rocblas"));
    command::run(&mut cargo).map_err(|_| anyhow!("kernels of rocBLAS: tests failed"))
}

fn stage_rocm_6(workspace: &Workspace, rocm_6: &Root, share: &Path) -> Result<()> {
    stage_rocblas(workspace, rocm_6, share)?;
    let runtime = rocm_6.path().join("usr/lib/x86_64-linux-gnu/libamdhip64.so.6");
    // For use by hand: tests/differential/README.md.
    stage_differential(workspace, (6, runtime), share)?;
    // Replaces AMD's at link time: same name, same versions of symbols.
    let runtime = artifacts::build_runtimes(workspace)?.join("6/libamdhip64.so.6");
    for program in PROGRAMS_OF_ROCM_6 {
        artifacts::program_for_vm(workspace, program, &share.join(program), &runtime, &[])?;
    }
    programs::make_model(workspace, &share.join("tiny.gguf"), "float32")
}

fn stage_rocm_5(workspace: &Workspace, share: &Path) -> Result<()> {
    // Tests that need these clients report it if they are missing.
    if let Err(error) = clients::fetch(workspace) {
        eprintln!("going on: {error:#}");
    }
    for library in clients::rand_libraries(&workspace.target_dir) {
        if let (true, Some(name)) = (library.exists(), library.file_name()) {
            copy(&library, &share.join(name))?;
        }
    }
    let runtime = clients::runtime(&workspace.target_dir);
    if runtime.exists() {
        stage_differential(workspace, (5, runtime), share)?;
        copy(&workspace.root.join("tests/differential/corpus").join(BOXES), &share.join(BOXES))?;
    }
    // Replaces AMD's at link time: same name, same versions of symbols.
    let runtime = artifacts::build_runtimes(workspace)?.join("5/libamdhip64.so.5");
    for program in PROGRAMS {
        artifacts::program_for_vm(workspace, program, &share.join(program), &runtime, &[])?;
    }
    for (library, name) in SHARES {
        let library = share.join(library);
        let options = ["-shared", "-fPIC", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/wheel"];
        artifacts::program_for_vm(workspace, "share", &library, &runtime, &options)?;
        rename_needed(&library, name)?;
    }
    Ok(())
}

/// Has a library need the runtime under another name of the same length, as the tools that build wheels do.
fn rename_needed(library: &Path, name: &str) -> Result<()> {
    const LINKED: &str = "libamdhip64.so.5";
    assert_eq!(name.len(), LINKED.len(), "the name stays in its place");
    let mut bytes = fs::read(library).with_context(|| format!("failed to read {}", library.display()))?;
    let at = bytes.windows(LINKED.len()).position(|window| window == LINKED.as_bytes());
    let at = at.with_context(|| format!("{} needs no runtime", library.display()))?;
    bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    fs::write(library, bytes).with_context(|| format!("failed to write {}", library.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).with_context(|| format!("failed to copy {}", from.display()))
}

/// The part of cargo's messages that names its outputs.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Name of the test program.
const TESTS: &str = "vm";

/// Builds the test program; returns its path.
fn test_program(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = command::cargo(&workspace.root);
    cargo.args([
        "test",
        "--package",
        "xsched-tests",
        "--test",
        TESTS,
        "--no-run",
        "--message-format",
        "json",
    ]);
    executable(&command::output(&mut cargo)?).context("cargo has built no test program")
}

/// The test program in cargo's messages, which name the package's other programs too.
fn executable(messages: &str) -> Option<PathBuf> {
    let parse = |line| {
        let message = serde_json::from_str::<Message>(line).ok()?;
        (message.target?.name == TESTS).then_some(message.executable)?
    };
    messages.lines().find_map(parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_program_is_found_among_the_packages_programs() {
        let artifact =
            |name: &str| format!("{{\"target\":{{\"name\":\"{name}\"}},\"executable\":\"/t/{name}\"}}\n");
        let messages =
            artifact("bench-a") + &artifact("vm") + &artifact("bench-b") + "{\"reason\":\"build-finished\"}";
        assert_eq!(executable(&messages), Some("/t/vm".into()));
        assert_eq!(executable("no message\n"), None);
    }

    #[test]
    fn a_filter_stays_one_word() {
        let command = in_there(Some("it's"), Machine::Usual);
        assert!(command.to_str().unwrap().ends_with(r"--test-threads=1 'it'\''s'"), "{command:?}");
    }

    #[test]
    fn a_large_root_file_system_is_made_only_for_tests_that_are_named() {
        let all = [Machine::Usual, Machine::Timed, Machine::Modelled, Machine::Rocm6];
        let that_run = |filter| all.map(|machine| machine.runs(filter));
        assert_eq!(that_run(None), [true, true, false, false]);
        assert_eq!(that_run(Some("queues")), [true, false, false, false]);
        assert_eq!(that_run(Some("timed::gates")), [false, true, false, false]);
        assert_eq!(that_run(Some("preemption")), [false, false, true, false]);
        assert_eq!(that_run(Some("rocm6")), [false, false, false, true]);
    }
}
