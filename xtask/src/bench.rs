//! `cargo xtask bench`: builds a benchmark, runs it, and shows its rows. It judges nothing: a row itself says whether its goal is
//! met.
//!
//! Benchmarks are the binaries `bench-*` of the package of end-to-end tests. They print one JSON object per line on stdout.

mod against;
mod cuda;
pub(crate) mod row;
mod table;

use std::{
    fs,
    io::{BufRead as _, BufReader, IsTerminal as _},
    num::NonZeroUsize,
    process::Stdio,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    artifacts, command, rocm,
    setup::{self, Need},
    subject,
    workspace::{Profile, Target, Workspace},
};

/// Arguments of the verb.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which benchmark; without it, they are listed
    name: Option<String>,
    /// Scenarios of `sched`, parts of `shim`, tables of `cuda`, or bugs of `differential --planted`; all unless some are named
    parts: Vec<String>,
    /// Pass the rows on as JSON, one object a line
    #[arg(long)]
    json: bool,
    /// List the benchmarks
    #[arg(long, exclusive = true)]
    list: bool,
    /// Time limit of a benchmark that can run for any time: `10m`
    #[arg(long)]
    time: Option<String>,
    /// How often `sched` measures each scenario (default 3); more if the noise is as large as the effect
    #[arg(long)]
    rounds: Option<NonZeroUsize>,
    /// First seed of a random benchmark
    #[arg(long)]
    seed: Option<String>,
    /// Have `differential` look for bugs that are put into the shim on purpose
    #[arg(long)]
    planted: bool,
    /// Measure the tree of another commit in the same run; its values are the baseline
    #[arg(long, value_name = "REV")]
    against: Option<String>,
    /// How often each of the two trees is measured with `--against`
    #[arg(long, requires = "against", default_value = "3")]
    turns: NonZeroUsize,
    /// How many messages `fuzz` sends to the controller
    #[arg(long)]
    messages: Option<String>,
    /// Have `fuzz` test a controller with BPF programs
    #[arg(long)]
    bpf: bool,
}

impl Args {
    /// The arguments for the benchmark.
    fn words(&self) -> Vec<String> {
        let rounds = self.rounds.map(|rounds| rounds.to_string());
        let options = [
            ("--time", &self.time),
            ("--rounds", &rounds),
            ("--seed", &self.seed),
            ("--messages", &self.messages),
        ];
        let options =
            options.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
        let switches = [("--planted", self.planted), ("--bpf", self.bpf)];
        let switches = switches.into_iter().filter(|&(_, is_on)| is_on).map(|(name, _)| name.to_owned());
        options.chain(switches).chain(self.parts.clone()).collect()
    }

    /// Refuses options that the benchmark does not take.
    fn check(&self, name: &str) -> Result<()> {
        let is_of_differential = self.time.is_some() || self.planted;
        ensure!(
            !is_of_differential || name == DIFFERENTIAL,
            "only `{DIFFERENTIAL}` takes `--time` and `--planted`"
        );
        ensure!(self.rounds.is_none() || name == SCHED, "only `{SCHED}` takes `--rounds`");
        let is_of_fuzz = self.messages.is_some() || self.bpf;
        ensure!(!is_of_fuzz || name == FUZZ, "only `{FUZZ}` takes `--messages` and `--bpf`");
        ensure!(
            self.seed.is_none() || [DIFFERENTIAL, FUZZ].contains(&name),
            "only `{DIFFERENTIAL}` and `{FUZZ}` take `--seed`"
        );
        ensure!(
            self.parts.is_empty() || [CUDA, SCHED, SHIM].contains(&name) || self.planted,
            "only `{CUDA}`, `{SCHED}`, `{SHIM}` and `{DIFFERENTIAL} --planted` have parts that can be named"
        );
        Ok(())
    }
}

/// The one that wants an NVIDIA GPU, and is no program of ours.
const CUDA: &str = "cuda";
/// The one with AMD's genuine libraries, which fetches them.
const ROCM: &str = "rocm";
/// The one with clients that no other benchmark needs.
const DIFFERENTIAL: &str = "differential";
/// The one that also measures calls while they are deferred.
const SHIM: &str = "shim";
/// The one that needs a browser.
const VIEWER: &str = "viewer";
/// The one that only tests the controller.
const FUZZ: &str = "fuzz";
/// The one with scenarios.
const SCHED: &str = "sched";

const PACKAGE: &str = "xsched-tests";
const PREFIX: &str = "bench-";

