//! How many launches a second are recorded without loss: threads of this process launch at a steady rate on the
//! simulated runtime's null mode while `xsched-ctl trace` records them into a file.

use std::error::Error;
use std::ffi::c_void;
use std::time::{Duration, Instant};

use libloading::{Library, Symbol};
use xsched_tests::artifacts;
use xsched_tests::bench::{Row, Samples};
use xsched_tests::tracer::{Running, xsched_ctl};

const BENCH: &str = "rate";
const ROUNDS: usize = 3;
const SECONDS_PER_ROUND: u32 = 5;

/// Launches a second that are asked for, all threads together.
const RATES: [u32; 3] = [50_000, 100_000, 200_000];
const THREADS: u32 = 4;

/// Launches are made in bursts of so many, as frameworks make them, and the rest of the time is slept.
const BURST: u32 = 50;

/// Elements of the vectors that nobody computes with.
const SIZE: u32 = 64;

/// `demo_blas_mix(size, x, y, stream)`: one launch.
type Mix = unsafe extern "C" fn(u32, *const c_void, *mut c_void, *mut c_void) -> i32;

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: no other thread exists yet.
    unsafe { std::env::set_var("HIP_SIM_NULL", "1") };
    // SAFETY: the library's initialisers register its kernels with the runtime that it loads, and no more.
    let library = unsafe { Library::new(artifacts::app("libdemo_blas.so"))? };
    // SAFETY: the type is that of the declaration in demo_blas.h.
    let mix = unsafe { library.get::<Mix>(b"demo_blas_mix")? };
    let folder = std::env::temp_dir().join(format!("xsched-bench-rate-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let trace = folder.join("run.perfetto");
    let own_pid = std::process::id().to_string();
    for rate in RATES {
        let (mut made, mut lost) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut tracer = Running::start(xsched_ctl(["trace", "--pid", &own_pid, "-o"]).arg(&trace));
            tracer.wait_for_stderr("recording process");
            let (launches, seconds) = launch_steadily(&mix, rate);
            made.push(f64::from(launches) / seconds);
            lost.push(100.0 * lost_calls(&tracer.interrupt().stderr) / f64::from(launches));
        }
        Row::single(BENCH, &format!("launches a second of {rate}"), "1/s", &Samples::new(made)).print()?;
        Row::single(BENCH, &format!("lost at {rate} a second"), "%", &Samples::new(lost)).print()?;
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Launches from all threads; returns how many were made and in how many seconds.
fn launch_steadily(mix: &Symbol<'_, Mix>, rate: u32) -> (u32, f64) {
    let of_thread = rate * SECONDS_PER_ROUND / THREADS;
    let burst_time = Duration::from_secs_f64(f64::from(BURST * THREADS) / f64::from(rate));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut due = Instant::now();
                for _ in 0..of_thread / BURST {
                    for _ in 0..BURST {
                        // SAFETY: in null mode no kernel runs, so the pointers are not followed.
                        let status = unsafe {
                            mix(SIZE, std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut())
                        };
                        assert_eq!(status, 0, "the launch was refused");
                    }
                    due += burst_time;
                    // A thread that is late makes its next bursts at once.
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            });
        }
    });
    (of_thread / BURST * BURST * THREADS, started.elapsed().as_secs_f64())
}

/// The counts in the closing words `incomplete: N calls lost: …`.
fn lost_calls(stderr: &str) -> f64 {
    stderr
        .lines()
        .filter_map(|line| line.strip_prefix("incomplete: ")?.split_once(" calls lost"))
        .filter_map(|(count, _)| count.parse::<f64>().ok())
        .sum()
}
