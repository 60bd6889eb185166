//! Calls to AMD's kernel driver, on machines without it: the tracer takes other devices for the driver's, which refuse its
//! commands. `cargo xtask test --vm` tests with the driver itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Deserialize;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::needs::NO_AMDGPU;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Outcome, run, xsched_ctl};

/// `AMDKFD_IOC_CREATE_QUEUE` three times on the given device, with rings of 4096, 8192 and 12288 bytes; then the same on
/// another device, a command of no driver, and a terminal's command.
const PROGRAM: &str = "
import fcntl, struct, sys
def attempt(device, command, argument):
    try: fcntl.ioctl(device, command, argument)
    except OSError: pass
device, other = open(sys.argv[1], 'rb'), open('/dev/zero', 'rb')
for n in range(1, 4):
    attempt(device, 0xc0584b02, bytearray(struct.pack('32xII48x', 4096 * n, 4711)))
attempt(other, 0xc0584b02, bytearray(88))
attempt(other, 0xc0406400, bytearray(64))
attempt(device, 0xc0044b7f, bytearray(4))
attempt(device, 0x5401, bytearray(60))
";

/// Runs it with a `/dev` of its own that has only these devices; `/dev/kfd` is `/dev/null`.
const WITH_FALSE_KFD: &str = "mount -t tmpfs none /dev && mknod -m 666 /dev/kfd c 1 3 && \
    mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/zero c 1 5 && mknod -m 666 /dev/urandom c 1 9 && \
    exec python3 -c \"$1\" /dev/kfd";

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Slice {
    name: String,
    category: String,
    device: Option<String>,
    ring_size: Option<i64>,
    queue_id: Option<i64>,
    returned: i64,
    error: Option<String>,
}

fn driver_slices(trace: &Path) -> Vec<Slice> {
    let mut sql = Sql::open(trace).expect("the engine loads the trace");
    sql.assert_clean();
    let slices = sql.query_as(
        "select name, category, extract_arg(arg_set_id, 'debug.device') as device,
            extract_arg(arg_set_id, 'debug.ring_size') as ring_size,
            extract_arg(arg_set_id, 'debug.queue_id') as queue_id,
            extract_arg(arg_set_id, 'debug.return') as returned,
            extract_arg(arg_set_id, 'debug.error') as error
         from slice where category glob 'driver.*' order by ts",
    );
    slices.expect("the query is correct")
}

/// The calls of [`PROGRAM`] on the device.
fn expected(device: &str) -> Vec<Slice> {
    let refused = |name: &str, ring_size| Slice {
        name: name.to_owned(),
        category: "driver.kfd".to_owned(),
        device: Some(device.to_owned()),
        ring_size,
        queue_id: None,
        returned: -25,
        error: Some("ENOTTY".to_owned()),
    };
    let mut slices: Vec<_> = (1..=3).map(|n| refused("AMDKFD_IOC_CREATE_QUEUE", Some(4096 * n))).collect();
    slices.push(refused("ioctl 0xc0044b7f", None));
    slices
}

/// Traces a command with options of `xsched-ctl trace`.
fn trace(options: &[&str], command: &[&str]) -> (tempfile::TempDir, PathBuf, Outcome) {
    let dir = tempfile::tempdir().expect("temporary folders can be created");
    let trace = dir.path().join("run.perfetto");
    let mut traced = xsched_ctl(["trace", "-o"]);
    let outcome = run(traced.arg(&trace).args(options).arg("--").args(command));
    (dir, trace, outcome)
}

#[needs(ROOT)]
fn commands_are_decoded_and_other_devices_left_out() {
    let options = ["--driver", "tracepoint", "--driver-device", "kfd=/dev/null"];
    let (_dir, trace, outcome) = trace(&options, &["python3", "-c", PROGRAM, "/dev/null"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(driver_slices(&trace), expected("/dev/null"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("4 driver calls"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn a_device_that_is_only_named_kfd_is_left_out() {
    let command = ["unshare", "--mount", "sh", "-c", WITH_FALSE_KFD, "sh", PROGRAM];
    let (_dir, trace, outcome) = trace(&["--driver", "tracepoint"], &command);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(driver_slices(&trace), [], "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn the_first_call_is_recorded_although_nothing_is_attached_before_the_device_is_opened() {
    let command = ["unshare", "--mount", "sh", "-c", WITH_FALSE_KFD, "sh", PROGRAM];
    let (_dir, trace, outcome) = trace(&["--driver-device", "kfd=/dev/null"], &command);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(driver_slices(&trace), expected("/dev/null"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn no_driver_call_is_recorded_when_switched_off() {
    let options = ["--driver", "off", "--driver-device", "kfd=/dev/null"];
    let (_dir, trace, outcome) = trace(&options, &["python3", "-c", PROGRAM, "/dev/null"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(driver_slices(&trace), [], "{}", outcome.stderr);
}

#[needs(ROOT, NO_AMDGPU)]
fn fentry_without_the_driver_prints_a_hint() {
    let (_dir, _trace, outcome) = trace(&["--driver", "fentry"], &["true"]);
    assert_eq!(outcome.code, 69, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("/sys/kernel/btf/amdgpu"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: `--driver tracepoint`"), "{}", outcome.stderr);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
