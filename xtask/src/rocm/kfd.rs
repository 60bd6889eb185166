//! `cargo xtask test --rocm kfd`: AMD's own runtimes, ROCm 6.4 and 7.2, on the kernel driver in user space of `tests/kfd-sim`.
//!
//! Kernels compute there. So programs of `tests/vm/programs` compare their results with the host's, natively and while they are
//! suspended at random. A run counts if all its results are right, if the device has executed kernels, and if the shim has deferred
//! some of them. llama.cpp must find the same tokens as by its own CPU back end.
//!
//! rocRAND, rocBLAS, MIOpen and llama.cpp also run under a controller, beside an urgent process that comes and goes. It stops them by gates,
//! which are kernels of AMD's runtime. rocRAND, and rocBLAS and MIOpen of 6.4, are recorded from their start: every launch must
//! have its library and its whole chain. A recording has all processes that use the runtime, so no other may use it meanwhile.
//!
//! `cargo xtask test --rocm kfd-random` runs random programs of `tests/differential` there, which must do the same in each way. One in
//! a thousand may hang or end early by itself: its README.md says what is known. Two programs of the corpus, which showed faults of the
//! shim on these runtimes, must do the same each time.

use std::{
    collections::BTreeMap,
    env, fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{
    inside::Inside,
    matrix::Cell,
    programs::{self, Release},
    recording::Recording,
    root::Root,
    summary::Summary,
    ways::{Running, serve},
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
    /// The releases that have its library.
    releases: &'static [Release],
    /// Other ways than natively and suspended.
    more: &'static [How],
}

/// Both releases.
const BOTH: &[Release] = &[Release::Six, Release::Seven];

const PROGRAMS: [Program; 4] = [
    Program { name: "computes", words: &[], releases: BOTH, more: &[] },
    Program { name: "numbers", words: &["all"], releases: BOTH, more: &[How::Beside, How::Traced] },
    Program { name: "products", words: &["mended"], releases: BOTH, more: &[How::Beside, How::Traced] },
    Program { name: "convolves", words: &[], releases: &[Release::Six], more: &[How::Beside, How::Traced] },
];

/// How often a program runs in a way until it is stopped once. On a busy machine the shortest program, which takes half a second, had
/// nothing deferred in 9 of 40 runs. Once, urgent work that comes and goes kept none of the launches of `numbers`.
const TRIES: u32 = 6;

/// What the device can do, and what the runtime does as the programs assume (`tests/differential/src/repertoire.rs`).
fn repertoire(release: Release) -> &'static str {
    match release {
        Release::Six => "rocm-6.4",
        Release::Seven => "rocm-7.2",
    }
}

/// Random programs, unless `XSCHED_TEST_SEEDS` says how many.
const RANDOM_PROGRAMS: usize = 60;

/// Random programs that run in one process.
const RANDOM_PER_PROCESS: usize = 200;

/// How long so many may take, in seconds. Most take less than two.
const RANDOM_TIME_MAX_S: &str = "60";

/// Programs of the corpus whose findings only AMD's own runtimes showed. With the shim as it was, the first did something else in 1 to
/// 5 of 100 runs on both, and 7.2 ended by a segmentation fault within 71 runs of the second.
const CORPUS: [&str; 2] =
    ["a_stream_is_destroyed_before_a_wait_for_it.txt", "null_stream_beside_the_end_of_a_thread.txt"];

/// How often each of them runs in a process.
const CORPUS_RUNS: usize = 500;

/// Random programs are short.
const SUSPENDED_RANDOM: [&str; 2] = ["random:1:5000", "random:2:1000"];

/// Model and options follow. Tokens are bytes, which are no text.
const LLAMA: &str = "llama-completion -p hello -n 32 --temp 0 --ignore-eos -no-cnv --no-warmup -t 1 -fa off -ctk f32 -ctv f32 \
                     -m \"$@\" | od -A n -v -t x1";

/// What urgent work computes, and its argument.
const URGENT_PROGRAM: (&str, &str) = ("products", "mended");

/// Urgent work: a program that comes and goes, until a file is there that says no more.
const URGENT: &str =
    "until [ -e \"$XSCHED_SOCKET_DIR/stop\" ]; do \"$0\" \"$@\"; sleep 0.3; done; echo ended";

