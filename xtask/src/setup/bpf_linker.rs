//! bpf-linker, built against the LLVM of Debian's `rustc-web`.
//!
//! Its published binaries are on GitHub; building it needs an LLVM as new as the compiler's. `rustc-web` depends on libllvm22. The
//! build needs only the shared library of that package, under an LLVM prefix, so no development package of LLVM is required.

use std::{fs, os::unix::fs::symlink};

use anyhow::{Context as _, Result};

use super::machine::Machine;
use crate::command;

/// The version that is installed, and the oldest that is accepted.
const VERSION: [u32; 3] = [0, 13, 0];

/// Where Debian's libllvm22 puts its library, by architecture.
const LLVM_LIBRARIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/libLLVM.so.22.1", "/usr/lib/aarch64-linux-gnu/libLLVM.so.22.1"];

/// Whether there is a bpf-linker that starts and is recent enough.
pub(crate) fn is_installed(machine: &dyn Machine) -> bool {
    let answer = machine.output("bpf-linker", &["--version"]);
    answer.as_deref().and_then(version).is_some_and(|found| found >= VERSION)
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

    let [major, minor, patch] = VERSION;
    let mut cargo = command::cargo(prefix.path()); // away from the workspace, whose settings are not its own
    for ours in
        ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "RUSTC_WRAPPER"]
    {
        cargo.env_remove(ours);
    }
    cargo.env("LLVM_PREFIX", prefix.path());
    cargo.args(["install", "bpf-linker", "--locked", "--force", "--no-default-features"]);
    cargo.args(["--features", "llvm-22", "--version", &format!("{major}.{minor}.{patch}")]);
    machine.run(&mut cargo)
}

/// Reads `bpf-linker 0.13.0`.
fn version(answer: &str) -> Option<[u32; 3]> {
    let mut numbers = answer.trim().strip_prefix("bpf-linker ")?.split(['.', '-', '+']).map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(version("bpf-linker 0.13.0\n"), Some([0, 13, 0]));
        assert!(version("bpf-linker 0.9.15") < Some(VERSION));
        assert!(version("bpf-linker 0.14.1-dev") > Some(VERSION));
        assert_eq!(version("ld.lld 19"), None);
    }
}
