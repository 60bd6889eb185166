//! Each caller reaches the copy of the runtime that it would have reached.

use std::path::PathBuf;

use crate::fixture::{Run, Workshop, same_with_and_without};

/// A program without HIP, and plugins with their runtimes.
struct Plugins {
    workshop: Workshop,
    host: PathBuf,
}

impl Plugins {
    fn new() -> Self {
        let workshop = Workshop::new();
        let host = workshop.compile("host", &["host.c"], &["-ldl"]);
        Self { workshop, host }
    }

    /// A plugin that brings runtime `A`, named and found as a system's.
    fn system(&self) -> String {
        let runtime = self.workshop.runtime("A", "a/libamdhip64.so.6", "libamdhip64.so.6");
        self.plugin("system", &[&runtime.display().to_string(), "-Wl,-rpath,$ORIGIN/a"])
    }

    /// A plugin that brings runtime `B` as a PyTorch wheel does: needed by its bare name, which is not what
    /// it calls itself, so that the loader maps it beside the system's.
    fn wheel(&self) -> String {
        let link_time = self.workshop.runtime("B", "link/libamdhip64.so", "libamdhip64.so");
        self.workshop.runtime("B", "b/libamdhip64.so", "libamdhip64.so.6");
        self.plugin("wheel", &[&link_time.display().to_string(), "-Wl,-rpath,$ORIGIN/b"])
    }

    /// A plugin that names no runtime, like an extension that relies on its framework.
    fn unlinked(&self) -> String {
        self.plugin("unlinked", &[])
    }

    fn plugin(&self, name: &str, flags: &[&str]) -> String {
        let named = format!("-DNAME=\"{name}\"");
        let flags = [&["-shared", &named], flags].concat();
        self.workshop.compile(&format!("{name}.so"), &["plugin.c"], &flags).display().to_string()
    }
}

/// The copies that served launches, in order.
fn served(stdout: &str) -> String {
    stdout.lines().filter_map(|line| line.split_once(" hipLaunchKernel ")).map(|(copy, _)| copy).collect()
}

#[test]
fn plugin_with_a_local_runtime_where_rtld_next_finds_nothing() {
    let plugins = Plugins::new();
    let said = same_with_and_without(&plugins.host, &[&format!("l:{}", plugins.system())]);
    assert_eq!(served(&said.stdout), "AAA");
    assert!(said.stdout.contains("system: no error"), "{}", said.stdout);
}

#[test]
fn two_runtimes_in_one_process_keep_their_kernels_apart() {
    let plugins = Plugins::new();
    let (system, wheel) = (format!("l:{}", plugins.system()), format!("l:{}", plugins.wheel()));
    let said = same_with_and_without(&plugins.host, &[&system, &wheel, &system, &wheel]);
    assert_eq!(served(&said.stdout), "AAABBBAAABBB");
    assert!(!said.stdout.contains("invalid device function"), "{}", said.stdout);
}

#[test]
fn program_with_a_runtime_of_its_own_serves_its_plugins() {
    // The global scope comes first: that a plugin brings its own copy does not matter to the loader.
    let plugins = Plugins::new();
    plugins.system();
    let runtime = plugins.workshop.path("a/libamdhip64.so.6").display().to_string();
    let flags = ["-Wl,--no-as-needed", &runtime, "-Wl,-rpath,$ORIGIN/a", "-ldl"];
    let host = plugins.workshop.compile("linked-host", &["host.c"], &flags);
    let said = same_with_and_without(host, &[&format!("l:{}", plugins.wheel())]);
    assert_eq!(served(&said.stdout), "AAA");
}

#[test]
fn global_runtime_serves_an_extension_that_names_none() {
    let plugins = Plugins::new();
    let (system, wheel) = (format!("l:{}", plugins.system()), format!("g:{}", plugins.wheel()));
    let said = same_with_and_without(&plugins.host, &[&system, &wheel, &format!("l:{}", plugins.unlinked())]);
    assert_eq!(served(&said.stdout), "AAABBBBBB");
}

#[test]
fn plugin_is_closed_and_loaded_again() {
    let plugins = Plugins::new();
    let system = format!("c:{}", plugins.system());
    let said = same_with_and_without(&plugins.host, &[&system, &system, &system]);
    assert_eq!(served(&said.stdout), "AAAAAAAAA");
}

#[test]
fn plugin_is_closed_and_another_takes_its_place() {
    let plugins = Plugins::new();
    let (system, wheel) = (format!("c:{}", plugins.system()), format!("c:{}", plugins.wheel()));
    let said = same_with_and_without(&plugins.host, &[&system, &wheel, &system, &wheel]);
    assert_eq!(served(&said.stdout), "AAABBBAAABBB");
}

#[test]
fn nothing_says_which_copy_and_the_choice_is_counted() {
    // Without the shim this extension could not be loaded at all: its symbols are nowhere in its scope.
    let plugins = Plugins::new();
    let (system, wheel) = (format!("l:{}", plugins.system()), format!("l:{}", plugins.wheel()));
    let log = plugins.workshop.path("log");
    let unlinked = format!("l:{}", plugins.unlinked());
    let said =
        Run::preloaded(&plugins.host).args([&system, &wheel, &unlinked]).env("XSCHED_LOG", &log).finish();
    assert_eq!(served(&said.stdout), "AAABBBAAA", "the first copy that was mapped: {said:?}");
    let summary = std::fs::read_to_string(log).unwrap();
    assert!(summary.contains("ambiguous runtime copies"), "{summary}");
}
