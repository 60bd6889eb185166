//! HIPRTC, which compiles kernels for clients at run time: Debian's of HIP 5.2, in a folder for the library path.
//!
//! It needs no GPU. Debian has it inside of `libamdhip64.so.5`, with ROCm's compiler as a library. Clients look for `libhiprtc.so`,
//! a link in the folder. The folder lacks the genuine runtime's own name, so that clients of the runtime find the simulated
//! one.

use std::{fs, os::unix::fs::symlink, path::Path};

use anyhow::{Context as _, Result};

/// The packages that are not installed with the tests' compiler; 42 MB, four fifths of them a library of LLVM.
const PACKAGES: [&str; 9] = [
    "libamdhip64-5_5.2.3-8",
    "libhiprtc-builtins5_5.2.3-8",
    "libamd-comgr2_5.2.3-2",
    "libhsa-runtime64-1_5.2.3-3",
    "libhsakmt1_5.2.3+dfsg-1",
    "libdrm-amdgpu1_2.4.114-1+b1",
    "libdrm2_2.4.114-1+b1",
    "libnuma1_2.0.16-1",
    "libllvm15_1:15.0.6-4+b1",
];
/// Folder of the libraries in each package.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const RUNTIME: &str = "libamdhip64.so.5";

/// Makes the folder from packages, which `unpack` puts into `debian`.
pub(super) fn make(folder: &Path, debian: &Path, unpack: impl Fn(&str) -> Result<()>) -> Result<()> {
    if folder.exists() {
        return Ok(());
    }
    let parts = folder.with_extension("parts");
    // Left from an interrupted run.
    let _ = fs::remove_dir_all(&parts);
    fs::create_dir_all(&parts).with_context(|| format!("failed to create {}", parts.display()))?;
    for package in PACKAGES {
        unpack(package)?;
        link_libraries(&debian.join(package).join(LIBRARIES), &parts)?;
    }
    fs::rename(&parts, folder).with_context(|| format!("failed to create {}", folder.display()))
}

fn link_libraries(libraries: &Path, folder: &Path) -> Result<()> {
    let entries =
        fs::read_dir(libraries).with_context(|| format!("failed to list {}", libraries.display()))?;
    for entry in entries {
        let library = entry?.path();
        let name = library.file_name().expect("a listed entry has a name");
        if library.is_dir() {
            continue;
        }
        // The runtime's file has its full version; its short name would be found by clients of the runtime.
        let name = if name == RUNTIME { "libhiprtc.so".as_ref() } else { name };
        symlink(&library, folder.join(name))
            .with_context(|| format!("failed to link to {}", library.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_has_the_name_of_hiprtc_only() {
        let folder = tempfile::tempdir().unwrap();
        let debian = folder.path().join("debian");
        let unpack = |package: &str| {
            let libraries = debian.join(package).join(LIBRARIES);
            fs::create_dir_all(&libraries)?;
            let library = if package == PACKAGES[0] { RUNTIME } else { package };
            Ok(fs::write(libraries.join(library), package)?)
        };
        let made = folder.path().join("hiprtc");
        make(&made, &debian, unpack).unwrap();
        assert_eq!(fs::read_to_string(made.join("libhiprtc.so")).unwrap(), PACKAGES[0]);
        assert!(!made.join(RUNTIME).exists());
        assert_eq!(fs::read_dir(&made).unwrap().count(), PACKAGES.len());
    }
}
