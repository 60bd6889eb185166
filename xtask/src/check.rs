//! `cargo xtask check`: everything about the sources that a machine can judge. All checks run; then failures are listed.

mod forbidden;

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    command,
    setup::{self, Need},
    workspace::Workspace,
};

/// The verb.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, &[Need::BpfBuild])?;
    let checks: [(&str, Result<()>); 5] = [
        ("format", command::run(cargo(workspace).args(["fmt", "--all", "--check"]))),
        ("clippy", command::run(&mut clippy(workspace))),
        ("clippy of features for tests", command::run(&mut clippy_with_test_features(workspace))),
        ("docs", command::run(&mut docs(workspace))),
        ("forbidden", forbidden::check(&workspace.root)),
    ];
    let failures: Vec<_> =
        checks.iter().filter_map(|(name, outcome)| Some((name, outcome.as_ref().err()?))).collect();
    for (name, error) in &failures {
        eprintln!("check: {name}: {error:#}");
    }
    if !failures.is_empty() {
        bail!("{} of {} checks failed", failures.len(), checks.len());
    }
    eprintln!("check: {} checks passed", checks.len());
    Ok(())
}

/// Over every crate and target of the host. The BPF binary is behind a feature and compiled, with its own
/// warnings, by xsched-ctl's build script.
fn clippy(workspace: &Workspace) -> Command {
    let mut clippy = cargo(workspace);
    clippy.args(["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"]);
    clippy
}

/// The shim with everything that builds for users do not have.
fn clippy_with_test_features(workspace: &Workspace) -> Command {
    let mut clippy = cargo(workspace);
    clippy.args(["clippy", "--package", "xsched-shim", "--package", "xsched-xqueue", "--all-targets"]);
    clippy.args(["--features", "xsched-shim/planted-bugs", "--", "-D", "warnings"]);
    clippy
}

/// Nothing is published, so the pages are for those who change the code: private items, and links to them.
fn docs(workspace: &Workspace) -> Command {
    let mut doc = cargo(workspace);
    doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links").args([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ]);
    doc
}

fn cargo(workspace: &Workspace) -> Command {
    command::cargo(&workspace.root)
}
