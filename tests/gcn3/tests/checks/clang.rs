//! Kernels that clang compiles for gfx803 and gfx900.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use xsched_gcn3::Isa;

use crate::support::Device;

/// All generations.
pub(crate) const ISAS: [Isa; 2] = [Isa::Gfx8, Isa::Gfx9];

/// What LLVM calls a processor of a generation.
pub(crate) fn processor(isa: Isa) -> String {
    format!("-mcpu={}", if isa == Isa::Gfx8 { "gfx803" } else { "gfx900" })
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kernels")
}

/// A tool of LLVM 19, which `cargo xtask setup` installs.
pub(crate) fn llvm(tool: &str) -> Command {
    Command::new(format!("/usr/lib/llvm-19/bin/{tool}"))
}

/// Output of a command that must succeed.
pub(crate) fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error} (cargo xtask setup installs clang and LLVM 19)")
    });
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The code object of a file of kernels.
pub(crate) fn compiled(isa: Isa, name: &str) -> Vec<u8> {
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("kernels.co");
    let mut clang = llvm("clang");
    clang.args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", &processor(isa), "-nogpulib"]);
    clang.args(["-O2", "-mcode-object-version=4", "-ffp-contract=off"]);
    clang.arg("-o").arg(&path).arg(folder().join(name).with_extension("cl"));
    output(&mut clang);
    fs::read(&path).unwrap()
}

/// Names of all files of kernels.
pub(crate) const FILES: [&str; 5] = ["basic", "integers", "floats", "groups", "packed"];

impl Device {
    /// Loads the kernels of a file.
    pub(crate) fn new(isa: Isa, name: &str) -> Self {
        Self::with_code(isa, compiled(isa, name))
    }
}
