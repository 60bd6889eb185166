//! Builds what the end-to-end tests, benchmarks and demos run besides this workspace's own programs.
//!
//! ```text
//! <target>/hip-sim/{5,6,7}/libamdhip64.so.N, libamdhip64.so -> libamdhip64.so.N    the simulated runtime
//! <target>/cuda-sim/libcuda.so.1, libcuda.so -> libcuda.so.1                       the simulated driver of CUDA
//! <target>/debug/examples/linked_client                                            the field kit's client, linked with it
//! <target>/apps/{vector_add, two_libraries, .., lib*.so}                           programs and libraries on top
//! <target>/apps/obj/                                                               their objects
//! <target>/differential/{differential-*, ..}                                       the client of differential tests
//! <target>/rocm/{hipblas, ..}                                                      programs on AMD's genuine libraries
//! <target>/xsched-examples/{example_1, .., lib/, xsched-v1.2.0/}                   XSched's examples, our libraries, its sources
//! <target>/conformance/{conformance-*, modules/, libconformance_twins.so}          the conformance suite
//! ```

mod apps;
mod conformance;
mod cuda_sim;
mod differential;
mod hip_sim;
mod linked_client;
mod static_library;
mod step;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub(crate) use self::conformance::Suite;
use self::step::Step;
use crate::{command, workspace::Workspace};

/// Brings everything up to date; quick when it already is.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    hip_sim::build(&workspace.root, &workspace.target_dir)?;
    cuda_sim::build(&workspace.root, &workspace.target_dir)?;
    apps::build(&workspace.root, &workspace.target_dir)?;
    linked_client::build(workspace)
}

/// Brings the simulated runtime and the demo's program up to date; returns the program's path.
pub(crate) fn build_demo(workspace: &Workspace) -> Result<PathBuf> {
    hip_sim::build(&workspace.root, &workspace.target_dir)?;
    apps::build_two_libraries(&workspace.root, &workspace.target_dir)
}

/// The same with the two programs of the other demo; returns their folder.
pub(crate) fn build_demo_sched(workspace: &Workspace) -> Result<PathBuf> {
    hip_sim::build(&workspace.root, &workspace.target_dir)?;
    apps::build_shared_device(&workspace.root, &workspace.target_dir)
}

/// Brings the simulated runtimes up to date; returns their folder, which has one folder per HIP major.
pub(crate) fn build_runtimes(workspace: &Workspace) -> Result<PathBuf> {
    hip_sim::build(&workspace.root, &workspace.target_dir)?;
    Ok(workspace.target_dir.join("hip-sim"))
}

/// Compiles device code for the virtual machine's GPU.
pub(crate) fn module_for_vm(workspace: &Workspace, source: &str, output: &Path) -> Result<()> {
    Step::new(apps::CLANG, output.to_owned())
        .arguments(apps::VM_OFFLOAD)
        .arguments(["-O2", "--offload-device-only", "--no-gpu-bundle-output"])
        .input(workspace.root.join(source))
        .run()?;
    Ok(())
}

/// Builds the client of the differential tests for the virtual machine, linked with AMD's runtime; returns its files.
pub(crate) fn differential_for_vm(workspace: &Workspace, runtime: (u32, PathBuf)) -> Result<[PathBuf; 2]> {
    differential::build_for_vm(&workspace.root, &workspace.target_dir, runtime)
}

/// The same for the kernel driver in user space.
pub(crate) fn differential_for_kfd(workspace: &Workspace, runtime: (u32, PathBuf)) -> Result<[PathBuf; 2]> {
    differential::build_for_kfd(&workspace.root, &workspace.target_dir, runtime)
}

