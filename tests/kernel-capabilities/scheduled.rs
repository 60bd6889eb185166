//! A controller and two programs of different classes on the simulated device.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use xsched_tests::artifacts::{app, shim};
use xsched_tests::tracer::{run, xsched_ctl};

/// The processor is emulated: the controller's programs take minutes to be verified.
const PATIENCE: Duration = Duration::from_mins(8);

const REQUESTS: usize = 20;

/// What the controller said while both ran, and whether they computed what they should.
pub(crate) fn try_it() -> Value {
    let folder = std::env::temp_dir().join("scheduled");
    let log = folder.join("log");
    let tried = fs::create_dir_all(&folder).and_then(|()| under_a_controller(&folder, &log));
    let said = fs::read_to_string(&log).unwrap_or_default();
    match tried {
        Ok(mut tried) => {
            tried["said"] = said.into();
            tried
        }
        Err(error) => json!({ "error": error.to_string(), "said": said }),
    }
}

/// A process that ends with this program.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn under_a_controller(folder: &Path, log: &Path) -> io::Result<Value> {
    let command = |arguments: &[&str]| {
        let mut command = xsched_ctl(arguments);
        command.env("XSCHED_SOCKET_DIR", folder);
        command
    };
    let controller = command(&["serve"]).stderr(File::create(log)?).stdout(Stdio::null()).spawn()?;
    let mut controller = Ending(controller);
    let begin = Instant::now();
    // Asking takes a second here, which the controller lacks then.
    while !folder.join("control.sock").exists() || run(&mut command(&["list"])).code != 0 {
        if begin.elapsed() > PATIENCE || controller.0.try_wait()?.is_some() {
            return Err(io::Error::other("the controller does not start"));
        }
        thread::sleep(Duration::from_millis(500));
    }
    let shim = shim().display().to_string();
    let client = |class| {
        let mut run = command(&["run", "--require-controller", "--shim", &shim, "--class", class, "--"]);
        run.arg(app("sched_client")).args(["--us", "1000", "--requests", &REQUESTS.to_string()]);
        Client::start(&mut run)
    };
    let clients = [client("high")?, client("low")?];
    let mut results = Vec::new();
    // Both begin before one is waited for.
    for client in clients.map(Client::begin) {
        results.push(client?.result()?);
    }
    let list: Value =
        serde_json::from_str(&run(&mut command(&["list", "--json"])).stdout).unwrap_or_default();
    kill_process(Pid::from_child(&controller.0), Signal::TERM)?;
    let ended = controller.0.wait()?;
    let requests = |result: &Value| result["requests"].as_array().map_or(0, Vec::len);
    Ok(json!({
        "joined": list["controller"]["counts"]["joined"],
        "keeper": list["controller"]["keeper"],
        "sight": list["controller"]["sight"],
        "requests": results.iter().map(requests).sum::<usize>(),
        "wanted": results.len() * REQUESTS,
        "wrong": results.iter().filter_map(|result| result["wrong"].as_u64()).sum::<u64>(),
        "ended_well": ended.success(),
    }))
}

/// `tests/apps/sched_client` under `run`.
struct Client {
    process: Ending,
    output: BufReader<std::process::ChildStdout>,
}

impl Client {
    /// Returns when it has used the device, so that it has joined.
    fn start(command: &mut Command) -> io::Result<Self> {
        let mut process =
            Ending(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
        let output = process.0.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut client = Self { process, output: BufReader::new(output) };
        let mut line = String::new();
        client.output.read_line(&mut line)?;
        if line.starts_with("ready") { Ok(client) } else { Err(client.failure()) }
    }

    fn begin(mut self) -> io::Result<Self> {
        let mut input = self.process.0.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(b"\n")?;
        Ok(self)
    }

    fn result(mut self) -> io::Result<Value> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.process.0.wait()?;
        match serde_json::from_str(&text) {
            Ok(result) if status.success() => Ok(result),
            _ => Err(self.failure()),
        }
    }

    fn failure(&mut self) -> io::Error {
        let mut said = String::new();
        let _ = self.process.0.kill();
        if let Some(stderr) = &mut self.process.0.stderr {
            let _ = stderr.read_to_string(&mut said);
        }
        io::Error::other(format!("a program under the controller failed: {said}"))
    }
}
