//! Verdicts by whole call chains: `tests/apps/callers` and third-party libraries with the real controller, whose BPF programs
//! walk their stacks.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{
    app, app_command, hip_sim, hiprand, module, python, rocrand, rocrand_twin, shim, twins,
};
use xsched_tests::chains;
use xsched_tests::needs::{HIP_PYTHON, HIPRAND};
use xsched_tests::serving::Serving;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{event_rings, run, xsched_ctl};

/// Longer than any step takes that succeeds.
const LONG: Duration = Duration::from_secs(45);

/// A controller, and programs under it.
struct Controller(Serving);

impl Controller {
    fn start(rules: &str) -> Self {
        Self(Serving::start(rules).unwrap())
    }

    /// Starts one under which processes decide themselves.
    fn start_without_bpf(rules: &str) -> Self {
        Self(Serving::start_without_bpf(rules).unwrap())
    }

    fn log(&self) -> String {
        self.0.log()
    }

    /// Runs a mode of `callers`; returns its standard error, which names every call that passes through, and the shim's log.
    /// The controller builds a library's unwind table when a stack first contains the library. Until then answers may come too
    /// late; the program runs again if one did.
    fn run(&self, mode: &str, variables: &[(&str, &str)]) -> (String, String) {
        self.until_in_time(|| self.run_once(mode, variables))
    }

    fn until_in_time(&self, run_once: impl Fn() -> (String, String)) -> (String, String) {
        let begin = Instant::now();
        loop {
            let (said, log) = run_once();
            if !log.contains("answers that came too late") {
                return (said, log);
            }
            assert!(begin.elapsed() < 3 * LONG, "answers always come too late: {log}{}", self.log());
        }
    }

    fn run_once(&self, mode: &str, variables: &[(&str, &str)]) -> (String, String) {
        let arguments: Vec<_> = mode.split(' ').collect();
        let mut command = app_command("callers", &arguments);
        self.run_command(command.envs(variables.iter().copied()))
    }

