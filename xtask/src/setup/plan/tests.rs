//! Setup on simulated machines: each test is one machine and the result of setup on it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use anyhow::{Result, bail};

use super::{
    super::requirements::{self, Need},
    *,
};
use crate::command::shown;

/// A machine that changes with what is installed on it.
#[derive(Default)]
struct Fake {
    root: bool,
    has_apt: bool,
    sudo: bool,
    /// Packages that the archive offers.
    archive: &'static [&'static str],
    debian_rust: &'static str,
    kernel: &'static str,
    /// Programs that can be started, with what they print.
    programs: RefCell<BTreeMap<&'static str, &'static str>>,
    files: RefCell<BTreeSet<&'static str>>,
    mounts: RefCell<Vec<String>>,
    /// Every command that was run visibly.
    ran: RefCell<Vec<String>>,
}

/// What a program prints that is there and does not work.
const BROKEN: &str = "broken";

const DEBIAN_12: &[&str] = &[
    "gcc",
    "libc6-dev",
    "rustc-web",
    "cargo-web",
    "rust-web-src",
    "clang-19",
    "clang-tools-19",
    "lld-19",
    "llvm-19",
    "nodejs",
    "python3",
    "python3-venv",
    "chromium",
    "prometheus",
    "sudo",
    "tmux",
];

impl Fake {
    /// Debian 12 with rustup's Rust and gcc and nothing else, on a kernel with all features.
    fn fresh_debian() -> Self {
        let fake = Self {
            root: true,
            has_apt: true,
            archive: DEBIAN_12,
            debian_rust: "rustc 1.96.0",
            kernel: "6.1.0-18-amd64\n",
            ..Self::default()
        };
        fake.programs.borrow_mut().insert("cc", "cc (Debian) 12.2.0");
        fake.files.borrow_mut().insert("/sys/bus/event_source/devices/uprobe/type");
        fake
    }

    fn unpack(&self, package: &str) {
        let mut programs = self.programs.borrow_mut();
        let mut files = self.files.borrow_mut();
        match package {
            "rustc-web" => {
                programs.insert("/usr/bin/rustc", self.debian_rust);
                files.insert("/usr/lib/x86_64-linux-gnu/libLLVM.so.22.1");
            }
            "rust-web-src" => _ = files.insert("/usr/lib/rustlib/src/rust/library/core/Cargo.toml"),
            "clang-19" => _ = programs.insert("clang++-19", "19.1.7"),
            "clang-tools-19" => _ = programs.insert("clang-offload-bundler-19", "19.1.7"),
            "lld-19" => _ = programs.insert("ld.lld-19", "19.1.7"),
            "llvm-19" => _ = programs.insert("llvm-objcopy-19", "19.1.7"),
            "sudo" => _ = programs.insert("sudo", ""),
            "tmux" => _ = programs.insert("tmux", "tmux 3.3a"),
            "prometheus" => _ = programs.insert("promtool", ""),
            "chromium" => _ = files.insert("/usr/bin/chromium"),
            "nodejs" => _ = programs.insert("node", "v18.20.4\n"),
            "python3-venv" => _ = programs.insert("python3", ""),
            _ => {}
        }
    }

    fn ran(&self) -> Vec<String> {
        self.ran.borrow().clone()
    }
}

impl Machine for Fake {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn exists(&self, path: &str) -> bool {
        self.files.borrow().contains(path)
    }

    fn read(&self, path: &str) -> Option<String> {
        match path {
            "/proc/self/mounts" => Some(self.mounts.borrow().join("\n")),
            "/proc/sys/kernel/osrelease" => Some(self.kernel.into()),
            _ => None,
        }
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Option<String> {
        match program {
            "sudo" if arguments == ["-V"] => self.programs.borrow().contains_key("sudo").then(String::new),
            "sudo" => self.sudo.then(String::new),
            "apt-get" => self.has_apt.then(String::new),
            "apt-cache" => {
                let known = arguments.iter().filter(|a| self.archive.contains(a));
                Some(known.flat_map(|package| [package, ":\n  Candidate: 1.0\n"]).collect())
            }
            // It starts, and fails at everything else.
            _ if self.programs.borrow().get(program) == Some(&BROKEN) && arguments != ["--version"] => None,
            _ => self.programs.borrow().get(program).map(|&text| text.to_owned()),
        }
    }

    fn is_root(&self) -> bool {
        self.root
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        let line = shown(command);
        self.ran.borrow_mut().push(line.clone());
        let words: Vec<_> = line.split(' ').collect();
        if words.contains(&"apt-get") && words.contains(&"install") {
            for word in &words {
                self.unpack(word);
            }
        } else if words.contains(&"bpf-linker") {
            self.programs.borrow_mut().insert("bpf-linker", "bpf-linker 0.13.0\n");
        } else if let Some(at) = words.iter().position(|&w| w == "mount") {
            let (kind, place) = (words[at + 2], words[at + 4]);
            self.mounts.borrow_mut().push(format!("{kind} {place} {kind} rw 0 0"));
        } else if !words.contains(&"update") {
            bail!("this machine cannot run `{line}`");
        }
        Ok(())
    }
}

fn names(unmet: &[Unmet]) -> Vec<&'static str> {
    unmet.iter().map(|missing| missing.name).collect()
}

