//! Needs of end-to-end tests, in addition to those of [`mod@xsched_harness::needs`]. Probes do not panic where nothing is built:
//! tests can be listed without `cargo xtask test`.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use xsched_harness::needs::{Need, ROOT, USER, XTASK, fails, no_file};

use crate::{artifacts, browser, sql};

/// The command `sudo`.
pub static SUDO: Need = Need { name: "sudo", missing: || fails(Command::new("sudo").arg("-V")) };

/// A terminal without a window.
pub static TMUX: Need = Need { name: "tmux", missing: || fails(Command::new("tmux").arg("-V")) };

/// Root may make time namespaces, which Linux has from 5.6 on and programs enter by `exec` from 6.0 on.
pub static TIME_NAMESPACES: Need = Need {
    name: "time namespaces",
    missing: || {
        let check = "grep -q 'boottime *7 ' /proc/self/timens_offsets";
        fails(Command::new("unshare").args(["--time", "--boottime", "7", "sh", "-c", check]))
    },
};

/// FUSE file systems can be mounted in a mount namespace.
pub static FUSE: Need = Need {
    name: "fuse",
    missing: || {
        let script = "import ctypes, os; fd = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode()
assert ctypes.CDLL(None).mount(b'probe', b'/mnt', b'fuse', 0, options) == 0, 'mount refused'";
        fails(Command::new("unshare").args(["--mount", "python3", "-c", script]))
    },
};

/// No driver of AMD's GPUs is loaded.
pub static NO_AMDGPU: Need = Need {
    name: "no amdgpu",
    missing: || Path::new("/sys/module/amdgpu").exists().then(|| "the driver amdgpu is loaded".to_owned()),
};

/// The kernel hands system calls of a process to the process itself: `PR_SET_SYSCALL_USER_DISPATCH`,
/// <https://docs.kernel.org/admin-guide/syscall-user-dispatch.html>.
pub static SYSCALL_DISPATCH: Need = Need {
    name: "system call dispatch",
    missing: || {
        const SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
        const OFF: libc::c_ulong = 0;
        let zero: libc::c_ulong = 0;
        // SAFETY: the call takes no pointer, and switches off a feature that nothing has switched on.
        let status = unsafe { libc::prctl(SET_SYSCALL_USER_DISPATCH, OFF, zero, zero, zero) };
        (status != 0).then(|| "this kernel has no PR_SET_SYSCALL_USER_DISPATCH".to_owned())
    },
};

/// The hierarchy of cgroups is mounted from its root.
pub static CGROUPS: Need = Need {
    name: "cgroups",
    missing: || cgroups().is_none().then(|| "the root of the cgroup2 hierarchy is not mounted".to_owned()),
};

/// This user may make cgroups.
pub static OWN_CGROUPS: Need = Need {
    name: "own cgroups",
    missing: || {
        CGROUPS.missing_or(|| {
            let probe = cgroups()?.join(format!("xsched-probe-{}", std::process::id()));
            let made = fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe));
            made.err().map(|error| format!("no cgroup can be made: {error}"))
        })
    },
};

/// Where the root of the cgroup2 hierarchy is mounted.
pub fn cgroups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let whole =
        mounts.lines().find(|line| line.contains(" - cgroup2 ") && line.split(' ').nth(3) == Some("/"));
    whole?.split(' ').nth(4).map(PathBuf::from)
}

/// This user is root, and other users may run the built programs.
pub static OTHER_USERS: Need = Need {
    name: "other users",
    missing: || {
        ROOT.missing_or(XTASK.missing).or_else(|| {
            let mut test = Command::new("test");
            fails(test.arg("-x").arg(artifacts::app("device_load")).uid(USER).gid(USER).current_dir("/"))
        })
    },
};

/// This user is root, and the set-user-id bit has an effect on temporary files.
pub static SET_USER_ID: Need = Need {
    name: "set-user-id files",
    missing: || {
        ROOT.missing_or(|| {
            set_user_id().map_or_else(
                |error| Some(format!("no program can be copied: {error}")),
                |heeded| {
                    (!heeded)
                        .then(|| "the temporary folder's file system heeds no set-user-id bit".to_owned())
                },
            )
        })
    },
};

