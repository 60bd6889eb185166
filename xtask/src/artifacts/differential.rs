//! The client of the differential tests: a Rust library with a `main`, linked by clang with its kernels and a runtime.
//!
//! ```text
//! <folder>/differential-{5,6,7}          on the runtime of that HIP major
//! <folder>/differential.co               its kernels again, as the module that it loads
//! <folder>/libdifferential_twins.so      host functions in place of the kernels, for the simulated runtime
//! <folder>/vm/differential-{5,6}         the same for the virtual machine, each with AMD's runtime of that major
//! <folder>/vm/differential.co
//! <folder>/kfd/{differential-{6,7}, differential.co}    the same for the kernel driver in user space
//! ```

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::apps::{CLANG, KFD_OFFLOAD, OFFLOAD, VM_OFFLOAD};
use super::hip_sim::MAJORS;
use super::static_library;
use super::step::Step;

const PACKAGE: &str = "differential-runner";
const SOURCES: &str = "tests/differential/runner/src";
const COMPILE: [&str; 6] = ["-std=c++20", "-O2", "-g", "-fPIC", "-Wall", "-Wextra"];

/// Brings it up to date; the simulated runtimes must be there.
pub(super) fn build(root: &Path, target_dir: &Path) -> Result<()> {
    let library = static_library::build(root, target_dir, PACKAGE)?;
    let sources = root.join(SOURCES);
    let folder = target_dir.join("differential");
    let kernels = compile_kernels(root, folder.join("kernels.o"), &OFFLOAD, &["-c"])?;
    compile_kernels(root, folder.join("differential.co"), &OFFLOAD, &["--offload-device-only"])?;
    let twins = compile(root, folder.join("libdifferential_twins.so"))
        .input(sources.join("twins.cpp"))
        .arguments(["-shared"])
        .run()?;
    for major in MAJORS {
        let newer = compile_newer(root, folder.join(format!("newer-{major}.o")), major)?;
        Step::new(CLANG, folder.join(format!("differential-{major}")))
            .arguments(["-fuse-ld=lld-19", "-Wl,--no-as-needed"])
            .input(kernels.clone())
            .input(newer)
            .input(library.archive.clone())
            .input(twins.clone())
            .input(target_dir.join(format!("hip-sim/{major}/libamdhip64.so.{major}")))
            .arguments(["-lgcc_s", "-lm"])
            .arguments([format!("-Wl,--enable-new-dtags,-rpath,$ORIGIN:$ORIGIN/../hip-sim/{major}")])
            .run()?;
    }
    Ok(())
}

/// Builds it for the virtual machine's GPU, with AMD's own runtime of ROCm 5.2 or 6.4; returns the program and the module, which belong
/// into one folder.
pub(super) fn build_for_vm(root: &Path, target_dir: &Path, runtime: (u32, PathBuf)) -> Result<[PathBuf; 2]> {
    build_with(root, target_dir, ("vm", &VM_OFFLOAD), runtime)
}

/// The same for the kernel driver in user space, with AMD's own runtime of ROCm 6.4 or 7.2.
pub(super) fn build_for_kfd(root: &Path, target_dir: &Path, runtime: (u32, PathBuf)) -> Result<[PathBuf; 2]> {
    build_with(root, target_dir, ("kfd", &KFD_OFFLOAD), runtime)
}

fn build_with(
    root: &Path,
    target_dir: &Path,
    (place, offload): (&str, &[&str]),
    (major, runtime): (u32, PathBuf),
) -> Result<[PathBuf; 2]> {
    let library = static_library::build(root, target_dir, PACKAGE)?;
    let folder = target_dir.join("differential").join(place);
    let kernels = compile_kernels(root, folder.join("kernels.o"), offload, &["-c"])?;
    let device_only = ["--offload-device-only", "--no-gpu-bundle-output"];
    let module = compile_kernels(root, folder.join("differential.co"), offload, &device_only)?;
    let mut program = Step::new(CLANG, folder.join(format!("differential-{major}")))
        .arguments(["-fuse-ld=lld-19", "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"])
        .input(kernels)
        .input(compile_newer(root, folder.join(format!("newer-{major}.o")), major)?);
    if major == 5 {
        let source = root.join(SOURCES).join("older.c");
        program =
            program.input(Step::new("cc", folder.join("older.o")).arguments(["-c"]).input(source).run()?);
    }
    let program = program.input(library.archive).input(runtime).arguments(["-lgcc_s", "-lm"]).run()?;
    Ok([program, module])
}

/// A step of the compiler, without its source.
fn compile(root: &Path, output: PathBuf) -> Step {
    let tests = root.join("tests");
    let include = ["apps/include", "hip-sim/include", "differential/runner/src"];
    let headers =
        ["apps/include/hip_subset.h", "hip-sim/include/hip_sim.h", "differential/runner/src/kernels.h"];
    Step::new(CLANG, output)
        .arguments(COMPILE)
        .include(&include.map(|folder| tests.join(folder)))
        .depends_on(headers.map(|header| tests.join(header)))
}

/// `-x hip` must precede its source.
fn compile_kernels(root: &Path, output: PathBuf, offload: &[&str], arguments: &[&str]) -> Result<PathBuf> {
    let source = root.join(SOURCES).join("kernels.hip");
    compile(root, output).arguments(offload).arguments(arguments).input(source).run()
}

fn compile_newer(root: &Path, output: PathBuf, major: u32) -> Result<PathBuf> {
    let source = root.join(SOURCES).join("newer.cpp");
    compile(root, output).arguments([format!("-DHIP_MAJOR={major}"), "-c".to_owned()]).input(source).run()
}
