//! `cargo xtask check`: all automatic checks of the sources. All of them run; then failures are listed.

mod forbidden;
mod imports;
mod messages;
mod prose;
mod rooms;
mod words;

use std::process::Command;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::{
    command,
    setup::{self, Need},
    workspace::Workspace,
};

/// Arguments of the verb.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these checks; `rooms` then prints all that it finds
    #[arg(value_enum)]
    only: Vec<Name>,
}

/// The checks, in the order in which they run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Format,
    Clippy,
    /// Clippy on the code that only builds for tests have
    ClippyOfTestFeatures,
    Docs,
    Forbidden,
    /// Circles of files that use each other, and dependencies of crates
    Rooms,
    /// Types of the Python package
    Python,
    /// The lists of errors in docs/troubleshooting.md
    Messages,
    /// Words for people where code is meant, and long sentences
    Words,
}

/// What a check prints.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Faults,
    All,
}

/// The verb.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let (names, detail) = match args.only.as_slice() {
        [] => (Name::value_variants(), Detail::Faults),
        only => (only, Detail::All),
    };
    let mut failures = Vec::new();
    for name in names {
        if let Err(error) = name.check(workspace, detail) {
            let shown = name.to_possible_value().expect("no check is hidden");
            failures.push(format!("check: {}: {error:#}", shown.get_name()));
        }
    }
    for failure in &failures {
        eprintln!("{failure}");
    }
    if !failures.is_empty() {
        bail!("{} of {} checks failed", failures.len(), names.len());
    }
    eprintln!("check: {} checks passed", names.len());
    Ok(())
}

impl Name {
    fn check(self, workspace: &Workspace, detail: Detail) -> Result<()> {
        match self {
            Self::Format => command::run(cargo(workspace).args(["fmt", "--all", "--check"])),
            Self::Clippy => built(workspace, &mut clippy(workspace)),
            Self::ClippyOfTestFeatures => built(workspace, &mut clippy_with_test_features(workspace)),
            Self::Docs => built(workspace, &mut docs(workspace)),
            Self::Forbidden => forbidden::check(&workspace.root),
            Self::Rooms => rooms::check(workspace, detail),
            Self::Python => python(workspace),
            Self::Messages => messages::check(&workspace.root),
            Self::Words => words::check(&workspace.root),
        }
    }
}

/// Runs a command that builds all crates.
fn built(workspace: &Workspace, command: &mut Command) -> Result<()> {
    setup::ensure(workspace, &[Need::BpfBuild])?;
    command::run(command)
}

/// Lints every crate and target of the host. The BPF programs are behind a feature; the build script of xsched-programs compiles
/// them, with their warnings.
fn clippy(workspace: &Workspace) -> Command {
    let mut clippy = cargo(workspace);
    clippy.args(["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"]);
    clippy
}

/// Lints the shim with all features that builds for users lack.
fn clippy_with_test_features(workspace: &Workspace) -> Command {
    let mut clippy = cargo(workspace);
    clippy.args(["clippy", "--package", "xsched-shim", "--package", "xsched-xqueue", "--all-targets"]);
    clippy.args(["--features", "xsched-shim/planted-bugs", "--", "-D", "warnings"]);
    clippy
}

/// Builds the documentation for developers, since nothing is published: with private items, and links to them.
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

/// Checks the types of the package `xsched` and of its tests, as `pyproject.toml` there says.
fn python(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, &[Need::TimelineChecks])?;
    let mut mypy = command::command(setup::python(workspace)?);
    mypy.current_dir(workspace.root.join("shim/python")).args(["-m", "mypy", "--no-error-summary"]);
    command::run(mypy.arg("--cache-dir").arg(workspace.target_dir.join("mypy")))
}

fn cargo(workspace: &Workspace) -> Command {
    command::cargo(&workspace.root)
}
