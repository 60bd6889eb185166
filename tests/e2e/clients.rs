//! Third-party programs, unmodified, on the simulated runtimes: hip-python from PyPI and rocRAND from Debian.
//!
//! A check is a function of the client's script, in a process of its own. It runs without the shim, and with the shim
//! loaded in either way while the shim suspends streams and the process at random.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::process::{Command, ExitCode};

use xsched_harness::needs;
use xsched_tests::artifacts::{self, clients, hip_sim, module, python, rocrand_twin, shim, twins};
use xsched_tests::needs::{HIP_PYTHON, HIPRTC, ROCRAND};

/// A processor for which Debian's rocRAND has code; it has none for the simulated device's usual one.
const ROCRAND_ARCH: &str = "gfx90a";
/// Nor does Debian's HIPRTC know that processor.
const HIPRTC_ARCH: &str = "gfx90a";

/// The runtime's report of a client's calls.
struct Report(String);

impl Report {
    fn names<'r>(&'r self, kind: &'r str) -> impl Iterator<Item = &'r str> {
        let lines = self.0.lines().map(move |line| line.strip_prefix(kind)?.trim().rsplit_once(' '));
        lines.flatten().map(|(name, _)| name)
    }
}

/// Search path for libraries: the simulated runtime, then HIPRTC.
fn libraries(major: u32) -> OsString {
    let folders = [hip_sim(major), clients().join("hiprtc")];
    env::join_paths(folders).expect("cargo refuses a target directory with a colon")
}

/// Variables that load the shim into a process.
const WAYS_IN: [&str; 2] = ["LD_PRELOAD", "ROCPROFILER_REGISTER_LIBRARY"];

/// Runs a check, without the shim and with it.
#[track_caller]
fn run(mut command: Command, major: u32) -> Report {
    let report = run_once(&mut command, major);
    for way in WAYS_IN {
        for other in WAYS_IN {
            command.env_remove(other);
        }
        command.env(way, shim()).env("XSCHED_TEST_SUSPEND", "random");
        run_once(&mut command, major);
    }
    report
}

/// Runs a check to its end. It must succeed, and must not have called functions that the runtime lacks.
#[track_caller]
fn run_once(command: &mut Command, major: u32) -> Report {
    let report = tempfile::NamedTempFile::new().expect("the temporary folder is writable");
    let output = command
        .env("LD_LIBRARY_PATH", libraries(major))
        .env("HIP_SIM_TWINS", twins())
        .env("HIP_SIM_REPORT", report.path())
        .output()
        .expect("the interpreter is there");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let report = Report(fs::read_to_string(report.path()).expect("this test has created the file"));
    assert_eq!(report.names("unsupported").collect::<Vec<_>>(), [""; 0]);
    report
}

/// On both generations of runtime that this hip-python finds its functions in.
#[track_caller]
fn hip_python(check: &str) {
    hip_python_on(check, None);
}

/// With Debian's HIPRTC, for a processor that it knows.
#[track_caller]
fn hiprtc(check: &str) {
    hip_python_on(check, Some(HIPRTC_ARCH));
}

#[track_caller]
fn hip_python_on(check: &str, arch: Option<&str>) {
    for major in [7, 6] {
        let mut command = Command::new(python());
        command.envs(arch.map(|arch| ("HIP_SIM_ARCH", arch)));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/clients/hip_python/checks.py"));
        command.arg(module()).arg(check);
        let report = run(command, major);
        assert_eq!(report.names("missing-twin").collect::<Vec<_>>(), [""; 0]);
    }
}

#[track_caller]
fn rocrand(check: &str) {
    let [executor, reference] = ["executor", "reference"].map(rocrand_twin);
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/clients/rocrand/rocrand.py"));
    command.arg(artifacts::rocrand()).arg(reference).arg(check);
    command.env("HIP_SIM_ARCH", ROCRAND_ARCH).env("HIP_SIM_EXECUTOR", executor);
    let report = run(command, 5);
    assert_eq!(report.names("missing-twin").collect::<Vec<_>>(), [""; 0]);
}

