//! How long an urgent process waits for one that fills the device, on AMD's own runtime and by the stand-in's model of time, as a
//! table: `cargo xtask test --vm preemption`. `cargo xtask bench sched preemption` prints the same for the simulated runtime.
//!
//! All times are the device's, from its list of kernels. Its model has one SIMD: a kernel of one wave fills it.

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xsched_harness::needs;
use xsched_harness::needs::VM_MODEL;

use crate::recording::{host, program};
use crate::scheduling::{PATIENCE, scheduled, serve, wait_for_gate};
use crate::sharer::{Request, SYSTEM, Sharer};

/// Durations of the kernels that fill the device, in microseconds.
const KERNELS_US: [u32; 4] = [100, 300, 1000, 2000];

/// Requests of the urgent process, unless `XSCHED_TEST_SEEDS` says how many.
const REQUESTS: usize = 40;

/// Kernels of a request, and of what the other process launches at a time.
const KERNELS: usize = 8;
const URGENT_US: u32 = 20;

/// Instructions of a round of `programs/advance.hip`.
const INSTRUCTIONS: u32 = 6;

/// So many kernels of a duration. An instruction takes four cycles, and the device has 100 MHz.
const fn request(us: u32) -> Request {
    Request { kernels: KERNELS, rounds: us * 100 / 4 / INSTRUCTIONS }
}

/// A kernel in the device's list.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    arrived: u64,
    begin: u64,
    end: u64,
    instructions: u64,
}

/// What of the device's list has been read.
struct List {
    file: File,
    /// The end of what was read, if it is no whole line.
    rest: String,
    kernels: Vec<Kernel>,
}

impl List {
    /// Begins at the end of what the list has by now.
    fn opened() -> Self {
        let mut file = File::open(host("kernels.list")).expect("the device writes its list");
        file.seek(SeekFrom::End(0)).expect("it is a file");
        Self { file, rest: String::new(), kernels: Vec::new() }
    }

    /// All kernels since then that last so long.
    fn of(&mut self, us: u32) -> Vec<Kernel> {
        self.file.read_to_string(&mut self.rest).expect("it is text");
        let rest = self.rest.split_off(self.rest.rfind('\n').map_or(0, |end| end + 1));
        let read = |line: &str| {
            let mut numbers = line.split(' ').skip(1).map(str::parse);
            let mut next = || numbers.next()?.ok();
            Some(Kernel { arrived: next()?, begin: next()?, end: next()?, instructions: next()? })
        };
        self.kernels.extend(self.rest.lines().map(|line| read(line).unwrap_or_else(|| panic!("{line}"))));
        self.rest = rest;
        let instructions = u64::from(INSTRUCTIONS * request(us).rounds);
        // What is before the rounds and behind them has less than 100.
        let lasts = |kernel: &&Kernel| (0..100).contains(&kernel.instructions.wrapping_sub(instructions));
        self.kernels.iter().filter(lasts).copied().collect()
    }
}

/// What decides when kernels of the other process are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The device alone.
    Natively,
    /// The controller, which has launches deferred.
    Mode1,
    /// It also has gates closed before launched kernels.
    Mode2,
}

const WAYS: [Way; 3] = [Way::Natively, Way::Mode1, Way::Mode2];

impl Way {
    fn commands(self) -> [Command; 2] {
        if self == Self::Natively {
            return [program("shares"), program("shares")];
        }
        let mut other = scheduled("low", "shares");
        other.env("XSCHED_AUTO_XQUEUE_LEVEL", if self == Self::Mode1 { "1" } else { "2" });
        [scheduled("high", "shares"), other]
    }
}

/// What the urgent requests of a run have met.
struct Met {
    /// In microseconds: until the first kernel began, and until the last ended.
    first_wait: Vec<f64>,
    on_device: Vec<f64>,
    /// Kernels of the other that began meanwhile.
    began: Vec<f64>,
    /// What the other has of the device from the first request to the last, in percent.
    share: f64,
}

fn quantile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() as f64 * fraction).ceil() as usize).saturating_sub(1)]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

