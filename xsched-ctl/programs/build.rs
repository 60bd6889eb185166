//! Compiles the BPF programs with a toolchain that has the sources of `core`, and writes the objects to `OUT_DIR`.
//!
//! `aya-build` does the same, but it turns each line of the nested build's progress into a warning and cannot select the
//! instruction set. This script prints nothing unless the build fails.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "xsched-ebpf";

/// The feature that builds binaries without messages, and these.
const PLAIN: (&str, &[Object]) = (
    "bpf",
    &[
        Object { binary: "xsched-ebpf", name: "xsched-ebpf" },
        Object { binary: "xsched-ebpf-arbiter", name: "xsched-ebpf-arbiter" },
        Object { binary: "xsched-ebpf-origin", name: "xsched-ebpf-origin" },
    ],
);

/// The same for the one with messages.
const WITH_LOGS: (&str, &[Object]) = ("logs", &[Object { binary: "xsched-ebpf", name: "xsched-ebpf-logs" }]);

struct Object {
    /// The package's binary that is compiled.
    binary: &'static str,
    /// The file, without its extension.
    name: &'static str,
}

const TARGET: &str = "bpfel-unknown-none";

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed=build.rs");
    for sources in ["xsched-ebpf", "shim/protocol"] {
        println!("cargo::rerun-if-changed={}", manifest_dir.join("../..").join(sources).display());
    }
    println!("cargo::rerun-if-env-changed=BPF_TOOLCHAIN");

    let toolchain = toolchain()?;
    for (feature, objects) in [PLAIN, WITH_LOGS] {
        build(&toolchain, feature, objects, &manifest_dir, &out_dir)?;
    }
    Ok(())
}

/// Compiles these objects, and copies them to `out_dir`.
fn build(
    toolchain: &Toolchain,
    feature: &str,
    objects: &[Object],
    manifest_dir: &Path,
    out_dir: &Path,
) -> Result<(), Box<dyn Error>> {
    // Not the outer build's folder, which the outer cargo has locked.
    let target_dir = out_dir.join("bpf");
    let output = toolchain
        .command("cargo")
        .args(["build", "--release", "--package", PACKAGE, "--features", feature])
        .args(objects.iter().flat_map(|object| ["--bin", object.binary]))
        .args(["--target", TARGET, "-Zbuild-std=core", "--locked", "--target-dir"])
        .arg(&target_dir)
        .current_dir(manifest_dir)
        // The BPF target has no prebuilt core. Set here only, so that no other crate is built with unstable features.
        .env("RUSTC_BOOTSTRAP", "1")
        // Version 3 of the instruction set (Linux 5.12) has atomics and 32-bit jumps. The debug information becomes BTF.
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            ["--cfg=bpf_target_arch=\"x86_64\"", "-Ctarget-cpu=v3", "-Cdebuginfo=2", "-Clink-arg=--btf"]
                .join("\x1f"),
        )
        // The nested build must not use the outer compiler.
        .env_remove("RUSTC")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .output()
        .map_err(|error| format!("cannot start cargo of toolchain {toolchain:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "building the BPF programs failed ({}):\n{}\n\
             `cargo xtask setup` installs what this needs: a toolchain with rust-src, and bpf-linker",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    for object in objects {
        let compiled = target_dir.join(TARGET).join("release").join(object.binary);
        let object = out_dir.join(object.name).with_extension("o");
        // Not in place: the file may be a hard link that a copy of the build folder shares.
        if object.exists() {
            std::fs::remove_file(&object)?;
        }
        std::fs::copy(compiled, object)?;
    }
    Ok(())
}

/// The source of the compiler for the BPF programs.
#[derive(Debug)]
enum Toolchain {
    /// The name of a rustup toolchain, or the path of a sysroot.
    Rustup(String),
    /// The `cargo` in PATH.
    Path,
}

impl Toolchain {
    fn command(&self, program: &str) -> Command {
        match self {
            Self::Rustup(name) => {
                let mut command = Command::new("rustup");
                command.args(["run", name, program]);
                command
            }
            Self::Path => Command::new(program),
        }
    }

    /// Whether it has the sources of `core`.
    fn has_source(&self) -> bool {
        let Ok(output) = self.command("rustc").args(["--print", "sysroot"]).output() else { return false };
        output.status.success()
            && sysroot_has_source(Path::new(String::from_utf8_lossy(&output.stdout).trim()))
    }
}

fn sysroot_has_source(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib/src/rust/library/core/Cargo.toml").exists()
}

/// `$BPF_TOOLCHAIN`; else a nightly with rust-src, which developers have; else Debian's compiler, used as a sysroot
/// (packages rustc-web, rust-web-src); else the compiler in PATH.
fn toolchain() -> Result<Toolchain, String> {
    if let Ok(name) = env::var("BPF_TOOLCHAIN") {
        return Ok(Toolchain::Rustup(name));
    }
    let nightly = Toolchain::Rustup("nightly".to_owned());
    if nightly.has_source() {
        return Ok(nightly);
    }
    if sysroot_has_source(Path::new("/usr")) {
        return Ok(Toolchain::Rustup("/usr".to_owned()));
    }
    if Toolchain::Path.has_source() {
        return Ok(Toolchain::Path);
    }
    Err("no Rust toolchain with the sources of core: `cargo xtask setup` installs one on Debian; elsewhere \
         `rustup toolchain install nightly --component rust-src`"
        .to_owned())
}