/// The verb.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let Some(name) = &args.name else { return list(workspace) };
    if name == CUDA {
        args.check(name)?;
        ensure!(
            args.against.is_none() && !args.json,
            "`{CUDA}` prints tables: it takes neither `--against` nor `--json`"
        );
        return cuda::run(workspace, &args.parts);
    }
    if name == ROCM {
        args.check(name)?;
        ensure!(args.against.is_none(), "`{ROCM}` compares with native runs: it takes no `--against`");
        let mut table = table::Table::new(std::io::stdout().is_terminal());
        return rocm::measure(workspace, |row| {
            println!("{}", if args.json { row.to_owned() } else { table.line(row)? });
            Ok(())
        });
    }
    let Some(bench) = benches(workspace).find(|(known, _)| known == name).map(|(_, target)| target) else {
        let known: Vec<_> = benches(workspace).map(|(known, _)| known).chain([CUDA, ROCM]).collect();
        bail!("no benchmark `{name}`; there are: {}", known.join(", "));
    };
    args.check(name)?;
    if let Some(revision) = &args.against {
        return compare(workspace, name, args, revision);
    }
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms])?;
    setup::prefer(workspace, &[Need::Kernel]);
    let mut variables = subject::build_for_benchmarks(workspace)?;
    if name == VIEWER {
        setup::prefer(workspace, &[Need::SingleTests]);
        variables.push(("XSCHED_BROWSER_PYTHON", setup::browser(workspace)?.into()));
    }
    if name == SHIM {
        // Only what is measured while the shim defers calls is measured with it.
        variables
            .push(("XSCHED_SWITCHABLE_SHIM", subject::build_shim_with(workspace, "test-switches")?.into()));
    }
    if name == DIFFERENTIAL {
        let feature = if args.planted { "planted-bugs" } else { "test-switches" };
        variables.push(("XSCHED_SHIM", subject::build_shim_with(workspace, feature)?.into()));
        artifacts::build_differential(workspace)?;
    }
    command::run(
        command::cargo(&workspace.root)
            .args(["build", "--package", PACKAGE, "--bin", &bench.name])
            .args(Profile::Release.arguments()),
    )?;
    let mut program = command::command(workspace.built(Profile::Release, &bench.name));
    program.args(args.words()).stdin(Stdio::null()).envs(variables);
    if args.json {
        return command::run(&mut program);
    }

    command::announce(&program);
    let mut child =
        program.stdout(Stdio::piped()).spawn().with_context(|| format!("failed to start {}", bench.name))?;
    let rows = child.stdout.take().expect("it was asked for in the line above");
    let mut table = table::Table::new(std::io::stdout().is_terminal());
    for row in BufReader::new(rows).lines() {
        println!("{}", table.line(&row?)?);
    }
    let status = child.wait()?;
    ensure!(status.success(), "{} ended with {status}", bench.name);
    Ok(())
}

/// Prints rows with another commit's values as their baselines.
fn compare(workspace: &Workspace, name: &str, args: &Args, revision: &str) -> Result<()> {
    let mut table = table::Table::new(std::io::stdout().is_terminal());
    against::run(workspace, name, &args.words(), revision, args.turns.get(), |row| {
        println!("{}", if args.json { row.to_owned() } else { table.line(row)? });
        Ok(())
    })
}

fn list(workspace: &Workspace) -> Result<()> {
    for (name, target) in benches(workspace) {
        let source = fs::read_to_string(&target.src_path)
            .with_context(|| format!("failed to read {}", target.src_path.display()))?;
        println!("{name:10} {}", headline(&source));
    }
    println!("{ROCM:10} AMD's genuine libraries on the null runtime, natively and with the shim in turn.");
    println!("{CUDA:10} On an NVIDIA GPU: the tables of docs/cuda.md.");
    Ok(())
}

/// Names without the prefix, with their targets.
fn benches(workspace: &Workspace) -> impl Iterator<Item = (&str, &Target)> {
    workspace.binaries(PACKAGE).filter_map(|target| Some((target.name.strip_prefix(PREFIX)?, target)))
}

/// The first sentence of a file's header.
fn headline(source: &str) -> String {
    let header = source.lines().map_while(|line| line.strip_prefix("//!"));
    let paragraph: Vec<_> = header.map(str::trim).take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_is_the_first_paragraph_of_the_header() {
        assert_eq!(
            headline("//! Time per call,\n//! paired.\n//!\n//! More.\nfn main() {}"),
            "Time per call, paired."
        );
        assert_eq!(headline("fn main() {}"), "");
    }
}
