//! `cargo xtask test`: builds what the tests drive, runs them with the best runner there is, and closes with one line.

mod tally;

use std::{
    io::{BufRead as _, BufReader, IsTerminal as _, Write as _},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use self::tally::Tally;
use crate::{
    artifacts, clients, command,
    setup::{self, Need},
    subject, vm,
    workspace::Workspace,
};

/// Arguments of the verb.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only tests whose name contains this
    filter: Option<String>,
    /// Run the tests of the virtual machine instead: AMD's own driver and HIP runtime on a stand-in GPU, under the
    /// kernels of Debian 12 and its backports
    #[arg(long)]
    vm: bool,
}

/// Its tests share the kernel's probes and this machine's cores, so they run one after the other.
const END_TO_END: &str = "xsched-tests";

/// The verb.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if args.vm {
        return vm::run(workspace, args.filter.as_deref());
    }
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms, Need::TimelineChecks])?;
    // End-to-end tests that this kernel or user cannot serve skip themselves and say why.
    setup::prefer(workspace, &[Need::Kernel, Need::SingleTests]);
    // So do tests of other people's programs where their registries are out of reach.
    if let Err(error) = clients::fetch(workspace) {
        eprintln!("going on: {error:#}");
    }
    let browser = setup::browser(workspace);
    if let Err(error) = &browser {
        eprintln!("going on: {error:#}");
    }
    let mut variables = subject::build_for_tests(workspace)?;
    variables.extend(browser.ok().map(|python| ("XSCHED_BROWSER_PYTHON", python.into())));
    artifacts::Suite::simulated(workspace).build()?;
    artifacts::build_differential(workspace)?;
    // Tests run side by side: each of their processes has a device to itself unless the test names one.
    variables.push(("HIP_SIM_SHARED", "off".into()));
    variables.push(("XSCHED_PERFETTO_PYTHON", setup::perfetto(workspace)?.into()));

    let mut tally = Tally::default();
    let mut all_succeeded = true;
    for mut runner in runners(workspace, args) {
        runner.envs(variables.iter().map(|(name, value)| (name, value)));
        all_succeeded &= watch(&mut runner, &mut tally)?;
    }
    eprintln!("{tally}");
    if !all_succeeded {
        bail!("tests failed");
    }
    Ok(())
}

/// nextest where it is installed, with the groups of `.config/nextest.toml`; else cargo's own, in two runs with the
/// same effect. Documentation tests are cargo's in both cases.
fn runners(workspace: &Workspace, args: &Args) -> Vec<Command> {
    let has_nextest = command::cargo(&workspace.root)
        .args(["nextest", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    let cargo = |arguments: &[&str], filter_after: &[&str]| {
        let mut cargo = command::cargo(&workspace.root);
        cargo.args(arguments);
        if arguments.contains(&"--workspace") {
            // The shim for tests stays where it was built.
            cargo.args(subject::WITH_SWITCHES);
        }
        cargo.args(&args.filter).args(filter_after);
        if std::io::stderr().is_terminal() {
            cargo.env("CARGO_TERM_COLOR", "always"); // they see a pipe, whose other end is a terminal
        }
        cargo
    };
    let mut runners = if has_nextest {
        vec![cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "--no-tests", "pass"], &[])]
    } else {
        let hosts =
            ["test", "--workspace", "--exclude", END_TO_END, "--lib", "--bins", "--tests", "--no-fail-fast"];
        let end_to_end = ["test", "--package", END_TO_END, "--lib", "--bins", "--tests", "--no-fail-fast"];
        vec![cargo(&hosts, &[]), cargo(&end_to_end, &["--", "--test-threads=1"])]
    };
    runners.push(cargo(&["test", "--workspace", "--doc", "--no-fail-fast"], &[]));
    runners
}

/// Runs a runner, passing its output on and counting what it reports; true if it succeeded.
fn watch(runner: &mut Command, tally: &mut Tally) -> Result<bool> {
    command::announce(runner);
    tally.begin_run();
    // One pipe for both streams keeps their lines in order; everything a test run says is for people: stderr.
    let (read, write) = std::io::pipe().context("failed to make a pipe")?;
    runner.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write);
    let mut child = runner.spawn().context("failed to start cargo")?;
    runner.stdout(Stdio::null()).stderr(Stdio::null()); // closes this side's ends, so that the pipe can end
    let mut lines = BufReader::new(read);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        std::io::stderr().write_all(&line)?;
        tally.read(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(child.wait()?.success())
}
