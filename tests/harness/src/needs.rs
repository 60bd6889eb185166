//! What tests need of the machine, as far as several packages have such tests.

use std::{
    env, fs,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Something that a machine has or lacks.
#[derive(Debug)]
pub struct Need {
    /// As `cargo xtask test` calls it; one name for one need.
    pub name: &'static str,
    /// Probes for it: `None` if it is there, else why not.
    pub missing: fn() -> Option<String>,
}

/// Programs that run as root load BPF programs, set probes and become other users.
pub static ROOT: Need = Need {
    name: "root",
    missing: || {
        let is_root = rustix::process::geteuid().is_root();
        (!is_root).then(|| "this user is not root".to_owned())
    },
};

/// Root may make mount and pid namespaces, as containers have them.
pub static NAMESPACES: Need = Need {
    name: "namespaces",
    missing: || fails(Command::new("unshare").args(["--mount", "--pid", "--fork", "--mount-proc", "true"])),
};

/// Root may mount file systems in a mount namespace of its own, overlays among them.
pub static OVERLAY: Need = Need {
    name: "overlay",
    missing: || {
        // As in a container: upper and work folders lie on a file system of memory.
        let script = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m && \
                      mount -t overlay overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w /mnt/m";
        fails(Command::new("unshare").args(["--mount", "sh", "-c", script]))
    },
};

/// A user without privileges may make a user namespace.
pub static USER_NAMESPACES: Need = Need {
    name: "user namespaces",
    missing: || {
        ROOT.missing_or(|| {
            fails(
                Command::new("unshare")
                    .args(["--user", "--map-root-user", "true"])
                    .uid(USER)
                    .current_dir("/"),
            )
        })
    },
};

/// A C compiler that makes programs of 32 bits.
pub static CC_32_BIT: Need = Need {
    name: "32-bit compiler",
    missing: || {
        let mut cc = Command::new("cc");
        fails(cc.args(["-m32", "-shared", "-fPIC", "-nostdlib", "-x", "c", "/dev/null", "-o", "/dev/null"]))
    },
};

/// A C compiler that has the runtimes of its sanitizers.
pub static SANITIZERS: Need = Need {
    name: "sanitizers",
    missing: || {
        let mut cc = Command::new("cc");
        cc.args(["-fsanitize=address", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", "/dev/null"]);
        fails(&mut cc)
    },
};

/// The kernel describes its types.
pub static BTF: Need = Need { name: "BTF", missing: || no_file(["/sys/kernel/btf/vmlinux".into()]) };

/// Processes are in a unified hierarchy of cgroups.
pub static CGROUP_V2: Need = Need {
    name: "cgroup v2",
    missing: || {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let is_unified = own.lines().any(|line| line.starts_with("0::"));
        (!is_unified).then(|| "processes are in no unified hierarchy of cgroups".to_owned())
    },
};

/// The test runs under `cargo xtask test`, which builds the programs that it starts.
pub static XTASK: Need = Need {
    name: "cargo xtask test",
    missing: || {
        let is_built = env::var_os("XSCHED_ARTIFACTS").is_some();
        (!is_built).then(|| "nothing is built: `cargo xtask test` runs these tests".to_owned())
    },
};

/// The test runs in the virtual machine of `cargo xtask test --vm`.
pub static VM: Need = Need {
    name: "virtual machine",
    missing: || {
        let is_there = env::var_os("XSCHED_VM").is_some();
        (!is_there).then(|| "this is not the virtual machine of `cargo xtask test --vm`".to_owned())
    },
};

/// The test runs there, and time goes by the guest's instructions.
pub static VM_TIMED: Need = Need {
    name: "virtual machine with time by instructions",
    missing: || {
        let is_there = env::var_os("XSCHED_VM_TIMED").is_some();
        (!is_there).then(|| {
            "time does not go by instructions here, as it does under `cargo xtask test --vm timed`".to_owned()
        })
    },
};

/// The test runs there, and kernels last as long as a model says.
pub static VM_MODEL: Need = Need {
    name: "virtual machine with a model of the device's time",
    missing: || {
        let is_there = env::var_os("XSCHED_VM_MODEL").is_some();
        (!is_there).then(|| "`cargo xtask test --vm preemption` boots the machine with that model".to_owned())
    },
};

/// The test runs there, on a root file system with ROCm 6.4.
pub static VM_ROCM_6: Need = Need {
    name: "virtual machine with ROCm 6.4",
    missing: || {
        let is_there = env::var_os("XSCHED_VM_ROCM_6").is_some();
        (!is_there).then(|| "`cargo xtask test --vm rocm6` boots the machine that has ROCm 6.4".to_owned())
    },
};

/// The kernels of ROCm 6.4's rocBLAS, on the root file system of that machine.
pub static ROCBLAS_KERNELS: Need = Need {
    name: "rocBLAS's kernels",
    missing: || {
        let is_there = env::var_os("XSCHED_ROCM_6").is_some();
        (!is_there).then(|| "`cargo xtask test --vm rocm6` has the file system with ROCm 6.4".to_owned())
    },
};

/// Those that CI does not meet in a run of `cargo xtask test`: the virtual machine takes longer than all other tests.
pub static NOT_IN_CI: [&Need; 5] = [&VM, &VM_TIMED, &VM_MODEL, &VM_ROCM_6, &ROCBLAS_KERNELS];

/// Those that `#[ignore = "needs .."]` may name: unit tests run under the standard harness, which cannot probe.
pub static OF_UNIT_TESTS: [&Need; 5] = [&ROOT, &NAMESPACES, &BTF, &CGROUP_V2, &XTASK];

/// A user that no program of the machine runs as.
pub const USER: u32 = 65533;

impl Need {
    /// What is missing, and if nothing is, what else is.
    pub fn missing_or(&self, other: impl FnOnce() -> Option<String>) -> Option<String> {
        (self.missing)().or_else(other)
    }
}

/// Whether a command fails: its error, or the last line that it says.
pub fn fails(command: &mut Command) -> Option<String> {
    let program = command.get_program().display().to_string();
    match command.stdin(Stdio::null()).output() {
        Ok(done) if done.status.success() => None,
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            let last = said.lines().last().unwrap_or_default().trim().to_owned();
            Some(format!(
                "`{program}` fails: {}",
                if last.is_empty() { done.status.to_string() } else { last }
            ))
        }
        Err(error) => Some(format!("`{program}` does not start: {error}")),
    }
}

/// Whether one of these files is missing.
pub fn no_file(files: impl IntoIterator<Item = PathBuf>) -> Option<String> {
    let missing = files.into_iter().find(|file| !file.exists())?;
    Some(format!("no {}", missing.display()))
}
