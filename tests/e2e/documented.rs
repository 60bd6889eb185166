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
use std::time::Instant;

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

/// The folder in which the commands are typed.
struct Node {
    folder: TempDir,
    load: Option<Load>,
}

/// What the commands are about.
struct Load {
    /// For the process 4711.
    train: Running,
    _serve: Running,
    controller: Running,
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
        Self { folder, load: None }
    }

    /// Starts a controller and two processes that share a device, and records them.
    fn start_load(&mut self) {
        let mut serve = xsched_ctl(["serve"]);
        set_variables(&mut serve, self.folder.path());
        let mut controller = Running::start(&mut serve);
        controller.wait_for_stderr("sockets in");
        let start = || {
            let mut command = Command::new(app("two_libraries"));
            command.args(["--seconds", "600", "--interval-us", "500"]);
            set_variables(&mut command, self.folder.path());
            let mut running = Running::start(command.env("LD_PRELOAD", shim()));
            running.wait_for_stdout("ready ");
            running
        };
        self.load = Some(Load { train: start(), _serve: start(), controller });
        wait_until("both have joined", || self.run("xsched-ctl list").stdout.matches("two_lib").count() == 2);

        let mut recorder = self.start("xsched-ctl trace --all -o run.perfetto --duration 2s");
        recorder.wait_for_stderr("Ctrl-C ends it");
        assert_eq!(recorder.finish().code, 0);
        let compressed = self.run("xsched-ctl trace -o run.perfetto.gz -- ./app");
        assert_eq!(compressed.code, 0, "{}", compressed.stderr);
    }

    /// As a shell in the folder runs it. Ctrl-C is for the command alone.
    fn shell(&self, command: &str) -> Command {
        let folder = self.folder.path();
        let mut command = command
            .replace("--seconds 60", "--seconds 1")
            .replace("--seconds 30", "--seconds 1")
            .replace("serve:s", "two_libraries:s")
            .replace(" train:", " two_libraries:");
        if let Some(load) = &self.load {
            command = command.replace("4711", &load.train.pid().to_string());
        }
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}")).current_dir(folder).process_group(0);
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

    /// Runs it to its end, or until Ctrl-C; an error says what was not as it should be.
    fn try_out(&self, Documented { place, text }: &Documented) -> Result<(), String> {
        let began = Instant::now();
        let outcome = match ready(text) {
            None => self.run(text),
            Some((stream, sign)) => {
                let mut running = self.start(text);
                match stream {
                    Stream::Stdout => running.wait_for_stdout(sign),
                    Stream::Stderr => running.wait_for_stderr(sign),
                };
                running.signal_group(Signal::INT);
                running.finish()
            }
        };
        println!("{place}: {text}: {} after {:?}", outcome.code, began.elapsed());
        // Verbs that have nothing to undo leave Ctrl-C to the kernel.
        let by_signal =
            ["xsched-ctl list --watch", "xsched-ctl view"].iter().any(|verb| text.starts_with(verb));
        if outcome.code == if by_signal { 128 + 2 } else { 0 } {
            return Ok(());
        }
        Err(format!("{place}: {text}: {}\n{}{}", outcome.code, outcome.stdout, outcome.stderr))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(load) = self.load.take() {
            load.controller.signal(Signal::TERM);
            drop(load.controller.finish());
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
    let (serving, others): (Vec<_>, Vec<_>) = documented()
        .into_iter()
        .filter(|command| !ELSEWHERE.iter().any(|(begin, _)| command.text.starts_with(begin)))
        .partition(|command| command.text.starts_with("xsched-ctl serve"));
    assert!(serving.len() >= 3 && others.len() >= 30, "the pages have other code blocks than the test reads");

    let mut node = Node::new();
    // There is one controller.
    let mut failures: Vec<_> = serving.iter().filter_map(|command| node.try_out(command).err()).collect();
    node.start_load();
    for command in &others {
        failures.extend(node.try_out(command).err());
        if command.text == "xsched-ctl off" {
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
