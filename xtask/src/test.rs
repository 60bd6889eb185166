//! `cargo xtask test`: builds what the tests drive, runs them with the best runner there is, and closes with one line.

mod harnesses;
mod ignored;
mod skips;
mod tally;

use std::{
    env, fs,
    io::{BufRead as _, BufReader, IsTerminal as _, Write as _},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use self::{ignored::Ignored, skips::Skips, tally::Tally};
use crate::{
    artifacts, clients, command, kernels, rocm,
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
    /// kernels of Debian 12 and its backports; with the filter `timed` only what wants time to go by instructions
    #[arg(long)]
    vm: bool,
    /// Run AMD's genuine libraries on the simulated runtime instead: natively, with the shim, suspended, beside urgent
    /// work and traced. Fetches 3 GB into the cache folder of the user at first
    #[arg(long, conflicts_with = "vm")]
    rocm: bool,
    /// Try what works under the kernels of distributions instead, in virtual machines: a list such as 6.1,7.2, or those of
    /// docs/kernels.md
    #[arg(long, value_name = "LIST", num_args = 0..=1, value_delimiter = ',', conflicts_with_all = ["vm", "rocm"])]
    kernels: Option<Vec<String>>,
}

/// Its tests share the kernel's probes and this machine's cores, so they run one after the other.
const END_TO_END: &str = "xsched-tests";

/// The verb.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if args.vm {
        return vm::run(workspace, args.filter.as_deref());
    }
    if args.rocm {
        return rocm::run(workspace, args.filter.as_deref());
    }
    if let Some(list) = &args.kernels {
        return kernels::run(workspace, list);
    }
    harnesses::check(&workspace.root)?;
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms, Need::TimelineChecks])?;
    // Tests that this kernel or user cannot serve are skipped, and counted with the reason.
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

    // Test programs name their skipped tests in files of this folder.
    let folder = workspace.target_dir.join("skipped");
    let _ = fs::remove_dir_all(&folder); // of the run before
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    variables.push(("XSCHED_SKIPPED_DIR", folder.clone().into()));

    let ignored = ignored::find(&workspace.root)?;
    let mut tally = Tally::default();
    let mut skipped_by_runners = 0;
    let mut all_succeeded = true;
    for (kind, mut runner) in runners(workspace, args, &ignored) {
        runner.envs(variables.iter().map(|(name, value)| (name, value)));
        let (succeeded, counts) = watch(&mut runner)?;
        all_succeeded &= succeeded;
        tally += counts;
        skipped_by_runners += if kind == Kind::Main { counts.skipped } else { 0 };
    }
    let mut skips = Skips::default();
    skips.read(&folder)?;
    let explained = (skips.0.len() + ignored.to_run.len() + ignored.skipped.len()) as u64;
    skips.0.extend(ignored.skipped);
    skips.retain(args.filter.as_deref());
    // With a filter, runners count what it leaves out as skipped, too.
    let unexplained = if args.filter.is_none() { skipped_by_runners.saturating_sub(explained) } else { 0 };
    eprint!("{skips}");
    let skipped = skips.0.len() as u64 + unexplained;
    eprintln!("{} passed, {} failed, {skipped} skipped", tally.passed, tally.failed);
    let is_ci = env::var_os("CI").is_some_and(|value| value == "true");
    verdict(is_ci, all_succeeded, &skips, unexplained)
}

/// An error unless the run has shown what it should. Outside of CI a machine may lack what tests need.
fn verdict(is_ci: bool, all_succeeded: bool, skips: &Skips, unexplained: u64) -> Result<()> {
    if !all_succeeded {
        bail!("tests failed");
    }
    if unexplained > 0 {
        bail!("{unexplained} tests were skipped, and nothing says why");
    }
    let unmet = skips.unmet_in_ci();
    if is_ci && !unmet.is_empty() {
        bail!("in CI every test runs, but this machine does not meet: {}", unmet.join(", "));
    }
    Ok(())
}

