//! `cargo xtask demo sched`: the gain of urgent work from xsched-ctl beside a batch job, and its cost for the batch job.
//!
//! Both are `tests/apps/sched_client`, on one simulated device. They run alone, side by side, and side by side under a controller, with
//! commands as users type them. The last run is recorded if the rights suffice.

mod figures;
mod table;

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::geteuid;
use tempfile::TempDir;

use self::{
    figures::{Figures, Observed},
    table::Table,
};
use crate::{
    artifacts, command,
    setup::{self, Need},
    workspace::{Profile, Workspace},
};

/// Left in the current folder; git ignores its extension.
const TIMELINE: &str = "sched.perfetto";

/// The urgent program: requests of eight kernels, at random times.
const SERVICE: &str = "online_service --us 100 --kernels 8 --rate 40";
/// The other program: as much as the device takes.
const BATCH: &str = "batch_job --us 1000,3000,2000,1500,2500 --ahead 4";
/// A description of these two commands.
const SITUATION: &str =
    "requests of 8 kernels of 100 us, 40 a second,\nbeside a batch job's kernels of 1 to 3 ms";

/// How long the two share the device, in seconds.
const SECONDS: u32 = 3;

/// The demonstration.
pub(super) fn run(workspace: &Workspace) -> Result<()> {
    eprintln!("demo: requirements; the first time this and the next two steps take some minutes");
    setup::ensure(workspace, &[Need::BpfBuild, Need::HipPrograms])?;
    let recorder = Rights::of_recorder(workspace);
    if recorder.is_some() {
        setup::prefer(workspace, &[Need::Kernel]);
    }
    eprintln!("demo: a simulated HIP runtime, an online service and a batch job");
    let programs = artifacts::build_demo_sched(workspace)?;
    super::build_commands(workspace)?;

    let xsched_ctl = workspace.built(Profile::Release, "xsched-ctl");
    let stage = Stage::new(&xsched_ctl, &programs)?;
    eprintln!("demo: the figures take a quarter of a minute; all commands run in folders of their own");
    eprintln!("$ export {}", stage.shown_variables());
    eprintln!("demo: each of the two alone");
    let alone = Figures::alone(&stage.run("alone", Rights::Own, &alone())?)?;
    eprintln!("demo: both, natively");
    let native = Figures::beside(&stage.run("native", Rights::Own, &beside("", "", SECONDS))?)?;
    eprintln!("demo: both, under xsched-ctl");
    let timeline = super::here(TIMELINE)?;
    let rights = recorder.unwrap_or(Rights::Own);
    let controller = Controller::start(&stage, rights)?;
    let script = scheduled(SECONDS);
    let recorded = recorder.map(|rights| stage.record(rights, &script, &timeline)).transpose()?.flatten();
    let is_recorded = recorded.is_some();
    let observed = recorded.map_or_else(|| stage.run("scheduled", rights, &script), Ok)?;
    drop(controller);
    let scheduled = Figures::beside(&observed)?;

    let how = if is_recorded { "; the last run was recorded meanwhile" } else { "" };
    println!("Simulated, on this machine: {SITUATION}{how}\n");
    println!("{}\n", Table { alone, native, scheduled });
    if is_recorded {
        super::show_timeline(workspace, &timeline);
        eprintln!(
            "Where the batch job is preempted, its XQueue has a `preempted` slice, which says for which process."
        );
    } else if recorder.is_some() {
        eprintln!(
            "There is no timeline: see the messages above and `xsched-ctl doctor` for what recording lacks."
        );
    } else {
        eprintln!("There is no timeline: recording needs root. Type `sudo -v`, then run this again.");
    }
    Ok(())
}

/// One after the other.
fn alone() -> String {
    format!("{SERVICE} --seconds 2 > service &&\n{BATCH} --seconds 1 > batch")
}

/// The service starts first and ends last; the prefixes of the two commands say how each runs.
fn beside(of_service: &str, of_batch: &str, seconds: u32) -> String {
    let service = format!("{of_service}{SERVICE} --seconds {} > service &", seconds + 1);
    format!("{service}\nsleep 0.5\n{of_batch}{BATCH} --seconds {seconds} > batch && wait $!")
}

fn scheduled(seconds: u32) -> String {
    let run = |class| format!("xsched-ctl run --require-controller --class {class} -- ");
    beside(&run("high"), &run("low"), seconds)
}

/// The rights of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    Own,
    /// Root's, through sudo without a password.
    Sudo,
}

impl Rights {
    /// For the run under the controller. A recorder trusts only controllers of root and of its own user, so recorder and controller
    /// need the same rights, and so do the scheduled programs. None: recording is not possible.
    fn of_recorder(workspace: &Workspace) -> Option<Self> {
        let own = geteuid().is_root();
        setup::privileged(workspace, "env".as_ref()).map(|_| if own { Self::Own } else { Self::Sudo })
    }
}

