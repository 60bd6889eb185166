//! `libxsched_shim.so` where operations are forbidden, resources are missing, or parts of the program end: it still runs.

#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod confined;
mod descriptors;
mod endings;
mod memory;
mod programs;

use std::path::Path;
use std::process::{Command, ExitCode};

use xsched_tests::artifacts::{app, hip_sim, shim};

/// Suspends and resumes so often that much work is deferred, and the program still makes progress.
const SUSPENDED: &str = "random:1:20000";

/// A Python program on the simulated runtime, whose library is its first argument.
fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{PRELUDE}{script}")]).arg(hip_sim(6).join("libamdhip64.so.6"));
    command.env("HIP_SIM_TWINS", app("libdemo_twins.so"));
    command
}

/// The common start of all Python programs here.
const PRELUDE: &str = "
import ctypes, hashlib, os, sys, threading, time
hip = ctypes.CDLL(sys.argv[1])
SIZE = 4096
size = ctypes.c_size_t(SIZE)
def ok(code): assert code == 0, code
def new(function, *arguments):
    handle = ctypes.c_void_p()
    ok(function(ctypes.byref(handle), *arguments))
    return handle
def contents(memory):
    bytes = ctypes.create_string_buffer(SIZE)
    ok(hip.hipMemcpy(bytes, memory, size, 2))
    return hashlib.sha1(bytes.raw).hexdigest()
";

/// Adds the shim, which suspends at random, with its summary in a file.
fn suspended(mut command: Command, log: &Path) -> Command {
    command.env("LD_PRELOAD", shim()).env("XSCHED_LOG", log).env("XSCHED_TEST_SUSPEND", SUSPENDED);
    command
}

/// A C program or library.
fn compiled(folder: &Path, name: &str, source: &str, flags: &[&str]) -> std::path::PathBuf {
    let (file, output) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).expect("the folder is new");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-Wall", "-Werror", "-o"]).arg(&output).arg(&file).args(flags);
    assert!(compiler.status().expect("a C compiler is installed").success());
    output
}

/// Flags that link a program with the simulated runtime.
fn with_runtime() -> [String; 2] {
    let folder = hip_sim(6);
    let library = folder.join("libamdhip64.so.6").display().to_string();
    [library, format!("-Wl,-rpath,{}", folder.display())]
}

fn main() -> ExitCode {
    xsched_harness::main()
}
