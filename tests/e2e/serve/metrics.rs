//! The controller's metrics, as monitoring systems read them.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::needs::PROMTOOL;
use xsched_tests::tracer::{run, xsched_ctl};

use super::USER;
use super::fixture::Controller;

/// The answer to a request over this connection, without its head.
fn get(mut stream: impl Read + Write, accept: &str) -> String {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    text.to_owned()
}

/// A controller with metrics at a unix socket.
struct Monitored {
    controller: Controller,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Monitored {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("metrics.sock");
        let controller = Controller::start(&config(&socket));
        Self { controller, socket, _folder: folder }
    }

    fn scrape(&self) -> String {
        // A scrape shortly after another gets the same answer.
        std::thread::sleep(Duration::from_millis(260));
        get(UnixStream::connect(&self.socket).unwrap(), "application/openmetrics-text")
    }

    /// Waits until the sum of a metric's series with these labels is at least this; returns it.
    #[track_caller]
    fn wait_for(&self, metric: &str, labels: &str, least: f64) -> f64 {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let text = self.scrape();
            let sum = sum(&text, metric, labels);
            if sum >= least {
                return sum;
            }
            assert!(Instant::now() < deadline, "{metric}{{{labels}}} is {sum}, not {least}:\n{text}");
        }
    }
}

fn config(socket: &Path) -> String {
    format!("[metrics]\nlisten = 'unix:{}'\nmode = '0600'\n[[ceiling]]\nclass = 'high'\n", socket.display())
}

/// The sum of a metric's series with this part of their labels.
fn sum(text: &str, metric: &str, labels: &str) -> f64 {
    let own = text.lines().filter(|line| {
        line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels))
    });
    own.map(|line| -> f64 { line.rsplit(' ').next().unwrap().parse().unwrap() })
        .fold(0.0, |sum, value| sum + value)
}

#[needs(ROOT)]
fn work_delays_and_preemptions_are_counted() {
    let monitored = Monitored::start();
    let (mut batch, mut online) = (monitored.controller.joined(0, 5), monitored.controller.joined(100, 5));
    batch.report("ready");
    std::thread::sleep(Duration::from_millis(30));
    online.report("ready");
    std::thread::sleep(Duration::from_millis(30));
    online.report("idle");
    std::thread::sleep(Duration::from_millis(30));
    batch.use_device(20_000_000);
    online.use_device(10_000_000);
    let normal = r#"class="normal",device="0000:05:00.0""#;
    let launched = monitored.wait_for("xsched_launched_commands_total", normal, 1.0);
    assert!((launched - 1.0).abs() < f64::EPSILON, "{launched}");
    let text = monitored.scrape();
    let high = r#"class="high",device="0000:05:00.0""#;
    let is = |metric, labels, value: f64| {
        let sum = sum(&text, metric, labels);
        assert!((sum - value).abs() < 1e-9, "{metric}{{{labels}}} is {sum}, not {value}:\n{text}");
    };
    is("xsched_device_time_seconds_total", normal, 0.02);
    is("xsched_device_time_seconds_total", high, 0.01);
    is("xsched_preemptions_total", normal, 1.0);
    is("xsched_preemptions_total", high, 0.0);
    is("xsched_queue_delay_seconds_count", normal, 2.0);
    is("xsched_queue_delay_seconds_count", high, 1.0);
    is("xsched_claims", "", 2.0);
    is("xsched_processes", "", 2.0);
    assert!(sum(&text, "xsched_queue_delay_seconds_sum", normal) >= 0.03, "{text}");
    assert!(sum(&text, "xsched_queue_delay_seconds_sum", high) < 0.03, "{text}");
}

