//! The controller under hostile peers: an ordinary user sends valid packets and orders, mutated and in any
//! order.
//!
//! Two honest processes have joined, with fixed scheduling parameters; four hostile ones send a million
//! messages to the controller's sockets. All the time the controller must answer, and the honest processes
//! must keep their parameters. No hostile process may exceed its ceiling or precede the urgent honest one.
//! The policy must not change, nor be switched off. The controller's memory and descriptors must stay
//! bounded. When the hostile processes have ended, nothing of them may be left. A violation ends the run with
//! an error.
//!
//! `--messages=N` and `--seed=N` set the number of messages and the seed. With `--bpf` the controller's page
//! is kept by BPF programs, so reports over the socket have no effect.

mod honest;
mod hostile;
mod mutation;
mod witness;

use std::error::Error;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use xsched_protocol::arbiter_page::DEVICE_MAX;
use xsched_tests::bench::{Row, Samples};
use xsched_tests::tracer::xsched_ctl;

use honest::Honest;
use hostile::Tally;
use witness::Witness;

pub(crate) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const BENCH: &str = "fuzz";
const MESSAGES: u64 = 1_000_000;
const HOSTILE: u64 = 4;

/// `nobody`.
pub(crate) const USER: u32 = 65_534;

/// Names the folder of the controller's sockets.
pub(crate) const FOLDER: &str = "XSCHED_SOCKET_DIR";

/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit of every wait.
const TIMEOUT: Duration = Duration::from_secs(30);

