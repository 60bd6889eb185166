//! Commands in the root file system: they see its files, and, unless they install packages, this machine's devices and processes; or
//! a GPU of the kernel driver in user space.

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
    devices: Devices,
}

/// Which devices commands see.
enum Devices {
    /// This machine's.
    Own,
    /// None, and neither its processes nor its variables.
    None,
    /// Those of a kernel driver in user space, whose `/sys` is in this folder.
    Simulated(PathBuf),
}

/// Files of the driver that are opened, and no more: `tests/kfd-sim` answers for them.
const DEVICE_FILES: [&str; 2] = ["/dev/kfd", "/dev/dri/renderD128"];

impl Inside {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), arguments: Vec::new(), devices: Devices::Own }
    }

    /// For packages: their scripts run as root, and see neither this machine's devices nor its processes and variables.
    pub(super) fn apart(root: &Path) -> Self {
        Self { devices: Devices::None, ..Self::new(root) }
    }

    /// For programs on the kernel driver in user space, whose `/sys` is in this folder.
    pub(super) fn simulated(root: &Path, sys: PathBuf) -> Self {
        Self { devices: Devices::Simulated(sys), ..Self::new(root) }
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
        command.args(["--proc", "/proc"]);
        match self.devices {
            Devices::None => {
                command.args([
                    "--unshare-pid",
                    "--unshare-ipc",
                    "--unshare-uts",
                    "--clearenv",
                    "--dev",
                    "/dev",
                ]);
                command.args([
                    "--setenv",
                    "PATH",
                    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                ]);
                command.args(["--setenv", "DEBIAN_FRONTEND", "noninteractive"]);
                command.args(["--ro-bind", "/sys", "/sys"]);
            }
            Devices::Own => {
                command.args(["--dev-bind", "/dev", "/dev", "--ro-bind", "/sys", "/sys"]);
            }
            Devices::Simulated(sys) => {
                command.args(["--dev", "/dev", "--dir", "/dev/dri"]);
                for file in DEVICE_FILES {
                    command.args(["--dev-bind", "/dev/null", file]);
                }
                // Of the rest of `/sys`, the runtime reads what processors there are.
                let processors = "/sys/devices/system";
                let driver = "devices/virtual/kfd";
                command.args(["--tmpfs", "/sys", "--ro-bind", processors, processors, "--ro-bind"]);
                command.arg(sys.join(driver)).arg(Path::new("/sys").join(driver));
            }
        }
        command.args(["--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]);
        command.args(self.arguments).arg("--").arg(program);
        command
    }
}
