//! Recordings of two processes under the policy `priority`: the timeline shows how they were scheduled.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, hip_sim, shim};
use xsched_tests::execution_log::{Execution, Timeline};
use xsched_tests::needs::TIME_NAMESPACES;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Outcome, Running, in_time_namespace, run, wait_until, xsched_ctl};

/// The variable for the folder of the controller's sockets.
const FOLDER: &str = "XSCHED_SOCKET_DIR";

/// The user `nobody`.
const USER: u32 = 65534;

/// A controller and a device for one test.
struct Node {
    folder: TempDir,
    controller: Option<Running>,
    /// Seconds that boot time in the time namespace of controller and tracer is ahead.
    ahead: i64,
}

impl Node {
    fn new() -> Self {
        Self::start(1, 0)
    }

    fn with_preemption(mode: u8) -> Self {
        Self::start(mode, 0)
    }

    /// Starts the controller with this preemption mode, without BPF programs: another controller may use the machine's.
    fn start(mode: u8, ahead: i64) -> Self {
        let folder = TempDir::new().expect("the temporary folder is writable");
        let config = folder.path().join("config.toml");
        fs::write(&config, format!("[scheduler]\npreemption = {mode}\n")).expect("the folder is writable");
        let mut serve = xsched_ctl(["serve", "--no-bpf", "--config"]);
        serve.arg(config).env(FOLDER, folder.path());
        let mut controller = Running::start(&mut placed(ahead, serve));
        controller.wait_for_stderr("sockets in");
        Self { folder, controller: Some(controller), ahead }
    }

    fn ctl(&self, arguments: &[&str]) -> Command {
        let mut command = xsched_ctl(arguments);
        command.env(FOLDER, self.folder.path());
        command
    }

    /// A client of the device: requests of kernels of this length, in microseconds.
    fn client(&self, class: &str, arguments: &[&str]) -> Command {
        let mut command = self.program("sched_client", class, arguments);
        command.env("HIP_SIM_DURATIONS", "device_step=arg1us");
        command
    }

    fn program(&self, name: &str, class: &str, arguments: &[&str]) -> Command {
        let mut command = self.ctl(&["run", "--require-controller", "--class", class, "--shim"]);
        command.arg(shim()).arg("--").arg(app(name)).args(arguments);
        command
            .env("HIP_SIM_SHARED", format!("scheduling-{}", std::process::id()))
            .env("HIP_SIM_EXECUTION_LOG", self.log());
        command
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("executions")
    }

    /// Records every process until these clients have ended; returns the output of the clients and of the tracer.
    fn record(&self, trace: &Path, options: &[&str], clients: &mut [Command]) -> (Vec<Outcome>, Outcome) {
        // The runtime is probed before the clients load it, so that their first calls are recorded.
        let mut record = self.ctl(&["trace", "--runtime"]);
        record
            .arg(hip_sim(6).join("libamdhip64.so.6"))
            .args(options)
            .arg("-o")
            .arg(trace)
            .env("XSCHED_CTL_LOG", "info");
        let mut tracer = Running::start(&mut placed(self.ahead, record));
        tracer.wait_for_stderr("recording every process");
        let mut running: Vec<_> = clients.iter_mut().map(Client::start).collect();
        // From then on the tracer joins every call with the command that it starts.
        for _ in &running {
            tracer.wait_for_stderr("writes scheduling events");
        }
        running.iter_mut().for_each(Client::begin);
        let outcomes: Vec<_> = running.into_iter().map(Client::finish).collect();
        tracer.signal(Signal::TERM);
        (outcomes, tracer.finish())
    }
}

fn placed(ahead: i64, command: Command) -> Command {
    if ahead == 0 { command } else { in_time_namespace(ahead, &command) }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.signal(Signal::TERM);
            drop(controller.finish());
        }
    }
}

/// A client of the device, which starts its work on request.
struct Client(Child);

