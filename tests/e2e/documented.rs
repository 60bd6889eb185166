//! The commands of `xsched-ctl` in README.md and docs/, each typed as it stands there.
//!
//! A folder has what they speak of: programs `python` and `./app`, a recording, files of rules, and the process 4711, for which the
//! test's own is put in. A controller runs. A command that runs until Ctrl-C gets Ctrl-C once it says that it is ready.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::process::Signal;
use tempfile::TempDir;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, shim, xsched_ctl as binary};
use xsched_tests::tracer::{Outcome, Running, run, wait_until, xsched_ctl};

/// Commands that are not run here, by how they begin, each with the place of the tests that run them.
const ELSEWHERE: [(&str, &str); 3] = [
    ("xsched-ctl top", "tests/e2e/serve/top.rs, which has a terminal"),
    ("NO_COLOR=1 xsched-ctl top", "tests/e2e/serve/top.rs, which has a terminal"),
    ("xsched-ctl field", "tests/e2e/report/field.rs, with fewer and shorter steps: these take minutes"),
];

/// The rule on calls that the pages call `my.toml`.
const RULES: &str = "[[rule]]\nlibrary = \"libsolver.so*\"\naction = \"never-suspend\"\n";

/// A command in a code block, and where it stands first.
struct Documented {
    place: String,
    text: String,
}

/// The commands of the pages, without comments, each once.
fn documented() -> Vec<Documented> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut pages: Vec<_> =
        fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages.sort();
    let mut commands = BTreeMap::new();
    for page in pages {
        for (line, number) in fs::read_to_string(&page).unwrap().lines().zip(1..) {
            let Some(text) = line.strip_prefix("    ").and_then(command) else { continue };
            let place = format!("{}:{number}", page.file_name().unwrap().to_str().unwrap());
            commands.entry(text).or_insert(place);
        }
    }
    commands.into_iter().map(|(text, place)| Documented { place, text }).collect()
}

/// The command in a line of a code block, if it is one of xsched-ctl.
fn command(line: &str) -> Option<String> {
    let text = line.split("  #").next()?.trim().trim_end_matches(" &");
    let text = text.strip_prefix("sudo ").unwrap_or(text).replace("target/release/xsched-ctl", "xsched-ctl");
    let mut words = text.split(' ').skip_while(|word| word.contains('='));
    (words.next() == Some("xsched-ctl")).then_some(text)
}