    /// Runs a command, which starts its work once its verdicts come from whole chains.
    fn run_command(&self, command: &mut Command) -> (String, String) {
        let log = self.0.file("shim.log");
        let _ = fs::remove_file(&log); // from an earlier run
        command
            .env("LD_PRELOAD", shim())
            .env("XSCHED_SOCKET_DIR", self.0.folder())
            .env("XSCHED_LOG", &log)
            .env("XSCHED_VERBOSE", "2")
            .env("HIP_SIM_SHARED", "off");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        self.0.wait_for_verdict_source(child.id()).unwrap();
        input.write_all(b"\n\n").unwrap();
        let said: Vec<_> =
            BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).collect();
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(child.wait().unwrap().success(), "{errors}");
        assert_eq!(said.last().map(String::as_str), Some("wrong 0"), "{said:?}");
        (errors, fs::read_to_string(log).unwrap())
    }

    /// The same under the tracer; returns the timeline. The program runs again if it noticed the recording too late, since the
    /// first launches then have no verdict, or if the shim's unwind table was late, since the origin of a launch is then the shim.
    fn record(&self, mode: &str, tables: &str) -> Sql {
        let begin = Instant::now();
        loop {
            let (trace, log, _) = self.record_with_output(mode, tables, &[], Duration::ZERO);
            let mut sql = Sql::open(&trace).unwrap();
            sql.assert_clean();
            let is_in_time = !log.contains("answers that came too late");
            if is_in_time && launches(&mut sql).iter().all(Shown::is_all_known) {
                return sql;
            }
            assert!(
                begin.elapsed() < 3 * LONG,
                "the recording or a table is always late: {log}{}",
                self.log()
            );
        }
    }

    /// Runs a process that decides itself until its launches are as expected. It starts with the built-in rules, and does not
    /// show when it has the controller's, so it gets more time in each run. It intercepts by symbols: with dispatch tables, the
    /// tracer's return probes replace the immediate caller.
    fn record_until(&self, variables: &[(&str, &str)], expected: &[Shown]) {
        let (begin, mut time) = (Instant::now(), Duration::from_secs(1));
        loop {
            let (trace, ..) = self.record_with_output("find", "0", variables, time);
            let mut sql = Sql::open(&trace).unwrap();
            sql.assert_clean();
            let launches = launches(&mut sql);
            if launches == expected {
                return;
            }
            assert!(begin.elapsed() < 6 * LONG, "{launches:?}{}", self.log());
            time *= 2;
        }
    }

    /// Records a mode of `callers`, which starts its work once it knows the source of its verdicts and that it is recorded, and
    /// after this delay. Returns the timeline, the shim's log and the program's output.
    fn record_with_output(
        &self,
        mode: &str,
        tables: &str,
        variables: &[(&str, &str)],
        delay: Duration,
    ) -> (PathBuf, String, Vec<String>) {
        let [trace, log] = ["trace", "shim.log"].map(|name| self.0.file(name));
        let _ = fs::remove_file(&log); // from an earlier run
        let arguments: Vec<_> = mode.split(' ').collect();
        let program = app_command("callers", &arguments);
        let mut tracer = xsched_ctl(["trace", "--ring-size", "64M", "-o"]);
        tracer.arg(&trace).arg("--").arg("env");
        let mut preload = OsString::from("LD_PRELOAD=");
        preload.push(shim());
        tracer.arg(preload).arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            tracer.env(name, value.unwrap_or_default());
        }
        tracer
            .env("XSCHED_SOCKET_DIR", self.0.folder())
            .env("XSCHED_LOG", &log)
            .env("HIP_SIM_SHARED", "off")
            .env("ROCPROFILER_REGISTER_ENABLED", tables)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(self.0.file("tracer")).unwrap());
        let mut tracer = tracer.spawn().unwrap();
        let mut lines = BufReader::new(tracer.stdout.take().unwrap()).lines().map_while(Result::ok);
        let ready = lines.next().unwrap_or_default();
        let pid: u32 = ready
            .strip_prefix("ready ")
            .and_then(|pid| pid.parse().ok())
            .unwrap_or_else(|| panic!("{ready}{}", fs::read_to_string(self.0.file("tracer")).unwrap()));
        self.0.wait_for_verdict_source(pid).unwrap();
        // Both have mapped the process's event ring; the tracer has also mapped the arbiter's.
        let begin = Instant::now();
        while event_rings(pid) < 1 || event_rings(tracer.id()) < 2 {
            assert!(begin.elapsed() < LONG, "the process is not recorded: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(delay);
        tracer.stdin.take().unwrap().write_all(b"\n\n").unwrap();
        let said: Vec<_> = lines.collect();
        assert!(tracer.wait().unwrap().success(), "{said:?}");
        assert_eq!(said.iter().rfind(|line| line.starts_with("wrong")).map(String::as_str), Some("wrong 0"));
        (trace, fs::read_to_string(log).unwrap(), said)
    }

    /// Runs `callers` with graphs; returns what `rules explain` prints about their launches, and the shim's log.
    fn explain_graphs(&self) -> (String, String) {
        let log = self.0.file("shim.log");
        let _ = fs::remove_file(&log); // from an earlier run
        let mut program = app_command("callers", &["graph"]);
        program
            .env("LD_PRELOAD", shim())
            .env("XSCHED_SOCKET_DIR", self.0.folder())
            .env("XSCHED_LOG", &log)
            .env("XSCHED_VERBOSE", "1")
            .env("HIP_SIM_SHARED", "off");
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        self.0.wait_for_verdict_source(child.id()).unwrap();
        input.write_all(b"\n\n").unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.any(|line| line == "launched 2"), "{}", self.log());
        // The controller decides on every request, also if the answer comes too late for the call.
        let begin = Instant::now();
        let explained = loop {
            let mut explain = xsched_ctl(["rules", "explain", "--pid", &child.id().to_string()]);
            let explained = run(explain.env("XSCHED_SOCKET_DIR", self.0.folder())).stdout;
            let sites: Vec<_> = explained.match_indices("hipGraphLaunch by ").collect();
            if sites.len() == 2 {
                break explained;
            }
            assert!(begin.elapsed() < LONG, "{explained}{}", self.log());
            thread::sleep(Duration::from_millis(20));
        };
        input.write_all(b"\n").unwrap();
        assert_eq!(said.last().as_deref(), Some("wrong 0"));
        assert!(child.wait().unwrap().success());
        (explained, fs::read_to_string(log).unwrap())
    }
}

