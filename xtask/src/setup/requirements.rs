//! The list of requirements: each with its purpose, and with a command for machines where setup cannot get it.

use std::path::Path;

use anyhow::Result;

use super::{bpf_linker, debian, kernel, machine::Machine};

/// The purpose of a requirement; a verb names the needs that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Compiling the BPF programs, and with them xsched-ctl.
    BpfBuild,
    /// Compiling the HIP programs that tests and demo trace.
    HipPrograms,
    /// Reading recorded timelines with Perfetto's own code.
    TimelineChecks,
    /// Loading and attaching BPF programs.
    Kernel,
    /// Booting kernels with AMD's driver. Set up only on request.
    VirtualMachine,
    /// Running AMD's genuine libraries in a file system of their own. Set up only on request.
    Rocm,
    /// Single end-to-end tests, which skip themselves without it.
    SingleTests,
}

impl Need {
    pub(crate) const ALL: [Self; 5] =
        [Self::BpfBuild, Self::HipPrograms, Self::TimelineChecks, Self::Kernel, Self::SingleTests];
}

/// A requirement.
pub(crate) struct Requirement {
    pub(crate) name: &'static str,
    pub(crate) need: Need,
    /// Reads after "needed": "to compile ...".
    pub(crate) why: &'static str,
    /// Whether it is met; checked on every run, so it must be quick.
    pub(crate) is_met: fn(&dyn Machine) -> bool,
    pub(crate) remedy: Remedy,
    /// A command or an advice for machines where the remedy cannot be applied.
    pub(crate) elsewhere: &'static str,
}

/// How setup gets a missing thing.
pub(crate) enum Remedy {
    /// Debian packages; everything missing is fetched in one call of apt-get.
    Packages(&'static [&'static str]),
    /// A step of its own, taken after the packages.
    Step(fn(&dyn Machine) -> Result<()>),
    /// None: it belongs to the kernel that was booted.
    Nothing,
}