/// What a command says when it is ready for Ctrl-C; none if it ends by itself.
fn ready(command: &str) -> Option<(Stream, &'static str)> {
    let has = |option: &str| command.split(' ').any(|word| word == option);
    let verb = command.split(' ').skip_while(|word| *word != "xsched-ctl").nth(1)?;
    match verb {
        "serve" if !has("--check") => Some((Stream::Stderr, "sockets in")),
        "trace" if has("--pid") || has("--all") => Some((Stream::Stderr, "Ctrl-C ends it")),
        "attach" => Some((Stream::Stderr, "Ctrl-C detaches")),
        "list" if has("--watch") => Some((Stream::Stdout, "two_libraries")),
        "view" => Some((Stream::Stdout, "http://127.0.0.1")),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

/// The folder in which the commands are typed, with the processes that they speak of.
struct Node {
    folder: TempDir,
    train: Running,
    _serve: Running,
    controller: Option<Running>,
}

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["bin", "target", "sockets"] {
            fs::create_dir(path(name)).unwrap();
        }
        symlink(app(""), path("target/apps")).unwrap();
        fs::write(path("my.toml"), RULES).unwrap();
        let script = |name: PathBuf, text: String| {
            fs::write(&name, text).unwrap();
            fs::set_permissions(name, fs::Permissions::from_mode(0o755)).unwrap();
        };
        script(path("bin/xsched-ctl"), format!("#!/bin/sh\nexec {} \"$@\"\n", binary().display()));
        // As a program of Python's, it does some work and ends.
        let program = format!("#!/bin/sh\nexec {} --launches 200\n", app("two_libraries").display());
        script(path("bin/python"), program.clone());
        script(path("app"), program);

        let mut serve = xsched_ctl(["serve"]);
        let mut controller = Running::start(serve.env("XSCHED_SOCKET_DIR", path("sockets")));
        controller.wait_for_stderr("sockets in");
        let start = |name: &str| {
            let mut command = Command::new(app("two_libraries"));
            command.arg0(name).args(["--seconds", "600", "--interval-us", "500"]);
            set_variables(&mut command, folder.path());
            let mut running = Running::start(command.env("LD_PRELOAD", shim()));
            running.wait_for_stdout("ready ");
            running
        };
        let (train, serve) = (start("train"), start("serve"));
        let node = Self { folder, train, _serve: serve, controller: Some(controller) };
        wait_until("both have joined", || node.run("xsched-ctl list").stdout.matches("two_lib").count() == 2);
        node.record();
        node
    }

    /// Makes the recordings.
    fn record(&self) {
        let mut recorder = self.start("xsched-ctl trace --all -o run.perfetto --duration 2s");
        recorder.wait_for_stderr("Ctrl-C ends it");
        assert_eq!(recorder.finish().code, 0);
        let compressed = self.run("xsched-ctl trace -o run.perfetto.gz -- ./app");
        assert_eq!(compressed.code, 0, "{}", compressed.stderr);
    }

    /// As a shell in the folder runs it.
    fn shell(&self, command: &str) -> Command {
        let folder = self.folder.path();
        let mut shell = Command::new("sh");
        // The names of the recording's processes, and the process that is there.
        let command = command
            .replace("4711", &self.train.pid().to_string())
            .replace("\"serve:", "\"two_libraries:")
            .replace("serve:share", "two_libraries:share")
            .replace(" train:", " two_libraries:");
        shell.arg("-c").arg(command).current_dir(folder).process_group(0);
        set_variables(&mut shell, folder);
        let path = env::var("PATH").unwrap();
        shell.env("PATH", format!("{}:{path}", folder.join("bin").display()));
        shell
    }

    fn run(&self, command: &str) -> Outcome {
        run(&mut self.shell(command))
    }

    fn start(&self, command: &str) -> Running {
        Running::start(&mut self.shell(command))
    }

    /// How it ended.
    fn try_out(&self, command: &str) -> Outcome {
        let Some((stream, text)) = ready(command) else { return self.run(command) };
        let mut shell = self.shell(command);
        if command.contains("xsched-ctl serve") {
            // The controller of the test has the other folder.
            let other = self.folder.path().join("other");
            fs::create_dir_all(&other).unwrap();
            shell.env("XSCHED_SOCKET_DIR", other);
        }
        let mut running = Running::start(&mut shell);
        match stream {
            Stream::Stdout => running.wait_for_stdout(text),
            Stream::Stderr => running.wait_for_stderr(text),
        };
        running.signal_group(Signal::INT);
        running.finish()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.signal(Signal::TERM);
            drop(controller.finish());
        }
    }
}

fn set_variables(command: &mut Command, folder: &Path) {
    command.env("XSCHED_SOCKET_DIR", folder.join("sockets"));
    command.env("HIP_SIM_SHARED", format!("documented-{}", std::process::id()));
    command.env("BROWSER", "true");
}

#[needs(ROOT)]
fn each_documented_command_does_what_it_should() {
    let commands = documented();
    assert!(
        commands.len() > 30,
        "{} commands: the pages have other code blocks than the test reads",
        commands.len()
    );
    let node = Node::new();
    let mut failures = Vec::new();
    for Documented { place, text } in &commands {
        if ELSEWHERE.iter().any(|(begin, _)| text.starts_with(begin)) {
            continue;
        }
        let outcome = node.try_out(text);
        println!("{place}: {text}: {}", outcome.code);
        if outcome.code != 0 {
            failures.push(format!("{place}: {text}: {}\n{}{}", outcome.code, outcome.stdout, outcome.stderr));
        }
        if text.contains("xsched-ctl off") {
            assert_eq!(node.run("xsched-ctl on").code, 0);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// An exception that no page needs any more hides a command that comes later.
#[needs(nothing)]
fn each_exception_is_needed() {
    let commands = documented();
    for (begin, place) in ELSEWHERE {
        assert!(commands.iter().any(|command| command.text.starts_with(begin)), "{begin}: {place}");
    }
}

fn main() -> ExitCode {
    xsched_harness::main()
}
