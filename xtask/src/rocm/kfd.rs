//! `cargo xtask test --rocm kfd`: AMD's own runtimes, ROCm 6.4 and 7.2, on the kernel driver in user space of `tests/kfd-sim`.
//!
//! Kernels compute there. So programs of `tests/vm/programs` compare their results with the host's, natively and while they are
//! suspended at random. A run counts if all its results are right, if the device has executed kernels, and if the shim has deferred
//! some of them. llama.cpp must find the same tokens as by its own CPU back end.
//!
//! `cargo xtask test --rocm kfd-random` runs random programs of `tests/differential` there, which must do the same in each way. Some do not:
//! its README.md says which, and what is known.

use std::{
    env, fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};

use super::{
    inside::Inside,
    programs::{self, Release},
    root::Root,
    summary::Summary,
};
use crate::{
    artifacts, command, subject,
    workspace::{Profile, Workspace},
};

/// What `cargo xtask test --rocm` calls this.
pub(super) const NAME: &str = "kfd";

/// The same for random programs.
pub(super) const RANDOM: &str = "kfd-random";

/// The device's processor.
const ARCH: &str = "gfx900";

/// How long a program may take, in seconds.
const TIME_MAX_S: &str = "300";

/// Ways to suspend programs.
const SUSPENDED: [&str; 2] = ["random:1", "random:2"];

/// A program of `tests/vm/programs`, with its arguments.
struct Program {
    name: &'static str,
    words: &'static [&'static str],
}

const PROGRAMS: [Program; 3] = [
    Program { name: "computes", words: &[] },
    Program { name: "numbers", words: &["all"] },
    Program { name: "products", words: &["mended"] },
];

/// What its device can do, and what the runtimes do as the programs assume (`tests/differential/src/repertoire.rs`).
const REPERTOIRE: &str = "rocm-6.4";

/// Random programs, unless `XSCHED_TEST_SEEDS` says how many.
const RANDOM_PROGRAMS: usize = 60;

/// Random programs are short.
const SUSPENDED_RANDOM: [&str; 2] = ["random:1:5000", "random:2:1000"];

/// Model and options follow. Tokens are bytes, which are no text.
const LLAMA: &str = "llama-completion -p hello -n 32 --temp 0 --ignore-eos -no-cnv --no-warmup -t 1 -fa off -ctk f32 -ctv f32 \
                     -m \"$@\" | od -A n -v -t x1";

/// What a run has left.
struct Run {
    lines: Vec<String>,
    /// Kernels that the device has executed, and their instructions.
    kernels: u64,
    instructions: u64,
    seconds: f64,
    deferred: u64,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millions = self.instructions as f64 / 1e6;
        write!(f, "{} kernels, {millions:.1} M instructions, {:.1} s", self.kernels, self.seconds)?;
        if self.deferred > 0 { write!(f, ", {} deferred", self.deferred) } else { Ok(()) }
    }
}

/// Where programs run.
struct Stage<'a> {
    workspace: &'a Workspace,
    root: &'a Root,
    shim: PathBuf,
    folder: PathBuf,
}

/// Runs every program with both releases, natively and suspended, or else random ones; an error if a run is not right.
pub(super) fn run(workspace: &Workspace, root: &Root, is_random: bool) -> Result<()> {
    let shim = subject::build_shim_with(workspace, "test-switches")?;
    command::run(command::cargo(&workspace.root).args(["build", "--package", "kfd-sim"]))?;
    let folder = workspace.target_dir.join("rocm/kfd");
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let stage = Stage { workspace, root, shim, folder };
    let mut outcomes = Vec::new();
    for release in [Release::Six, Release::Seven] {
        if is_random {
            outcomes.push(stage.random_programs(release));
            continue;
        }
        for program in &PROGRAMS {
            outcomes.push(stage.row(program, release));
        }
        if release == Release::Six {
            outcomes.push(stage.llama());
        }
    }
    command::all(outcomes)
}