/// Whether a copy of `id` with the bit prints root's id when another user runs it.
fn set_user_id() -> std::io::Result<bool> {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    let copy = folder.path().join("id");
    fs::copy("/usr/bin/id", &copy)?;
    fs::set_permissions(&copy, Permissions::from_mode(0o4755))?;
    let output = Command::new(&copy).arg("-u").uid(USER).gid(USER).stderr(Stdio::null()).output()?;
    Ok(output.stdout == b"0\n")
}

/// This user may make the cgroups that kubelet makes for pods, in some hierarchy.
pub static POD_CGROUPS: Need = Need {
    name: "cgroups of pods",
    missing: || {
        pod_cgroups().is_none().then(|| "no cgroup can be made below the root of a hierarchy".to_owned())
    },
};

/// A hierarchy of cgroups in which this user may make some: of version 2, or one of version 1.
pub fn pod_cgroups() -> Option<PathBuf> {
    let old = ["pids", "devices", "systemd"].map(|name| Path::new("/sys/fs/cgroup").join(name));
    let can_make = |root: &PathBuf| {
        let probe = root.join(format!("xsched-probe-{}", std::process::id()));
        fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok()
    };
    // A plain folder in place of a hierarchy has no such file.
    cgroups().into_iter().chain(old).find(|root| root.join("cgroup.procs").exists() && can_make(root))
}

/// The models of the Kubernetes Python client.
pub static KUBERNETES_MODELS: Need = Need {
    name: "Kubernetes' models",
    missing: || fails(Command::new(sql::python()).args(["-c", "import kubernetes, pydantic, yaml"])),
};

/// Prometheus's own linter for metrics and alert rules.
pub static PROMTOOL: Need =
    Need { name: "promtool", missing: || fails(Command::new("promtool").arg("--version")) };

/// Chromium, and Playwright to drive it.
pub static BROWSER: Need = Need { name: "browser", missing: browser::missing };

/// The conformance suite, which is built where HIP's headers are.
pub static CONFORMANCE: Need = Need {
    name: "conformance suite",
    missing: || XTASK.missing_or(|| not_got([artifacts::twins(), artifacts::module()])),
};

/// The client that is linked with HIP, which is built where HIP's headers are.
pub static LINKED_CLIENT: Need =
    Need { name: "linked client", missing: || XTASK.missing_or(|| not_got([artifacts::linked_client()])) };

/// hip-python of PyPI, on kernels and twins of the conformance suite.
pub static HIP_PYTHON: Need =
    Need { name: "hip-python", missing: || CONFORMANCE.missing_or(|| not_got([artifacts::python()])) };

/// Debian's HIPRTC, which hip-python calls.
pub static HIPRTC: Need =
    Need { name: "HIPRTC", missing: || HIP_PYTHON.missing_or(|| not_got([artifacts::hiprtc()])) };

/// Debian's rocRAND, the libraries that execute and check its kernels, and the interpreter for its clients.
pub static ROCRAND: Need = Need {
    name: "rocRAND",
    missing: || {
        HIP_PYTHON.missing_or(|| {
            let of_suite = ["executor", "reference"].map(artifacts::rocrand_twin);
            not_got(of_suite.into_iter().chain([artifacts::rocrand()]))
        })
    },
};

/// Debian's hipRAND, and [`ROCRAND`].
pub static HIPRAND: Need =
    Need { name: "hipRAND", missing: || ROCRAND.missing_or(|| not_got([artifacts::hiprand()])) };

/// Whether files are missing that `cargo xtask setup` gets, or `cargo xtask test` builds.
fn not_got(files: impl IntoIterator<Item = PathBuf>) -> Option<String> {
    no_file(files).map(|missing| format!("{missing} (`cargo xtask setup` gets what is needed)"))
}
