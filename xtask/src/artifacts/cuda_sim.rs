//! The simulated libcuda, under the genuine library's name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::command;

const SONAME: &str = "libcuda.so.1";

/// `<target>/cuda-sim/libcuda.so.1`, and `libcuda.so` for the linker. Optimised, as the simulated HIP runtime is.
pub(super) fn build(root: &Path, target_dir: &Path) -> Result<()> {
    let mut cargo = command::cargo(root);
    cargo.args(["build", "--package", "cuda-sim", "--release"]).arg("--target-dir").arg(target_dir);
    command::run(&mut cargo)?;
    let folder = target_dir.join("cuda-sim");
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let built = target_dir.join("release/libcuda_sim.so");
    let library = folder.join(SONAME);
    // A program may have the old file mapped.
    let _ = fs::remove_file(&library);
    fs::copy(&built, &library).with_context(|| format!("failed to copy {}", built.display()))?;
    let link = folder.join("libcuda.so");
    let _ = fs::remove_file(&link);
    symlink(SONAME, &link).with_context(|| format!("failed to create {}", link.display()))
}
