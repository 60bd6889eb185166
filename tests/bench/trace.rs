//! Tracing a process that only launches: time for one launch with and without `xsched-ctl trace` attached.
//!
//! This process makes the launches itself, through a library, on the simulated runtime's null mode. So the
//! work takes next to no time, and the added time is the tracer's: a probe at entry and return, and the
//! processor time that the tracer takes to read, resolve and encode the records.

use std::error::Error;
use std::ffi::c_void;
use std::time::Instant;

use libloading::Library;
use xsched_tests::artifacts;
use xsched_tests::bench::{Row, Samples, paired};
use xsched_tests::tracer::{Running, xsched_ctl};

const BENCH: &str = "trace";
const ROUNDS: usize = 9;
const LAUNCHES_PER_ROUND: u32 = 50_000;

/// Size of the vectors, with which no kernel computes.
const SIZE: u32 = 64;

/// `demo_blas_mix(size, x, y, stream)`: one launch.
type Mix = unsafe extern "C" fn(u32, *const c_void, *mut c_void, *mut c_void) -> i32;

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: no other thread exists yet.
    unsafe { std::env::set_var("HIP_SIM_NULL", "1") };
    // SAFETY: the library's initialisers register its kernels with the runtime that it loads, and do nothing
    // else.
    let library = unsafe { Library::new(artifacts::app("libdemo_blas.so"))? };
    // SAFETY: the type is that of the declaration in demo_blas.h.
    let mix = unsafe { library.get::<Mix>(b"demo_blas_mix")? };
    let launches = || {
        let started = Instant::now();
        for _ in 0..LAUNCHES_PER_ROUND {
            // SAFETY: in null mode no kernel runs, so the pointers are not dereferenced.
            let status = unsafe { mix(SIZE, std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut()) };
            assert_eq!(status, 0, "the launch was refused");
        }
        started.elapsed().as_secs_f64() * 1e9 / f64::from(LAUNCHES_PER_ROUND)
    };

    let own_pid = std::process::id().to_string();
    let mut lost = Vec::new();
    let pair = paired(
        ROUNDS,
        || Ok::<_, Box<dyn Error>>(launches()),
        || {
            let mut tracer = Running::start(&mut xsched_ctl(["trace", "--pid", &own_pid, "-o", "/dev/null"]));
            tracer.wait_for_stderr("recording process");
            let time_ns = launches();
            lost.push(lost_calls(&tracer.interrupt().stderr));
            Ok(time_ns)
        },
    )?;
    Row::compared(BENCH, "time per launch, traced", "ns", &pair).print()?;
    Row::single(BENCH, "added per launch", "ns", &pair.difference).print()?;
    Row::single(BENCH, "launches a second, traced", "1/s", &pair.subject.map(|ns| 1e9 / ns)).print()?;
    let share = 100.0 / f64::from(LAUNCHES_PER_ROUND);
    Row::single(BENCH, "launches lost", "%", &Samples::new(lost).map(|count| count * share)).print()?;
    Ok(())
}

/// The count in the final message `incomplete: N calls lost: …`, or none.
fn lost_calls(stderr: &str) -> f64 {
    stderr
        .lines()
        .filter_map(|line| line.strip_prefix("incomplete: ")?.split_once(" calls lost"))
        .filter_map(|(count, _)| count.parse::<f64>().ok())
        .sum()
}
