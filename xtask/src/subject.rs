//! Builds what tests and benchmarks exercise, and passes its paths to them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::{
    artifacts, command,
    workspace::{Profile, Workspace},
};

/// Variables for the environment of a test or benchmark.
pub(crate) type Variables = Vec<(&'static str, OsString)>;

/// Cargo's arguments for a shim with the variables `XSCHED_TEST_*`, which builds for users do not have.
pub(crate) const WITH_SWITCHES: [&str; 2] =
    ["--features", "xsched-shim/test-switches,xsched-cuda/test-switches"];

/// The library to preload, as cargo names it.
const SHIM: &str = "libxsched_shim.so";

/// Builds the simulated HIP runtime with its programs, the command and the shim, for tests.
///
/// `XSCHED_SHIM` is a shim with test switches, `XSCHED_RELEASED_SHIM` one without, as users have it. For the others see
/// [`variables`].
pub(crate) fn build_for_tests(workspace: &Workspace) -> Result<Variables> {
    artifacts::build(workspace)?;
    // The second build replaces it in the folder of built artifacts.
    build_commands(workspace, Profile::Debug, &[])?;
    let released = workspace.target_dir.join("without-switches").join(SHIM);
    copy(&workspace.built(Profile::Debug, SHIM), &released)?;
    build_commands(workspace, Profile::Debug, &WITH_SWITCHES)?;
    let mut variables = variables(workspace, Profile::Debug);
    variables.push(("XSCHED_RELEASED_SHIM", released.into()));
    Ok(variables)
}

/// Builds the command and a shim with test switches, for a verb that runs other programs with them.
pub(crate) fn build_with_switches(workspace: &Workspace) -> Result<()> {
    build_commands(workspace, Profile::Debug, &WITH_SWITCHES)
}

/// The same without test switches, as users have them.
pub(crate) fn build_for_users(workspace: &Workspace) -> Result<()> {
    build_commands(workspace, Profile::Debug, &[])
}

/// The same for benchmarks: builds for users are measured.
pub(crate) fn build_for_benchmarks(workspace: &Workspace) -> Result<Variables> {
    artifacts::build(workspace)?;
    build_released(workspace)?;
    Ok(variables(workspace, Profile::Release))
}

/// The same without what it is measured with.
pub(crate) fn build_released(workspace: &Workspace) -> Result<()> {
    build_commands(workspace, Profile::Release, &[])
}

/// `XSCHED_ARTIFACTS` is the folder that has `hip-sim/` and `apps/`, `XSCHED_CTL` the command and `XSCHED_SHIM` the
/// library to preload. `XSCHED_SOCKET_DIR` is a folder without a controller, so that a controller of this machine does not schedule
/// programs of tests.
fn variables(workspace: &Workspace, profile: Profile) -> Variables {
    vec![
        ("XSCHED_ARTIFACTS", workspace.target_dir.clone().into()),
        ("XSCHED_CTL", workspace.built(profile, "xsched-ctl").into()),
        ("XSCHED_SHIM", workspace.built(profile, SHIM).into()),
        ("XSCHED_SOCKET_DIR", workspace.target_dir.join("no-controller").into()),
    ]
}

fn build_commands(workspace: &Workspace, profile: Profile, features: &[&str]) -> Result<()> {
    let mut build = command::cargo(&workspace.root);
    build.args(["build", "--package", "xsched-ctl", "--package", "xsched-cuda", "--package", "xsched-shim"]);
    command::run(build.args(features).args(profile.arguments()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().expect("it is a file in a folder");
    fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    fs::copy(from, to).map(drop).with_context(|| format!("failed to copy {}", from.display()))
}

/// Builds the shim with this feature, separately from the one for users; returns the library's path.
pub(crate) fn build_shim_with(workspace: &Workspace, feature: &str) -> Result<PathBuf> {
    let target_dir = workspace.target_dir.join(feature);
    let mut build = command::cargo(&workspace.root);
    build.args(["build", "--package", "xsched-shim", "--features", feature, "--target-dir"]);
    command::run(build.arg(&target_dir).args(Profile::Release.arguments()))?;
    Ok(target_dir.join("release").join(SHIM))
}

/// Fails if a shim for users has the variables of tests.
pub(crate) fn ensure_released(shim: &Path) -> Result<()> {
    let library = fs::read(shim).with_context(|| format!("failed to read {}", shim.display()))?;
    let is_there = library.windows(SWITCH.len()).any(|window| window == SWITCH);
    ensure!(!is_there, "{} has variables for tests: it was built with a feature for tests", shim.display());
    Ok(())
}

/// How the names of variables for tests begin.
const SWITCH: &[u8] = b"XSCHED_TEST_";
