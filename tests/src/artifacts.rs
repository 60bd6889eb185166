//! Paths of the things under test. `cargo xtask test` builds them and passes their paths in the environment.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn built(variable: &str) -> PathBuf {
    env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: end-to-end tests are run by `cargo xtask test`"))
        .into()
}

/// The command `xsched-ctl`.
pub fn xsched_ctl() -> PathBuf {
    built("XSCHED_CTL")
}

/// The library to preload. Tests have one with the variables `XSCHED_TEST_*`; benchmarks measure the one that users have.
pub fn shim() -> PathBuf {
    built("XSCHED_SHIM")
}

/// The library as users have it, for tests.
pub fn released_shim() -> PathBuf {
    built("XSCHED_RELEASED_SHIM")
}

/// The library with the variables `XSCHED_TEST_*`, for benchmarks.
pub fn switchable_shim() -> PathBuf {
    built("XSCHED_SWITCHABLE_SHIM")
}

/// The library to preload for CUDA, beside the other one.
pub fn cuda_shim() -> PathBuf {
    shim().with_file_name("libxsched_cuda.so")
}

/// The folder of the simulated libcuda and its client.
pub fn cuda_sim() -> PathBuf {
    built("XSCHED_ARTIFACTS").join("cuda-sim")
}

/// A program or library of `tests/apps`.
pub fn app(name: &str) -> PathBuf {
    built("XSCHED_ARTIFACTS").join("apps").join(name)
}

/// The folder of a simulated runtime, by HIP's major version: 5, 6 or 7.
pub fn hip_sim(major: u32) -> PathBuf {
    built("XSCHED_ARTIFACTS").join("hip-sim").join(major.to_string())
}

/// The field kit's minimal client, linked with the simulated runtime.
pub fn linked_client() -> PathBuf {
    built("XSCHED_ARTIFACTS").join("debug/examples/linked_client")
}

/// The folder of the conformance suite's programs.
pub fn conformance() -> PathBuf {
    built("XSCHED_ARTIFACTS").join("conformance")
}

/// The library of the conformance suite that computes what its kernels would.
pub fn twins() -> PathBuf {
    conformance().join("libconformance_twins.so")
}

/// A code object of the conformance suite.
pub fn module() -> PathBuf {
    conformance().join("modules/module.co")
}

/// The library of the conformance suite that executes rocRAND's kernels (`executor`), or computes what they should (`reference`).
pub fn rocrand_twin(name: &str) -> PathBuf {
    conformance().join(format!("librocrand_{name}.so"))
}

/// The folder of the clients that run random programs.
pub fn differential() -> PathBuf {
    built("XSCHED_ARTIFACTS").join("differential")
}

/// The folder of third-party programs; each of them may be missing.
pub fn clients() -> PathBuf {
    built("XSCHED_ARTIFACTS").join("clients")
}

/// The interpreter that has hip-python.
pub fn python() -> PathBuf {
    clients().join("python/bin/python")
}

/// Debian's HIPRTC.
pub fn hiprtc() -> PathBuf {
    clients().join("hiprtc/libhiprtc.so")
}

/// Debian's rocRAND.
pub fn rocrand() -> PathBuf {
    clients().join("debian/librocrand1_5.3.3-4/usr/lib/x86_64-linux-gnu/librocrand.so.1")
}

/// Debian's hipRAND.
pub fn hiprand() -> PathBuf {
    clients().join("debian/libhiprand1_5.3.3-4/usr/lib/x86_64-linux-gnu/libhiprand.so.1")
}

/// A copy of a program of `tests/apps` under a name that no other process has, in the given folder. It finds its libraries
/// where the original finds them.
///
/// # Panics
///
/// If it cannot be copied.
pub fn app_copy(name: &str, folder: &Path, copy: &str) -> Command {
    let path = folder.join(copy);
    std::fs::copy(app(name), &path).unwrap_or_else(|error| panic!("copying {name}: {error}"));
    let mut command = Command::new(path);
    let apps = built("XSCHED_ARTIFACTS").join("apps");
    command.env("LD_LIBRARY_PATH", format!("{}:{}", apps.display(), hip_sim(6).display()));
    command
}

/// A command that runs a program of `tests/apps`.
pub fn app_command(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(app(name));
    command.args(arguments);
    command
}
