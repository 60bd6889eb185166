//! Whose launches are: Debian's genuine rocRAND, called by its hipRAND or by a program, on AMD's own runtime.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use xsched_harness::needs;
use xsched_tests::needs::VM;
use xsched_tests::serving::Serving;

use crate::recording::{host, program};

/// What `random` says, and how often the shim says that a launch by rocRAND passes through.
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
        .expect("it was staged");
    controller.wait_for_verdict_source(child.id()).expect("it joins");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(b"\n").expect("it reads");
    let said = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let said: Vec<_> = said.collect();
    let mut errors = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut errors).expect("it is text");
    child.wait().expect("it is a child");
    let passed = errors.lines().filter(|line| line.ends_with("librocrand.so.1 (hipLaunchKernel)")).count();
    (said, errors, passed)
}

#[needs(VM)]
fn what_rocrand_launches_for_hiprand_is_known_by_both() {
    for library in ["libhiprand.so.1", "librocrand.so.1"] {
        assert!(
            host(library).exists(),
            "the host has no {library} (`cargo xtask setup` gets what is needed)"
        );
    }
    let rule = "[[rule]]\nlibrary = 'librocrand.so*'\nunder = 'libhiprand.so*'\naction = 'passthrough'\n";
    let controller = Serving::start(rule).expect("it comes up");
    // A chain that nobody has decided about yet may take longer than a launch waits.
    let mut heard = Vec::new();
    let is_known = (0..4).any(|_| {
        let (said, errors, passed) = launches(&controller, "hiprand");
        heard.push((said, errors));
        passed > 0
    });
    assert!(is_known, "{heard:?}{}", controller.log());
    // It returns to rocRAND either way: only the chain tells them apart.
    let (said, _, passed) = launches(&controller, "rocrand");
    assert!(said.iter().any(|line| line.starts_with("generate")), "{said:?}");
    assert_eq!(passed, 0, "{said:?}{}", controller.log());
}