impl Stage<'_> {
    /// A program in all ways; prints a line for each.
    fn row(&self, program: &Program, release: Release) -> Result<()> {
        let executable = self.folder.join(format!("{}-{}", program.name, release.major()));
        let options = ["-Wl,--allow-shlib-undefined"];
        artifacts::program_for_vm(
            self.workspace,
            program.name,
            &executable,
            &self.runtime(release),
            &options,
        )?;
        let run = |suspended: Option<&str>| {
            let way = Way { program: program.name, release, suspended };
            let run = self.on_device(way, &executable, program.words)?;
            judge(&run.lines).with_context(|| way.to_string())?;
            println!("{way}: right, {run}");
            anyhow::Ok(run)
        };
        let native = run(None)?;
        for suspended in SUSPENDED {
            let other = run(Some(suspended))?;
            ensure!(
                other.lines == native.lines,
                "{}, {suspended}: {:?}, natively {:?}",
                program.name,
                other.lines,
                native.lines
            );
        }
        Ok(())
    }

    /// Random programs, twice natively and then suspended; an error if one does not do the same.
    fn random_programs(&self, release: Release) -> Result<()> {
        let runtime = (release.major(), self.runtime(release));
        let [executable, _] = artifacts::differential_for_kfd(self.workspace, runtime)?;
        let seeds = env::var("XSCHED_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
        let count: usize = seeds.unwrap_or(RANDOM_PROGRAMS);
        let words = ["seeds", "0", &count.to_string()];
        let mut native = Vec::new();
        for suspended in [None, None].into_iter().chain(SUSPENDED_RANDOM.map(Some)) {
            let way = Way { program: "random programs", release, suspended };
            let run = self.on_device(way, &executable, &words)?;
            ensure!(run.lines.len() == count, "{way}: {} of {count} programs", run.lines.len());
            if native.is_empty() {
                native.clone_from(&run.lines);
            }
            let differing = differing(&native, &run.lines);
            ensure!(differing.is_empty(), "{way}: other than natively at first: {differing:?}");
            println!("{way}: {count} did the same, {run}");
        }
        Ok(())
    }

    /// llama.cpp's most likely tokens for a prompt, all layers on the device, compared with those of its own CPU back end.
    fn llama(&self) -> Result<()> {
        let model = self.folder.join("tiny.gguf");
        programs::make_model(self.workspace, &model, "float32")?;
        let (bash, model) = (Path::new("/usr/bin/bash"), model.display().to_string());
        let words = ["-o", "pipefail", "-c", LLAMA, "llama", model.as_str()];
        let of = |suspended| Way { program: "llama.cpp", release: Release::Six, suspended };
        let way = of(None);
        let on_processor = [&words[..], &["-ngl", "0", "--device", "none"]].concat();
        let on_processor = self.once(way, bash, &on_processor).with_context(|| way.to_string())?;
        ensure!(on_processor.kernels == 0, "{way}: its CPU back end uses the device");
        ensure!(!on_processor.lines.is_empty(), "{way}: it has no answer");
        let on_device = [&words[..], &["-ngl", "99"]].concat();
        for suspended in [None].into_iter().chain(SUSPENDED.map(Some)) {
            let way = of(suspended);
            let run = self.on_device(way, bash, &on_device)?;
            let (ours, theirs) = (&run.lines, &on_processor.lines);
            ensure!(ours == theirs, "{way}: {ours:?}, by a processor {theirs:?}");
            println!("{way}: the tokens of its CPU back end, {run}");
        }
        Ok(())
    }

    /// The release's runtime in the root file system.
    fn runtime(&self, release: Release) -> PathBuf {
        let library = format!("{}/libamdhip64.so.{}", &release.libraries()[1..], release.major());
        self.root.path().join(library)
    }

    /// A run that must have used the device, and the shim if it is suspended.
    fn on_device(&self, way: Way<'_>, executable: &Path, words: &[&str]) -> Result<Run> {
        let run = self.once(way, executable, words).and_then(|run| {
            ensure!(run.kernels > 0, "the device has executed no kernel");
            ensure!(way.suspended.is_none() || run.deferred > 0, "the shim has deferred nothing");
            Ok(run)
        });
        run.with_context(|| way.to_string())
    }

    fn once(&self, way: Way<'_>, executable: &Path, words: &[&str]) -> Result<Run> {
        let (log, shim_log) = (self.folder.join("kernels"), self.folder.join("shim"));
        for left in [&log, &shim_log] {
            let _ = fs::remove_file(left); // of an earlier run
        }
        let output = self.folder.join("output");
        let begin = Instant::now();
        let mut command = self.command(way, &log, &shim_log);
        command.args(["-k", "5", TIME_MAX_S]).arg(executable).args(words);
        command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(Stdio::inherit());
        let status = command.status().context("failed to start bwrap")?;
        let seconds = begin.elapsed().as_secs_f64();
        let printed = fs::read_to_string(&output).context("failed to read what the program printed")?;
        ensure!(status.success(), "{status}: {printed}");
        let (kernels, instructions) = executed(&fs::read_to_string(&log).unwrap_or_default());
        let summary = Summary::read(&shim_log);
        let deferred = summary.count("passed on because", "deferred");
        if way.suspended.is_some() {
            ensure!(summary.is_there(), "the shim has seen no call");
            let trouble = summary.trouble();
            ensure!(trouble.is_empty(), "the shim's trouble: {trouble:?}");
        }
        let lines = printed.lines().map(str::to_owned).collect();
        Ok(Run { lines, kernels, instructions, seconds, deferred })
    }

    /// The command before the program, with the driver and, if it is suspended, the shim.
    fn command(&self, way: Way<'_>, log: &Path, shim_log: &Path) -> Command {
        let (major, libraries) = (way.release.major(), way.release.libraries());
        let driver = self.workspace.built(Profile::Debug, "libkfd_sim.so");
        let mut preloaded = vec![driver.display().to_string(), format!("{libraries}/libhiprtc.so.{major}")];
        let mut inside = Inside::simulated(&self.root.path(), self.workspace.root.join("tests/kfd-sim/sys"))
            .with_scratch("/tmp")
            .with(&self.workspace.target_dir)
            .set("HOME", "/tmp")
            .set("LC_ALL", "C.UTF-8")
            .set("LD_LIBRARY_PATH", format!("{libraries}:{}", Release::Six.libraries()))
            // Copies are kernels of the runtime.
            .set("HSA_ENABLE_SDMA", "0")
            .set("KFD_SIM_LOG", log)
            .set("COMPUTES_ARCH", ARCH)
            .set("DIFFERENTIAL_REPERTOIRE", REPERTOIRE)
            .set("XSCHED_SOCKET_DIR", self.workspace.target_dir.join("no-controller"));
        if let Some(suspended) = way.suspended {
            preloaded.insert(0, self.shim.display().to_string());
            inside = inside.set("XSCHED_TEST_SUSPEND", suspended).set("XSCHED_LOG", shim_log);
        }
        inside.set("LD_PRELOAD", preloaded.join(":")).command("timeout")
    }
}

