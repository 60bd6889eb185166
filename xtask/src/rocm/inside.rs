//! Commands in the root file system: they see its files, and, unless they install packages, this machine's devices and processes.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

use crate::command;

/// How a command in there is started, by bubblewrap. It ends if this process does.
pub(super) struct Inside {
    root: PathBuf,
    arguments: Vec<OsString>,
    is_apart: bool,
}

impl Inside {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), arguments: Vec::new(), is_apart: false }
    }

    /// For packages: their scripts run as root, and see neither this machine's devices nor its processes and variables.
    pub(super) fn apart(root: &Path) -> Self {
        Self { is_apart: true, ..Self::new(root) }
    }

    /// A folder of this machine, at the same path in there.
    pub(super) fn with(mut self, folder: &Path) -> Self {
        self.arguments.extend(["--bind".into(), folder.into(), folder.into()]);
        self
    }

    /// An empty folder that goes with the command.
    pub(super) fn with_scratch(mut self, folder: &str) -> Self {
        self.arguments.extend(["--tmpfs".into(), folder.into()]);
        self
    }

    /// A variable for the command, not for the dynamic linker that starts bubblewrap.
    pub(super) fn set(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.arguments.extend(["--setenv".into(), name.into(), value.into()]);
        self
    }

    pub(super) fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = command::command("bwrap");
        command.args(["--die-with-parent", "--bind"]).arg(self.root).arg("/");
        if self.is_apart {
            command.args(["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--clearenv", "--dev", "/dev"]);
            command.args([
                "--setenv",
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            ]);
            command.args(["--setenv", "DEBIAN_FRONTEND", "noninteractive"]);
        } else {
            command.args(["--dev-bind", "/dev", "/dev"]);
        }
        command.args(["--proc", "/proc", "--ro-bind", "/sys", "/sys"]);
        command.args(["--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]);
        command.args(self.arguments).arg("--").arg(program);
        command
    }
}
