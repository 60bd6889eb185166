//! `cargo xtask xsched-examples`: XSched's own examples, unchanged, on this scheduler's headers and libraries.
//!
//! The examples are those of [XSched](https://github.com/XpuOS/xsched) at its release that `docs/xsched.md` compares with: 1 to 4 and
//! 8. They run on the simulated device, as their own pages say, and are judged as these do: by how long tasks of high priority take
//! beside others, compared with tasks alone. The device's times are simulated, and the host's are this machine's.

mod output;
mod programs;
mod runs;
mod source;
mod table;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::{
    artifacts,
    setup::{self, Need},
    subject,
    workspace::Workspace,
};
use programs::{Programs, Subject};
use runs::Stage;
use table::Row;

/// Arguments of the verb.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Numbers of examples; all unless some are named
    examples: Vec<u8>,
    /// A checkout of XSched at v1.2.0; without it, that is cloned once
    #[arg(long, value_name = "FOLDER")]
    source: Option<PathBuf>,
    /// How many tasks of high priority are timed, for each example
    #[arg(long, default_value = "30")]
    tasks: NonZeroUsize,
    /// Where XSched itself is installed, with support for HIP: its own figures are shown beside
    #[arg(long, value_name = "FOLDER")]
    xsched: Option<PathBuf>,
    /// Print one JSON object a line, for each example
    #[arg(long)]
    json: bool,
}

/// The verb: a line for each example; an error if any was not built, did not run or misses the criterion.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let examples = programs::named(&args.examples)?;
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms])?;
    let source = source::checkout(workspace, args.source.as_deref())?;
    let runtime = artifacts::build_runtimes(workspace)?.join(programs::RUNTIME);
    subject::build_for_users(workspace)?;
    let programs = Programs::new(workspace, &source, runtime)?;
    let (ours, tasks) = (Subject::ours(workspace)?, args.tasks.get());
    let theirs = args.xsched.as_deref().map(|installed| Subject::xscheds(workspace, installed));
    let stage = Stage::new(&ours, &programs)?;
    let beside = theirs.as_ref().map(|theirs| Stage::new(theirs, &programs)).transpose()?;
    let mut rows = Vec::new();
    for example in examples {
        let by_xsched = beside.as_ref().map(|stage| stage.try_out(example, tasks));
        let row = Row::new(example, stage.try_out(example, tasks), by_xsched);
        if args.json {
            println!("{}", row.json()?);
        } else {
            eprintln!("example {}: {}", example.number, row.verdict());
        }
        rows.push(row);
    }
    if !args.json {
        println!("{}", table::of(&rows));
    }
    let failed: Vec<_> = rows.iter().filter(|row| !row.has_passed()).map(Row::number).collect();
    ensure!(failed.is_empty(), "examples that do not pass: {}", failed.join(", "));
    Ok(())
}
