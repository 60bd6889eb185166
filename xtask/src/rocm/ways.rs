//! The ways in which a program runs, and how each run is compared with the native one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    inside::Inside,
    matrix::{Cell, Row},
    order::Order,
    programs::{Program, Release},
    recording::Recording,
    root::{REGISTER, Root},
    summary::Summary,
};
use crate::workspace::{Profile, Workspace};

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Native,
    /// With the shim, and nothing that schedules.
    Shim,
    /// Suspended and resumed at random, once for each seed.
    Suspended,
    /// Under a controller, beside more urgent work on the same device.
    Beside,
    /// Recorded from its start.
    Traced,
    /// With AMD's own rocprofiler-register, which gives the shim the dispatch tables: preloaded, and by variable.
    Registered,
}

impl Way {
    pub(super) const ALL: [Self; 6] =
        [Self::Native, Self::Shim, Self::Suspended, Self::Beside, Self::Traced, Self::Registered];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Shim => "shim",
            Self::Suspended => "suspended at random",
            Self::Beside => "beside urgent work",
            Self::Traced => "traced",
            Self::Registered => "registered",
        }
    }
}

/// Name of the run without the shim.
const NATIVE: &str = "native";

/// Seeds of the suspended runs.
const SEEDS: [u32; 3] = [1, 2, 3];

/// How long a program may take, in seconds. MIOpen and MIGraphX compile for half a minute.
const TIME_MAX_S: u32 = 240;

/// How long the controller, or urgent work, may take to begin.
const PATIENCE: Duration = Duration::from_mins(1);

/// Kernels of the simulated device, long enough for others to want in.
const DURATION: &str = "*=50us";

/// Names the file for which programs wait, after their first use of the device. Most are over in milliseconds.
const WAIT_FOR: &str = "ROCM_TEST_WAIT_FOR";

/// Where programs run.
pub(super) struct Stage {
    root: Root,
    target_dir: PathBuf,
    shim: PathBuf,
    xsched_ctl: PathBuf,
}

/// What a run has left.
struct Run {
    /// 124 after a timeout.
    code: Option<i32>,
    lines: Vec<String>,
    order: Order,
    /// None without the shim.
    summary: Option<Summary>,
    seconds: f64,
}

impl Run {
    /// Calls that the shim has counted in a section of its summary.
    fn counted(&self, section: &str, what: &str) -> u64 {
        self.summary.as_ref().map_or(0, |summary| summary.count(section, what))
    }
}

impl Stage {
    pub(super) fn new(workspace: &Workspace, root: Root) -> Self {
        Self {
            root,
            target_dir: workspace.target_dir.clone(),
            shim: workspace.built(Profile::Debug, "libxsched_shim.so"),
            xsched_ctl: workspace.built(Profile::Debug, "xsched-ctl"),
        }
    }

    /// With a shim for users, to be measured.
    pub(super) fn released(workspace: &Workspace, root: Root) -> Self {
        let shim = workspace.built(Profile::Release, "libxsched_shim.so");
        Self { shim, ..Self::new(workspace, root) }
    }

    /// The shim, as it stands in `LD_PRELOAD` before others.
    pub(super) fn preloaded(&self) -> String {
        format!("{}:", self.shim.display())
    }

    /// A program in every way.
    pub(super) fn row(&self, program: &Program) -> Result<Row> {
        if !program.is_served(&self.root) {
            return Ok(Row::NotServed);
        }
        let native = self.alone(program, NATIVE, |inside| inside)?;
        let with_shim = self.with_shim(program, "shim", &[])?;
        let cells = [
            of_native(&native),
            compared(&native, &with_shim),
            self.suspended(program, &native)?,
            self.beside(program, &native)?,
            self.traced(program, &native, &with_shim)?,
            self.registered(program, &native)?,
        ];
        for (way, cell) in Way::ALL.iter().zip(&cells) {
            eprintln!("rocm: {} {}: {cell}", program.name, way.title());
        }
        Ok(Row::Cells(cells))
    }

    fn suspended(&self, program: &Program, native: &Run) -> Result<Cell> {
        let (mut deferred, mut waited) = (0, 0);
        for seed in SEEDS {
            let name = format!("suspended-{seed}");
            let run =
                self.with_shim(program, &name, &[("XSCHED_TEST_SUSPEND", &format!("random:{seed}"))])?;
            if let Cell::Worse(how) = compared(native, &run) {
                return Ok(Cell::Worse(format!("seed {seed}: {how}")));
            }
            deferred += run.counted("passed on because", "deferred");
            waited += run.counted("passed on because", "waited in place");
        }
        if deferred == 0 {
            return Ok(Cell::Worse("nothing was deferred".to_owned()));
        }
        Ok(Cell::Same(format!("same, {} seeds, {deferred} deferred, {waited} in place", SEEDS.len())))
    }

