//! Paths: the workspace's root, cargo's target folder and the targets of its packages.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::command;

/// The part of `cargo metadata` that the verbs read.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    /// Folder of the workspace's manifest.
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    /// Cargo's build folder, from whichever variable or setting.
    #[serde(rename = "target_directory")]
    pub(crate) target_dir: PathBuf,
    /// Its members.
    pub(crate) packages: Vec<Package>,
}

/// A crate of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) targets: Vec<Target>,
    /// Of all kinds, including those of tests and build scripts.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A crate that a package names in its manifest.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Its folder, if it is in this workspace.
    pub(crate) path: Option<PathBuf>,
}

impl Package {
    /// The folder of its manifest.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new(""))
    }
}

/// A binary, library or test of a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

impl Workspace {
    /// Asks cargo about the workspace that this xtask was started in.
    pub(crate) fn find() -> Result<Self> {
        // Cargo sets it for the programs that it runs, so a moved checkout or a shared target folder cannot mislead.
        let here = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
        let output = command::cargo(&here)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .context("failed to start cargo")?;
        ensure!(
            output.status.success(),
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        serde_json::from_slice(&output.stdout).context("failed to read the answer of cargo metadata")
    }

    /// Binaries of one package, in the manifest's order.
    pub(crate) fn binaries(&self, package: &str) -> impl Iterator<Item = &Target> {
        let package = self.packages.iter().find(|p| p.name == package);
        package.into_iter().flat_map(|p| &p.targets).filter(|t| t.kind.iter().any(|k| k == "bin"))
    }

    /// The output of `cargo build` with this name: an executable or a shared library.
    pub(crate) fn built(&self, profile: Profile, name: &str) -> PathBuf {
        self.target_dir.join(profile.directory()).join(name)
    }
}

/// How a package is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

impl Profile {
    fn directory(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }

    /// The arguments that choose it on cargo's command line.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Debug => &[],
            Self::Release => &["--release"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_that_holds_this_crate_is_found() {
        let workspace = Workspace::find().unwrap();
        assert!(workspace.root.join("xtask/src/workspace.rs").exists());
        assert_eq!(workspace.binaries("xtask").map(|t| t.name.as_str()).collect::<Vec<_>>(), ["xtask"]);
    }
}
