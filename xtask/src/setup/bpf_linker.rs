//! bpf-linker, built against the LLVM of Debian's `rustc-web`.
//!
//! Its published binaries are on GitHub; building it needs an LLVM as new as the compiler's. `rustc-web` depends on libllvm22. The
//! build needs only the shared library of that package, under an LLVM prefix, so no development package of LLVM is required.

use std::{fs, os::unix::fs::symlink};

use anyhow::{Context as _, Result};

use super::{machine::Machine, requirements};
use crate::command;

/// The version that is installed.
const VERSION: &str = "0.13.0";

/// What is compiled and linked to try it.
const TRIAL: &str = "#![no_std]\n#[unsafe(no_mangle)]\npub extern \"C\" fn trial(x: u64) -> u64 { x + 1 }\n";

/// Where Debian's libllvm22 puts its library, by architecture.
const LLVM_LIBRARIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/libLLVM.so.22.1", "/usr/lib/aarch64-linux-gnu/libLLVM.so.22.1"];

/// Whether there is a bpf-linker that links what the compiler for the BPF programs writes: its LLVM may be too old for that, whatever
/// its own version.
pub(crate) fn works(machine: &dyn Machine) -> bool {
    let tried = || {
        let folder = tempfile::tempdir().ok()?;
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (source, compiled) = (path("trial.rs"), path("trial.bc"));
        fs::write(&source, TRIAL).ok()?;
        let rustc = requirements::bpf_rustc(machine)?;
        let (program, first) = rustc.split_first()?;
        let first: Vec<_> = first.iter().map(String::as_str).collect();
        let options =
            ["--edition=2024", "--crate-type=lib", "-O", "--emit=llvm-bc", "-o", &compiled, &source];
        machine.output(program, &[&first[..], &options].concat())?;
        let options = ["--target", "bpfel", "--btf", "--export", "trial", "-o", &path("trial.o"), &compiled];
        machine.output("bpf-linker", &options)
    };
    tried().is_some()
}

/// Builds it into cargo's home.
pub(crate) fn install(machine: &dyn Machine) -> Result<()> {
    let library = LLVM_LIBRARIES
        .into_iter()
        .find(|path| machine.exists(path))
        .context("no libLLVM.so.22.1: it comes with rustc-web 1.96 of Debian 12's security archive")?;
    let prefix = tempfile::tempdir().context("failed to make a temporary folder")?;
    fs::create_dir(prefix.path().join("lib"))?;
    symlink(library, prefix.path().join("lib/libLLVM.so"))?;

    let mut cargo = command::cargo(prefix.path()); // away from the workspace, whose settings are not its own
    for ours in
        ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "RUSTC_WRAPPER"]
    {
        cargo.env_remove(ours);
    }
    cargo.env("LLVM_PREFIX", prefix.path());
    cargo.args(["install", "bpf-linker", "--locked", "--force", "--no-default-features"]);
    cargo.args(["--features", "llvm-22", "--version", VERSION]);
    machine.run(&mut cargo)
}