/// How many calls of this function by this library passed through, according to the messages.
fn passes(said: &str, library: &str, function: &str) -> usize {
    said.lines().filter(|line| line.ends_with(&format!("{library} ({function})"))).count()
}

#[needs(ROOT)]
fn a_search_is_recognised_by_the_whole_chain() {
    let controller = Controller::start("");
    // By the runtime's dispatch tables, and by symbols.
    for tables in ["1", "0"] {
        let (said, log) = controller.run("find", &[("ROCPROFILER_REGISTER_ENABLED", tables)]);
        // Compiled stubs make these calls; the immediate caller does not show the search.
        assert_eq!(passes(&said, "libMIOpen.so.1", "hipLaunchKernel"), 3, "{said}{}", controller.log());
        assert_eq!(passes(&said, "callers", "hipLaunchKernel"), 0, "{said}");
        assert!(log.contains("by the whole call chain"), "{log}");
    }
}

#[needs(ROOT)]
fn a_rule_reaches_calls_below_a_library() {
    let rules = "[[rule]]\nchain = 'libspeaker.so'\napi = 'hipLaunchKernel'\naction = 'passthrough'\n";
    let controller = Controller::start(rules);
    let (said, _) = controller.run("domain library 0", &[]);
    assert_eq!(passes(&said, "librocblas.so.4", "hipLaunchKernel"), 1, "{said}{}", controller.log());
    let (said, _) = controller.run("create", &[]);
    assert_eq!(passes(&said, "librocblas.so.4", "hipLaunchKernel"), 0, "the same call site: {said}");
}

#[needs(ROOT)]
fn a_librarys_domain_covers_the_calls_below_it() {
    let controller = Controller::start("");
    let (_, log) = controller.run("domain library 1", &[]);
    // Its own fill, and the launch by librocblas.so.4.
    let line = log.lines().find(|line| line.ends_with("never suspended")).unwrap_or_default();
    assert_eq!(line.split_whitespace().next(), Some("2"), "{log}{}", controller.log());
}

#[needs(ROOT)]
fn the_users_settings_reach_the_controller() {
    let controller = Controller::start("");
    let (said, _) = controller.run("domain library 0", &[("XSCHED_PASSTHROUGH_LIBS", "libspeaker")]);
    // Its own call, and the call by librocblas.so.4, which is on the classic list.
    assert_eq!(passes(&said, "libspeaker.so", "hipMemsetAsync"), 1, "{said}{}", controller.log());
    assert_eq!(passes(&said, "librocblas.so.4", "hipLaunchKernel"), 1, "{said}");
}

#[needs(ROOT)]
fn the_origin_of_a_graph_launch_is_its_caller() {
    let rules = "[[rule]]\nname = 'graphs of rocBLAS'\nlibrary = 'librocblas.so*'\napi = 'hipGraphLaunch'\n\
                 action = 'never-suspend'\n";
    let controller = Controller::start(rules);
    let (explained, log) = controller.until_in_time(|| controller.explain_graphs());
    let site = |origin: &str| {
        let start = explained.find(&format!("hipGraphLaunch by {origin}: ")).unwrap();
        explained[start..].lines().take(3).collect::<Vec<_>>()
    };
    let [first, rule, chain] = site("librocblas.so.4")[..] else { panic!("{explained}") };
    assert!(first.ends_with(": never-suspend") && rule.contains("(graphs of rocBLAS)"), "{explained}");
    assert!(chain.contains("librocblas.so.4:rocblas_sgraph < callers"), "{explained}");
    let [first, rule, chain] = site("callers")[..] else { panic!("{explained}") };
    assert!(first.ends_with(": schedule") && rule.contains("no rule matches"), "{explained}");
    assert!(!chain.contains("librocblas"), "{explained}");
    // Only the graph that the rule is about.
    let kept = log.lines().find(|line| line.ends_with("never suspended")).unwrap_or_default();
    assert_eq!(kept.split_whitespace().next(), Some("1"), "{log}");
}

