//! Runs examples, and measures what their pages show: tasks of high priority beside others, and tasks alone.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::output::{Running, Task};
use super::programs::{Example, Programs, Server, Subject, Way, With};
use crate::{artifacts, command};

/// A vector addition takes this long: so a task of a hundred takes as long as on the GPU of the examples' own pages.
const DURATIONS: &str = "*vector_add*=660us";

/// Tasks alone that are timed, where the example itself does not end that.
const ALONE: usize = 10;

/// How long a controller may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Variables of the example without hints of its own, as its page sets them: of high priority, and of low.
const HIGH: [(&str, &str); 6] = [
    ("XSCHED_SCHEDULER", "GLB"),
    ("XSCHED_AUTO_XQUEUE", "ON"),
    ("XSCHED_AUTO_XQUEUE_PRIORITY", "1"),
    ("XSCHED_AUTO_XQUEUE_LEVEL", "1"),
    ("XSCHED_AUTO_XQUEUE_THRESHOLD", "16"),
    ("XSCHED_AUTO_XQUEUE_BATCH_SIZE", "8"),
];
const LOW: [(&str, &str); 6] = [
    ("XSCHED_SCHEDULER", "GLB"),
    ("XSCHED_AUTO_XQUEUE", "ON"),
    ("XSCHED_AUTO_XQUEUE_PRIORITY", "0"),
    ("XSCHED_AUTO_XQUEUE_LEVEL", "1"),
    ("XSCHED_AUTO_XQUEUE_THRESHOLD", "4"),
    ("XSCHED_AUTO_XQUEUE_BATCH_SIZE", "2"),
];

/// How long tasks took, in milliseconds: the median of each kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub(super) alone_ms: f64,
    /// Beside others without a scheduler, if the example can run so.
    pub(super) native_ms: Option<f64>,
    pub(super) high_ms: f64,
    pub(super) low_ms: f64,
    /// Tasks of high priority that were timed.
    pub(super) tasks: usize,
}

/// A device and a controller's sockets for the examples of a subject.
pub(super) struct Stage<'a> {
    folder: TempDir,
    subject: &'a Subject,
    programs: &'a Programs<'a>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(subject: &'a Subject, programs: &'a Programs<'a>) -> Result<Self> {
        let folder = TempDir::with_prefix("xsched-examples-").context("failed to make a folder")?;
        Ok(Self { folder, subject, programs })
    }

    /// Builds an example, runs it, and times so many tasks of high priority.
    pub(super) fn try_out(&self, example: &Example, tasks: usize) -> Result<Times> {
        self.run(example, &self.programs.build(example, self.subject)?, tasks)
    }

    fn run(&self, example: &Example, program: &Path, tasks: usize) -> Result<Times> {
        match example.way {
            Way::Variables => {
                let alone_ms = alone(self.command(program))?;
                let (native_ms, _) = beside(self.command(program), self.command(program), tasks)?;
                let _controller = Controller::start(self)?;
                let process = |variables| {
                    let mut process = self.scheduled(program);
                    process.envs(variables);
                    process
                };
                let (high_ms, low_ms) = beside(process(HIGH), process(LOW), tasks)?;
                Ok(Times { alone_ms, native_ms: Some(native_ms), high_ms, low_ms, tasks })
            }
            Way::Arguments => {
                let _controller = Controller::start(self)?;
                let process = |priority| {
                    let mut process = self.scheduled(program);
                    process.arg(priority).env("XSCHED_SCHEDULER", "GLB");
                    process
                };
                let alone_ms = alone(process("1"))?;
                let (high_ms, low_ms) = beside(process("1"), process("0"), tasks)?;
                Ok(Times { alone_ms, native_ms: None, high_ms, low_ms, tasks })
            }
            Way::Threads { other, with } => {
                let process = |program: &Path| match with {
                    With::Shim => self.scheduled(program),
                    With::Results => {
                        let mut process = self.command(program);
                        process.env("HIP_SIM_TWINS", &self.programs.twins);
                        process
                    }
                };
                let alone_ms = alone(process(&self.programs.build_without(example, self.subject, other)?))?;
                let (high_ms, low_ms) = within(process(program), tasks)?;
                Ok(Times { alone_ms, native_ms: None, high_ms, low_ms, tasks })
            }
        }
    }

    /// A program that prints each line at once, also where no user watches.
    fn command(&self, program: &Path) -> Command {
        self.prompt([program.as_os_str()])
    }

    /// The same with the shim in front of HIP's functions. No other program has it: XSched's server takes one that executes
    /// another for two, and ends with the first.
    fn scheduled(&self, program: &Path) -> Command {
        let shim = self.subject.shim();
        let preloads = r#"LD_PRELOAD="$0:$LD_PRELOAD" exec "$@""#;
        self.prompt(["sh".as_ref(), "-c".as_ref(), preloads.as_ref(), shim.as_os_str(), program.as_os_str()])
    }

    /// Programs find the runtime by their run path.
    fn prompt<const N: usize>(&self, words: [&OsStr; N]) -> Command {
        let mut command = command::command("stdbuf");
        command
            .arg("-oL")
            .args(words)
            .env("XSCHED_SOCKET_DIR", self.folder.path())
            .env("HIP_SIM_SHARED", self.folder.path().file_name().unwrap_or_default())
            .env("HIP_SIM_ARCH", artifacts::XSCHED_ARCH)
            .env("HIP_SIM_DURATIONS", DURATIONS);
        match self.subject.server {
            Server::Ours(_) => command.env_remove("LD_LIBRARY_PATH"),
            // What else it needs of ROCm is a matter of the caller's.
            Server::XScheds(_) => command.env("XSCHED_HIP_LIB", &self.programs.runtime),
        };
        command
    }
}