impl Client {
    fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(piped.spawn().expect("the command was built"))
    }

    fn begin(&mut self) {
        let mut stdin = self.0.stdin.take().expect("it is a pipe");
        // Some clients wait for one line, some for two.
        stdin.write_all(b"\n\n").expect("the client reads it");
    }

    fn finish(self) -> Outcome {
        let output = self.0.wait_with_output().expect("a child can be waited for");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Outcome { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

fn pid(outcome: &Outcome) -> u32 {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let ready = outcome.stdout.lines().next().unwrap_or_default();
    ready.strip_prefix("ready ").and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("{ready}"))
}

/// An execution as Perfetto's engine reads it, with the call at the start of its arrow.
#[derive(Debug, Deserialize)]
struct Executed {
    ts: u64,
    dur: u64,
    pid: u32,
    queue_delay_ns: u64,
    parts_ns: u64,
    /// Part of the queue delay.
    gated_ns: u64,
    timing: String,
    /// Of the call, which the arrow connects.
    call_kernel: Option<String>,
    call_pid: Option<u32>,
    call_ts: Option<u64>,
}

const EXECUTIONS: &str = "
    select e.ts, e.dur,
        extract_arg(e.arg_set_id, 'debug.pid') as pid,
        extract_arg(e.arg_set_id, 'debug.queue_delay_ns') as queue_delay_ns,
        extract_arg(e.arg_set_id, 'debug.host_ns') + extract_arg(e.arg_set_id, 'debug.buffered_ns')
            + extract_arg(e.arg_set_id, 'debug.behind_ns') + extract_arg(e.arg_set_id, 'debug.gated_ns') as parts_ns,
        extract_arg(e.arg_set_id, 'debug.gated_ns') as gated_ns,
        extract_arg(e.arg_set_id, 'debug.timing') as timing,
        extract_arg(c.arg_set_id, 'debug.kernel') as call_kernel,
        p.pid as call_pid, c.ts as call_ts
    from slice e
    left join flow f on f.slice_in = e.id
    left join slice c on c.id = f.slice_out
    left join thread_track t on c.track_id = t.id left join thread using (utid) left join process p using (upid)
    where e.category = 'gpu' and e.name = 'device_step'
    order by e.ts";

/// Requests and kernels of each, of the urgent process and of the other. The other has work for two seconds, and the urgent one
/// for a quarter of a second: they use the device at the same time even if one of them starts late.
const HIGH: (usize, usize) = (20, 4);
const LOW: (usize, usize) = (200, 20);

/// Precision of the times of HIP events on the simulated device.
const EVENT_ERROR_NS: u64 = 2_000;

struct Recorded {
    node: Node,
    trace: PathBuf,
    /// The tracer's messages.
    messages: String,
    high: u32,
    low: u32,
}

/// Records long kernels without a pause, and short kernels of an urgent process between them.
fn two_under_priority() -> Recorded {
    two_under_priority_with(&[])
}

/// The same, recorded with these options.
fn two_under_priority_with(options: &[&str]) -> Recorded {
    let node = Node::new();
    let trace = node.folder.path().join("run.perfetto");
    let number = |number: usize| number.to_string();
    let low = [&*number(LOW.0), &*number(LOW.1)];
    let low = ["--us", "500", "--ahead", "2", "--requests", low[0], "--kernels", low[1]];
    let high = [&*number(HIGH.0), &*number(HIGH.1)];
    let high = ["--us", "200", "--rate", "80", "--requests", high[0], "--kernels", high[1]];
    let mut clients = [node.client("low", &low), node.client("high", &high)];
    let (outcomes, tracer) = node.record(&trace, options, &mut clients);
    assert_eq!(tracer.code, 0, "{}", tracer.stderr);
    let mut losses = tracer.stderr.lines().filter(|line| line.starts_with("incomplete: "));
    assert!(!losses.any(|line| line.contains("scheduling events")), "{}", tracer.stderr);
    Recorded { trace, low: pid(&outcomes[0]), high: pid(&outcomes[1]), messages: tracer.stderr, node }
}

#[needs(ROOT)]
fn every_launch_has_its_execution_and_an_arrow_to_it() {
    let recorded = two_under_priority();
    let mut sql = Sql::open(&recorded.trace).unwrap();
    sql.assert_clean();
    assert!(!recorded.messages.contains("executions without the call"), "{}", recorded.messages);
    let executions: Vec<Executed> = sql.query_as(EXECUTIONS).expect("the query is right");
    let truth = Timeline::read(&recorded.node.log()).unwrap();
    for (pid, (requests, kernels)) in [(recorded.high, HIGH), (recorded.low, LOW)] {
        let own: Vec<_> = executions.iter().filter(|one| one.pid == pid).collect();
        let truth = truth.of(&[pid]);
        assert_eq!((own.len(), truth.kernels().len()), (requests * kernels, requests * kernels));
        let mut early = Vec::new();
        for (one, truth) in own.iter().zip(truth.kernels()) {
            assert_eq!(
                (one.call_pid, one.call_kernel.as_deref()),
                (Some(pid), Some("device_step")),
                "{one:?}"
            );
            let called_ns = one.ts - one.queue_delay_ns;
            assert_eq!(one.parts_ns, one.queue_delay_ns, "the parts add up to it: {one:?}");
            assert_eq!(Some(called_ns), one.call_ts, "{one:?}");
            // A process learns of an end only after it.
            let end_ns = one.ts + one.dur;
            let is_after = end_ns + EVENT_ERROR_NS >= truth.end_ns;
            if !is_after && one.timing != "estimated" {
                early.push((*one, truth.end_ns));
            }
        }
        // On a busy machine, the first estimates of the device's clock rest on few observations.
        assert!(early.len() * 50 <= own.len(), "{early:?}");
        let measured = own.iter().filter(|one| one.timing == "measured").count();
        assert!(measured * 10 >= own.len() * 9, "{measured} of {}", own.len());
    }
}

/// Controller and tracer in one, a client that is ahead of them, and one that is behind.
#[needs(ROOT, TIME_NAMESPACES)]
fn processes_of_three_time_namespaces_are_recorded_on_one_clock() {
    let node = Node::start(1, 3_600);
    let trace = node.folder.path().join("run.perfetto");
    let arguments = ["--us", "500", "--ahead", "2", "--requests", "10", "--kernels", "20"];
    let mut clients = [86_400, -10].map(|ahead| in_time_namespace(ahead, &node.client("low", &arguments)));
    let (outcomes, tracer) = node.record(&trace, &[], &mut clients);
    assert_eq!(tracer.code, 0, "{}", tracer.stderr);
    let mut sql = Sql::open(&trace).expect("the recording loads");
    sql.assert_clean();
    let executions: Vec<Executed> = sql.query_as(EXECUTIONS).unwrap();
    for pid in outcomes.iter().map(pid) {
        let own: Vec<_> = executions.iter().filter(|one| one.pid == pid).collect();
        assert_eq!(own.len(), 200, "{}", tracer.stderr);
        for one in own {
            assert_eq!(
                (one.call_pid, one.call_ts),
                (Some(pid), Some(one.ts - one.queue_delay_ns)),
                "{one:?}"
            );
        }
    }
}

/// A kernel that has passed its gate before it closed may still wait behind urgent kernels, and this wait is shown as execution.
/// Kernels are long here, so that some kernels do wait at the gate even on a busy machine.
#[needs(ROOT)]
fn a_kernel_that_waits_at_a_closed_gate_is_not_shown_as_executing() {
    check_stopped_kernels(0);
}

/// The arbiter notes when it closes a gate, and the process accounts for it.
#[needs(ROOT, TIME_NAMESPACES)]
fn nor_is_one_in_another_time_namespace() {
    check_stopped_kernels(86_400);
}

#[track_caller]
fn check_stopped_kernels(ahead: i64) {
    let node = Node::with_preemption(2);
    let trace = node.folder.path().join("run.perfetto");
    let low = ["--us", "20000", "--ahead", "3", "--requests", "40", "--kernels", "2"];
    let high = ["--us", "1000", "--rate", "2", "--requests", "4", "--kernels", "250"];
    let mut clients = [placed(ahead, node.client("low", &low)), node.client("high", &high)];
    let (outcomes, tracer) = node.record(&trace, &[], &mut clients);
    assert_eq!(tracer.code, 0, "{}", tracer.stderr);
    let low = pid(&outcomes[0]);
    let mut sql = Sql::open(&trace).expect("the recording loads");
    sql.assert_clean();
    let executions: Vec<Executed> = sql.query_as(EXECUTIONS).expect("the query is right");
    let stopped = |one: &&Executed| one.pid == low && one.gated_ns > 100_000_000;
    let mut shown: Vec<_> = executions.iter().filter(stopped).map(|one| one.dur).collect();
    shown.sort_unstable();
    let median = shown.get(shown.len() / 2).expect("a kernel has waited at its gate");
    assert!(*median < 100_000_000, "kernels of 20 ms: {shown:?}");
}

/// Each copy knows the gate page by its own registration.
#[needs(ROOT)]
fn the_controller_closes_the_gates_of_both_runtime_copies_of_a_process() {
    let node = Node::with_preemption(2);
    let high = ["--us", "500", "--rate", "40", "--requests", "100", "--kernels", "8"];
    let mut high = Client::start(&mut node.client("high", &high));
    high.begin();
    let mut low = node.program("two_runtimes", "low", &["1500"]);
    let low = Client::start(low.env("HIP_SIM_DURATIONS", "two_runtimes*=200us")).finish();
    assert_eq!((low.code, low.stdout.as_str()), (0, "right\nright\n"), "{}", low.stderr);
    let high = pid(&high.finish());
    let timeline = Timeline::read(&node.log()).unwrap();
    let urgent = timeline.of(&[high]);
    // From a request's first kernel on, its process has work until the last one ends.
    let requests = urgent.kernels().chunks(8).map(|kernels| (kernels[0].submitted_ns, kernels[7].end_ns));
    let requests: Vec<_> = requests.filter(|(from_ns, to_ns)| to_ns - from_ns > 3_000_000).collect();
    for kernel in ["two_runtimes_step_a", "two_runtimes_step_b"] {
        let waited = |one: &&Execution| {
            let waited_for =
                |&(from_ns, to_ns): &(u64, u64)| one.submitted_ns < from_ns && one.start_ns >= to_ns;
            one.kernel == kernel && requests.iter().any(waited_for)
        };
        let waited = timeline.kernels().iter().filter(waited).count();
        // One or two are launched before the controller's thread has heard of the request.
        assert!(waited > 5, "{waited} of {kernel} beside {} requests", requests.len());
    }
}

#[needs(ROOT)]
fn executions_whose_calls_are_left_out_are_counted() {
    let recorded = two_under_priority_with(&["--api", "copy"]);
    let mut sql = Sql::open(&recorded.trace).unwrap();
    sql.assert_clean();
    let of_calls = "select count(*) as n from slice where category = 'gpu' and name = 'command'";
    let uncalled = sql.query(of_calls).unwrap()[0]["n"].as_u64().unwrap();
    assert!(uncalled >= (HIGH.0 * HIGH.1 + LOW.0 * LOW.1) as u64, "{uncalled}");
    let line = format!("left out: {uncalled} calls of executions, ");
    let report = run(recorded.node.ctl(&["report"]).arg(&recorded.trace));
    assert!(recorded.messages.contains(&line) && report.stdout.contains(&line), "{}", recorded.messages);
}

#[needs(ROOT)]
fn a_preemption_names_both_processes_and_the_reason() {
    let recorded = two_under_priority();
    let mut sql = Sql::open(&recorded.trace).unwrap();
    sql.assert_clean();
    let (high, low) = (recorded.high, recorded.low);
    let mut count = |query: &str| sql.query(query).unwrap()[0]["n"].as_u64().unwrap();
    let arg = |name: &str| format!("extract_arg(arg_set_id, 'debug.{name}')");
    let both = format!("{} = {low} and {} = {high}", arg("pid"), arg("by_pid"));
    let why =
        format!("{} = 'more urgent work came' and {} > {}", arg("reason"), arg("level"), arg("by_level"));
    let preempted = "select count(*) as n from slice where category = 'arbiter' and name = 'preempted'";
    let named = count(&format!("{preempted} and {both} and {why}"));
    // Usually one for each request; but a process that the machine did not run issues several requests at once.
    assert!(named > 0, "{named} preemptions");
    assert_eq!(count(&format!("{preempted} and {} = {high}", arg("pid"))), 0);
    let suspended = "select count(*) as n from slice where category = 'xqueue' and name = 'suspended'";
    assert!(count(&format!("{suspended} and {both}")) > 0);
    let deferred =
        format!("select count(*) as n from slice where category = 'gpu' and {} > 0", arg("suspended_ns"));
    assert!(count(&format!("{deferred} and {both}")) > 0);
    // Each process has its tracks, in the device's group.
    let tracks = "select count(distinct t.name) as n from slice s join track t on s.track_id = t.id \
                  join track p on t.parent_id = p.id where p.name glob 'GPU 0000:*'";
    for (name, of_name) in [("arbiter", 1), ("*XQueue", 2), ("*stream 0x*", 2)] {
        assert_eq!(count(&format!("{tracks} and t.name glob '{name}'")), of_name, "{name}");
    }
    let tops = "select count(*) as n from slice where category = 'arbiter' and name glob 'level *'";
    assert!(count(&format!("{tops} and {} = '{high}'", arg("pids"))) > 0);
    let config = "select count(*) as n from slice where name = 'trace_config'";
    assert_eq!(count(&format!("{config} and {} = 'priority'", arg("policy"))), 1);
}

#[needs(ROOT)]
fn the_report_shows_where_the_time_went() {
    let recorded = two_under_priority();
    let report = run(recorded.node.ctl(&["report", "--json"]).arg(&recorded.trace));
    assert_eq!(report.code, 0, "{}", report.stderr);
    let json: Value = serde_json::from_str(&report.stdout).unwrap();
    let delays: HashMap<_, _> = json["delays"]
        .as_array()
        .unwrap()
        .iter()
        .map(|delay| (delay["process"].as_str().unwrap().to_owned(), delay))
        .collect();
    let (high, low) = (format!("sched_client {}", recorded.high), format!("sched_client {}", recorded.low));
    for (process, (requests, kernels)) in [(&high, HIGH), (&low, LOW)] {
        let delay = delays[process];
        let number = |name: &str| delay[name].as_u64().unwrap();
        // And the commands that the program makes once, such as filling its memory.
        assert!(number("commands") >= (requests * kernels) as u64, "{delay}");
        let gave_way: u64 =
            delay["gave_way"].as_array().unwrap().iter().map(|one| one["ns"].as_u64().unwrap()).sum();
        let parts = number("host_ns")
            + gave_way
            + number("deferred_ns")
            + number("behind_ns")
            + number("executing_ns");
        assert_eq!(parts, number("total_ns"), "{delay}");
    }
    assert_eq!(delays[&low]["gave_way"][0]["to"].as_str(), Some(&*high));
    let text = run(recorded.node.ctl(&["report"]).arg(&recorded.trace));
    assert!(text.stdout.contains(&format!("{low} was preempted by {high} for ")), "{}", text.stdout);
}

/// What `replay` prints about a recording, with these options.
fn replayed(recorded: &Recorded, options: &[&str]) -> Value {
    let replay = run(recorded.node.ctl(&["replay", "--json"]).arg(&recorded.trace).args(options));
    assert_eq!(replay.code, 0, "{}", replay.stderr);
    serde_json::from_str(&replay.stdout).expect("it is JSON")
}

#[needs(ROOT)]
fn a_recording_is_replayed_under_other_parameters_and_the_run_can_be_viewed() {
    let recorded = two_under_priority();
    let tried = recorded.node.folder.path().join("tried.perfetto");
    let swapped = [format!("{}:class=low", recorded.high), format!("{}:class=high", recorded.low)];
    let options = ["--set", &*swapped[0], "--set", &*swapped[1], "-o", tried.to_str().unwrap()];
    let json = replayed(&recorded, &options);
    assert_eq!(json["policy"], "priority");
    let of = |pid: u32| {
        let processes = json["processes"].as_array().unwrap();
        processes.iter().find(|process| process["pid"] == pid).unwrap_or_else(|| panic!("no process {pid}"))
    };
    for (pid, (requests, _)) in [(recorded.high, HIGH), (recorded.low, LOW)] {
        // On a busy machine, a wait that returns at once does not show: then two requests are one.
        for run in ["recorded", "model"] {
            assert!(of(pid)[run]["requests"].as_u64().unwrap() >= requests as u64 / 2, "{run}: {json}");
        }
    }
    // The one that always has work is the most urgent now.
    assert!(of(recorded.high)["change"]["commands_percent"].as_f64().unwrap() < 0.0, "{json}");
    let mut sql = Sql::open(&tried).unwrap();
    sql.assert_clean();
    let pids: Vec<Value> = sql
        .query(
            "select distinct extract_arg(arg_set_id, 'debug.pid') as pid from slice where category = 'gpu'",
        )
        .unwrap();
    assert_eq!(pids.len(), 2, "{pids:?}");
}

#[needs(ROOT)]
fn a_recording_without_a_controller_is_not_replayed() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("run.perfetto");
    let mut record = xsched_ctl(["trace", "-o"]);
    record.arg(&trace).env(FOLDER, folder.path()).arg("--").arg(app("vector_add"));
    assert_eq!(run(&mut record).code, 0);
    let refused = run(xsched_ctl(["replay"]).arg(&trace));
    assert_eq!(refused.code, 65, "{}", refused.stderr);
    assert!(refused.stderr.contains("has no executions"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: run the programs with `xsched-ctl run`"), "{}", refused.stderr);
}

/// Executions of a kernel of one origin.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct ByOrigin {
    name: String,
    origin: Option<String>,
    commands: u64,
    device_ns: u64,
}

const BY_ORIGIN: &str = "
    select name, extract_arg(arg_set_id, 'debug.origin') as origin, count(*) as commands, sum(dur) as device_ns
    from slice where category = 'gpu' and name in ('callers_own', 'callers_step') group by 1, 2 order by 1, 2";

/// Number of steps of the program itself, and of a library that it calls.
const STEPS: u64 = 40;

#[needs(ROOT)]
fn device_time_is_attributed_to_the_library_that_launched() {
    let node = Node::new();
    let trace = node.folder.path().join("run.perfetto");
    let mut program = node.program("callers", "normal", &["steps", &(2 * STEPS).to_string()]);
    program.env("HIP_SIM_DURATIONS", "callers_own=100us,callers_step=300us");
    let (outcomes, tracer) = node.record(&trace, &[], &mut [program]);
    assert_eq!((outcomes[0].code, tracer.code), (0, 0), "{}{}", outcomes[0].stderr, tracer.stderr);
    let mut sql = Sql::open(&trace).unwrap();
    sql.assert_clean();
    let rows: Vec<ByOrigin> = sql.query_as(BY_ORIGIN).unwrap();
    let [own, library] = &rows[..] else { panic!("{rows:?}") };
    for (row, name, origin) in [(own, "callers_own", "callers"), (library, "callers_step", "librocblas.so.4")]
    {
        assert_eq!(
            (&*row.name, row.origin.as_deref(), row.commands),
            (name, Some(origin), STEPS),
            "{rows:?}"
        );
    }

    let report = run(node.ctl(&["report", "--json"]).arg(&trace));
    assert_eq!(report.code, 0, "{}", report.stderr);
    let json: Value = serde_json::from_str(&report.stdout).unwrap();
    let lines = json["device_time"].as_array().unwrap();
    let of = |origin: &str, what: &str| -> u64 {
        let own = lines.iter().filter(|line| line["origin"] == origin);
        own.map(|line| line[what].as_u64().unwrap()).sum()
    };
    let of_library = (of("librocblas.so.4", "commands"), of("librocblas.so.4", "device_ns"));
    assert_eq!(of_library, (library.commands, library.device_ns), "{lines:?}");
    // The program also fills and copies memory.
    assert!(
        of("callers", "commands") > own.commands && of("callers", "device_ns") > own.device_ns,
        "{lines:?}"
    );
    let executing_ns = json["delays"][0]["executing_ns"].as_u64().unwrap();
    let device_ns: u64 = lines.iter().map(|line| line["device_ns"].as_u64().unwrap()).sum();
    assert_eq!(device_ns, executing_ns, "each command has one origin: {lines:?}");
    let text = run(node.ctl(&["report"]).arg(&trace));
    let is_named = |line: &str| line.starts_with("callers ") && line.contains("librocblas.so.4");
    assert!(text.stdout.lines().any(is_named), "{}", text.stdout);
}

/// Executions as typed GPU events: each once, with all its data, and the report reads them like the others.
#[needs(ROOT)]
fn executions_are_gpu_render_stages_on_request() {
    let recorded = two_under_priority_with(&["--gpu-render-stages"]);
    let mut sql = Sql::open(&recorded.trace).unwrap();
    sql.assert_clean();
    let stages = sql
        .query(
            "select extract_arg(s.arg_set_id, 'pid') as pid, count(*) as n,
                sum(t.name glob 'sched_client ' || extract_arg(s.arg_set_id, 'pid') || ' stream 0x*') as on_own_queue,
                sum(extract_arg(s.arg_set_id, 'queue_delay_ns') is not null) as explained
             from gpu_slice s join gpu_track t on s.track_id = t.id where s.name = 'device_step' group by 1",
        )
        .unwrap();
    let kernels = |pid: u32| {
        let (requests, kernels) = if pid == recorded.high { HIGH } else { LOW };
        requests * kernels
    };
    assert_eq!(stages.len(), 2, "{stages:?}");
    for pid in [recorded.high, recorded.low] {
        // Extra data has the type text.
        let text = pid.to_string();
        let own = stages.iter().find(|own| own["pid"].as_str() == Some(&text)).unwrap();
        for column in ["n", "on_own_queue", "explained"] {
            assert_eq!(own[column], kernels(pid), "{column}: {own}");
        }
    }
    assert_eq!(sql.query("select * from slice where category = 'gpu'").unwrap(), Vec::<Value>::new());

    let report = run(recorded.node.ctl(&["report", "--json"]).arg(&recorded.trace));
    let json: Value = serde_json::from_str(&report.stdout).unwrap();
    for pid in [recorded.high, recorded.low] {
        let process = format!("sched_client {pid}");
        let delay =
            json["delays"].as_array().unwrap().iter().find(|delay| delay["process"] == process).unwrap();
        assert!(delay["commands"].as_u64().unwrap() >= kernels(pid) as u64, "{delay}");
    }
    let page = recorded.node.folder.path().join("page.html");
    let html = run(recorded.node.ctl(&["report", "--html"]).arg(&page).arg(&recorded.trace));
    assert_eq!(html.code, 0, "{}", html.stderr);
    let page = fs::read_to_string(page).unwrap();
    for table in ["Device time by kernel", "Time from launch to execution, by process"] {
        assert!(page.contains(table), "no table {table:?}");
    }
}

#[needs(ROOT)]
fn events_of_a_killed_process_are_in_the_recording() {
    let node = Node::new();
    let trace = node.folder.path().join("run.perfetto");
    let mut record = node.ctl(&["trace", "--runtime"]);
    record.arg(hip_sim(6).join("libamdhip64.so.6")).arg("-o").arg(&trace).env("XSCHED_CTL_LOG", "info");
    let mut tracer = Running::start(&mut record);
    tracer.wait_for_stderr("recording every process");
    let mut client = Running::start(&mut node.client("normal", &["--us", "100", "--seconds", "120"]));
    let ready = client.wait_for_stdout("ready ");
    let pid: i32 = ready.trim_start_matches("ready ").parse().unwrap();
    let kernels = || Timeline::read(&node.log()).map_or(0, |timeline| timeline.kernels().len());
    tracer.wait_for_stderr("writes scheduling events");
    let before = kernels();
    wait_until("it launches", || kernels() >= before + 1200);
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(process, Signal::KILL).unwrap();
    drop(client.finish());
    tracer.signal(Signal::TERM);
    let outcome = tracer.finish();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mut sql = Sql::open(&trace).unwrap();
    sql.assert_clean();
    let executed: Vec<Executed> = sql.query_as(EXECUTIONS).unwrap();
    assert!(executed.len() >= 400, "{} executions: {}", executed.len(), outcome.stderr);
    assert!(executed.iter().all(|one| one.pid == pid as u32));
}

#[needs(ROOT)]
fn a_second_recording_of_scheduling_is_refused() {
    let node = Node::new();
    let [first, second] = ["first", "second"].map(|name| node.folder.path().join(name));
    let mut record = node.ctl(&["trace", "-o"]);
    record.arg(&first);
    let mut tracer = Running::start(&mut record);
    tracer.wait_for_stderr("recording every process");
    let mut refused = node.ctl(&["trace", "-o"]);
    refused.arg(&second);
    let mut other = Running::start(&mut refused);
    other.wait_for_stderr("scheduling is not in the timeline: another user is recording it");
    for running in [other, tracer] {
        running.signal(Signal::TERM);
        assert_eq!(running.finish().code, 0);
    }
    assert!(fs::metadata(&second).unwrap().len() > 0);
}

#[needs(ROOT)]
fn a_process_of_another_controller_is_reported() {
    // In a folder that only this user and root may write.
    let folder = TempDir::new().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(USER), None).unwrap();
    let mut serve = xsched_ctl(["serve", "--no-bpf"]);
    let mut controller = Running::start(serve.uid(USER).current_dir("/").env(FOLDER, folder.path()));
    controller.wait_for_stderr("sockets in");
    let mut command = xsched_ctl(["run", "--require-controller", "--shim"]);
    command.arg(shim()).arg("--").arg(app("two_libraries")).args(["--seconds", "20"]);
    command.env("HIP_SIM_SHARED", format!("elsewhere-{}", std::process::id()));
    let process = Running::start(command.uid(USER).current_dir("/").env(FOLDER, folder.path()));

    let output = TempDir::new().unwrap();
    let said = |folder: &Path| {
        let mut trace = xsched_ctl(["trace", "-o"]);
        trace.arg(output.path().join("trace")).env(FOLDER, folder);
        let mut tracer = Running::start(&mut trace);
        let line = tracer.wait_for_stderr("scheduling ");
        tracer.signal(Signal::TERM);
        assert_eq!(tracer.finish().code, 0);
        line
    };
    let line = said(output.path());
    let place = folder.path().display();
    assert!(line.starts_with("warning: scheduling of process "), "{line}");
    let whose = format!(
        "its controller is in {place}; only its user ({USER}) can record it; root can run a controller instead"
    );
    assert!(line.ends_with(&whose), "{line}");
    let line = said(folder.path());
    let wanted = format!(
        "warning: scheduling is not in the timeline: the controller at {place}/record.sock is user {USER}'s"
    );
    assert_eq!(line, wanted);
    // Also for a command that ends at once; and nothing without a timeline.
    let mut trace = xsched_ctl(["trace", "-o"]);
    let outcome = run(trace.arg(output.path().join("short")).args(["--", "true"]).env(FOLDER, folder.path()));
    assert!(outcome.stderr.lines().any(|line| line == wanted), "{}", outcome.stderr);
    let mut attach = xsched_ctl(["attach", "--all", "--duration", "1s"]);
    let outcome = run(attach.env(FOLDER, folder.path()));
    assert!(outcome.code == 0 && !outcome.stderr.contains("scheduling "), "{}", outcome.stderr);
    for running in [process, controller] {
        running.signal(Signal::TERM);
        drop(running.finish());
    }
}

fn main() -> ExitCode {
    xsched_harness::main()
}
