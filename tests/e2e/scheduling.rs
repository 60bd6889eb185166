//! Two processes under priority, recorded: what the timeline says of scheduling is what happened.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use xsched_tests::artifacts::{app, hip_sim, shim};
use xsched_tests::execution_log::Timeline;
use xsched_tests::privileged::may_trace;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Outcome, Running, run, wait_until, xsched_ctl};

/// Names the folder of the controller's sockets.
const FOLDER: &str = "XSCHED_SOCKET_DIR";

/// Nobody.
const USER: u32 = 65534;

/// A controller with a device of its own, until the test ends.
struct Node {
    folder: TempDir,
    controller: Option<Running>,
}

impl Node {
    fn new() -> Self {
        Self::at_level(1)
    }

    /// The controller preempts at this level. It keeps the page itself: another one may have the machine's.
    fn at_level(level: u8) -> Self {
        let folder = TempDir::new().expect("the temporary folder is writable");
        let config = folder.path().join("config.toml");
        fs::write(&config, format!("[scheduler]\npreemption = {level}\n")).expect("so is what is in it");
        let mut serve = xsched_ctl(["serve", "--no-bpf", "--config"]);
        serve.arg(config).env(FOLDER, folder.path());
        let mut controller = Running::start(&mut serve);
        controller.wait_for_stderr("sockets in");
        Self { folder, controller: Some(controller) }
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

    /// Records everybody while these run, to their ends; returns what the clients and the tracer said.
    fn record(&self, trace: &Path, options: &[&str], clients: &mut [Command]) -> (Vec<Outcome>, Outcome) {
        // Probed before the clients load it, so that their first calls are there.
        let mut record = self.ctl(&["trace", "--runtime"]);
        record
            .arg(hip_sim(6).join("libamdhip64.so.6"))
            .args(options)
            .arg("-o")
            .arg(trace)
            .env("XSCHED_CTL_LOG", "info");
        let mut tracer = Running::start(&mut record);
        tracer.wait_for_stderr("recording every process");
        let mut running: Vec<_> = clients.iter_mut().map(Client::start).collect();
        // From then on every call is put together with what it starts.
        for _ in &running {
            tracer.wait_for_stderr("tells of its commands");
        }
        running.iter_mut().for_each(Client::begin);
        let outcomes: Vec<_> = running.into_iter().map(Client::finish).collect();
        tracer.signal(Signal::TERM);
        (outcomes, tracer.finish())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.signal(Signal::TERM);
            drop(controller.finish());
        }
    }
}

/// A client that uses the device, and begins when it is told to.
struct Client(Child);

impl Client {
    fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(piped.spawn().expect("the command is there"))
    }

    fn begin(&mut self) {
        let mut stdin = self.0.stdin.take().expect("it is a pipe");
        // Some want one line, some a second one.
        stdin.write_all(b"\n\n").expect("it waits for this");
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

/// An execution as Perfetto's engine sees it, with the call that an arrow comes from.
#[derive(Debug, Deserialize)]
struct Executed {
    ts: u64,
    dur: u64,
    pid: u32,
    queue_delay_ns: u64,
    parts_ns: u64,
    /// Part of them.
    gated_ns: u64,
    timing: String,
    /// The call's, by the arrow.
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

/// Requests and kernels of each, of the urgent one and of the other. The other has work for two seconds, and the urgent one for a
/// quarter of one: they are on the device at the same time even if one of them begins late.
const HIGH: (usize, usize) = (20, 4);
const LOW: (usize, usize) = (200, 20);

/// How exactly the simulated device's events tell the time.
const EVENT_ERROR_NS: u64 = 2_000;

struct Recorded {
    node: Node,
    trace: PathBuf,
    /// What the tracer has told people.
    told: String,
    high: u32,
    low: u32,
}

/// Long kernels without a pause, and short ones of an urgent process between them.
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
    assert!(!tracer.stderr.contains("scheduling events"), "{}", tracer.stderr);
    Recorded { trace, low: pid(&outcomes[0]), high: pid(&outcomes[1]), told: tracer.stderr, node }
}

#[test]
fn every_launch_has_its_execution_and_an_arrow_to_it() {
    if !may_trace("every_launch_has_its_execution_and_an_arrow_to_it") {
        return;
    }
    let recorded = two_under_priority();
    let mut sql = Sql::open(&recorded.trace).unwrap();
    sql.assert_clean();
    assert!(!recorded.told.contains("executions without the call"), "{}", recorded.told);
    let executions: Vec<Executed> = sql.query_as(EXECUTIONS).unwrap();
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
            assert_eq!(one.parts_ns, one.queue_delay_ns, "the parts are all of it: {one:?}");
            assert_eq!(Some(called_ns), one.call_ts, "{one:?}");
            // A process learns of an end after it, and never before.
            let end_ns = one.ts + one.dur;
            let is_after = end_ns + EVENT_ERROR_NS >= truth.end_ns;
            if !is_after && one.timing != "estimated" {
                early.push((*one, truth.end_ns));
            }
        }
        // On a busy machine the device's clock is placed by few observations at first.
        assert!(early.len() * 50 <= own.len(), "{early:?}");
        let measured = own.iter().filter(|one| one.timing == "measured").count();
        assert!(measured * 10 >= own.len() * 9, "{measured} of {}", own.len());
    }
}