/// The environment of a run: a device, a controller's sockets and a folder of its own.
struct Stage {
    folder: TempDir,
    /// The path with the folders of the programs in front.
    path: OsString,
}

impl Stage {
    /// With the folder of the two programs; the shim is beside the command.
    fn new(xsched_ctl: &Path, programs: &Path) -> Result<Self> {
        let commands = xsched_ctl.parent().context("a command is in a folder")?;
        let usual = env::var_os("PATH").unwrap_or_default();
        let folders = [commands.to_owned(), programs.to_owned()].into_iter().chain(env::split_paths(&usual));
        let path = env::join_paths(folders).context("the folder that cargo builds in cannot be in PATH")?;
        let folder = TempDir::with_prefix("demo-").context("failed to make a folder")?;
        Ok(Self { folder, path })
    }

    fn variables(&self) -> [(&'static str, OsString); 6] {
        let device = self.folder.path().file_name().unwrap_or_default();
        [
            ("PATH", self.path.clone()),
            // A controller of this machine must not interfere.
            ("XSCHED_SOCKET_DIR", self.folder.path().into()),
            // Otherwise it logs every process that joins and leaves.
            ("XSCHED_CTL_LOG", "warn".into()),
            ("HIP_SIM_SHARED", device.into()),
            ("HIP_SIM_DURATIONS", "device_step=arg1us".into()),
            ("HIP_SIM_EXECUTION_LOG", "executions".into()),
        ]
    }

    /// As words of a shell.
    fn shown_variables(&self) -> String {
        let [(_, _), others @ ..] = self.variables();
        let folders: Vec<_> = env::split_paths(&self.path).take(2).collect();
        let own = env::join_paths(folders).unwrap_or_default();
        let path = format!("PATH={}:$PATH", own.display());
        let others = others.map(|(name, value)| format!("{name}={}", value.display()));
        [path].into_iter().chain(others).collect::<Vec<_>>().join(" ")
    }

    /// A command in this environment. Programs find the simulated runtime by their run path, which the library path would precede;
    /// sudo passes no variables on.
    fn command(&self, rights: Rights, program: &str) -> Command {
        let mut command = match rights {
            Rights::Own => command::command(program),
            Rights::Sudo => {
                let mut sudo = command::command("sudo");
                sudo.args(["-n", "env"]);
                for (name, value) in self.variables() {
                    let mut word = OsString::from(name);
                    word.push("=");
                    word.push(value);
                    sudo.arg(word);
                }
                sudo.arg(program);
                sudo
            }
        };
        command.envs(self.variables()).env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
        command
    }

    fn folder_of(&self, run: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(run);
        fs::create_dir(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
        Ok(folder)
    }

    /// Runs a shell script.
    fn run(&self, name: &str, rights: Rights, script: &str) -> Result<Observed> {
        let folder = self.folder_of(name)?;
        let mut shell = self.command(rights, "sh");
        shell.args(["-c", script]).current_dir(&folder);
        match rights {
            Rights::Own => script.lines().for_each(|line| eprintln!("$ {line}")),
            Rights::Sudo => eprintln!("$ {}", command::words(&shell)),
        }
        let status = shell.status().context("failed to start sh")?;
        ensure!(status.success(), "the commands above ended with {status}");
        Observed::read(&folder)
    }

    /// The same with a recording. None if that was not possible; the recorder has printed the reason.
    fn record(&self, rights: Rights, script: &str, timeline: &Path) -> Result<Option<Observed>> {
        let folder = self.folder_of("recorded")?;
        let mut trace = self.command(rights, "xsched-ctl");
        trace.args(["trace", "-o"]).arg(timeline).args(["--", "sh", "-c", script]).current_dir(&folder);
        eprintln!("$ {}", command::words(&trace));
        let status = trace.status().context("failed to start the recorder")?;
        if status.success() { Observed::read(&folder).map(Some) } else { Ok(None) }
    }
}

/// `xsched-ctl serve`, ended when dropped.
struct Controller {
    child: Child,
    /// The command that ends it.
    end: Command,
}

impl Controller {
    /// Returns when processes can join. It runs without BPF programs: a controller of this machine may have them, and only one can.
    fn start(stage: &Stage, rights: Rights) -> Result<Self> {
        let mut serve = stage.command(rights, "xsched-ctl");
        serve.args(["serve", "--no-bpf", "--json"]);
        eprintln!("$ {} &", command::words(&serve));
        let mut child = serve.stdout(Stdio::piped()).spawn().context("failed to start the controller")?;
        let said = child.stdout.take().context("the controller has no standard output")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        let status: serde_json::Value =
            serde_json::from_str(&line).context("the controller did not come up")?;
        // With sudo, its pid is not the child's.
        let mut end = stage.command(rights, "sh");
        end.args(["-c", &format!("kill {}", status["pid"])]);
        Ok(Self { child, end })
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.end.status(); // it may have ended
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;
