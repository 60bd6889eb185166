//! The machine that setup works on, as a trait, so that its decisions can be tested on simulated machines.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Result;

use crate::command;

/// Queries, and one action.
pub(crate) trait Machine {
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// Whether a path exists.
    fn exists(&self, path: &str) -> bool;
    /// The text of a file.
    fn read(&self, path: &str) -> Option<String>;
    /// Standard output of a program that could be started and succeeded; its messages are dropped.
    fn output(&self, program: &str, arguments: &[&str]) -> Option<String>;
    /// Whether this process may install and mount by itself.
    fn is_root(&self) -> bool;
    /// Runs a command visibly: it is shown, with its messages.
    fn run(&self, command: &mut Command) -> Result<()>;
}

/// The machine that this process runs on, asked from the workspace's root.
pub(crate) struct ThisMachine<'a> {
    pub(crate) root: &'a Path,
}

impl Machine for ThisMachine<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }

    fn exists(&self, path: &str) -> bool {
        Path::new(path).exists()
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let output = command::command(program)
            .args(arguments)
            .current_dir(self.root)
            .stdin(Stdio::null())
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        command::run(command)
    }
}

impl dyn Machine + '_ {
    /// A command that runs with root's rights: as it is for root, otherwise through sudo without a password. None: these rights need
    /// a password.
    pub(crate) fn privileged(&self, program: impl AsRef<OsStr>) -> Option<Command> {
        if self.is_root() {
            return Some(command::command(program));
        }
        self.output("sudo", &["-n", "true"])?;
        let mut command = command::command("sudo");
        command.arg("-n").arg(program);
        Some(command)
    }
}