/// Compiles a file of `tests/vm/programs`, linked with this runtime.
pub(crate) fn program_for_vm(
    workspace: &Workspace,
    source: &str,
    output: &Path,
    runtime: &Path,
    options: &[&str],
) -> Result<()> {
    let source = workspace.root.join("tests/vm/programs").join(source).with_extension("c");
    let mut cc = command::command("cc");
    cc.args(["-O1", "-std=gnu11", "-Wno-strict-prototypes"]).args(options).arg("-o").arg(output).arg(source);
    cc.arg("-Wl,--as-needed").arg(runtime).args(["-ldl", "-lpthread"]);
    command::run(&mut cc)
}

/// Compiles a program of `tests/rocm` against the headers in `rocm/include`; it gets the name that stands before the libraries.
pub(crate) fn build_genuine(
    workspace: &Workspace,
    source: &str,
    rocm: &Path,
    (name, libraries): &(String, [PathBuf; 2]),
) -> Result<()> {
    let sources = workspace.root.join("tests/rocm");
    let step = Step::new(apps::CLANG, workspace.target_dir.join("rocm").join(name))
        .arguments(["-std=c++20", "-O1", "-g", "-Wall", "-Wextra"])
        .arguments(["-isystem".into(), rocm.join("include")])
        .depends_on([sources.join("said.h")])
        .input(sources.join(source).with_extension("cpp"));
    // What the libraries need is in the other file system.
    libraries.iter().cloned().fold(step, Step::input).arguments(["-Wl,--allow-shlib-undefined"]).run()?;
    Ok(())
}

/// The processor that the simulated device claims to be while XSched's examples run. Older versions of XSched's tools know it, too.
pub(crate) const XSCHED_ARCH: &str = "gfx90a";

/// Compiles one of XSched's own examples as its Makefile does, with as much of HIP's headers as it needs. `include` are XSched's headers;
/// `libraries` is the folder of its libraries, if the example is linked with them.
pub(crate) fn build_xsched_example(
    workspace: &Workspace,
    source: &Path,
    runtime: &Path,
    (include, libraries): (&Path, Option<&Path>),
    output: PathBuf,
) -> Result<PathBuf> {
    let ours = workspace.root.join("shim/include");
    let apps = workspace.root.join("tests/apps");
    // XSched's release lacks the header of its HIP functions, which ours stands for.
    let include =
        [apps.join("xsched_examples/include"), apps.join("include"), include.to_owned(), ours.clone()];
    let headers = [include[0].join("hip"), include[1].clone(), ours.join("xsched"), ours.join("xsched/hip")];
    let object = Step::new(apps::CLANG, output.with_extension("o"))
        .arguments(["-c", "-std=c++17", "-O3", "-w", "-x", "hip", "-nogpuinc", "-nogpulib"])
        .arguments([format!("--offload-arch={XSCHED_ARCH}")])
        .include(&include)
        .depends_on(step::headers(&headers)?)
        .input(source.to_owned())
        .run()?;
    let run_path = |folder: &Path| format!("-Wl,-rpath,{}", folder.display());
    let linked = |folder: &Path| {
        [format!("-L{}", folder.display()), "-lpreempt".into(), "-lhalhip".into(), run_path(folder)]
    };
    Step::new(apps::CLANG, output)
        .arguments(["-fuse-ld=lld-19"])
        .input(object)
        .input(runtime.to_owned())
        .arguments(runtime.parent().map(run_path))
        .arguments(libraries.map(linked).into_iter().flatten())
        .run()
}

/// The work of these examples' kernel; returns the library.
pub(crate) fn build_xsched_twins(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    Step::new(apps::CLANG, folder.join("libxsched_examples_twins.so"))
        .arguments(["-std=c++20", "-O3", "-shared", "-fPIC", "-Wall", "-Wextra"])
        .include(&[workspace.root.join("tests/hip-sim/include")])
        .input(workspace.root.join("tests/apps/xsched_examples/twins.cpp"))
        .run()
}

/// Brings the client of the differential tests up to date, after all others.
pub(crate) fn build_differential(workspace: &Workspace) -> Result<()> {
    differential::build(&workspace.root, &workspace.target_dir)
}
