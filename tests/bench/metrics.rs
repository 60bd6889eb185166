//! What it costs the controller that a monitoring system scrapes its metrics each second, under load and with all label sets
//! in use.
//!
//! The processor time is that of all threads of the controller, as the kernel counts it in nanoseconds. Rounds with scrapes and
//! without alternate.

use std::error::Error;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use xsched_protocol::arbiter_page::PAGE_VERSION;
use xsched_protocol::wire::WIRE_VERSION;
use xsched_tests::artifacts::{app, shim};
use xsched_tests::bench::{Goal, Row, Samples, paired};
use xsched_tests::serving::Serving;

const BENCH: &str = "metrics";
const ROUNDS: usize = 7;

/// Scrapes of a round, one a second.
const SCRAPES: u32 = 5;

/// The goal, in percent of one core.
const CORE_PERCENT_MAX: f64 = 1.0;

/// Processes that share a device.
const PROCESSES: usize = 4;

/// A stand-in for processes with the shim, which the end-to-end tests use.
const STORM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/serve/process.py");

fn main() -> Result<(), Box<dyn Error>> {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let controller = Serving::start_with_metrics(&address)?;
    storm(&controller)?;
    let _load = Load::start(&controller, PROCESSES)?;
    controller.wait_for_queues(PROCESSES)?;
    let (mut times, mut lens) = (Vec::new(), Vec::new());
    let endpoint_before_ns = processor_time_ns(controller.pid(), is_endpoint)?;
    let mut cost = |is_scraped: bool| -> Result<f64, Box<dyn Error>> {
        let (began, before_ns) = (Instant::now(), processor_time_ns(controller.pid(), |_| true)?);
        for number in 1..=SCRAPES {
            if is_scraped {
                let scrape = Instant::now();
                let text = scrape_text(&address)?;
                times.push(scrape.elapsed().as_secs_f64() * 1e3);
                lens.push(text.lines().count() as f64);
            }
            thread::sleep((Duration::from_secs(1) * number).saturating_sub(began.elapsed()));
        }
        let used_ns = processor_time_ns(controller.pid(), |_| true)? - before_ns;
        Ok(100.0 * used_ns as f64 / began.elapsed().as_nanos() as f64)
    };
    let cost = std::cell::RefCell::new(&mut cost);
    let pair = paired(ROUNDS, || cost.borrow_mut()(false), || cost.borrow_mut()(true))?;
    let row = Row::added(BENCH, "added by a scrape each second", "% of a core", &pair);
    row.with_goal(Goal::ValueAtMost(CORE_PERCENT_MAX)).print()?;
    let endpoint_ns = processor_time_ns(controller.pid(), is_endpoint)? - endpoint_before_ns;
    let endpoint_ms = endpoint_ns as f64 / 1e6 / times.len() as f64;
    Row::single(
        BENCH,
        "processor time of the endpoint's thread for a scrape",
        "ms",
        &Samples::new(vec![endpoint_ms]),
    )
    .print()?;
    Row::single(BENCH, "lines of a scrape", "lines", &Samples::new(lens)).print()?;
    Row::single(BENCH, "a scrape, until its reader has all", "ms", &Samples::new(times)).print()?;
    Ok(())
}

/// Fills the label sets: they stay for a while after their processes have ended.
fn storm(controller: &Serving) -> Result<(), Box<dyn Error>> {
    let mut process = Command::new("python3")
        .arg(STORM)
        .arg(controller.folder())
        .args([WIRE_VERSION.to_string(), PAGE_VERSION.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    process.stdin.take().ok_or("no input")?.write_all(b"storm 500\n")?;
    if process.wait()?.success() { Ok(()) } else { Err("the storm failed".into()) }
}

/// Processes that keep a simulated device busy; dropping this ends them.
struct Load(Vec<Child>);

impl Load {
    fn start(controller: &Serving, processes: usize) -> Result<Self, Box<dyn Error>> {
        let mut load = Self(Vec::new());
        for number in 0..processes {
            let child = Command::new(app("sched_client"))
                .args(["--us", "100", "--ahead", "4"])
                .env("LD_PRELOAD", shim())
                .env("XSCHED_SOCKET_DIR", controller.folder())
                .env("XSCHED_AUTO_XQUEUE_PRIORITY", if number == 0 { "40" } else { "0" })
                .env("HIP_SIM_SHARED", format!("bench-metrics-{}", std::process::id()))
                .env("HIP_SIM_DURATIONS", "device_step=arg1us")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()?;
            load.0.push(child);
        }
        for child in &mut load.0 {
            child.stdin.as_mut().ok_or("no input")?.write_all(b"\n\n")?;
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // If it has ended, it only needs to be reaped.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn scrape_text(address: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    let head =
        format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nAccept: application/openmetrics-text\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if text.ends_with("# EOF\n") { Ok(text) } else { Err(format!("not a scrape: {text}").into()) }
}

/// The thread that makes the text.
fn is_endpoint(name: &str) -> bool {
    name == "xsched-metrics"
}

/// Processor time of the threads of a process with such names (<https://docs.kernel.org/scheduler/sched-stats.html>).
fn processor_time_ns(pid: u32, counts: impl Fn(&str) -> bool) -> Result<u64, Box<dyn Error>> {
    let mut sum_ns = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        if counts(fs::read_to_string(thread.join("comm"))?.trim_end()) {
            let stat = fs::read_to_string(thread.join("schedstat"))?;
            sum_ns += stat.split(' ').next().ok_or("no time")?.parse::<u64>()?;
        }
    }
    Ok(sum_ns)
}
