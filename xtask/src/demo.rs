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
    eprintln!("demo: what is needed; the first time all four steps take some minutes");
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms, Need::Kernel])?;
    eprintln!("demo: a simulated HIP runtime, and a HIP program");
    let program = artifacts::build_demo(workspace)?;
    eprintln!("demo: xsched-ctl, its BPF programs and the shim; most of the time goes here");
    command::run(
        command::cargo(&workspace.root)
            .args(["build", "--package", "xsched-ctl", "--package", "xsched-shim"])
            .args(Profile::Release.arguments()),
    )?;

    eprintln!("demo: a recording of the program");
    let mut trace = vec![workspace.built(Profile::Release, "xsched-ctl").into_os_string()];
    trace.extend(["trace", "-o", TIMELINE, "--"].map(Into::into));
    trace.extend([program.into_os_string(), "--launches".into(), "300".into()]);
    command::run(&mut as_root(workspace, &trace)?)?;

    let xsched_ctl = workspace.built(Profile::Release, "xsched-ctl");
    let timeline = env::current_dir().context("failed to find the current folder")?.join(TIMELINE);
    println!("{}", timeline.display());
    eprintln!("That is the timeline. To look at it, offline:");
    eprintln!("    {} view {TIMELINE}", xsched_ctl.display());
    eprintln!(
        "It also opens at https://ui.perfetto.dev (\"Open trace file\"; the browser reads it, nobody else)."
    );
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
