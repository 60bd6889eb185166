//! `cargo xtask demo`: from a fresh checkout to a timeline that one can look at.

use std::{env, ffi::OsString, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::{
    artifacts, command,
    setup::{self, Need},
    workspace::{Profile, Workspace},
};

/// Left in the current folder; git ignores its ending.
const TIMELINE: &str = "run.perfetto";

/// The verb.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms, Need::Kernel])?;
    artifacts::build(workspace)?;
    command::run(
        command::cargo(&workspace.root)
            .args(["build", "--package", "xsched-ctl"])
            .args(Profile::Release.arguments()),
    )?;

    let program = workspace.target_dir.join("apps/two_libraries");
    let mut trace = vec![workspace.built(Profile::Release, "xsched-ctl").into_os_string()];
    trace.extend(["trace", "-o", TIMELINE, "--"].map(Into::into));
    trace.extend([program.into_os_string(), "--launches".into(), "300".into()]);
    command::run(&mut as_root(workspace, &trace)?)?;

    let timeline = env::current_dir().context("failed to find the current folder")?.join(TIMELINE);
    println!("{}", timeline.display());
    eprintln!(
        "Open it at https://ui.perfetto.dev (\"Open trace file\"; the browser reads it, nobody else), or type:"
    );
    let command = workspace.built(Profile::Release, "xsched-ctl");
    eprintln!("    {} view {TIMELINE}", command.display());
    Ok(())
}

/// Only the traced command gets root's rights, and only where nothing has to be asked for them.
fn as_root(workspace: &Workspace, words: &[OsString]) -> Result<Command> {
    let Some(mut command) = setup::privileged(workspace, &words[0]) else {
        let mut typed = Command::new("sudo");
        typed.args(words);
        bail!("tracing needs root; everything is built, so type:\n    {}", command::shown(&typed));
    };
    command.args(&words[1..]);
    Ok(command)
}
