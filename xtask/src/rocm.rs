//! `cargo xtask test --rocm`: AMD's genuine libraries on the simulated runtime, natively and in every way in which xsched-ctl
//! touches a program.
//!
//! [`root`] makes a root file system of Debian sid, which has them. Programs of `tests/rocm` call them, and llama.cpp does. They run
//! in it ([`inside`]), in each way of [`ways`]. What they do must not depend on the way; [`matrix`] shows it. Then [`field`] has the
//! field kit call two of the libraries. [`kfd`], if it is named, runs programs on AMD's own runtimes. [`speed`] is a benchmark.

mod field;
mod inside;
mod kfd;
mod matrix;
mod order;
pub(crate) mod programs;
mod recording;
pub(crate) mod root;
mod speed;
mod summary;
mod ways;

use anyhow::{Result, bail};

pub(crate) use speed::measure;

use self::{matrix::Matrix, programs::Program, root::Root, ways::Stage};
use crate::{
    artifacts,
    setup::{self, Need},
    subject,
    workspace::Workspace,
};

/// Runs the programs whose name contains `filter` in every way; an error if one is worse in some way than natively.
pub(crate) fn run(workspace: &Workspace, filter: Option<&str>) -> Result<()> {
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms, Need::Kernel, Need::Rocm])?;
    let root = Root::make()?;
    for line in root.versions()? {
        eprintln!("rocm: the archive served {line}");
    }
    // Only if it is named: of what the others need, it takes the root file system.
    if let Some(name @ (kfd::NAME | kfd::RANDOM)) = filter {
        return kfd::run(workspace, &root, name == kfd::RANDOM);
    }
    let is_wanted = |name: &str| name.contains(filter.unwrap_or(""));
    let programs: Vec<_> = Program::ALL.iter().filter(|program| is_wanted(program.name)).collect();
    if programs.is_empty() && !is_wanted(field::NAME) {
        let known: Vec<_> = Program::ALL
            .iter()
            .map(|program| program.name)
            .chain([field::NAME, kfd::NAME, kfd::RANDOM])
            .collect();
        bail!("no program `{}`; there are: {}", filter.unwrap_or(""), known.join(", "));
    }
    let stage = prepare(workspace, root)?;
    let verdict = if programs.is_empty() { Ok(()) } else { compare(&stage, &programs) };
    if is_wanted(field::NAME) {
        field::run(&stage)?;
    }
    verdict
}

/// Prints the matrix of these programs.
fn compare(stage: &Stage, programs: &[&Program]) -> Result<()> {
    let mut matrix = Matrix::default();
    for program in programs {
        matrix.add(program, stage.row(program)?);
    }
    println!("{matrix}");
    matrix.verdict()
}

/// Builds what is run.
fn prepare(workspace: &Workspace, root: Root) -> Result<Stage> {
    subject::build_with_switches(workspace)?;
    build_programs(workspace, &root)?;
    Ok(Stage::new(workspace, root))
}

/// Builds programs and runtimes.
fn build_programs(workspace: &Workspace, root: &Root) -> Result<()> {
    artifacts::build_runtimes(workspace)?;
    for program in Program::ALL.iter().filter(|program| program.is_served(root)) {
        if let Some(links) = program.links(root) {
            artifacts::build_genuine(workspace, program.source, &root.rocm(), &links)?;
        }
    }
    programs::make_model(workspace, &programs::model(&workspace.target_dir), "float16")
}