/// Lines of the shim's summary.
const GATES: &str = "gates before commands, which stop them on the device";
const WAITED: &str = "us of waiting for more urgent processes";

/// What a run has left.
#[derive(Default)]
struct Run {
    lines: Vec<String>,
    /// Kernels that the device has executed, and their instructions.
    kernels: u64,
    instructions: u64,
    seconds: f64,
    deferred: u64,
    summary: Summary,
}

impl Run {
    fn add(&mut self, other: &Self) {
        self.kernels += other.kernels;
        self.instructions += other.instructions;
        self.seconds += other.seconds;
        self.deferred += other.deferred;
    }

    /// Microseconds for which it waited for more urgent processes.
    fn waited_us(&self) -> u64 {
        self.summary.count("beside others", WAITED)
    }

    /// Whether nothing stopped it, in a way that should.
    fn was_never_stopped(&self, how: How) -> bool {
        match how {
            How::Suspended(_) => self.deferred == 0,
            How::Beside => self.waited_us() == 0,
            How::Native | How::Shim | How::Urgent | How::Traced => false,
        }
    }
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
    if !is_random {
        subject::build_with_switches(workspace)?;
    }
    command::run(command::cargo(&workspace.root).args(["build", "--package", "kfd-sim"]))?;
    let folder = workspace.target_dir.join("rocm/kfd");
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let stage = Stage { workspace, root, shim, folder };
    let mut outcomes = Vec::new();
    for &release in BOTH {
        if is_random {
            outcomes.push(stage.random_programs(release));
            continue;
        }
        for program in PROGRAMS.iter().filter(|program| program.releases.contains(&release)) {
            outcomes.push(stage.row(program, release));
        }
        if release == Release::Six {
            outcomes.push(stage.llama());
        }
    }
    command::all(outcomes)
}