#[needs(ROOT)]
fn a_known_call_site_makes_no_request() {
    let controller = Controller::start("");
    let (_, log) = controller.run("steps 2000", &[]);
    let asked = log.lines().find(|line| line.ends_with("by the whole call chain")).unwrap_or_default();
    let asked: u32 = asked.split_whitespace().next().unwrap_or("0").parse().unwrap();
    assert!((1..200).contains(&asked), "of 2000 launches {asked} asked:\n{log}\n{}", controller.log());
}

/// The program of hip-python and rocRAND's clients.
fn client() -> Command {
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/clients/verdicts.py"));
    command
}

#[needs(ROOT, HIPRAND)]
fn launches_of_rocrand_for_hiprand_are_recognised_by_both_libraries() {
    let (hiprand, rocrand, executor) = (hiprand(), rocrand(), rocrand_twin("executor"));
    let rule = "[[rule]]\nlibrary = 'librocrand.so*'\nunder = 'libhiprand.so*'\naction = 'passthrough'\n";
    let controller = Controller::start(rule);
    let folders = [hip_sim(5), rocrand.parent().unwrap().to_owned()];
    let launches = |which: &str| {
        let run_once = || {
            let mut command = client();
            command.arg("rocrand").args([&hiprand, &rocrand]).arg(which);
            command.env("LD_LIBRARY_PATH", env::join_paths(&folders).unwrap());
            command.env("HIP_SIM_ARCH", "gfx90a").env("HIP_SIM_EXECUTOR", &executor);
            controller.run_command(&mut command)
        };
        let (said, _) = controller.until_in_time(run_once);
        passes(&said, "librocrand.so.1", "hipLaunchKernel")
    };
    // Both return to rocRAND: only the chain distinguishes them.
    assert!(launches("hiprand") >= 3, "{}", controller.log());
    assert_eq!(launches("rocrand"), 0);
}

#[needs(ROOT, HIP_PYTHON)]
fn launches_of_hip_python_are_recognised_by_their_outermost_program() {
    let (module, twins) = (module(), twins());
    for (outermost, expected) in [("python3*", 100), ("perl*", 0)] {
        let rule = format!(
            "[[rule]]\noutermost = '{outermost}'\napi = 'hipModuleLaunchKernel'\naction = 'passthrough'\n"
        );
        let controller = Controller::start(&rule);
        let run_once = || {
            let mut command = client();
            command.arg("hip-python").arg(&module).arg("100");
            command.env("LD_LIBRARY_PATH", hip_sim(6)).env("HIP_SIM_TWINS", &twins);
            controller.run_command(&mut command)
        };
        let (said, _) = controller.until_in_time(run_once);
        let passed = said.lines().filter(|line| line.ends_with("(hipModuleLaunchKernel)")).count();
        assert_eq!(passed, expected, "outermost {outermost}: {said}{}", controller.log());
    }
}

/// A launch in the timeline, or its execution.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Shown {
    origin: String,
    verdict: Option<String>,
    rule: Option<String>,
    level_max: Option<u8>,
}

impl Shown {
    fn is_all_known(&self) -> bool {
        self.verdict.is_some() && self.origin != "libxsched_shim.so"
    }
}

fn shown(origin: &str, verdict: &str, rule: &str, level_max: Option<u8>) -> Shown {
    Shown { origin: origin.into(), verdict: Some(verdict.into()), rule: Some(rule.into()), level_max }
}

const SHOWN: &str = "extract_arg(arg_set_id, 'debug.origin') as origin,
    extract_arg(arg_set_id, 'debug.verdict') as verdict, extract_arg(arg_set_id, 'debug.rule') as rule,
    extract_arg(arg_set_id, 'debug.level_max') as level_max from slice";

fn launches(sql: &mut Sql) -> Vec<Shown> {
    sql.query_as(&format!("select {SHOWN} where name = 'hipLaunchKernel' order by ts")).unwrap()
}

const OWN_RULE: &str =
    "[[rule]]\nname = 'the program itself'\nlibrary = 'callers'\naction = 'schedule'\npreemption = 1\n";

