//! Programs and headers of other projects that the tests use unchanged, in fixed versions, under `<target>/clients`.
//!
//! ```text
//! debian/<package>_<version>/    a Debian package, unpacked and not installed: its dependencies are not needed
//! hiprtc/                        links to the libraries of several such packages
//! python/                        a virtual environment with `tests/conformance/clients/requirements.txt`
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{command, venv, workspace::Workspace};

mod hiprtc;

/// Public HIP headers, 170 kB.
const HIP_HEADERS: &str = "libamdhip64-dev_5.2.3-8";
/// The runtime of which they are, 14 MB.
const RUNTIME: &str = "libamdhip64-5_5.2.3-8";
/// Headers of the DRM drivers, 1 MB.
const DRM_HEADERS: &str = "libdrm-dev_2.4.114-1+b1";
/// A library with 80 kernels for `libamdhip64.so.5`, 8 MB.
const ROCRAND: &str = "librocrand1_5.3.3-4";
/// A library that launches them, 19 kB.
const HIPRAND: &str = "libhiprand1_5.3.3-4";
/// rocRAND's public headers, with the device functions of its kernels, 5 MB.
const ROCRAND_HEADERS: &str = "librocrand-dev_5.3.3-4";

/// Fetches what is missing; reports everything that could not be fetched.
pub(crate) fn fetch(workspace: &Workspace) -> Result<()> {
    let clients = workspace.target_dir.join("clients");
    let debian = clients.join("debian");
    let requirements = workspace.root.join("tests/conformance/clients/requirements.txt");
    let outcomes = [
        unpack(&debian, HIP_HEADERS),
        unpack(&debian, RUNTIME),
        unpack(&debian, DRM_HEADERS),
        unpack(&debian, ROCRAND),
        unpack(&debian, ROCRAND_HEADERS),
        unpack(&debian, HIPRAND),
        hiprtc::make(&clients.join("hiprtc"), &debian, |package| unpack(&debian, package)),
        venv::setup(&clients.join("python"), &requirements).map(drop),
    ];
    command::all(outcomes).context("not all clients could be fetched")
}

/// Folder of the public HIP headers, once they are there.
pub(crate) fn hip_headers(target_dir: &Path) -> PathBuf {
    target_dir.join("clients/debian").join(HIP_HEADERS).join("usr/include")
}

/// rocRAND and hipRAND under the names by which programs open them, once they are there.
pub(crate) fn rand_libraries(target_dir: &Path) -> [PathBuf; 2] {
    [(ROCRAND, "librocrand.so.1"), (HIPRAND, "libhiprand.so.1")].map(|(package, library)| {
        target_dir.join("clients/debian").join(package).join("usr/lib/x86_64-linux-gnu").join(library)
    })
}

/// AMD's runtime, once it is there.
pub(crate) fn runtime(target_dir: &Path) -> PathBuf {
    target_dir.join("clients/debian").join(RUNTIME).join("usr/lib/x86_64-linux-gnu/libamdhip64.so.5")
}

/// Folder of rocRAND's public headers, once they are there.
pub(crate) fn rocrand_headers(target_dir: &Path) -> PathBuf {
    target_dir.join("clients/debian").join(ROCRAND_HEADERS).join("usr/include")
}

/// Unpacks a package, named with its version, into a folder of that name, which exists only when it is complete.
fn unpack(folder: &Path, package: &str) -> Result<()> {
    let unpacked = folder.join(package);
    if unpacked.exists() {
        return Ok(());
    }
    let (name, version) = package.split_once('_').expect("the constants have it");
    let parts = folder.join("parts").join(name);
    // Left from an interrupted run.
    let _ = fs::remove_dir_all(&parts);
    fs::create_dir_all(&parts).with_context(|| format!("failed to create {}", parts.display()))?;
    let mut download = command::command("apt-get");
    download.args(["download", "-q", &format!("{name}={version}")]).current_dir(&parts);
    command::run(&mut download)
        .context("only Debian 12 has it; its lists must be fresh (`apt-get update`)")?;
    let archive = fs::read_dir(&parts)
        .and_then(|mut entries| entries.next().transpose())
        .with_context(|| format!("failed to list {}", parts.display()))?
        .with_context(|| format!("apt-get left no archive of {name}"))?;
    let root = parts.join("root");
    command::run(command::command("dpkg").arg("-x").arg(archive.path()).arg(&root))?;
    fs::rename(&root, &unpacked).with_context(|| format!("failed to create {}", unpacked.display()))?;
    fs::remove_dir_all(&parts).with_context(|| format!("failed to remove {}", parts.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpacked_package_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("no-such-package_1.0")).unwrap();
        unpack(folder.path(), "no-such-package_1.0").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