impl Stage<'_> {
    /// Compiles a program of `tests/vm/programs` for a release.
    fn compiled(&self, name: &str, release: Release) -> Result<PathBuf> {
        let executable = self.folder.join(format!("{name}-{}", release.major()));
        let options = ["-Wl,--allow-shlib-undefined"];
        artifacts::program_for_vm(self.workspace, name, &executable, &self.runtime(release), &options)?;
        Ok(executable)
    }

    /// A program in all ways; prints a line for each.
    fn row(&self, program: &Program, release: Release) -> Result<()> {
        let executable = self.compiled(program.name, release)?;
        let run = |how: How| {
            let way = Way { program: program.name, release, how };
            let run = self.on_device(way, &executable, program.words)?;
            judge(&run.lines).with_context(|| way.to_string())?;
            println!("{way}: right, {run}");
            anyhow::Ok(run)
        };
        let native = run(How::Native)?;
        for suspended in SUSPENDED {
            let other = run(How::Suspended(suspended))?;
            ensure!(
                other.lines == native.lines,
                "{}, {suspended}: {:?}, natively {:?}",
                program.name,
                other.lines,
                native.lines
            );
        }
        for &how in program.more {
            match how {
                How::Beside => {
                    let way = Way { program: program.name, release, how };
                    self.beside(way, &executable, program.words, &native.lines)?;
                }
                // rocBLAS is that of 6.4 here too, and brings a second runtime, which the tracer finds late.
                How::Traced if release == Release::Seven && program.name == "products" => {}
                _ => self.traced(program, release, &executable)?,
            }
        }
        Ok(())
    }

    /// Random programs, twice natively and then suspended; an error if one does not do the same.
    fn random_programs(&self, release: Release) -> Result<()> {
        let runtime = (release.major(), self.runtime(release));
        let [executable, _] = artifacts::differential_for_kfd(self.workspace, runtime)?;
        for program in CORPUS {
            self.corpus(program, release, &executable)?;
        }
        let seeds = env::var("XSCHED_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
        let count: usize = seeds.unwrap_or(RANDOM_PROGRAMS);
        let mut native = BTreeMap::new();
        for how in [How::Native, How::Native].into_iter().chain(SUSPENDED_RANDOM.map(How::Suspended)) {
            let way = Way { program: "random programs", release, how };
            let (lines, total) = self.random_way(way, &executable, count)?;
            for (seed, line) in &lines {
                let first = native.entry(*seed).or_insert_with(|| line.clone());
                ensure!(first == line, "{way}: program {seed} did `{line}`, natively at first `{first}`");
            }
            println!("{way}: {} of {count} ended, and did the same, {total}", lines.len());
            ensure!(lines.len() * 1000 >= count * 999, "{way}: too many of them did not end");
        }
        Ok(())
    }

    /// A program of the corpus, again and again, natively and suspended; an error if it once does something else.
    fn corpus(&self, name: &str, release: Release, executable: &Path) -> Result<()> {
        let program = self.folder.join(name);
        let source = self.workspace.root.join("tests/differential/corpus").join(name);
        fs::copy(&source, &program).with_context(|| format!("failed to copy {}", source.display()))?;
        let (path, runs) = (program.display().to_string(), CORPUS_RUNS.to_string());
        let mut first = None;
        for how in [How::Native].into_iter().chain(SUSPENDED_RANDOM.map(How::Suspended)) {
            let way = Way { program: name, release, how };
            let run = self.on_device(way, executable, &["repeat", &path, &runs])?;
            ensure!(run.lines.len() == CORPUS_RUNS, "{way}: {} runs", run.lines.len());
            for line in &run.lines {
                let did = line.split_once(' ').map_or("", |(_, did)| did);
                let first = first.get_or_insert_with(|| did.to_owned());
                ensure!(first == did, "{way}: run {line}, natively at first {first}");
            }
            println!("{way}: {CORPUS_RUNS} runs did the same, {run}");
        }
        Ok(())
    }

    /// What each program printed, by seed. A process that hangs or ends early ends its program, and the next ones run in another.
    fn random_way(
        &self,
        way: Way<'_>,
        executable: &Path,
        count: usize,
    ) -> Result<(BTreeMap<usize, String>, Run)> {
        let (mut lines, mut total) = (BTreeMap::new(), Run::default());
        let mut next = 0;
        while next < count {
            let some = RANDOM_PER_PROCESS.min(count - next);
            let words = ["seeds", &next.to_string(), &some.to_string()];
            let (status, run) = self.ended(way, executable, &words, RANDOM_TIME_MAX_S)?;
            if status.success() {
                used_by(way, &run).with_context(|| way.to_string())?;
            }
            total.add(&run);
            let printed = run.lines.len();
            lines.extend((next..).zip(run.lines));
            next += printed;
            if !status.success() {
                println!("{way}: program {next} did not end: {status}");
                next += 1;
            }
        }
        Ok((lines, total))
    }

    /// llama.cpp's most likely tokens for a prompt, all layers on the device, compared with those of its own CPU back end.
    fn llama(&self) -> Result<()> {
        let model = self.folder.join("tiny.gguf");
        programs::make_model(self.workspace, &model, "float32")?;
        let (bash, model) = (Path::new("/usr/bin/bash"), model.display().to_string());
        let words = ["-o", "pipefail", "-c", LLAMA, "llama", model.as_str()];
        let of = |how| Way { program: "llama.cpp", release: Release::Six, how };
        let way = of(How::Native);
        let on_processor = [&words[..], &["-ngl", "0", "--device", "none"]].concat();
        let on_processor = self.once(way, bash, &on_processor).with_context(|| way.to_string())?;
        ensure!(on_processor.kernels == 0, "{way}: its CPU back end uses the device");
        ensure!(!on_processor.lines.is_empty(), "{way}: it has no answer");
        let on_device = [&words[..], &["-ngl", "99"]].concat();
        for how in [How::Native].into_iter().chain(SUSPENDED.map(How::Suspended)) {
            let way = of(how);
            let run = self.on_device(way, bash, &on_device)?;
            let (ours, theirs) = (&run.lines, &on_processor.lines);
            ensure!(ours == theirs, "{way}: {ours:?}, by a processor {theirs:?}");
            println!("{way}: the tokens of its CPU back end, {run}");
        }
        self.beside(of(How::Beside), bash, &on_device, &on_processor.lines)
    }

    /// The release's runtime in the root file system.
    fn runtime(&self, release: Release) -> PathBuf {
        let library = format!("{}/libamdhip64.so.{}", &release.libraries()[1..], release.major());
        self.root.path().join(library)
    }

    /// Beside a process that is more urgent and comes and goes, under a controller: the same lines as natively.
    fn beside(&self, way: Way<'_>, executable: &Path, words: &[&str], native: &[String]) -> Result<()> {
        let sockets = self.sockets();
        let _ = fs::remove_dir_all(&sockets); // of an earlier run
        fs::create_dir_all(&sockets).with_context(|| format!("failed to create {}", sockets.display()))?;
        let _controller = serve(&self.workspace.built(Profile::Debug, "xsched-ctl"), &sockets)?;
        let urgent_log = self.folder.join("urgent");
        let mut command = self.command(
            Way { how: How::Urgent, ..way },
            &self.folder.join("kernels-urgent"),
            &self.folder.join("shim-urgent"),
        );
        command.args(["-k", "5", TIME_MAX_S, "/usr/bin/bash", "-c", URGENT]);
        let (urgent, word) = URGENT_PROGRAM;
        command.arg(self.compiled(urgent, way.release)?).arg(word);
        let urgent = Running::start(&mut command, &urgent_log)?;
        let lines = || fs::read_to_string(&urgent_log).unwrap_or_default();
        urgent.wait_until(|| lines().contains(" of "))?;
        let run = self.on_device(way, executable, words)?;
        // Its last program must not be recorded with the next one.
        let stop = sockets.join("stop");
        fs::write(&stop, "").with_context(|| format!("failed to write {}", stop.display()))?;
        urgent.wait_until(|| lines().ends_with("ended\n"))?;
        ensure!(run.lines == native, "{way}: {:?}, natively {native:?}", run.lines);
        let urgent_lines: Vec<String> = lines().lines().map(str::to_owned).collect();
        judge(&urgent_lines).with_context(|| format!("{way}: urgent work"))?;
        let (gates, waited_us) = (run.summary.count("beside others", GATES), run.waited_us());
        ensure!(gates > 0 && waited_us > 0, "{way}: {gates} gates, {waited_us} us of waiting");
        println!("{way}: the same bits, {run}, {gates} gates, {:.1} s of waiting", waited_us as f64 / 1e6);
        Ok(())
    }

    /// Recorded from its start: every launch with the library that called and with its whole chain.
    fn traced(&self, program: &Program, release: Release, executable: &Path) -> Result<()> {
        let way = |how| Way { program: program.name, release, how };
        self.on_device(way(How::Shim), executable, program.words)?;
        let counted = Summary::read(&self.shim_log());
        let recording = self.folder.join("recording");
        let _ = fs::remove_file(&recording); // of an earlier run
        let xsched_ctl = self.workspace.built(Profile::Debug, "xsched-ctl");
        let way = way(How::Traced);
        let mut target = self.command(way, &self.folder.join("kernels"), &self.shim_log());
        target.args(["-k", "5", TIME_MAX_S]).arg(executable).args(program.words);
        let mut trace = Command::new(&xsched_ctl);
        trace.args(["trace", "--runtime"]).arg(self.runtime(release)).arg("-o").arg(&recording).arg("--");
        trace.arg(target.get_program()).args(target.get_args());
        let output = trace.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.context("failed to start xsched-ctl trace")?;
        ensure!(output.status.success(), "{way}: {}", output.status);
        let printed: Vec<String> =
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        judge(&printed).with_context(|| way.to_string())?;
        let recorded = Recording::read(&xsched_ctl, &recording)?;
        match recorded.judged(Some(&counted)) {
            Cell::Same(how) => {
                println!(
                    "{way}: every launch with its library and whole chain, {how}: {}",
                    recorded.libraries()
                );
                Ok(())
            }
            Cell::Worse(how) => bail!("{way}: {how}"),
        }
    }

    /// A run that must have used the device, and the shim if it is suspended. A short program may make all its calls while nothing stops
    /// it, so it gets a few tries.
    fn on_device(&self, way: Way<'_>, executable: &Path, words: &[&str]) -> Result<Run> {
        let mut tries = 1..=TRIES;
        loop {
            let is_last = tries.next() == Some(TRIES);
            let run = self.once(way, executable, words).with_context(|| way.to_string())?;
            if is_last || !run.was_never_stopped(way.how) {
                used_by(way, &run).with_context(|| way.to_string())?;
                return Ok(run);
            }
        }
    }

    fn once(&self, way: Way<'_>, executable: &Path, words: &[&str]) -> Result<Run> {
        let (status, run) = self.ended(way, executable, words, TIME_MAX_S)?;
        ensure!(status.success(), "{status}: {}", run.lines.join("\n"));
        Ok(run)
    }

    /// A run that may have ended in any way, within so many seconds.
    fn ended(
        &self,
        way: Way<'_>,
        executable: &Path,
        words: &[&str],
        time_max_s: &str,
    ) -> Result<(ExitStatus, Run)> {
        let (log, shim_log) = (self.folder.join("kernels"), self.shim_log());
        for left in [&log, &shim_log] {
            let _ = fs::remove_file(left); // of an earlier run
        }
        let output = self.folder.join("output");
        let begin = Instant::now();
        let mut command = self.command(way, &log, &shim_log);
        command.args(["-k", "5", time_max_s]).arg(executable).args(words);
        command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(Stdio::inherit());
        let status = command.status().context("failed to start bwrap")?;
        let seconds = begin.elapsed().as_secs_f64();
        let printed = fs::read_to_string(&output).context("failed to read what the program printed")?;
        let (kernels, instructions) = executed(&fs::read_to_string(&log).unwrap_or_default());
        let summary = Summary::read(&shim_log);
        let deferred = summary.count("passed on because", "deferred");
        let lines = printed.lines().map(str::to_owned).collect();
        Ok((status, Run { lines, kernels, instructions, seconds, deferred, summary }))
    }

    fn shim_log(&self) -> PathBuf {
        self.folder.join("shim")
    }

    fn sockets(&self) -> PathBuf {
        self.folder.join("sockets")
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
            .set("DIFFERENTIAL_REPERTOIRE", repertoire(way.release))
            .set("XSCHED_SOCKET_DIR", self.workspace.target_dir.join("no-controller"));
        if !matches!(way.how, How::Native | How::Traced) {
            preloaded.insert(0, self.shim.display().to_string());
            inside = inside.set("XSCHED_LOG", shim_log);
        }
        inside = match way.how {
            How::Native | How::Shim | How::Traced => inside,
            How::Suspended(how) => inside.set("XSCHED_TEST_SUSPEND", how),
            How::Urgent => {
                inside.set("XSCHED_SOCKET_DIR", self.sockets()).set("XSCHED_AUTO_XQUEUE_PRIORITY", "40")
            }
            How::Beside => inside
                .set("XSCHED_SOCKET_DIR", self.sockets())
                .set("XSCHED_AUTO_XQUEUE_PRIORITY", "-100")
                .set("XSCHED_AUTO_XQUEUE_LEVEL", "2"),
        };
        inside.set("LD_PRELOAD", preloaded.join(":")).command("timeout")
    }
}

