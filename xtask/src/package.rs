//! `cargo xtask package`: packages for Debian and for RPM, to install on the nodes of a cluster, and a wheel for Python.
//!
//! `xsched-ctl/Cargo.toml` defines the contents of the former, `shim/python/pyproject.toml` those of the wheel. With `--roots` the
//! former are installed, tried, upgraded and removed on bare systems ([`roots`]).

mod roots;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{
    command,
    setup::{self, Need},
    subject,
    workspace::{Profile, Workspace},
};

/// A cargo subcommand that writes packages.
struct Packager {
    crate_name: &'static str,
    version: &'static str,
    /// Its name, without `cargo-`.
    arguments: &'static [&'static str],
}

const PACKAGERS: [Packager; 2] = [
    Packager {
        crate_name: "cargo-deb",
        version: "3.8.0",
        arguments: &["deb", "--no-build", "--strip", "--package", "xsched-ctl"],
    },
    Packager {
        crate_name: "cargo-generate-rpm",
        version: "0.21.1",
        arguments: &["generate-rpm", "--package", "xsched-ctl"],
    },
];

/// Arguments of the verb.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Install, try and remove them on bare root file systems of Debian 12 and 13, made from Debian's archives
    #[arg(long)]
    roots: bool,
}

/// The verb.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    setup::ensure(workspace, &[Need::BpfBuild])?;
    if args.roots {
        setup::ensure(workspace, &[Need::HipPrograms, Need::Kernel, Need::Rocm])?;
    }
    // Separately: otherwise cargo would unify their features.
    for package in ["xsched-shim", "xsched-cuda", "xsched-ctl"] {
        let mut build = command::cargo(&workspace.root);
        command::run(
            build.args(["build", "--locked", "--package", package]).args(Profile::Release.arguments()),
        )?;
    }
    for shim in ["libxsched_shim.so", "libxsched_cuda.so"] {
        subject::ensure_released(&workspace.built(Profile::Release, shim))?;
    }
    // Made from the definition of the command line.
    let manual = workspace.built(Profile::Release, "manual");
    let _ = fs::remove_dir_all(&manual); // a verb that is gone has no page
    let program = workspace.built(Profile::Release, "xsched-ctl");
    command::output(command::command(program).arg("manual").arg(&manual))?;
    let folder = workspace.target_dir.join("package");
    let _ = fs::remove_dir_all(&folder); // packages of other versions
    fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
    for packager in &PACKAGERS {
        let program = packager.install(workspace)?;
        let mut write = command::command(program);
        write.current_dir(&workspace.root).args(packager.arguments);
        command::run(write.arg("--output").arg(&folder).env("CARGO_TARGET_DIR", &workspace.target_dir))?;
    }
    wheel(workspace, &folder)?;
    tell(&folder)?;
    if args.roots {
        roots::run(workspace, &folder)?;
    }
    Ok(())
}

/// Builds the wheel of the package `xsched`.
fn wheel(workspace: &Workspace, folder: &Path) -> Result<()> {
    setup::ensure(workspace, &[Need::TimelineChecks])?;
    let mut flit = command::command(setup::python(workspace)?);
    flit.args(["-m", "flit_core.wheel"]).arg(workspace.root.join("shim/python")).arg("--outdir").arg(folder);
    command::run(&mut flit)
}

impl Packager {
    /// Builds it unless this version is there; returns its path.
    fn install(&self, workspace: &Workspace) -> Result<PathBuf> {
        // Each version has its own folder.
        let root = workspace.target_dir.join("tools").join(format!("{}-{}", self.crate_name, self.version));
        let program = root.join("bin").join(self.crate_name);
        if !program.exists() {
            let mut install = command::cargo(&workspace.root);
            install.args(["install", "--locked", self.crate_name, "--version", self.version, "--root"]);
            command::run(install.arg(&root))?;
        }
        Ok(program)
    }
}

/// Prints the packages that exist now.
fn tell(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        println!("{}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_wheel_has_the_version_of_everything_else() {
        let project = include_str!("../../shim/python/pyproject.toml");
        let version = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"), "\"\n");
        assert!(project.contains(version), "{project}");
    }
}