/// The requirements of `cargo xtask setup`.
fn everything() -> Vec<Requirement> {
    requirements::all().into_iter().filter(|requirement| Need::ALL.contains(&requirement.need)).collect()
}

#[test]
fn a_fresh_debian_gets_everything_with_one_apt_call_and_then_nothing() {
    let machine = Fake::fresh_debian();
    let requirements = everything();
    assert_eq!(names(&fulfil(&machine, &requirements)), Vec::<&str>::new());

    let ran = machine.ran();
    let starts: Vec<_> = ran.iter().map(|line| line.split(" -").next().unwrap_or_default()).collect();
    assert_eq!(ran.iter().filter(|line| line.contains("apt-get install")).count(), 1, "{ran:#?}");
    assert_eq!(starts[0], "env DEBIAN_FRONTEND=noninteractive apt-get update", "{ran:#?}");
    assert_eq!(ran.len(), 5, "update, install, bpf-linker and two mounts: {ran:#?}");

    assert!(fulfil(&machine, &requirements).is_empty());
    assert_eq!(machine.ran().len(), 5, "a second run does nothing");
}

#[test]
fn a_user_with_sudo_installs_through_it() {
    let machine = Fake { root: false, sudo: true, ..Fake::fresh_debian() };
    assert_eq!(names(&fulfil(&machine, &everything())), Vec::<&str>::new());
    let ran = machine.ran();
    assert!(ran[0].starts_with("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get update"), "{ran:#?}");
    assert!(ran.contains(&"sudo -n mount -t bpf bpf /sys/fs/bpf".to_owned()), "{ran:#?}");
}

#[test]
fn a_user_without_rights_is_told_every_missing_thing() {
    let machine = Fake { root: false, ..Fake::fresh_debian() };
    let unmet = fulfil(&machine, &everything());
    assert_eq!(
        names(&unmet),
        [
            "Rust compiler for BPF",
            "bpf-linker",
            "clang, lld and llvm 19",
            "node",
            "python3 with venv",
            "tracefs",
            "bpffs",
            "chromium",
            "promtool",
            "sudo",
            "tmux"
        ]
    );
    assert!(machine.ran().is_empty());
    assert_eq!(
        unmet[0].to_string(),
        "missing: Rust compiler for BPF, needed to compile the BPF programs: a rustc together with the sources of \
         `core`\n  cause: installing packages needs root\n  hint: rustup toolchain install nightly --component rust-src   \
         (Debian 12: rustc-web 1.96 is in its security archive)"
    );
}

#[test]
fn an_unknown_package_does_not_prevent_the_others() {
    let machine = Fake {
        archive: &[
            "clang-19",
            "clang-tools-19",
            "lld-19",
            "llvm-19",
            "nodejs",
            "python3-venv",
            "chromium",
            "prometheus",
            "sudo",
            "tmux",
        ],
        ..Fake::fresh_debian()
    };
    let unmet = fulfil(&machine, &everything());
    assert_eq!(names(&unmet), ["Rust compiler for BPF", "bpf-linker"]);
    assert!(unmet[1].to_string().contains("no libLLVM.so.22.1"), "{}", unmet[1]);
}

#[test]
fn a_debian_without_its_security_archive_has_too_old_a_compiler() {
    let machine = Fake { debian_rust: "rustc 1.85.0", ..Fake::fresh_debian() };
    // What the linker must read is what that compiler would write.
    assert_eq!(names(&fulfil(&machine, &everything())), ["Rust compiler for BPF", "bpf-linker"]);
}

#[test]
fn programs_that_start_and_do_not_work_are_replaced() {
    let machine = Fake::fresh_debian();
    let broken = ["bpf-linker", "node", "clang++-19"];
    machine.programs.borrow_mut().extend(broken.map(|name| (name, BROKEN)));
    assert!(fulfil(&machine, &everything()).is_empty());
    for name in broken {
        assert!(machine.output(name, &["work"]).is_some(), "{name}");
    }
}

#[test]
fn kernel_features_are_reported_and_not_installed() {
    let machine = Fake { kernel: "5.4.0-150-generic\n", ..Fake::fresh_debian() };
    machine.files.borrow_mut().clear();
    let unmet = fulfil(&machine, &everything());
    assert_eq!(names(&unmet), ["BPF features of the kernel", "uprobes"]);
    assert!(unmet[0].to_string().contains("hint: boot Linux 5.15 or later"));
}