impl Met {
    fn of(urgent: &[Kernel], other: &[Kernel]) -> Self {
        let us = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1000.0;
        let (mut first_wait, mut on_device, mut began) = (Vec::new(), Vec::new(), Vec::new());
        for request in urgent.chunks(KERNELS) {
            let (first, last) = (request[0], request[KERNELS - 1]);
            first_wait.push(us(first.arrived, first.begin));
            on_device.push(us(first.arrived, last.end));
            let meanwhile = other.iter().filter(|kernel| (first.arrived..last.end).contains(&kernel.begin));
            began.push(meanwhile.count() as f64);
        }
        let span = urgent[0].arrived..urgent[urgent.len() - 1].end;
        let within = other.iter().filter(|kernel| span.contains(&kernel.begin));
        let busy: f64 = within.map(|kernel| us(kernel.begin, kernel.end)).sum();
        Self { first_wait, on_device, began, share: 100.0 * busy / us(span.start, span.end) }
    }
}

impl fmt::Display for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [wait_50, wait_99] = [0.5, 0.99].map(|fraction| quantile(&self.first_wait, fraction));
        let [device_50, device_99] = [0.5, 0.99].map(|fraction| quantile(&self.on_device, fraction));
        let (began, most) = (mean(&self.began), quantile(&self.began, 1.0));
        let share = self.share;
        write!(
            f,
            "{wait_50:.0} | {wait_99:.0} | {began:.2} | {most:.0} | {device_50:.0} | {device_99:.0} | {share:.0}"
        )
    }
}

/// The urgent process beside one that fills the device with kernels of a duration.
fn beside(way: Way, kernel_us: u32) -> Met {
    let count = env::var("XSCHED_TEST_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(REQUESTS);
    let [urgent, other] = way.commands();
    let mut other = Sharer::start(other, &[SYSTEM]);
    let mut urgent = Sharer::start(urgent, &[SYSTEM]);
    let stop = AtomicBool::new(false);
    urgent.execute(request(URGENT_US));
    let mut list = List::opened();
    thread::scope(|scope| {
        let run = other.child.id();
        let busy = scope.spawn(|| other.keep_busy(request(kernel_us), &stop));
        if way == Way::Mode2 {
            wait_for_gate(run);
        }
        for number in 0..count {
            // The other has the device again, and is somewhere in a kernel.
            let after = list.of(URGENT_US).last().map_or(0, |kernel| kernel.end);
            let deadline = Instant::now() + PATIENCE;
            while list.of(kernel_us).iter().filter(|kernel| kernel.begin > after).count() < 3 {
                assert!(Instant::now() < deadline, "{way:?}: the other process does not go on");
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_micros(number as u64 * 7919 % u64::from(kernel_us)));
            urgent.execute(request(URGENT_US));
        }
        stop.store(true, Ordering::Relaxed);
        busy.join().expect("the thread does not panic");
    });
    let [of_urgent, of_other] = [URGENT_US, kernel_us].map(|us| list.of(us));
    assert_eq!(of_urgent.len(), count * KERNELS, "{way:?}, {kernel_us} us");
    urgent.finish();
    other.finish();
    Met::of(&of_urgent, &of_other)
}

/// The default times, 60 times as long, since a millisecond of the device takes some 60 of the guest. With a lease of 50 ms, a request
/// would not count as ready any more while it waits for a kernel of a millisecond, and the other's gate would open.
const CONFIGURATION: &str = "[scheduler]\nlease = \"3s\"\nstarvation = \"60s\"\n";

#[needs(VM_MODEL)]
fn few_kernels_of_the_other_begin_in_an_urgent_request() {
    let configuration = host("preemption.toml");
    fs::write(&configuration, CONFIGURATION).expect("the shared folder is writable");
    let (_controller, _log) = serve(&["--config", configuration.to_str().expect("a path of the tests")]);
    eprintln!(
        "T (us) | way | first kernel waits, p50 | p99 | kernels of the other that begin, mean | most | request, p50 | p99 | \
         device time of the other (%)"
    );
    let mut began = [0.0; WAYS.len()];
    for kernel_us in KERNELS_US {
        for (way, began) in WAYS.into_iter().zip(&mut began) {
            let met = beside(way, kernel_us);
            eprintln!("{kernel_us} | {way:?} | {met}");
            *began += mean(&met.began);
        }
    }
    // Natively many kernels of a request wait for one of the other's.
    let [natively, mode_1, mode_2] = began;
    assert!(mode_1 < natively / 2.0 && mode_2 < natively / 8.0, "{began:?}");
}
