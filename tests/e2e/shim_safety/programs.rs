//! Programs without HIP, and the variable that disables the shim.

use std::process::Command;

use xsched_harness::needs;
use xsched_tests::artifacts::{app, shim};
use xsched_tests::tracer::run;

use crate::SUSPENDED;

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
        assert!(!summary.contains("held back") && !summary.contains("in place"), "{summary}");
    }
}
