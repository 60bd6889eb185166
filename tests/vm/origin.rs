//! Origins of launches: Debian's rocRAND, called by its hipRAND or by a program, on AMD's own runtime.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use xsched_harness::needs;
use xsched_harness::needs::VM;
use xsched_tests::serving::Serving;

use crate::recording::{host, program};

/// Runs `random`; returns its output, its errors, and the number of rocRAND's launches that passed through.
fn launches(controller: &Serving, which: &str) -> (Vec<String>, String, usize) {
    let mut random = program("random");
    random
        .arg(which)
        .env("LD_LIBRARY_PATH", host(""))
        .env("LD_PRELOAD", host("libxsched_shim.so"))
        .env("XSCHED_SOCKET_DIR", controller.folder())
        // Every call that passes through is named.
        .env("XSCHED_VERBOSE", "2");
    let mut child = random
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was staged");
    controller.wait_for_verdict_source(child.id()).expect("the process joins");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(b"\n").expect("the program reads it");
    let said = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let said: Vec<_> = said.collect();
    let mut errors = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut errors).expect("it is text");
    child.wait().expect("it is a child");
    let passed = errors.lines().filter(|line| line.ends_with("librocrand.so.1 (hipLaunchKernel)")).count();
    (said, errors, passed)
}

#[needs(VM)]
fn launches_of_rocrand_for_hiprand_are_recognised_by_both_libraries() {
    for library in ["libhiprand.so.1", "librocrand.so.1"] {
        assert!(
            host(library).exists(),
            "the host has no {library} (`cargo xtask setup` gets what is needed)"
        );
    }
    let rule = "[[rule]]\nlibrary = 'librocrand.so*'\nunder = 'libhiprand.so*'\naction = 'passthrough'\n";
    let controller = Serving::start(rule).expect("the controller starts");
    // The verdict on a new chain may take longer than a launch waits.
    let mut heard = Vec::new();
    let is_known = (0..4).any(|_| {
        let (said, errors, passed) = launches(&controller, "hiprand");
        heard.push((said, errors));
        passed > 0
    });
    assert!(is_known, "{heard:?}{}", controller.log());
    // Both return to rocRAND: only the chain distinguishes them.
    let (said, _, passed) = launches(&controller, "rocrand");
    assert!(said.iter().any(|line| line.starts_with("generate")), "{said:?}");
    assert_eq!(passed, 0, "{said:?}{}", controller.log());
}
