//! Builds what tests and benchmarks exercise, and passes its paths to them.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;

use crate::{
    artifacts, command,
    workspace::{Profile, Workspace},
};

/// Variables for the environment of a test or benchmark.
pub(crate) type Variables = Vec<(&'static str, OsString)>;

/// Builds the simulated HIP runtime with its programs, the command and the shim.
///
/// `XSCHED_ARTIFACTS` is the folder that has `hip-sim/` and `apps/`, `XSCHED_CTL` the command and `XSCHED_SHIM` the
/// library to preload. `XSCHED_SOCKET_DIR` is a folder without a controller, so that a controller of this machine does not schedule
/// programs of tests.
pub(crate) fn build(workspace: &Workspace, profile: Profile) -> Result<Variables> {
    artifacts::build(workspace)?;
    command::run(
        command::cargo(&workspace.root)
            .args(["build", "--package", "xsched-ctl", "--package", "xsched-shim"])
            .args(profile.arguments()),
    )?;
    Ok(vec![
        ("XSCHED_ARTIFACTS", workspace.target_dir.clone().into()),
        ("XSCHED_CTL", workspace.built(profile, "xsched-ctl").into()),
        ("XSCHED_SHIM", workspace.built(profile, "libxsched_shim.so").into()),
        ("XSCHED_SOCKET_DIR", workspace.target_dir.join("no-controller").into()),
    ])
}

/// Builds the shim with planted bugs, separately from the one for users; returns the library's path.
pub(crate) fn build_planted(workspace: &Workspace) -> Result<PathBuf> {
    let target_dir = workspace.target_dir.join("planted");
    let mut build = command::cargo(&workspace.root);
    build.args(["build", "--package", "xsched-shim", "--features", "planted-bugs", "--target-dir"]);
    command::run(build.arg(&target_dir).args(Profile::Release.arguments()))?;
    Ok(target_dir.join("release/libxsched_shim.so"))
}
