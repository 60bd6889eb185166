//! Things that go wrong without the application noticing.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::fixture::{Run, Said, Workshop, same_with_and_without, shim};

#[test]
#[cfg_attr(
    not(all(feature = "test-switches", debug_assertions)),
    ignore = "only a build with test-switches and debug assertions can be asked to panic"
)]
fn panic_in_a_hook() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let log = workshop.path("log");
    let alone = Run::alone(&client).args(["arguments"]).finish();
    let silent = Run::preloaded(&client).args(["arguments"]).env("XSCHED_TEST_PANIC", "hipLaunchKernel");
    assert_eq!(silent.finish(), alone);

    let logged = Run::preloaded(&client)
        .args(["arguments"])
        .env("XSCHED_TEST_PANIC", "hipLaunchKernel")
        .env("XSCHED_LOG", &log);
    assert_eq!(logged.finish(), alone);
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("asked to panic in hipLaunchKernel").count(), 6, "{log}");
    assert!(log.contains("6  hook panicked"), "{log}");
    assert!(log.contains("6  panics"), "{log}");
}

#[test]
fn disabled_by_its_variable() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let log = workshop.path("log");
    let alone = Run::alone(&client).args(["arguments"]).finish();
    let disabled =
        Run::preloaded(&client).args(["arguments"]).env("XSCHED_DISABLE", "1").env("XSCHED_LOG", &log);
    assert_eq!(disabled.finish(), alone);
    let summary = std::fs::read_to_string(log).unwrap();
    assert!(summary.contains("work on streams\n               0  none\n"), "{summary}");
    // Three rounds of seven hooked calls and of one that changes a texture; the fat binary registered with its kernel
    // and taken back.
    assert!(summary.contains("27  disabled"), "{summary}");
}

#[test]
fn forked_child_counts_for_itself() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let log = workshop.path("log");
    let said = Run::preloaded(&client).args(["fork"]).env("XSCHED_LOG", &log).finish();
    assert!(said.stdout.contains("parent 7\n"), "{}", said.stdout);
    assert!(said.stdout.contains("child 2\n"), "{}", said.stdout);
    let summaries = std::fs::read_to_string(log).unwrap();
    assert!(summaries.contains("made 3 calls to 2 HIP functions"), "the child's: {summaries}");
    assert!(summaries.contains("made 10 calls to 4 HIP functions"), "the parent's: {summaries}");
}

#[test]
fn thread_calls_hip_while_it_ends() {
    let workshop = Workshop::new();
    let said = same_with_and_without(workshop.client(), &["ending"]);
    assert_eq!(said.stdout.matches("late 0").count(), 3, "{}", said.stdout);
}

#[test]
fn thousands_of_short_threads_are_counted_exactly_and_take_no_more_memory() {
    let workshop = Workshop::new();
    let said = Run::preloaded(workshop.client()).args(["short-threads"]).finish();
    let numbers: Vec<i64> = said.stderr.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [calls, pages] = numbers[..] else { panic!("{}", said.stderr) };
    assert_eq!(calls, 100 * 30 * 3);
    // A set of counters for each of the 1,500 threads would take more than one page each.
    assert!(pages < 500, "{pages} pages");
}

#[test]
fn looking_up_a_function_leaves_errno_alone() {
    let workshop = Workshop::new();
    let said = same_with_and_without(workshop.client(), &["errno"]);
    assert_eq!(said.stdout.matches("errno 4242").count(), 9, "{}", said.stdout);
}

#[test]
fn runtime_too_old_for_a_function() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let log = workshop.path("log");
    let said = Run::preloaded(client).args(["missing"]).env("XSCHED_LOG", &log).finish();
    assert!(said.stdout.contains("801 not supported by this HIP runtime -1\n"), "{}", said.stdout);
    let summary = std::fs::read_to_string(log).unwrap();
    assert!(summary.contains("3  missing in the runtime"), "{summary}");
}

#[test]
fn log_is_a_pipe_without_a_reader() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let fifo = workshop.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let alone = Run::alone(&client).args(["errno"]).finish();
    assert_eq!(Run::preloaded(&client).args(["errno"]).env("XSCHED_LOG", &fifo).finish(), alone);
}

#[test]
fn standard_error_is_a_pipe_that_was_closed() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let mut child = Command::new(&client)
        .arg("errno")
        .env("LD_PRELOAD", shim())
        .env("XSCHED_LOG", "stderr")
        .stdout(File::create(workshop.path("stdout")).unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0), "a signal would have ended it");
}

#[test]
fn summary_goes_to_standard_error_when_asked() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let alone = Run::alone(&client).args(["errno"]).finish();
    let Said { status, stdout, stderr } =
        Run::preloaded(&client).args(["errno"]).env("XSCHED_LOG", "stderr").finish();
    assert_eq!((status, stdout), (alone.status, alone.stdout));
    assert!(stderr.starts_with("xsched-shim: process "), "{stderr}");
}

#[test]
fn log_cannot_be_written() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let alone = Run::alone(&client).args(["errno"]).finish();
    let nowhere = workshop.path("no/such/folder");
    assert_eq!(Run::preloaded(&client).args(["errno"]).env("XSCHED_LOG", nowhere).finish(), alone);
}
