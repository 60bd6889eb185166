//! Programs without HIP, programs that call it from more places than the shim remembers, and the variable that disables the shim.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use xsched_harness::needs;
use xsched_tests::artifacts::{app, shim};
use xsched_tests::tracer::{run, xsched_ctl};

use crate::{SUSPENDED, compiled, with_runtime};

#[needs(nothing)]
fn programs_without_hip_are_not_affected_by_any_settings() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    for (program, arguments) in [
        (
            "python3",
            &["-c", "import subprocess, sys; sys.exit(subprocess.run(['sh', '-c', 'exit 5']).returncode)"][..],
        ),
        ("bash", &["-c", "for i in 1 2 3; do (echo $i | cat); done; exec sh -c 'exit 6'"]),
        ("gcc", &["-xc", "-fsyntax-only", "/dev/null"]),
        ("cat", &["/proc/self/comm"]),
    ] {
        let alone = run(Command::new(program).args(arguments));
        let with = run(Command::new(program)
            .args(arguments)
            .env("LD_PRELOAD", shim())
            .env("XSCHED_LOG", &log)
            .env("XSCHED_TEST_SUSPEND", SUSPENDED));
        assert_eq!(
            (with.code, with.stdout, with.stderr),
            (alone.code, alone.stdout, alone.stderr),
            "{program}"
        );
        assert!(!log.exists(), "{program}: the shim had nothing to say");
    }
}

#[needs(nothing)]
fn a_disabled_shim_suspends_nothing() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let arguments = ["--launches", "300"];
    let alone = run(Command::new(app("two_libraries")).args(arguments));
    for variable in ["LD_PRELOAD", "ROCPROFILER_REGISTER_LIBRARY"] {
        let with = run(Command::new(app("two_libraries"))
            .args(arguments)
            .env(variable, shim())
            .env("XSCHED_DISABLE", "1")
            .env("XSCHED_LOG", log.path())
            .env("XSCHED_TEST_SUSPEND", SUSPENDED));
        assert_eq!((with.code, &with.stdout), (0, &alone.stdout), "{}", with.stderr);
        let summary = std::fs::read_to_string(log.path()).unwrap();
        assert!(summary.contains("  disabled"), "{summary}");
        assert!(!summary.contains("deferred") && !summary.contains("in place"), "{summary}");
    }
}

/// A program with 20,480 places for each of two calls, more than the table's 16,384 entries. The argument names the calls.
/// `generated` calls from code that lies in no library.
const MANY_PLACES: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
void __hipRegisterFunction(void *, void *, char *, const char *, unsigned, void *, void *, void *, void *, int *);
int hipGetDeviceCount(int *);
#define TIMES_8(x) x x x x x x x x
#define TIMES_40(x) TIMES_8(x) TIMES_8(x) TIMES_8(x) TIMES_8(x) TIMES_8(x)
#define TIMES_20480(x) TIMES_8(TIMES_8(TIMES_8(TIMES_40(x))))
static int count, wrong;
static void registers(void) {
    TIMES_20480(__hipRegisterFunction(0, 0, "", "", -1, 0, 0, 0, 0, 0);)
}
static void calls(void) {
    TIMES_20480(wrong += hipGetDeviceCount(&count) != 0;)
}
static void generated(void) {
    // sub rsp, 8; call rsi; add rsp, 8; ret
    static const char code[] = "\x48\x83\xec\x08\xff\xd6\x48\x83\xc4\x08\xc3";
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    int (*through)(int *, int (*)(int *)) = (int (*)(int *, int (*)(int *)))page;
    for (int i = 0; i < 300; i++) wrong += through(&count, hipGetDeviceCount) != 0;
}
int main(int argc, char **argv) {
    wrong += hipGetDeviceCount(&count) != 0;
    if (!strcmp(argv[1], "registers")) registers();
    if (!strcmp(argv[1], "calls")) { calls(); calls(); }
    if (!strcmp(argv[1], "generated")) generated();
    printf("wrong %d\n", wrong);
    fflush(stdout);
    if (argc > 2) getchar();
    return 0;
}
"#;

/// Compiled without optimisation, as one function of 20,480 calls takes a compiler long.
fn many_places(folder: &Path) -> Command {
    let flags = with_runtime();
    Command::new(compiled(folder, "call_sites", MANY_PLACES, &["-O0", "-g0", &flags[0], &flags[1]]))
}

#[needs(nothing)]
fn a_library_that_registers_more_kernels_than_the_table_has_entries_leaves_them_to_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // By symbols: a dispatch table needs no call sites.
    let outcome = run(many_places(folder.path())
        .arg("registers")
        .env("LD_PRELOAD", shim())
        .env("ROCPROFILER_REGISTER_ENABLED", "0")
        .env("XSCHED_LOG", &log));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "wrong 0\n"), "{}", outcome.stderr);
    let summary = std::fs::read_to_string(log).unwrap();
    assert!(summary.contains("       20480  __hipRegisterFunction"), "{summary}");
    assert!(summary.ends_with("trouble\n               0  none\n"), "{summary}");
}

#[needs(nothing)]
fn calls_from_more_places_than_the_table_has_entries_are_right_and_the_log_and_doctor_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut child = many_places(folder.path())
        .args(["calls", "wait"])
        .env("LD_PRELOAD", shim())
        .env("ROCPROFILER_REGISTER_ENABLED", "0")
        .env("XSCHED_LOG", &log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let doctor = run(&mut xsched_ctl(["doctor", "--pid", &child.id().to_string()])).stdout;
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(line, "wrong 0\n");
    assert!(doctor.contains("\ncall sites   full     more places call HIP"), "{doctor}");

    let text = std::fs::read_to_string(log).unwrap();
    let said = text.lines().filter(|line| line.starts_with("xsched-shim: more places call HIP")).count();
    assert_eq!(said, 1, "{text}");
    assert!(text.contains("       40961  hipGetDeviceCount"), "{text}");
    // Twice what does not fit: at least what 16,384 entries leave.
    let unplaced = text.lines().find_map(|line| line.strip_suffix("  calls from places without an entry"));
    assert!(
        unplaced.is_some_and(|count| count.trim().parse::<u32>().unwrap() >= 2 * (20_480 - 16_384)),
        "{text}"
    );
}

#[needs(nothing)]
fn calls_from_generated_code_are_right_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let outcome = run(many_places(folder.path())
        .arg("generated")
        .env("LD_PRELOAD", shim())
        .env("ROCPROFILER_REGISTER_ENABLED", "0")
        .env("XSCHED_LOG", &log));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "wrong 0\n"), "{}", outcome.stderr);
    let summary = std::fs::read_to_string(log).unwrap();
    assert!(summary.contains("         300  calls from code of no library\n"), "{summary}");
}