/// What has passed its gate before that was shut may wait behind urgent kernels all the same, and is shown as executed then. Kernels
/// are long here, so that on a busy machine, too, there are some that have not.
#[test]
fn what_waits_at_a_shut_gate_is_not_shown_as_executed() {
    if !may_trace("what_waits_at_a_shut_gate_is_not_shown_as_executed") {
        return;
    }
    let node = Node::at_level(2);
    let trace = node.folder.path().join("run.perfetto");
    let low = ["--us", "20000", "--ahead", "3", "--requests", "40", "--kernels", "2"];
    let high = ["--us", "1000", "--rate", "2", "--requests", "4", "--kernels", "250"];
    let mut clients = [node.client("low", &low), node.client("high", &high)];
    let (outcomes, tracer) = node.record(&trace, &[], &mut clients);
    assert_eq!(tracer.code, 0, "{}", tracer.stderr);
    let low = pid(&outcomes[0]);
    let mut sql = Sql::open(&trace).unwrap();
    sql.assert_clean();
    let executions: Vec<Executed> = sql.query_as(EXECUTIONS).unwrap();
    let stopped = |one: &&Executed| one.pid == low && one.gated_ns > 100_000_000;
    let mut shown: Vec<_> = executions.iter().filter(stopped).map(|one| one.dur).collect();
    shown.sort_unstable();
    let median = shown.get(shown.len() / 2).expect("something has waited at its gate");
    assert!(*median < 100_000_000, "kernels of 20 ms: {shown:?}");
}

#[test]
fn executions_whose_calls_are_left_out_are_counted() {
    if !may_trace("executions_whose_calls_are_left_out_are_counted") {
        return;
    }
    let recorded = two_under_priority_with(&["--api", "copy"]);
    let mut sql = Sql::open(&recorded.trace).unwrap();
    sql.assert_clean();
    let of_calls = "select count(*) as n from slice where category = 'gpu' and name = 'command'";
    let uncalled = sql.query(of_calls).unwrap()[0]["n"].as_u64().unwrap();
    assert!(uncalled >= (HIGH.0 * HIGH.1 + LOW.0 * LOW.1) as u64, "{uncalled}");
    let line = format!("left out: {uncalled} calls of executions, ");
    let report = run(recorded.node.ctl(&["report"]).arg(&recorded.trace));
    assert!(recorded.told.contains(&line) && report.stdout.contains(&line), "{}", recorded.told);
}