#[needs(HIP_PYTHON)]
fn hip_python_the_device_describes_itself() {
    hip_python("the_device_describes_itself");
}

#[needs(HIP_PYTHON)]
fn hip_python_memory_goes_there_and_back() {
    hip_python("memory_goes_there_and_back");
}

#[needs(HIP_PYTHON)]
fn hip_python_a_kernel_is_launched_through_extra() {
    hip_python("a_kernel_is_launched_through_extra");
}

#[needs(HIP_PYTHON)]
fn hip_python_streams_and_events_order_and_time() {
    hip_python("streams_and_events_order_and_time");
}

#[needs(HIP_PYTHON)]
fn hip_python_threads_work_at_the_same_time() {
    hip_python("threads_work_at_the_same_time");
}

#[needs(HIPRTC)]
fn hip_python_kernels_are_compiled_at_run_time() {
    hiprtc("kernels_are_compiled_at_run_time");
}

#[needs(HIPRTC)]
fn hip_python_a_source_with_an_error_is_not_compiled() {
    hiprtc("a_source_with_an_error_is_not_compiled");
}

#[needs(HIP_PYTHON)]
fn hip_python_errors_are_values() {
    hip_python("errors_are_values");
}

#[needs(ROCRAND)]
fn rocrand_philox_gives_the_published_numbers() {
    rocrand("philox_gives_the_published_numbers");
}

#[needs(ROCRAND)]
fn rocrand_xorwow_gives_the_published_numbers() {
    rocrand("xorwow_gives_the_published_numbers");
}

#[needs(ROCRAND)]
fn rocrand_mrg32k3a_has_the_published_streams() {
    rocrand("mrg32k3a_has_the_published_streams");
}

#[needs(ROCRAND)]
fn rocrand_sobol_gives_the_published_points() {
    rocrand("sobol_gives_the_published_points");
}

#[needs(ROCRAND)]
fn rocrand_philox_agrees_with_its_device_functions() {
    rocrand("philox_agrees_with_its_device_functions");
}

#[needs(ROCRAND)]
fn rocrand_xorwow_agrees_with_its_device_functions() {
    rocrand("xorwow_agrees_with_its_device_functions");
}

#[needs(ROCRAND)]
fn rocrand_mrg32k3a_agrees_with_its_device_functions() {
    rocrand("mrg32k3a_agrees_with_its_device_functions");
}

#[needs(ROCRAND)]
fn rocrand_mtgp32_agrees_with_the_published_recurrence() {
    rocrand("mtgp32_agrees_with_the_published_recurrence");
}

#[needs(ROCRAND)]
fn rocrand_sobol32_agrees_with_its_device_functions() {
    rocrand("sobol32_agrees_with_its_device_functions");
}

#[needs(ROCRAND)]
fn rocrand_sobol64_agrees_with_its_device_functions() {
    rocrand("sobol64_agrees_with_its_device_functions");
}

#[needs(ROCRAND)]
fn rocrand_short_numbers_are_pieces_of_long_ones() {
    rocrand("short_numbers_are_pieces_of_long_ones");
}

#[needs(ROCRAND)]
fn rocrand_distributions_have_their_moments() {
    rocrand("distributions_have_their_moments");
}

#[needs(ROCRAND)]
fn rocrand_a_sequence_goes_on_where_it_stopped() {
    rocrand("a_sequence_goes_on_where_it_stopped");
}

#[needs(ROCRAND)]
fn rocrand_groups_that_are_not_aligned_are_made_at_the_ends() {
    rocrand("groups_that_are_not_aligned_are_made_at_the_ends");
}

#[needs(ROCRAND)]
fn rocrand_streams_keep_their_own_order() {
    rocrand("streams_keep_their_own_order");
}

#[needs(ROCRAND)]
fn rocrand_poisson_tables_are_right() {
    rocrand("poisson_tables_are_right");
}

#[needs(ROCRAND)]
fn rocrand_errors_are_reported() {
    rocrand("errors_are_reported");
}

fn main() -> ExitCode {
    xsched_harness::main()
}