struct Plan {
    messages: u64,
    seed: u64,
    has_bpf: bool,
}

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["hostile", folder, seed, messages] => hostile::main(Path::new(folder), seed, messages),
        ["honest", folder, device] => honest::main(Path::new(folder), device),
        words => plan(words).and_then(|plan| run(&plan)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn plan(words: &[&str]) -> Result<Plan> {
    let mut plan = Plan { messages: MESSAGES, seed: fastrand::u64(..), has_bpf: false };
    for word in words {
        match word.split_once('=') {
            Some(("--messages", number)) => plan.messages = number.parse()?,
            Some(("--seed", number)) => plan.seed = number.parse()?,
            None if *word == "--bpf" => plan.has_bpf = true,
            _ => return Err(format!("no such option: {word}").into()),
        }
    }
    Ok(plan)
}

fn run(plan: &Plan) -> Result<()> {
    if !geteuid().is_root() {
        return Err("the hostile peer runs as another user than the controller, which requires root".into());
    }
    eprintln!("seed {}", plan.seed);
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir()?;
    let folder = folder.path();
    let mut controller = Controller::start(folder, plan.has_bpf)?;
    let [high, low] = [Honest::start(folder)?, Honest::start(folder)?];
    for (honest, class) in [(&high, "high"), (&low, "low")] {
        controller.wait_for("an honest process joins", |list| list.find(honest.pid()).is_some())?;
        controller.order(&["set", "--pid", &honest.pid().to_string(), "--class", class])?;
    }
    let witness = Witness::new(controller.list()?, high.pid(), low.pid())?;
    let (began_kib, began_fds) = (controller.memory_kib()?, controller.descriptors()?);

    let began = Instant::now();
    let (tally, most_kib) = attack(&mut controller, folder, plan, &witness, began_kib)?;
    let took = began.elapsed();
    controller.wait_for("nothing is left of the hostile ones", |list| list.count() == 2)?;
    // Whatever devices they have named, there must be capacity for one more that is unused so far.
    let late = Honest::start_on(folder, honest::OTHER_DEVICE)?;
    controller.wait_for("a process joins on another device", |list| list.find(late.pid()).is_some())?;
    drop(late);
    controller.wait_for("it is gone", |list| list.count() == 2)?;
    witness.check_end(&controller.list()?)?;
    let deadline = Instant::now() + TIMEOUT;
    // What wakes the processes of a device is kept: there is one for each index of a device.
    let most_fds = began_fds + DEVICE_MAX;
    while controller.descriptors()? > most_fds {
        if Instant::now() > deadline {
            return Err(format!("{} descriptors, {began_fds} before", controller.descriptors()?).into());
        }
        thread::sleep(CHECK_INTERVAL);
    }
    drop((high, low));
    controller.end()?;

    print("messages processed", "", tally.messages as f64)?;
    print("of them orders to the control socket", "", tally.orders as f64)?;
    print("connections", "", tally.connections as f64)?;
    print("disconnections by the controller", "", tally.disconnections as f64)?;
    print("answers about queues", "", tally.opened as f64)?;
    print("a second", "1/s", tally.messages as f64 / took.as_secs_f64())?;
    print("the controller's memory before", "KiB", began_kib as f64)?;
    print("the controller's memory, the most", "KiB", most_kib as f64)
}

fn print(metric: &str, unit: &'static str, value: f64) -> Result<()> {
    Ok(Row::single(BENCH, metric, unit, &Samples::new(vec![value])).print()?)
}

/// Runs the hostile processes and checks everything meanwhile. Returns their tally and the controller's peak
/// memory.
fn attack(
    controller: &mut Controller,
    folder: &Path,
    plan: &Plan,
    witness: &Witness,
    began_kib: u64,
) -> Result<(Tally, u64)> {
    // In a folder in which the other user can execute it.
    let program = folder.join("hostile");
    fs::copy("/proc/self/exe", &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut hostile = Vec::new();
    for number in 0..HOSTILE {
        let share = plan.messages / HOSTILE + u64::from(number < plan.messages % HOSTILE);
        let mut command = Command::new(&program);
        command
            .arg("hostile")
            .arg(folder)
            .args([plan.seed.wrapping_add(number), share].map(|n| n.to_string()));
        command.uid(USER).gid(USER).stdin(Stdio::null()).stdout(Stdio::piped());
        hostile.push(Killed(command.spawn()?));
    }
    let mut most_kib = began_kib;
    loop {
        let are_done = hostile.iter_mut().map(|one| one.0.try_wait()).collect::<Result<Vec<_>, _>>()?;
        witness.check(&controller.list()?)?;
        most_kib = most_kib.max(controller.memory_kib()?);
        if most_kib > began_kib + witness::MEMORY_MORE_KIB {
            return Err(format!("the controller has {most_kib} KiB, {began_kib} before").into());
        }
        if are_done.iter().all(Option::is_some) {
            break;
        }
        thread::sleep(CHECK_INTERVAL);
    }
    let mut tally = Tally::default();
    for one in hostile {
        tally.add(&Tally::of(one)?);
    }
    Ok((tally, most_kib))
}

/// A child that is killed when this is dropped.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The controller, and commands to it.
struct Controller {
    child: Killed,
    folder: std::path::PathBuf,
}

impl Controller {
    fn start(folder: &Path, has_bpf: bool) -> Result<Self> {
        let mut serve = xsched_ctl(["serve"]);
        serve.args((!has_bpf).then_some("--no-bpf")).env(FOLDER, folder).stdout(Stdio::null());
        serve.stderr(fs::File::create(folder.join("log"))?);
        let mut controller = Self { child: Killed(serve.spawn()?), folder: folder.to_owned() };
        controller.wait_for("the controller comes up", |_| true)?;
        Ok(controller)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = xsched_ctl(words);
        command.env(FOLDER, &self.folder);
        command
    }

    fn order(&self, words: &[&str]) -> Result<()> {
        let output = self.command(words).output()?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
    }

    /// The controller's list of all processes.
    ///
    /// # Errors
    /// It does not answer.
    fn list(&mut self) -> Result<witness::List> {
        if let Some(status) = self.child.0.try_wait()? {
            return Err(format!("the controller has ended with {status}: {}", self.log_end()).into());
        }
        let output = self.command(&["list", "--json"]).output()?;
        witness::List::read(&output.stdout)
            .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }

    fn wait_for(&mut self, what: &str, is_so: impl Fn(&witness::List) -> bool) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let list = self.list();
            match list {
                Ok(list) if is_so(&list) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                _ if Instant::now() > deadline => {
                    return Err(format!("timeout of {TIMEOUT:?}: {what}").into());
                }
                _ => thread::sleep(CHECK_INTERVAL),
            }
        }
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(10).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn memory_kib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    fn descriptors(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.child.0.id()))?.count())
    }

    /// Ends it, and checks its exit.
    fn end(mut self) -> Result<()> {
        let pid = Pid::from_raw(self.child.0.id().cast_signed()).ok_or("a controller has a pid")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.child.0.wait()?;
        if status.success() { Ok(()) } else { Err(format!("{status}: {}", self.log_end()).into()) }
    }
}
