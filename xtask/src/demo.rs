//! `cargo xtask demo`: from a fresh checkout to a timeline.

mod sched;

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;

use crate::{
    artifacts, command,
    setup::{self, Need},
    workspace::{Profile, Workspace},
};

/// Left in the current folder; git ignores its extension.
const TIMELINE: &str = "run.perfetto";

/// Arguments of the verb.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    other: Option<Other>,
}

/// Demonstrations besides a timeline of calls.
#[derive(Subcommand)]
enum Other {
    /// An online service beside a batch job, on a simulated device: alone, natively and under xsched-ctl
    Sched,
}

/// The verb.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    match args.other {
        None => record(workspace),
        Some(Other::Sched) => sched::run(workspace),
    }
}

fn record(workspace: &Workspace) -> Result<()> {
    eprintln!("demo: requirements; the first time all four steps take some minutes");
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms, Need::Kernel])?;
    eprintln!("demo: a simulated HIP runtime, and a HIP program");
    let program = artifacts::build_demo(workspace)?;
    build_commands(workspace)?;

    eprintln!("demo: a recording of the program");
    let mut trace = vec![workspace.built(Profile::Release, "xsched-ctl").into_os_string()];
    trace.extend(["trace", "-o", TIMELINE, "--"].map(Into::into));
    trace.push(program.into_os_string());
    trace.extend(["--launches", "300", "--threads", "4"].map(Into::into));
    command::run(&mut as_root(workspace, &trace)?)?;
    show_timeline(workspace, &here(TIMELINE)?);
    Ok(())
}

/// Builds the programs that users install.
fn build_commands(workspace: &Workspace) -> Result<()> {
    eprintln!("demo: xsched-ctl, its BPF programs and the shim; this takes the most time");
    command::run(
        command::cargo(&workspace.root)
            .args(["build", "--package", "xsched-ctl", "--package", "xsched-shim"])
            .args(Profile::Release.arguments()),
    )
}

/// A file in the current folder.
fn here(name: &str) -> Result<PathBuf> {
    Ok(env::current_dir().context("failed to find the current folder")?.join(name))
}

/// Shows where a recording is and how to view it.
fn show_timeline(workspace: &Workspace, timeline: &Path) {
    println!("{}", timeline.display());
    eprintln!("That is the timeline. To view it offline:");
    let mut view = Command::new(workspace.built(Profile::Release, "xsched-ctl"));
    view.arg("view").args(timeline.file_name());
    eprintln!("    {}", command::shown(&view));
    eprintln!(
        "It also opens at https://ui.perfetto.dev (\"Open trace file\"; the browser reads it and sends it nowhere)."
    );
}

/// Gives root's rights to the traced command only, and only if no password is needed.
fn as_root(workspace: &Workspace, words: &[OsString]) -> Result<Command> {
    let Some(mut command) = setup::privileged(workspace, &words[0]) else {
        let mut typed = Command::new("sudo");
        typed.args(words);
        bail!("tracing needs root; everything is built, so type:\n    {}", command::shown(&typed));
    };
    command.args(&words[1..]);
    Ok(command)
}
