//! `xsched-ctl top`, used as users do: on a terminal, by keys.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::xsched_ctl as binary;
use xsched_tests::needs::{OTHER_USERS, TMUX};

use super::USER;
use super::fixture::Controller;

/// How long the test waits for a screen.
const PATIENCE: Duration = Duration::from_mins(1);

/// A terminal of 80 by 24 in which a shell runs `top`, and then prints how it ended and how it left the terminal.
struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// `prefix` runs its arguments.
    fn with_top(controller: &Controller, prefix: &str) -> Self {
        let terminal = Self { folder: tempfile::tempdir().unwrap() };
        let folder = controller.folder().display();
        let top = format!("env XSCHED_SOCKET_DIR={folder} {prefix} {} top", binary().display());
        let script = format!("echo before; {top}; echo ended with $?; stty -a; echo all is said; sleep 600");
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &script]);
        terminal
    }

    /// What tmux prints.
    #[track_caller]
    fn tmux(&self, arguments: &[&str]) -> String {
        let socket = self.folder.path().join("tmux");
        let output = Command::new("tmux").arg("-S").arg(socket).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until the screen is as wanted, and returns it.
    #[track_caller]
    fn wait(&self, is_wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if is_wanted(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn wait_for(&self, words: &str) -> String {
        // Lines are wrapped at any space.
        self.wait(|screen| screen.split_whitespace().collect::<Vec<_>>().join(" ").contains(words))
    }

    /// The child of the shell.
    fn top(&self) -> Pid {
        let shell = self.tmux(&["list-panes", "-F", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = PathBuf::from(format!("/proc/{shell}/task/{shell}/children"));
        let child = fs::read_to_string(children).unwrap();
        Pid::from_raw(child.trim().parse().unwrap()).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let socket = self.folder.path().join("tmux");
        // Fails only if it has ended.
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

/// Whether a line has all of these words.
fn has_line(screen: &str, words: &[&str]) -> bool {
    screen.lines().any(|line| words.iter().all(|word| line.contains(word)))
}

#[needs(ROOT, TMUX)]
fn keys_change_what_top_shows() {
    let controller = Controller::start("");
    let (mut batch, mut urgent) = (controller.joined(-10, 5), controller.joined(10, 5));
    batch.report("ready");
    urgent.report("ready");
    let (pid, urgent_pid) = (batch.id().to_string(), urgent.id().to_string());
    let terminal = Terminal::with_top(&controller, "");
    terminal.wait(|screen| {
        has_line(screen, &[&pid, "normal -10", "suspended", &format!("{urgent_pid} python3")])
            && has_line(screen, &["0 0000:05:00.0", "2 claims, 1 waits"])
    });

    terminal.press(if batch.id() < urgent.id() { &["Home"] } else { &["End"] });
    terminal.press(&["c", "h", "i", "g", "h", "Enter"]);
    terminal
        .wait_for(&format!("{pid} (python3): priority 100 (high), weight 100; was priority -10 (normal)"));
    assert_eq!(controller.listed(&batch)["parameters"]["priority"], 100);
    terminal
        .wait(|screen| has_line(screen, &[&urgent_pid, "normal 10", "suspended", &format!("{pid} python3")]));
    terminal.press(&["r"]);
    terminal.wait_for("was priority 100 (high)");
    assert_eq!(controller.listed(&batch)["from"], "hint");

    terminal.press(&["p", "Down", "Enter"]);
    terminal.wait_for("active, policy fair, 2 processes");
    terminal.tmux(&["resize-window", "-x", "140", "-y", "30"]);
    terminal.wait(|screen| has_line(screen, &["from", "claim", "level", "waits for"]));
    terminal.press(&["?"]);
    terminal.wait_for("Any key ends this help");
    terminal.press(&["x", "q"]);
    let after = terminal.wait_for("ended with 0");
    assert!(after.starts_with("before\n") && !after.contains("policy fair"), "{after}");
}

#[needs(ROOT, TMUX, OTHER_USERS)]
fn top_shows_why_a_change_is_refused() {
    let controller = Controller::start("");
    let mut process = controller.process_of(USER);
    process.ask("connect");
    process.open(5);
    let user = format!("setpriv --reuid={USER} --regid={USER} --clear-groups");
    let terminal = Terminal::with_top(&controller, &user);
    terminal.wait_for(&process.id().to_string());
    terminal.press(&["c", "1", "2", "0", "Enter"]);
    terminal.wait_for("priority 120 is above the ceiling, 49 (class normal)");
    terminal.press(&["p", "Enter"]);
    terminal.wait_for("run it as root or as the user that runs the controller");
    assert_eq!(controller.listed(&process)["parameters"]["priority"], 0);
}

#[needs(ROOT, TMUX)]
fn top_outlives_its_controller_and_restores_the_terminal_when_it_is_ended() {
    let mut controller = Controller::start("");
    let terminal = Terminal::with_top(&controller, "");
    terminal.wait_for("active, policy priority, 0 processes");
    controller.process().signal(Signal::KILL);
    controller.finish();
    terminal
        .wait_for("no controller is running; `sudo xsched-ctl serve` starts one; trying again every second");
    controller.restart("");
    terminal.wait_for("connected to a controller again");
    kill_process(terminal.top(), Signal::TERM).unwrap();
    let after = terminal.wait_for("all is said");
    assert!(after.contains("ended with 0"), "{after}");
    let stands = |word| after.split([' ', ';', '\n']).any(|one| one == word);
    assert!(stands("icanon") && stands("echo") && !stands("-icanon"), "{after}");
}

#[needs(nothing)]
fn top_without_a_terminal_names_what_scripts_use() {
    let output = Command::new(binary()).arg("top").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("needs a terminal") && said.contains("list --watch"), "{said}");
}