#[needs(ROOT)]
fn each_launch_shows_its_origin_its_rule_and_its_verdict() {
    let controller = Controller::start(OWN_RULE);
    let own = || shown("callers", "schedule", "the program itself", Some(1));
    let search = || shown("libMIOpen.so.1", "passthrough", "searches of MIOpen", None);
    // By the runtime's dispatch tables, and by symbols.
    for tables in ["1", "0"] {
        let mut sql = controller.record("find", tables);
        assert_eq!(launches(&mut sql), [own(), search(), search(), search(), own()], "tables {tables}");
        let told = "select count(*) as n from slice c join flow on flow.slice_out = c.id join slice e \
                    on flow.slice_in = e.id where c.name = 'hipLaunchKernel' and e.category = 'gpu' \
                    and extract_arg(c.arg_set_id, 'debug.queue_delay_ns') \
                    = extract_arg(e.arg_set_id, 'debug.queue_delay_ns')";
        assert_eq!(sql.query(told).unwrap()[0]["n"], 2, "calls have their queue delay");
        // Calls that pass through are not followed to their execution.
        let executed = format!("select {SHOWN} where category = 'gpu' and name = 'callers_own' order by ts");
        assert_eq!(sql.query_as::<Shown>(&executed).unwrap(), [own(), own()], "tables {tables}");
        let delays = "select count(*) as n from slice where category = 'gpu' and name = 'callers_own' \
                      and extract_arg(arg_set_id, 'debug.queue_delay_ns') >= 0";
        assert_eq!(sql.query(delays).unwrap()[0]["n"], 2);
    }
    let trace = controller.0.file("trace");
    let report = run(xsched_ctl(["report", "--by", "rule"]).arg(&trace));
    for line in ["schedule: the program itself", "passthrough: searches of MIOpen"] {
        assert!(report.stdout.contains(line), "{}{}", report.stdout, report.stderr);
    }
}

#[needs(ROOT)]
fn a_process_that_decides_itself_names_the_rule() {
    let id = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(id).unwrap();
    // The process knows its user's number; the controller sends it the name.
    let rule = format!("{OWN_RULE}user = '{}'\nprocess = 'callers'\n", user.trim_end());
    let controller = Controller::start_without_bpf(&rule);
    let own = || shown("callers", "schedule", "the program itself", Some(1));
    // The immediate caller, a compiled stub, does not show the search.
    let search = || shown("libMIOpen.so.1", "schedule", "none fits", None);
    controller.record_until(&[], &[own(), search(), search(), search(), own()]);
    // The user's own rules, which precede the controller's.
    let passed = || shown("libMIOpen.so.1", "passthrough", "XSCHED_PASSTHROUGH_LIBS", None);
    let variables = [("XSCHED_PASSTHROUGH_LIBS", "libMIOpen")];
    controller.record_until(&variables, &[own(), passed(), passed(), passed(), own()]);
}

#[needs(ROOT)]
fn a_domain_is_named_as_the_reason() {
    let controller = Controller::start("");
    let mut sql = controller.record("domain library 1", "1");
    assert_eq!(launches(&mut sql), [shown("librocblas.so.4", "never-suspend", "domain", None)]);
    // Of a thread, which the BPF programs do not know.
    let mut sql = controller.record("domain thread 1", "1");
    assert_eq!(launches(&mut sql), [shown("librocblas.so.4", "never-suspend", "domain", None)]);
}

/// `sched_client` with the shim on a shared device; it starts its work on request.
fn neighbour(controller: &Controller, class: &str, log: &Path) -> Child {
    let mut command = xsched_ctl(["run", "--require-controller", "--class", class, "--shim"]);
    command
        .arg(shim())
        .arg("--")
        .arg(app("sched_client"))
        .args(["--us", "100", "--requests", "5", "--kernels", "4"])
        .env("XSCHED_SOCKET_DIR", controller.0.folder())
        .env("XSCHED_LOG", log)
        .env("HIP_SIM_SHARED", format!("verdict-chains-{}", process::id()))
        .env("HIP_SIM_DURATIONS", "device_step=arg1us");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let begin = Instant::now();
    let (child, pid) = loop {
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        if let Some(pid) = ready.trim_end().strip_prefix("ready ") {
            break (child, pid.to_owned());
        }
        // On a busy machine the controller may take longer to answer than the command waits.
        assert_eq!((child.wait().unwrap().code(), begin.elapsed() < LONG), (Some(69), true), "{ready}");
    };
    controller.0.wait_for_verdict_source(pid.parse().unwrap()).unwrap();
    child
}

