//! Programs without HIP: preloading changes nothing, and says nothing even when a log is asked for.

use crate::fixture::{Run, Workshop, same_with_and_without};

#[test]
fn shell() {
    let script = "echo out; echo err >&2; (exit 3) || ls / | sort | head -3; printf '%s' \"$0\"; exit 7";
    let said = same_with_and_without("bash", &["-c", script]);
    assert_eq!(said.status, Some(7));
    assert_eq!(said.stderr, "err\n");
}

#[test]
fn python() {
    let script = "
import ctypes, subprocess, sys, threading
threads = [threading.Thread(target=sum, args=([1, 2],)) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(ctypes.CDLL(None).abs(-3), subprocess.run(['true']).returncode)
print('err', file=sys.stderr)
sys.exit(5)";
    let said = same_with_and_without("python3", &["-c", script]);
    assert_eq!((said.status, said.stdout.as_str(), said.stderr.as_str()), (Some(5), "3 0\n", "err\n"));
}

#[test]
fn compiler() {
    let workshop = Workshop::new();
    let source = workshop.path("empty.c");
    std::fs::write(&source, "int main(void) { return undeclared; }\n").unwrap();
    let said = same_with_and_without("cc", &["-c", &source.display().to_string(), "-o", "/dev/null"]);
    assert_eq!(said.status, Some(1));
}

#[test]
fn no_log_is_made_by_a_program_that_never_called_hip() {
    let workshop = Workshop::new();
    let log = workshop.path("log");
    let said = Run::preloaded("ls").args(["/"]).env("XSCHED_LOG", &log).finish();
    assert_eq!(said.status, Some(0));
    assert!(!log.exists());
}