/// The first task of a process is longer: it is the first use of the device.
fn alone(mut process: Command) -> Result<f64> {
    let mut running = Running::new();
    running.start(&mut process, true)?;
    let tasks = running.tasks_until(|tasks| tasks.len() > ALONE)?;
    Ok(median(&tasks[1..]))
}

/// Two processes, of which that of low priority comes first.
fn beside(mut high: Command, mut low: Command, tasks: usize) -> Result<(f64, f64)> {
    let mut running = Running::new();
    running.start(&mut low, false)?;
    running.tasks_until(|tasks| tasks.len() > 1)?;
    running.start(&mut high, true)?;
    let done = running.tasks_until(|done| of(done, true).len() > tasks)?;
    let high = of(done, true).split_off(1);
    let from = high.first().context("there are tasks")?.began();
    let low: Vec<_> = of(done, false).into_iter().filter(|task| task.ended > from).collect();
    ensure!(!low.is_empty(), "no task of low priority ended in this time");
    Ok((median(&high), median(&low)))
}

/// Two threads of a process, of which one comes later.
fn within(mut process: Command, tasks: usize) -> Result<(f64, f64)> {
    let mut running = Running::new();
    running.start(&mut process, false)?;
    // Those that began when both had begun their first one.
    let beside = |done: &[Task], is_high| {
        let first = |is_high| of(done, is_high).first().map(Task::began);
        let from = first(true).max(first(false)).filter(|_| first(true).is_some() && first(false).is_some());
        let tasks = of(done, is_high).into_iter();
        tasks.filter(|task| from.is_some_and(|from| task.began() >= from)).collect::<Vec<_>>()
    };
    let done =
        running.tasks_until(|done| beside(done, true).len() >= tasks && !beside(done, false).is_empty())?;
    Ok((median(&beside(done, true)), median(&beside(done, false))))
}

fn of(tasks: &[Task], is_high: bool) -> Vec<Task> {
    tasks.iter().filter(|task| task.is_high == is_high).copied().collect()
}

fn median(tasks: &[Task]) -> f64 {
    let mut times: Vec<_> = tasks.iter().map(|task| task.ms).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The controller, in place of XSched's server; stopped when dropped. Without BPF programs it needs no rights, and is no other's rival.
struct Controller(Child);

impl Controller {
    fn start(stage: &Stage<'_>) -> Result<Self> {
        let mut serve = match &stage.subject.server {
            Server::Ours(xsched_ctl) => {
                let mut serve = command::command(xsched_ctl);
                serve.args(["serve", "--no-bpf", "--policy", "HPF"]).env("XSCHED_CTL_LOG", "error");
                serve
            }
            Server::XScheds(xserver) => {
                let mut serve = command::command(xserver);
                serve.args(["HPF", "50000"]);
                serve
            }
        };
        serve.env("XSCHED_SOCKET_DIR", stage.folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command::announce(&serve);
        let child = serve.spawn().with_context(|| format!("failed to start `{}`", command::shown(&serve)))?;
        let mut controller = Self(child);
        controller.wait_until_it_answers(stage)?;
        Ok(controller)
    }

    fn wait_until_it_answers(&mut self, stage: &Stage<'_>) -> Result<()> {
        let Server::Ours(xsched_ctl) = &stage.subject.server else {
            // It says nothing.
            thread::sleep(Duration::from_secs(1));
            return Ok(());
        };
        let began = Instant::now();
        loop {
            let mut list = command::command(xsched_ctl);
            list.arg("list").env("XSCHED_SOCKET_DIR", stage.folder.path()).stdin(Stdio::null());
            let list = list.stdout(Stdio::null()).stderr(Stdio::null()).status();
            if list.context("failed to ask the controller")?.success() {
                return Ok(());
            }
            if let Some(status) = self.0.try_wait().context("failed to ask for the controller's end")? {
                bail!("the controller ended with {status}");
            }
            ensure!(began.elapsed() < PATIENCE, "the controller does not answer within {PATIENCE:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.id().cast_signed()) {
            // It may have ended.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that says this, a line each 50 ms.
    fn says(lines: &str) -> Command {
        let mut command = Command::new("sh");
        let script =
            format!("for i in {lines}; do printf '%s\\n' \"$i\" | tr _ ' '; sleep 0.05; done; exec sleep 60");
        command.args(["-c", &script]);
        command
    }

    #[test]
    fn tasks_count_from_the_first_that_began_beside_others() {
        let low = |ms: u32| format!("low__prio_Task_1_completed_in_{ms}_ms");
        let high = |ms: u32| format!("high_prio_Task_1_completed_in_{ms}_ms");
        let lines =
            [low(10), low(12), low(14), low(30), high(20), low(40), high(21), low(41), high(23), low(42)];
        let (high_ms, low_ms) = within(says(&lines.join(" ")), 3).unwrap();
        assert!((high_ms - 21.0).abs() < 0.1, "{high_ms}");
        assert!((40.0..=42.0).contains(&low_ms), "{low_ms}");
    }
}