/// What a runner runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All tests but ignored ones: each ignored one counts as skipped.
    Main,
    /// Tests with `#[ignore = "needs .."]` whose need is met.
    Ignored,
    /// Examples in documentation.
    Documentation,
}

/// nextest where it is installed, with the groups of `.config/nextest.toml`; else cargo's own, in two runs with the
/// same effect. Documentation tests are cargo's in both cases.
fn runners(workspace: &Workspace, args: &Args, ignored: &Ignored) -> Vec<(Kind, Command)> {
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
    let mut runners = Vec::new();
    if has_nextest {
        let nextest = ["nextest", "run", "--workspace", "--no-fail-fast", "--no-tests", "pass"];
        runners.push((Kind::Main, cargo(&nextest, &[])));
        if !ignored.to_run.is_empty() {
            let names = format!("test(/(^|::)({})$/)", ignored.to_run.join("|"));
            let these = ["--run-ignored", "only", "--filterset", &names];
            runners.push((Kind::Ignored, cargo(&[&nextest[..], &these].concat(), &[])));
        }
    } else {
        let hosts =
            ["test", "--workspace", "--exclude", END_TO_END, "--lib", "--bins", "--tests", "--no-fail-fast"];
        let end_to_end = ["test", "--package", END_TO_END, "--lib", "--bins", "--tests", "--no-fail-fast"];
        runners.push((Kind::Main, cargo(&hosts, &[])));
        runners.push((Kind::Main, cargo(&end_to_end, &["--", "--test-threads=1"])));
        // A filter in front of the names would run what fits either.
        let is_wanted = |name: &&String| args.filter.as_ref().is_none_or(|filter| name.contains(filter));
        let wanted: Vec<_> = ignored.to_run.iter().filter(is_wanted).collect();
        if !wanted.is_empty() {
            let mut test = command::cargo(&workspace.root);
            test.args(["test", "--workspace", "--lib", "--bins", "--no-fail-fast", "--", "--ignored"]);
            test.args(wanted);
            runners.push((Kind::Ignored, test));
        }
    }
    runners.push((Kind::Documentation, cargo(&["test", "--workspace", "--doc", "--no-fail-fast"], &[])));
    runners
}

/// Runs a runner, passing its output on; whether it succeeded, and what it has counted.
fn watch(runner: &mut Command) -> Result<(bool, Tally)> {
    command::announce(runner);
    let mut tally = Tally::default();
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
    Ok((child.wait()?.success(), tally))
}

#[cfg(test)]
mod tests {
    use super::{skips::Skip, *};

    fn skips(needs: &[&str]) -> Skips {
        let skip = |need: &&str| Skip { need: (*need).to_owned(), reason: "absent".into(), test: "t".into() };
        Skips(needs.iter().map(skip).collect())
    }

    fn error(is_ci: bool, all_succeeded: bool, skips: &Skips, unexplained: u64) -> Option<String> {
        verdict(is_ci, all_succeeded, skips, unexplained).err().map(|error| error.to_string())
    }

    #[test]
    fn a_machine_may_lack_what_tests_need_and_ci_may_not() {
        let lacking = skips(&["root", "browser", "virtual machine", "root"]);
        assert_eq!(error(false, true, &lacking, 0), None);
        let expected = "in CI every test runs, but this machine does not meet: browser, root";
        assert_eq!(error(true, true, &lacking, 0).as_deref(), Some(expected));
        assert_eq!(error(true, true, &skips(&["virtual machine"]), 0), None);
        assert_eq!(error(true, true, &skips(&[]), 0), None);
    }

    #[test]
    fn a_failure_and_a_skip_without_a_reason_fail_the_run_everywhere() {
        assert_eq!(error(false, false, &skips(&[]), 0).as_deref(), Some("tests failed"));
        let expected = "2 tests were skipped, and nothing says why";
        assert_eq!(error(false, true, &skips(&["root"]), 2).as_deref(), Some(expected));
    }
}
