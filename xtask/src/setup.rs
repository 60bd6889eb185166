//! `cargo xtask setup`: gets everything that the other verbs need, and reports what it could not get.
//!
//! The list of requirements is [`requirements`]. [`plan`] fetches missing things, and explains where that is impossible. A second
//! run finds everything met and does nothing.

mod bpf_linker;
mod debian;
mod kernel;
mod machine;
mod plan;
mod requirements;

use std::{ffi::OsStr, path::PathBuf, process::Command, time::Instant};

use anyhow::{Result, bail};

use self::machine::{Machine, ThisMachine};
pub(crate) use self::requirements::Need;
use crate::{clients, command, venv, workspace::Workspace};

/// The verb: all needs.
pub(crate) fn everything(workspace: &Workspace) -> Result<()> {
    let started = Instant::now();
    let outcomes = [
        ensure(workspace, &Need::ALL),
        perfetto(workspace).map(drop),
        browser(workspace).map(drop),
        python(workspace).map(drop),
        clients::fetch(workspace),
    ];
    command::all(outcomes)?;
    eprintln!("setup: everything is there ({:.1} s)", started.elapsed().as_secs_f64());
    Ok(())
}

/// The Python interpreter with Perfetto's own engine, for `XSCHED_PERFETTO_PYTHON`; made in the target directory if it is not
/// there.
pub(crate) fn perfetto(workspace: &Workspace) -> Result<PathBuf> {
    let requirements = workspace.root.join("tests/perfetto/requirements.txt");
    venv::setup(&workspace.target_dir.join("perfetto-venv"), &requirements)
}

/// The Python interpreter with Playwright, which drives chromium for the viewer's tests; made in the same way.
pub(crate) fn browser(workspace: &Workspace) -> Result<PathBuf> {
    let requirements = workspace.root.join("tests/viewer/requirements.txt");
    venv::setup(&workspace.target_dir.join("browser-venv"), &requirements)
}

/// The Python interpreter that checks and builds the package `xsched`; made in the same way.
pub(crate) fn python(workspace: &Workspace) -> Result<PathBuf> {
    let requirements = workspace.root.join("shim/python/requirements.txt");
    venv::setup(&workspace.target_dir.join("python-venv"), &requirements)
}

/// A verb calls it before its own work; silent when everything is there already.
pub(crate) fn ensure(workspace: &Workspace, needs: &[Need]) -> Result<()> {
    let requirements: Vec<_> = requirements::all().into_iter().filter(|r| needs.contains(&r.need)).collect();
    let unmet = plan::fulfil(&ThisMachine { root: &workspace.root }, &requirements);
    if unmet.is_empty() {
        return Ok(());
    }
    for missing in &unmet {
        eprintln!("{missing}");
    }
    let names: Vec<_> = unmet.iter().map(|missing| missing.name).collect();
    bail!("{} of {} requirements are not met: {}", unmet.len(), requirements.len(), names.join(", "));
}

/// A command that runs with root's rights, if no password is needed for them.
pub(crate) fn privileged(workspace: &Workspace, program: &OsStr) -> Option<Command> {
    (&ThisMachine { root: &workspace.root } as &dyn Machine).privileged(program)
}

/// Like [`ensure`], for things without which the caller can go on: what is missing is printed, not returned.
pub(crate) fn prefer(workspace: &Workspace, needs: &[Need]) {
    if let Err(error) = ensure(workspace, needs) {
        eprintln!("going on: {error}");
    }
}