    fn beside(&self, program: &Program, native: &Run) -> Result<Cell> {
        let sockets = self.target_dir.join("rocm/sockets");
        let _ = fs::remove_dir_all(&sockets); // of an earlier run
        fs::create_dir_all(&sockets).with_context(|| format!("failed to create {}", sockets.display()))?;
        let _controller = serve(&self.xsched_ctl, &sockets)?;
        let device = format!("rocm-{}", std::process::id());
        let shared = [
            ("HIP_SIM_SHARED", device.as_str()),
            ("HIP_SIM_DURATIONS", DURATION),
            ("XSCHED_SOCKET_DIR", sockets.to_str().context("the path of the build folder is not UTF-8")?),
        ];
        let urgent = self.urgent(&shared)?;
        let begin = sockets.join("begin");
        let wait = (WAIT_FOR, begin.to_str().context("the path of the build folder is not UTF-8")?);
        let low = [&shared[..], &[("XSCHED_AUTO_XQUEUE_PRIORITY", "-100"), wait]].concat();
        let has_ended = AtomicBool::new(false);
        let run = thread::scope(|scope| {
            scope.spawn(|| self.let_begin(&sockets, &begin, &has_ended));
            let run = self.with_shim(program, "beside", &low);
            has_ended.store(true, Ordering::Relaxed);
            run
        })?;
        let bad = urgent.bad_lines()?;
        if let Some(line) = bad.first() {
            return Ok(Cell::Worse(format!("urgent work: {line}")));
        }
        let deferred = run.counted("beside others", "of them deferred before");
        Ok(match compared(native, &run) {
            Cell::Same(_) if deferred == 0 => Cell::Worse("nothing was deferred".to_owned()),
            Cell::Same(_) => Cell::Same(format!("same, {deferred} deferred")),
            worse @ Cell::Worse(_) => worse,
        })
    }