/// A cell of the matrix.
#[derive(Clone, Copy)]
struct Way<'a> {
    program: &'a str,
    release: Release,
    suspended: Option<&'a str>,
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ROCm {}, ", self.program, self.release.major())?;
        match self.suspended {
            Some(suspended) => write!(f, "suspended by {suspended}"),
            None => f.write_str("natively"),
        }
    }
}

/// Seeds whose lines differ; each line begins with the seed.
fn differing(ones: &[String], others: &[String]) -> Vec<String> {
    let pairs = ones.iter().zip(others).filter(|(one, other)| one != other);
    pairs.filter_map(|(one, _)| one.split(' ').next()).map(str::to_owned).collect()
}

/// An error unless each line with `N of M` has the same number twice, and there is such a line.
fn judge(lines: &[String]) -> Result<()> {
    let mut compared = 0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        for parts in words.windows(3).filter(|parts| parts[1] == "of") {
            ensure!(parts[0] == parts[2], "{line}");
            compared += 1;
        }
    }
    ensure!(compared > 0, "the program has compared nothing: {lines:?}");
    Ok(())
}

/// Kernels and instructions by the device's log.
fn executed(log: &str) -> (u64, u64) {
    let kernels = log.lines().filter(|line| line.starts_with("dispatch "));
    let instructions = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
    kernels.fold((0, 0), |(count, sum), line| (count + 1, sum + instructions(line).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_right_if_all_that_was_compared_is() {
        let judged = |lines: &[&str]| judge(&lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>());
        judged(&["runtime 7.2", "saxpy: 1024 of 1024 results are right"]).unwrap();
        judged(&["streams: 8 of 8 results and 15 of 16 counts are right"]).unwrap_err();
        judged(&["runtime 7.2"]).unwrap_err();
    }

    #[test]
    fn kernels_are_counted_by_the_devices_log() {
        let log = "dispatch 1 1 4 100\ntrouble queue 1\ndispatch 1 2 1 20\n";
        assert_eq!(executed(log), (2, 120));
    }
}