/// Every requirement. Steps come after the packages that they build on.
#[expect(clippy::too_many_lines, reason = "it is one list")]
pub(crate) fn all() -> Vec<Requirement> {
    vec![
        Requirement {
            name: "C compiler",
            need: Need::BpfBuild,
            why: "to link every Rust program",
            is_met: |m| m.output("cc", &["-shared", "-x", "c", "/dev/null", "-o", "/dev/null"]).is_some(),
            remedy: Remedy::Packages(&["gcc", "libc6-dev"]),
            elsewhere: "install gcc or clang, so that `cc` is found",
        },
        Requirement {
            name: "Rust compiler for BPF",
            need: Need::BpfBuild,
            why: "to compile the BPF programs: a rustc together with the sources of `core`",
            is_met: |m| bpf_rustc(m).is_some(),
            remedy: Remedy::Packages(&["rustc-web", "cargo-web", "rust-web-src"]),
            elsewhere: "rustup toolchain install nightly --component rust-src   (Debian 12: rustc-web 1.96 is in its security archive)",
        },
        Requirement {
            name: "bpf-linker",
            need: Need::BpfBuild,
            why: "to link the BPF programs",
            is_met: bpf_linker::works,
            remedy: Remedy::Step(bpf_linker::install),
            elsewhere: "cargo binstall bpf-linker   (or a release of https://github.com/aya-rs/bpf-linker)",
        },
        Requirement {
            name: "clang, lld and llvm 19",
            need: Need::HipPrograms,
            why: "to compile real HIP programs with real GPU code, without ROCm",
            is_met: |m| {
                let tool = |name| m.output(name, &["--version"]).is_some();
                // An empty program for both sides, which takes compiler, linker and bundler. The last two are called by tests, too.
                let options = "-x hip --offload-arch=gfx942 -nogpuinc -nogpulib -c /dev/null -o /dev/null";
                let options: Vec<_> = options.split(' ').collect();
                m.output("clang++-19", &options).is_some()
                    && ["clang-offload-bundler-19", "llvm-objcopy-19"].into_iter().all(tool)
            },
            remedy: Remedy::Packages(&["clang-19", "clang-tools-19", "lld-19", "llvm-19"]),
            elsewhere: "sudo apt-get install clang-19 clang-tools-19 lld-19 llvm-19   (Debian 12, or apt.llvm.org)",
        },
        Requirement {
            name: "node",
            need: Need::TimelineChecks,
            why: "to run Perfetto's own trace processor over recorded timelines",
            is_met: |m| {
                m.output("node", &["-e", "new WebAssembly.Memory({initial: 1}); fetch.name"]).is_some()
            },
            remedy: Remedy::Packages(&["nodejs"]),
            elsewhere: "install Node.js 18 or later, https://nodejs.org",
        },
        Requirement {
            name: "python3 with venv",
            need: Need::TimelineChecks,
            why: "to fetch Perfetto's trace processor from PyPI into a folder of its own",
            is_met: |m| m.output("python3", &["-c", "import venv, ensurepip"]).is_some(),
            remedy: Remedy::Packages(&["python3", "python3-venv"]),
            elsewhere: "sudo apt-get install python3 python3-venv",
        },
        Requirement {
            name: "tracefs",
            need: Need::Kernel,
            why: "to follow children of a traced command, and to catch the first calls of a process",
            is_met: |m| kernel::is_mounted(m, "/sys/kernel/tracing", "tracefs"),
            remedy: Remedy::Step(|m| kernel::mount(m, "/sys/kernel/tracing", "tracefs")),
            elsewhere: "sudo mount -t tracefs nodev /sys/kernel/tracing",
        },
        Requirement {
            name: "bpffs",
            need: Need::Kernel,
            why: "to pin BPF objects and to look at them with bpftool",
            is_met: |m| kernel::is_mounted(m, "/sys/fs/bpf", "bpf"),
            remedy: Remedy::Step(|m| kernel::mount(m, "/sys/fs/bpf", "bpf")),
            elsewhere: "sudo mount -t bpf bpffs /sys/fs/bpf",
        },
        Requirement {
            name: "BPF features of the kernel",
            need: Need::Kernel,
            why: "for ring buffers and a cookie per attached probe",
            is_met: kernel::has_features,
            remedy: Remedy::Nothing,
            elsewhere: "boot Linux 5.15 or later",
        },
        Requirement {
            name: "uprobes",
            need: Need::Kernel,
            why: "to see a process enter the HIP runtime",
            is_met: |m| m.exists("/sys/bus/event_source/devices/uprobe/type"),
            remedy: Remedy::Nothing,
            elsewhere: "boot a kernel built with CONFIG_UPROBE_EVENTS=y, as the kernels of all large distributions are",
        },
        Requirement {
            name: "QEMU and the tools that make its disks",
            need: Need::VirtualMachine,
            why: "to test with AMD's own driver on a stand-in GPU",
            is_met: |m| {
                let tool = |name: &str, arguments: &[&str]| m.output(name, arguments).is_some();
                // The package `busybox` has one that needs libraries, which the machine's first file system does not have.
                tool("sh", &["-c", "! ldd \"$(command -v busybox)\" >/dev/null 2>&1 && busybox --help"])
                    && tool("cpio", &["--version"])
                    && tool("mmdebstrap", &["--version"])
                    && tool("zstd", &["--version"])
                    && tool("xz", &["--version"])
                    && tool("python3", &["--version"])
                    && tool("modprobe", &["--version"])
            },
            remedy: Remedy::Packages(&[
                "busybox-static",
                "cpio",
                "kmod",
                "mmdebstrap",
                "python3",
                "xz-utils",
                "zstd",
            ]),
            elsewhere: "only Debian 12 can make the machine, from its own archives",
        },
        Requirement {
            name: "mmdebstrap and bubblewrap",
            need: Need::Rocm,
            why: "to make a file system with AMD's libraries, and to run programs in it",
            is_met: |m| {
                m.is_root()
                    && m.output("mmdebstrap", &["--version"]).is_some()
                    && m.output("bwrap", &["--version"]).is_some()
            },
            remedy: Remedy::Packages(&["bubblewrap", "mmdebstrap"]),
            elsewhere: "as root on Debian: apt-get install bubblewrap mmdebstrap",
        },
        Requirement {
            name: "chromium",
            need: Need::SingleTests,
            why: "to use the viewer as users do",
            is_met: |m| m.exists("/usr/bin/chromium"),
            remedy: Remedy::Packages(&["chromium"]),
            elsewhere: "install chromium, as /usr/bin/chromium",
        },
        Requirement {
            name: "promtool",
            need: Need::SingleTests,
            why: "to check metrics and alert rules as Prometheus reads them",
            is_met: |m| m.output("promtool", &["--version"]).is_some(),
            remedy: Remedy::Packages(&["prometheus"]),
            elsewhere: "install promtool of https://prometheus.io",
        },
        Requirement {
            name: "sudo",
            need: Need::SingleTests,
            why: "to test `sudo xsched-ctl trace > FILE` as users type it",
            is_met: |m| m.output("sudo", &["-V"]).is_some(),
            remedy: Remedy::Packages(&["sudo"]),
            elsewhere: "install sudo",
        },
        Requirement {
            name: "tmux",
            need: Need::SingleTests,
            why: "to use `xsched-ctl top` as users do",
            is_met: |m| m.output("tmux", &["-V"]).is_some(),
            remedy: Remedy::Packages(&["tmux"]),
            elsewhere: "install tmux 3.0 or later",
        },
    ]
}

/// The command of the compiler that xsched-ctl's build script will use, with the sources of `core`: of the toolchain that
/// `BPF_TOOLCHAIN` names (for rustup, or the path of a sysroot), a nightly, Debian's, the one on the path.
pub(super) fn bpf_rustc(machine: &dyn Machine) -> Option<Vec<String>> {
    let has_core = |sysroot: &str| {
        let core = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core/Cargo.toml");
        machine.exists(&core.to_string_lossy())
    };
    let usable = |command: &[&str]| {
        let (program, first) = command.split_first()?;
        let sysroot = machine.output(program, &[first, &["--print", "sysroot"]].concat())?;
        has_core(&sysroot).then(|| command.iter().map(|word| (*word).to_owned()).collect())
    };
    if let Some(named) = machine.variable("BPF_TOOLCHAIN") {
        return usable(&["rustup", "run", &named, "rustc"]);
    }
    let debian = || {
        let is_usable = has_core(debian::SYSROOT) && debian::has_recent_rustc(machine);
        is_usable.then(|| vec![debian::RUSTC.to_owned()])
    };
    usable(&["rustup", "run", "nightly", "rustc"]).or_else(debian).or_else(|| usable(&["rustc"]))
}