/// A cell of the matrix.
#[derive(Clone, Copy)]
struct Way<'a> {
    program: &'a str,
    release: Release,
    how: How,
}

/// What touches a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Native,
    /// The shim, and nothing that schedules.
    Shim,
    /// The shim, which suspends it so.
    Suspended(&'static str),
    /// A controller, beside more urgent work, which stops it by gates.
    Beside,
    /// The same controller, as that work.
    Urgent,
    /// The tracer.
    Traced,
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ROCm {}, ", self.program, self.release.major())?;
        match self.how {
            How::Native => f.write_str("natively"),
            How::Shim => f.write_str("with the shim"),
            How::Suspended(how) => write!(f, "suspended by {how}"),
            How::Beside => f.write_str("beside urgent work at level 2"),
            How::Urgent => f.write_str("as urgent work"),
            How::Traced => f.write_str("traced"),
        }
    }
}

/// An error if a run has not used the device, or not the shim though it should have.
fn used_by(way: Way<'_>, run: &Run) -> Result<()> {
    ensure!(run.kernels > 0, "the device has executed no kernel");
    if way.how == How::Native {
        return Ok(());
    }
    match way.how {
        How::Shim => {}
        // Beside others it may be that calls wait in place, each until the urgent process rests.
        How::Beside => {
            let in_place = run.summary.count("passed on because", "waited in place");
            ensure!(run.deferred + in_place > 0, "the shim has kept nothing back");
        }
        _ => ensure!(run.deferred > 0, "the shim has deferred nothing"),
    }
    ensure!(run.summary.is_there(), "the shim has seen no call");
    let trouble = run.summary.trouble();
    ensure!(trouble.is_empty(), "the shim's trouble: {trouble:?}");
    Ok(())
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
