//! The simulated libcuda, under the genuine library's name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::step::Step;
use crate::command;

const SONAME: &str = "libcuda.so.1";

/// One library under names that rules know, and under one that none of the built-in ones does.
const CALLERS: [&str; 4] = ["libnccl.so.2", "libcublasLt.so.13", "libsolver.so", "libcudart.so.13"];

/// `<target>/cuda-sim/libcuda.so.1`, and `libcuda.so` for the linker; beside them clients with their twins. Optimised, as the
/// simulated HIP runtime is.
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
    symlink(SONAME, &link).with_context(|| format!("failed to create {}", link.display()))?;
    clients(&root.join("tests"), &folder)
}

/// Programs for libcuda, genuine or simulated, and the host functions that the simulator runs as its kernels.
fn clients(tests: &Path, folder: &Path) -> Result<()> {
    let sources = tests.join("apps/cuda");
    let include = [tests.join("cuda-sim/include"), tests.join("hip-sim/include"), sources.clone()];
    let step = |output: &str, source: &str| {
        let step = Step::new("cc", folder.join(output))
            .arguments(["-O2", "-g", "-Wall", "-Wextra"])
            .include(&include);
        step.input(sources.join(source)).depends_on([
            include[0].join("cuda_subset.h"),
            sources.join("kernels.h"),
            sources.join("client.h"),
        ])
    };
    step("libcuda_twins.so", "twins.c").arguments(["-shared", "-fPIC"]).run()?;
    let library = folder.join(SONAME);
    for caller in CALLERS {
        step(caller, "caller.c").input(library.clone()).arguments(["-shared", "-fPIC"]).run()?;
    }
    for program in ["cuda_client", "cuda_contexts", "cuda_deferred"] {
        let step = step(program, &format!("{program}.c")).input(library.clone());
        step.arguments(["-pthread", "-Wl,-rpath,$ORIGIN"]).run()?;
    }
    Ok(())
}