/// The line of a process's summary for calls that did not wait for an answer.
const NOT_AWAITED: &str = "answers that were not waited for";

/// The first request for a chain is never answered at once: the controller has to look at it first. The most urgent process may
/// launch whatever the answer is, so it does not wait.
#[needs(ROOT)]
fn urgent_work_waits_for_no_answer() {
    let controller = Controller::start("");
    let logs = ["high.log", "low.log", "idle.log"].map(|name| controller.0.file(name));
    let [high, low, idle] = [("high", &logs[0]), ("low", &logs[1]), ("high", &logs[2])]
        .map(|(class, log)| neighbour(&controller, class, log));
    // One after the other, so that each runs beside idle others, however long it takes.
    for mut one in [high, low, idle] {
        let mut said = String::new();
        one.stdin.take().unwrap().write_all(b"\n").unwrap();
        one.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(one.wait().unwrap().success() && said.contains("\"wrong\":0"), "{said}");
    }
    let [high, low, _] = logs.map(|log| fs::read_to_string(log).unwrap());
    assert!(high.contains(NOT_AWAITED) && !high.contains("answers that came too late"), "{high}");
    assert!(!low.contains(NOT_AWAITED), "whether its calls are deferred depends on the answer: {low}");
}

/// Number of launches in [`every_launch_through_seven_libraries_follows_the_rules_on_its_chain`]; for a million, run
/// `XSCHED_TEST_LAUNCHES=1000000 cargo xtask test seven_libraries`.
fn launches_to_make() -> u64 {
    env::var("XSCHED_TEST_LAUNCHES").map_or(20_000, |count| count.parse().unwrap())
}

/// Launches of a kernel with one verdict, and the library that made the calls.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Treated {
    kernel: String,
    verdict: Option<String>,
    library: String,
    count: u64,
}

const TREATED: &str = "select extract_arg(arg_set_id, 'debug.kernel') as kernel,
    extract_arg(arg_set_id, 'debug.verdict') as verdict, extract_arg(arg_set_id, 'debug.library') as library,
    count(*) as count from slice where name = 'hipLaunchKernel' group by 1, 2, 3";

#[needs(ROOT)]
fn every_launch_through_seven_libraries_follows_the_rules_on_its_chain() {
    let controller = Controller::start(chains::RULES);
    let mode = format!("chains {} 77", launches_to_make());
    let begin = Instant::now();
    // As in `record`: the process may notice the recording too late, and tables may be late.
    let (treated, said) = loop {
        let (trace, log, said) = controller.record_with_output(&mode, "1", &[], Duration::ZERO);
        let mut sql = Sql::open(&trace).unwrap();
        sql.assert_clean();
        let mut treated: Vec<Treated> = sql.query_as(TREATED).unwrap();
        treated.sort();
        let all_have_verdicts = treated.iter().all(|treated| treated.verdict.is_some());
        if all_have_verdicts && !log.contains("answers that came too late") {
            break (treated, said);
        }
        assert!(
            begin.elapsed() < 6 * LONG,
            "the recording or a table is always late: {treated:?} {log}{}",
            controller.log()
        );
    };
    let made = |name: &str| -> u64 {
        said.iter().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
    };
    let expected = [("keep", "never-suspend"), ("pass", "passthrough"), ("schedule", "schedule")];
    let expected = expected.map(|(kind, verdict)| Treated {
        kernel: format!("callers_to_{kind}"),
        verdict: Some(verdict.to_owned()),
        // The return address of the call is the same for all.
        library: "libcallers_bottom.so".to_owned(),
        count: made(&format!("to_{kind} ")),
    });
    assert_eq!(treated, expected, "{}", controller.log());
    assert_eq!(treated.iter().map(|treated| treated.count).sum::<u64>(), launches_to_make());
    println!("{} launches, all right: {treated:?}", launches_to_make());
}

fn main() -> ExitCode {
    xsched_harness::main()
}