#[needs(ROOT)]
fn counters_survive_a_change_of_policy_and_a_reload() {
    let mut monitored = Monitored::start();
    let mut process = monitored.controller.joined(0, 5);
    process.use_device(1_000);
    monitored.wait_for("xsched_launched_commands_total", "normal", 1.0);
    monitored.controller.say(&["policy", "fair"]);
    let config = config(&monitored.socket);
    monitored
        .controller
        .reload(&format!("{config}[[rule]]\nweight = 7\n"), "parameters of 1 of 1 processes changed");
    monitored.wait_for("xsched_launched_commands_total", "normal", 1.0);
    monitored.wait_for("xsched_controller_info", r#"policy="fair",state="active""#, 1.0);
    let said = monitored
        .controller
        .reload("[metrics]\nlisten = '127.0.0.1:1'\n", "needs a restart of the controller");
    assert!(said.contains("metrics: a change of the endpoint"), "{said}");
    monitored.scrape();
}

#[needs(ROOT)]
fn a_storm_of_clients_leaves_a_fixed_number_of_series() {
    let monitored = Monitored::start();
    let mut storm = monitored.controller.process_of(USER);
    storm.ask("storm 5000");
    let joined = monitored.wait_for("xsched_processes_joined_total", "", 5000.0);
    assert!(joined >= 5000.0);
    let text = monitored.scrape();
    let series = text.lines().filter(|line| line.contains("class=")).count();
    // A user's part of the label sets, and the one for all others; 7 series and a histogram of 15 each.
    assert!(series <= (32 + 1) * (7 + 15), "{series}");
    let launched = sum(&text, "xsched_launched_commands_total", "");
    assert!((launched - 5000.0).abs() < f64::EPSILON, "none is lost: {launched}");
}

#[needs(ROOT)]
fn a_socket_has_its_mode_and_is_removed() {
    let mut monitored = Monitored::start();
    let mode = fs::metadata(&monitored.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    monitored.controller.process().signal(rustix::process::Signal::TERM);
    let outcome = monitored.controller.finish();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!monitored.socket.exists());
}

#[needs(nothing)]
fn addresses_that_cannot_be_used_are_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |options: &[&str]| {
        let mut serve = xsched_ctl(["serve", "--no-bpf"].iter().chain(options));
        run(serve.env("XSCHED_SOCKET_DIR", folder.path()))
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let unix = |path: &Path| format!("unix:{}", path.display());
    for (address, code, told) in [
        (taken.clone(), 69, "choose another port"),
        ("0.0.0.0:9464".to_owned(), 64, "--metrics-public"),
        (unix(&file), 73, "choose another path, or remove that file"),
        (unix(&folder.path().join("no/metrics.sock")), 73, "mkdir -p"),
        ("9464".to_owned(), 64, "127.0.0.1:9464"),
    ] {
        let outcome = serve(&["--metrics", &address]);
        assert_eq!(outcome.code, code, "{address}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(told), "{address}: {}", outcome.stderr);
    }
    let config = folder.path().join("config.toml");
    fs::write(&config, "[metrics]\nlisten = '0.0.0.0:9464'\nmode = '999'\nport = 3\n").unwrap();
    let outcome = serve(&["--check", "--config", config.to_str().unwrap()]);
    assert_eq!(outcome.code, 65, "{}", outcome.stderr);
    for told in ["line 1: other machines can reach `listen`", "line 3: ", "line 4: there is no key `port`"] {
        assert!(outcome.stderr.contains(told), "{told}: {}", outcome.stderr);
    }
}

/// A file of the repository.
fn file(path: &str) -> String {
    fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)).unwrap()
}

/// The metrics in a text: words that begin with `xsched_`.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|other: char| !(other.is_ascii_alphanumeric() || other == '_'));
    words.filter(|word| word.starts_with("xsched_")).collect()
}

#[needs(ROOT)]
fn documentation_dashboard_and_alerts_know_the_metrics_of_a_scrape() {
    let monitored = Monitored::start();
    let mut process = monitored.controller.joined(0, 5);
    process.divide(1_000);
    monitored.wait_for("xsched_origin_device_time_seconds_total", "libown.so", 1e-6);
    let text = monitored.scrape();
    let series: BTreeSet<_> =
        text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| named(line)).collect();
    let documented = file("docs/metrics.md");
    let mut rows: Vec<_> = documented.lines().filter(|line| line.starts_with("| `xsched_")).collect();
    for name in &series {
        let base = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix).filter(|_| name.contains("queue_delay")));
        let name = base.unwrap_or(name);
        let row = documented.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/metrics.md has no row for {name}"));
        rows.retain(|other| *other != row);
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[2], if name.contains("_seconds") { "seconds" } else { "" }, "{row}");
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        // Processes of this test need not have a cgroup, and are in no pod.
        let optional = ["", "cgroup", "namespace", "pod", "container"];
        for label in cells[3].split(", ").filter(|label| !optional.contains(label)) {
            assert!(line.contains(&format!("{label}=\"")), "{label} of {name}: {line}");
        }
    }
    assert!(rows.is_empty(), "no longer scraped: {rows:?}");
    for shown in ["deploy/grafana/xsched.json", "deploy/prometheus/xsched.rules.yml"] {
        let text = file(shown);
        let unknown: Vec<_> = named(&text).difference(&series).copied().collect();
        assert!(unknown.is_empty() && !named(&text).is_empty(), "{shown} has unknown metrics: {unknown:?}");
    }
    let dashboard: serde_json::Value = serde_json::from_str(&file("deploy/grafana/xsched.json")).unwrap();
    assert!(dashboard["panels"].as_array().is_some_and(|panels| !panels.is_empty()));
    let causes: BTreeSet<_> =
        text.lines().filter_map(|line| line.strip_prefix("xsched_losses_total{cause=\"")).collect();
    for line in causes {
        let cause = line.split('"').next().unwrap();
        assert!(
            documented.contains(&format!("\n| `{cause}` | ")),
            "docs/metrics.md has no row for the cause {cause}"
        );
    }
}

#[needs(ROOT, PROMTOOL)]
fn prometheus_own_tool_accepts_metrics_and_alerts() {
    let monitored = Monitored::start();
    let process = monitored.controller.joined(0, 5);
    let text = get(UnixStream::connect(&monitored.socket).unwrap(), "text/plain");
    drop(process);
    let mut check = Command::new("promtool");
    let mut check =
        check.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/prometheus");
    for arguments in [["check", "rules", "xsched.rules.yml"], ["test", "rules", "xsched.test.yml"]] {
        let output = Command::new("promtool").args(arguments).current_dir(rules).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
}

#[needs(ROOT)]
fn metrics_are_read_over_loopback() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _controller = Controller::start(&format!("[metrics]\nlisten = '127.0.0.1:{port}'\n"));
    let text = get(TcpStream::connect(("127.0.0.1", port)).unwrap(), "application/openmetrics-text");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut foreign = TcpStream::connect(("127.0.0.1", port)).unwrap();
    foreign.write_all(b"GET /metrics HTTP/1.1\r\nHost: page.example\r\n\r\n").unwrap();
    let mut refused = String::new();
    foreign.read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
}