#[test]
fn a_preemption_names_both_and_says_why() {
    if !may_trace("a_preemption_names_both_and_says_why") {
        return;
    }
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
    // As a rule one for each request; but a process that was kept from running makes up for it at once.
    assert!(named > 0, "{named} preemptions");
    assert_eq!(count(&format!("{preempted} and {} = {high}", arg("pid"))), 0);
    let suspended = "select count(*) as n from slice where category = 'xqueue' and name = 'suspended'";
    assert!(count(&format!("{suspended} and {both}")) > 0);
    let held_back =
        format!("select count(*) as n from slice where category = 'gpu' and {} > 0", arg("suspended_ns"));
    assert!(count(&format!("{held_back} and {both}")) > 0);
    // Each has its tracks, in the device's group.
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

#[test]
fn the_report_says_where_the_time_went() {
    if !may_trace("the_report_says_where_the_time_went") {
        return;
    }
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
        // And what the program does once, as filling its memory.
        assert!(number("commands") >= (requests * kernels) as u64, "{delay}");
        let gave_way: u64 =
            delay["gave_way"].as_array().unwrap().iter().map(|one| one["ns"].as_u64().unwrap()).sum();
        let parts = number("host_ns")
            + gave_way
            + number("held_back_ns")
            + number("behind_ns")
            + number("executing_ns");
        assert_eq!(parts, number("total_ns"), "{delay}");
    }
    assert_eq!(delays[&low]["gave_way"][0]["to"].as_str(), Some(&*high));
    let text = run(recorded.node.ctl(&["report"]).arg(&recorded.trace));
    assert!(text.stdout.contains(&format!("{low} gave way to {high} for ")), "{}", text.stdout);
}

/// Executions of a kernel, all of one origin.
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

/// Steps by the program itself, and as many by a library that it calls.
const STEPS: u64 = 40;

#[test]
fn device_time_belongs_to_the_library_that_launched() {
    if !may_trace("device_time_belongs_to_the_library_that_launched") {
        return;
    }
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
    // The program fills and copies, too.
    assert!(
        of("callers", "commands") > own.commands && of("callers", "device_ns") > own.device_ns,
        "{lines:?}"
    );
    let executing_ns = json["delays"][0]["executing_ns"].as_u64().unwrap();
    let device_ns: u64 = lines.iter().map(|line| line["device_ns"].as_u64().unwrap()).sum();
    assert_eq!(device_ns, executing_ns, "each command belongs to somebody, once: {lines:?}");
    let text = run(node.ctl(&["report"]).arg(&trace));
    let is_named = |line: &str| line.starts_with("callers ") && line.contains("librocblas.so.4");
    assert!(text.stdout.lines().any(is_named), "{}", text.stdout);
}

/// Executions as typed events of GPUs: each once, with what is known of it, and the report reads them like the others.
#[test]
fn executions_are_stages_of_the_gpu_where_these_are_asked_for() {
    if !may_trace("executions_are_stages_of_the_gpu_where_these_are_asked_for") {
        return;
    }
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
        // Extra data is text.
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

#[test]
fn a_process_that_is_killed_leaves_what_it_had_written() {
    if !may_trace("a_process_that_is_killed_leaves_what_it_had_written") {
        return;
    }
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
    tracer.wait_for_stderr("tells of its commands");
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

#[test]
fn one_records_at_a_time_and_says_so() {
    if !may_trace("one_records_at_a_time_and_says_so") {
        return;
    }
    let node = Node::new();
    let [first, second] = ["first", "second"].map(|name| node.folder.path().join(name));
    let mut record = node.ctl(&["trace", "-o"]);
    record.arg(&first);
    let mut tracer = Running::start(&mut record);
    tracer.wait_for_stderr("recording every process");
    let mut refused = node.ctl(&["trace", "-o"]);
    refused.arg(&second);
    let mut other = Running::start(&mut refused);
    other.wait_for_stderr("scheduling is not in the timeline: somebody else records it");
    for running in [other, tracer] {
        running.signal(Signal::TERM);
        assert_eq!(running.finish().code, 0);
    }
    assert!(fs::metadata(&second).unwrap().len() > 0);
}

#[test]
fn who_is_under_a_controller_that_is_not_asked_is_named() {
    if !may_trace("who_is_under_a_controller_that_is_not_asked_is_named") {
        return;
    }
    // In a folder that only he and root may write.
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
        "its controller is in {place}; it is user {USER}'s, who may have it recorded, or root may run one"
    );
    assert!(line.ends_with(&whose), "{line}");
    let line = said(folder.path());
    let wanted = format!(
        "warning: scheduling is not in the timeline: the controller at {place}/record.sock is user {USER}'s"
    );
    assert_eq!(line, wanted);
    // Also of a command that ends at once; and nothing where there is no timeline.
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