    /// Makes the file for which a program waits, as soon as the controller has taken on both that and the urgent one.
    fn let_begin(&self, sockets: &Path, begin: &Path, has_ended: &AtomicBool) {
        let have_joined = || {
            let list = Command::new(&self.xsched_ctl)
                .args(["list", "--json"])
                .env("XSCHED_SOCKET_DIR", sockets)
                .output()
                .ok()?;
            let list: Value = serde_json::from_slice(&list.stdout).ok()?;
            let claims =
                list["processes"].as_array()?.iter().filter_map(|process| process["queues"].as_array());
            Some(claims.filter(|claims| !claims.is_empty()).count() >= 2)
        };
        while !has_ended.load(Ordering::Relaxed) {
            // Should it fail, the program does not begin, and its time limit ends it.
            if have_joined() == Some(true) && fs::write(begin, "").is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn traced(&self, program: &Program, native: &Run, with_shim: &Run) -> Result<Cell> {
        let folder = self.folder(program, "traced")?;
        let recording = folder.join("recording");
        let mut trace = Command::new(&self.xsched_ctl);
        trace
            .arg("trace")
            .arg("--runtime")
            .arg(self.runtime(program.release))
            .arg("-o")
            .arg(&recording)
            .arg("--");
        let target = self.inside(program, &folder, "").command("timeout");
        trace.arg(target.get_program()).args(target.get_args()).args(self.timed(program));
        let run = Self::finish(program, &folder, trace, false)?;
        let recorded = Recording::read(&self.xsched_ctl, &recording)?;
        Ok(match compared(native, &run) {
            Cell::Same(_) => recorded.judged(with_shim.summary.as_ref()),
            worse @ Cell::Worse(_) => worse,
        })
    }

    fn registered(&self, program: &Program, native: &Run) -> Result<Cell> {
        let shim = self.shim.display().to_string();
        let hiprtc = format!("{}/libhiprtc.so.{}", program.release.libraries(), program.release.major());
        let libraries = format!("{}:/opt/register", self.libraries(program.release));
        for (name, way) in [("preloaded", None), ("variable", Some(("LD_PRELOAD", hiprtc.as_str())))] {
            let name = format!("registered-{name}");
            let loaded = self.target_dir.join("rocm/runs").join(program.name).join(&name).join("loaded");
            let output = loaded.display().to_string();
            let common = [
                ("LD_LIBRARY_PATH", libraries.as_str()),
                ("ROCPROFILER_REGISTER_LIBRARY", &shim),
                ("LD_DEBUG", "files"),
                ("LD_DEBUG_OUTPUT", &output),
                ("XSCHED_TEST_SUSPEND", "random:1"),
            ];
            // The last setting of a variable counts.
            let variables: Vec<_> = common.into_iter().chain(way).collect();
            let run = self.with_shim(program, &name, &variables)?;
            if let Cell::Worse(how) = compared(native, &run) {
                return Ok(Cell::Worse(format!("{name}: {how}")));
            }
            if !has_loaded(&loaded)? {
                return Ok(Cell::Worse(format!("{name}: {REGISTER} was not loaded")));
            }
        }
        Ok(Cell::Same("same, preloaded and by variable".to_owned()))
    }

    fn with_shim(&self, program: &Program, name: &str, variables: &[(&str, &str)]) -> Result<Run> {
        let log = self.folder(program, name)?.join("shim");
        let set = |inside: Inside| {
            let inside = inside.set("XSCHED_LOG", log);
            variables.iter().fold(inside, |inside, (variable, value)| inside.set(variable, *value))
        };
        self.alone(program, name, set)
    }

    /// Runs a program, with the shim unless the run is called so.
    fn alone(&self, program: &Program, name: &str, set: impl FnOnce(Inside) -> Inside) -> Result<Run> {
        let folder = self.folder(program, name)?;
        let preloaded = if name == NATIVE { String::new() } else { self.preloaded() };
        let mut command = set(self.inside(program, &folder, &preloaded)).command("timeout");
        command.args(self.timed(program));
        Self::finish(program, &folder, command, name != NATIVE)
    }

    /// What stands behind `timeout`.
    fn timed(&self, program: &Program) -> Vec<String> {
        let limits = ["-k", "5", &TIME_MAX_S.to_string()].map(str::to_owned);
        limits.into_iter().chain(program.words(&self.target_dir)).collect()
    }

    /// The command.
    pub(super) fn xsched_ctl(&self) -> &Path {
        &self.xsched_ctl
    }

    /// An empty folder for what a run leaves.
    pub(super) fn folder(&self, program: &Program, name: &str) -> Result<PathBuf> {
        let folder = self.target_dir.join("rocm/runs").join(program.name).join(name);
        let _ = fs::remove_dir_all(&folder); // of an earlier run
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        Ok(folder)
    }

    fn runtime(&self, release: Release) -> PathBuf {
        let major = release.major();
        self.target_dir.join(format!("hip-sim/{major}/libamdhip64.so.{major}"))
    }

    /// The simulated runtime's folder and those of the release.
    fn libraries(&self, release: Release) -> String {
        let simulated = self.target_dir.join(format!("hip-sim/{}", release.major()));
        let genuine = release.libraries();
        // MIGraphX opens its back ends by name.
        format!("{}:{genuine}:{genuine}/migraphx/lib", simulated.display())
    }

    /// The file system with the simulated runtime in front of the genuine one. `preloaded` ends in a colon unless it is empty.
    pub(super) fn inside(&self, program: &Program, folder: &Path, preloaded: &str) -> Inside {
        let release = program.release;
        let (major, genuine) = (release.major(), release.libraries());
        Inside::new(&self.root.path())
            // First: the other folder may lie below it.
            .with_scratch("/tmp")
            .with(&self.target_dir)
            .set("HOME", "/tmp")
            .set("LC_ALL", "C.UTF-8")
            .set("LD_LIBRARY_PATH", self.libraries(release))
            // ROCm 6 has this compiler within its runtime, too.
            .set("LD_PRELOAD", format!("{preloaded}{genuine}/libhiprtc.so.{major}"))
            .set("HIP_SIM_ARCH", release.arch())
            .set("HIP_SIM_MEMORY_MIB", "4096")
            .set("HIP_SIM_SHARED", "off")
            .set("HIP_SIM_EXECUTION_LOG", folder.join("executions"))
            .set("XSCHED_SOCKET_DIR", self.target_dir.join("no-controller"))
    }

    /// Runs it to its end.
    fn finish(program: &Program, folder: &Path, mut command: Command, with_shim: bool) -> Result<Run> {
        let begin = Instant::now();
        let file = |name: &str| {
            let path = folder.join(name);
            fs::File::create(&path).with_context(|| format!("failed to create {}", path.display()))
        };
        command.stdin(Stdio::null()).stdout(file("stdout")?).stderr(file("stderr")?);
        let status = command.status().with_context(|| format!("failed to start {}", program.name))?;
        let printed = fs::read(folder.join("stdout")).context("failed to read what the program printed")?;
        Ok(Run {
            code: status.code(),
            lines: program.lines(&String::from_utf8_lossy(&printed)),
            order: Order::read(&folder.join("executions"))?,
            summary: with_shim.then(|| Summary::read(&folder.join("shim"))),
            seconds: begin.elapsed().as_secs_f64(),
        })
    }

    /// Short bursts of products by hipBLAS, until it is dropped.
    fn urgent(&self, variables: &[(&str, &str)]) -> Result<Running> {
        let urgent = &Program::ALL[0];
        let folder = self.folder(urgent, "urgent")?;
        let inside = self.inside(urgent, &folder, &self.preloaded());
        let inside = inside.set("XSCHED_AUTO_XQUEUE_PRIORITY", "40");
        let inside = variables.iter().fold(inside, |inside, (variable, value)| inside.set(variable, *value));
        let mut command = inside.command("timeout");
        command.args(self.timed(urgent)).arg(TIME_MAX_S.to_string());
        let log = folder.join("stdout");
        let running = Running::start(&mut command, &log)?;
        running.wait_until(|| fs::read_to_string(&log).is_ok_and(|text| text.contains("ready\n")))?;
        Ok(running)
    }
}

/// A controller that listens in this folder, where its log is.
pub(super) fn serve(xsched_ctl: &Path, sockets: &Path) -> Result<Running> {
    let mut serve = Command::new(xsched_ctl);
    serve.arg("serve").env("XSCHED_SOCKET_DIR", sockets);
    let running = Running::start(&mut serve, &sockets.join("log"))?;
    running.wait_until(|| sockets.join("shim.sock").exists())?;
    Ok(running)
}

/// A program beside others; interrupted when it is dropped.
pub(super) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    pub(super) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file = fs::File::create(log).with_context(|| format!("failed to create {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("failed to start {command:?}"))?;
        Ok(Self { child, log: log.to_owned() })
    }

    pub(super) fn wait_until(&self, is_so: impl Fn() -> bool) -> Result<()> {
        let begin = Instant::now();
        while !is_so() {
            if begin.elapsed() > PATIENCE {
                bail!("not ready within {PATIENCE:?}: {}", fs::read_to_string(&self.log).unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Calls whose status was not 0.
    fn bad_lines(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(&self.log).context("failed to read what urgent work printed")?;
        let bad = text.lines().filter(|line| line.contains(" = ") && !line.ends_with(" = 0"));
        Ok(bad.map(str::to_owned).collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Bubblewrap passes no signal on, and its command ends with it.
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Whether a process has loaded AMD's library, by what the dynamic linker wrote into files that begin so.
fn has_loaded(output: &Path) -> Result<bool> {
    let folder = output.parent().context("the file is in a folder")?;
    for entry in fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))? {
        let path = entry?.path();
        let is_output = path.file_stem() == output.file_name();
        if is_output && fs::read(&path).is_ok_and(|text| String::from_utf8_lossy(&text).contains(REGISTER)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn of_native(native: &Run) -> Cell {
    match native.code {
        Some(0) => Cell::Same(format!("{} kernels, {:.1} s", native.order.kernels(), native.seconds)),
        code => Cell::Worse(format!("does not run natively: {}", ending(code))),
    }
}

/// Whether a run did the same as the native one, call by call and kernel by kernel.
fn compared(native: &Run, run: &Run) -> Cell {
    difference(native, run).map_or_else(|| Cell::Same("same".to_owned()), Cell::Worse)
}

fn difference(native: &Run, run: &Run) -> Option<String> {
    if native.code != run.code {
        return Some(format!("{} instead of {}", ending(run.code), ending(native.code)));
    }
    let differing = native.lines.iter().zip(&run.lines).find(|(expected, line)| expected != line);
    if let Some((expected, line)) = differing {
        return Some(format!("printed `{line}` instead of `{expected}`"));
    }
    if native.lines.len() != run.lines.len() {
        return Some(format!("printed {} lines instead of {}", run.lines.len(), native.lines.len()));
    }
    native.order.difference(&run.order).or_else(|| match &run.summary {
        Some(summary) if !summary.is_there() => Some("the shim has seen no call".to_owned()),
        Some(summary) => summary.trouble().into_iter().next(),
        None => None,
    })
}

fn ending(code: Option<i32>) -> String {
    code.map_or_else(|| "a signal".to_owned(), |code| format!("exit {code}"))
}
