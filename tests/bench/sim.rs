//! The simulated device compared with its model: several processes, kernel times, gates, idle streams,
//! launches.
//!
//! All times here are simulated; measured is how accurately the simulation keeps them on this machine.

use std::{
    error::Error,
    io,
    process::{Child, Command, Stdio},
    thread,
};

use xsched_tests::{
    bench::{Goal, Paired, Row, Samples, repeated},
    device_load::{Findings, command, run_all},
};

const BENCH: &str = "sim";
const ROUNDS: usize = 5;
/// The device's compute units.
const UNITS: u32 = 304;
const KERNEL_US: f64 = 2000.0;

fn main() -> Result<(), Box<dyn Error>> {
    processes()?;
    kernel_time("machine as found")?;
    let cores = thread::available_parallelism()?.get();
    let burners = (0..cores).map(|_| Burner::start()).collect::<Result<Vec<_>, _>>()?;
    kernel_time("every core busy")?;
    drop(burners);
    overlap()?;
    gates()?;
    idle()?;
    launches()?;
    Ok(())
}

/// A device used by this benchmark only.
fn device() -> String {
    format!("bench-{}", std::process::id())
}

fn run(count: usize, mode: &str) -> io::Result<Vec<Findings>> {
    let mut commands: Vec<_> = (0..count).map(|_| command(&device(), mode)).collect();
    run_all(&mut commands)
}

fn longest(findings: &[Findings], name: &str) -> f64 {
    findings.iter().map(|found| found[name]).fold(0.0, f64::max)
}

/// Six processes on one device: makespan compared with work divided by capacity, and the latency of a launch
/// among them.
fn processes() -> Result<(), Box<dyn Error>> {
    const LAUNCHES: u32 = 100;
    for (what, blocks, at_once) in [("the whole device", UNITS, 1.0), ("half of it", UNITS / 2, 2.0)] {
        let mode = format!("load --launches {LAUNCHES} --us {KERNEL_US} --blocks {blocks}");
        let ideal_ms = 6.0 * f64::from(LAUNCHES) * KERNEL_US / at_once / 1e3;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push((ideal_ms, longest(&run(6, &mode)?, "total_us") / 1e3));
        }
        Row::compared(
            BENCH,
            format!("six processes, kernels on {what}: makespan"),
            "ms",
            &Paired::new(&rounds),
        )
        .with_goal(Goal::RatioAtMost(1.05))
        .print()?;
    }
    let mode = format!("single --launches {LAUNCHES} --us {KERNEL_US} --blocks {UNITS}");
    for count in 1..=6 {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let findings = run(count, &mode)?;
            let p50_us = Samples::new(findings.iter().map(|found| found["p50_us"]).collect()).median();
            rounds.push((count as f64 * KERNEL_US, p50_us));
        }
        Row::compared(
            BENCH,
            format!("latency of a launch among {count} processes"),
            "us",
            &Paired::new(&rounds),
        )
        .print()?;
    }
    Ok(())
}

/// How much later than declared a kernel's end reaches the host, and the error of the device's pace.
fn kernel_time(machine: &str) -> Result<(), Box<dyn Error>> {
    const LAUNCHES: u32 = 500;
    let mode = format!("single --launches {LAUNCHES} --us {KERNEL_US}");
    let (mut p50_us, mut p99_us) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let found = &run(1, &mode)?[0];
        p50_us.push(found["p50_us"] - KERNEL_US);
        p99_us.push(found["p99_us"] - KERNEL_US);
    }
    for (quantile, late_us) in [("p50", p50_us), ("p99", p99_us)] {
        let metric = format!("{machine}: launch to synchronised, beyond the kernel's time, {quantile}");
        Row::single(BENCH, metric, "us", &Samples::new(late_us)).print()?;
    }
    let mode = format!("load --launches {LAUNCHES} --us {KERNEL_US}");
    let ideal_us = f64::from(LAUNCHES) * KERNEL_US;
    let rounds = (0..ROUNDS).map(|_| Ok((ideal_us, run(1, &mode)?[0]["total_us"])));
    let pair = Paired::new(&rounds.collect::<io::Result<Vec<_>>>()?);
    Row::compared(BENCH, format!("{machine}: {LAUNCHES} kernels back to back"), "us", &pair).print()?;
    Ok(())
}

/// A kernel, copies to the device and copies from it: each alone, and all at the same time.
fn overlap() -> Result<(), Box<dyn Error>> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut command = command(&device(), "overlap --us 20000");
        let found = &run_all(std::slice::from_mut(command.env("HIP_SIM_COPY_GB_S", "0.013")))?[0];
        let longest =
            ["kernel_us", "to_us", "from_us"].map(|name| found[name]).into_iter().fold(0.0, f64::max);
        rounds.push((longest, found["together_us"]));
    }
    let pair = Paired::new(&rounds);
    Row::compared(BENCH, "kernel and copies both ways at once, against the longest alone", "us", &pair)
        .print()?;
    Ok(())
}

/// How soon a stream that waits for a word continues after the host's write, and the cost of waiting.
fn gates() -> Result<(), Box<dyn Error>> {
    for (wait_us, times) in [(10, 2000), (100, 1000), (1000, 500), (10_000, 100)] {
        let found = &run(1, &format!("gate --launches {times} --us {wait_us}"))?[0];
        let row = |what: &str, unit, value| {
            let metric = format!("gate, closed for {wait_us} us: {what}");
            Row::single(BENCH, metric, unit, &Samples::new(vec![value])).print()
        };
        row("host's write to the stream's next step, p50", "us", found["p50_us"])?;
        row("host's write to the stream's next step, p99", "us", found["p99_us"])?;
        row("CPU while closed", "us", found["cpu_us"])?;
    }
    Ok(())
}

fn idle() -> Result<(), Box<dyn Error>> {
    let cpu = repeated(ROUNDS, || io::Result::Ok(run(1, "idle --threads 64")?[0]["cpu_us"] / 1e6 * 100.0))?;
    Row::single(BENCH, "64 idle streams: CPU", "%", &cpu).with_goal(Goal::ValueAtMost(0.1)).print()?;
    Ok(())
}

/// A million launches from four threads.
fn launches() -> Result<(), Box<dyn Error>> {
    let found = &run(1, "load --launches 250000 --threads 4 --us 0")?[0];
    let single = |metric, unit, value| Row::single(BENCH, metric, unit, &Samples::new(vec![value]));
    single("a million launches from four threads: lost or out of order", "launches", found["wrong"])
        .with_goal(Goal::ValueAtMost(0.0))
        .print()?;
    single("a million launches: time", "s", found["total_us"] / 1e6).print()?;
    single("a million launches: memory at the end", "MB", found["end_kb"] / 1e3).print()?;
    let growth_mb = (found["end_kb"] - found["quarter_kb"]) / 1e3;
    single("a million launches: growth in the last three quarters", "MB", growth_mb).print()?;
    Ok(())
}

/// A process that keeps a core busy until it is dropped.
struct Burner(Child);

impl Burner {
    fn start() -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().map(Self)
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it never ends by itself
        let _ = self.0.wait();
    }
}
