//! `cargo xtask package --roots`: the packages on bare systems, from their installation to nothing left.
//!
//! Each system is a root file system of Debian in the target folder, made once. `tests/packages/inside.sh` runs in
//! a copy of it, in a mount namespace of its own; processes stay in this machine's pid namespace, where programs are traced.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::{artifacts, command, workspace::Workspace};

/// Debian's releases, with what a node has beside the smallest set of packages.
const SUITES: [&str; 2] = ["bookworm", "trixie"];
const PACKAGES: &str = "systemd,systemd-sysv,man-db,bash-completion,rpm";

/// From Debian's own archives.
const MIRROR: &str = "http://deb.debian.org/debian";

/// Tries both kinds of packages in `packages` on each system; an error names those that failed.
pub(super) fn run(workspace: &Workspace, packages: &Path) -> Result<()> {
    artifacts::Suite::simulated(workspace).build()?;
    command::all(SUITES.iter().flat_map(|suite| {
        ["deb", "rpm"].map(|kind| {
            eprintln!("== {suite}, .{kind}");
            let tried = tree(workspace, suite).and_then(|root| in_there(workspace, &root, packages, kind));
            tried.map_err(|error| anyhow!("{suite}, .{kind}: {error:#}"))
        })
    }))
}

/// The system's file system, which is made if it is not there.
fn tree(workspace: &Workspace, suite: &str) -> Result<PathBuf> {
    let roots = workspace.target_dir.join("roots");
    let (root, parts) = (roots.join(suite), roots.join(format!("{suite}.parts")));
    if root.exists() {
        return Ok(root);
    }
    fs::create_dir_all(&roots).with_context(|| format!("failed to create {}", roots.display()))?;
    let _ = fs::remove_dir_all(&parts); // of an interrupted run
    let mut bootstrap = command::command("mmdebstrap");
    bootstrap.args(["--variant=minbase", &format!("--include={PACKAGES}"), suite]);
    bootstrap.arg(&parts).arg(format!("deb {MIRROR} {suite} main"));
    command::run(&mut bootstrap)?;
    fs::rename(&parts, &root).context("failed to rename the file system")?;
    Ok(root)
}

/// Runs the script in a copy of the root, which goes with the namespace.
fn in_there(workspace: &Workspace, root: &Path, packages: &Path, kind: &str) -> Result<()> {
    let script = workspace.root.join("tests/packages/outside.sh");
    let mut outside = command::command("unshare");
    outside.args(["--mount", "--uts", "--ipc", "bash"]).arg(script);
    outside.arg(root).arg(packages).arg(&workspace.target_dir).arg(kind);
    let status = command::status(&mut outside)?;
    ensure!(status.success(), "the last line above failed");
    Ok(())
}
