//! The simulated runtime: cargo builds it as a static library, and `cc` links that once for each HIP major.
//!
//! Not a Rust `cdylib`: for these the compiler passes a version script of its own to the linker, and the symbols would lose
//! their versions.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::static_library::{self, StaticLibrary};
use super::step::Step;

const PACKAGE: &str = "hip-sim";
/// HIP majors with a library.
pub(super) const MAJORS: [u32; 3] = [5, 6, 7];

/// The three libraries.
pub(super) fn build(root: &Path, target_dir: &Path) -> Result<()> {
    let built = static_library::build(root, target_dir, PACKAGE)?;
    for major in MAJORS {
        link(&built, major, &target_dir.join("hip-sim").join(major.to_string()))?;
    }
    Ok(())
}

/// The library is never unloaded: threads of the runtime may be running in it.
fn link(built: &StaticLibrary, major: u32, folder: &Path) -> Result<()> {
    let soname = format!("libamdhip64.so.{major}");
    let out_dir = built.out_dir.as_ref().context("cargo named no build script output of hip-sim")?;
    let version_script = out_dir.join(format!("{soname}.map"));
    Step::new("cc", folder.join(&soname))
        .arguments(["-shared"])
        .input(out_dir.join(format!("release.{major}.c")))
        .arguments(["-Wl,--whole-archive"])
        .input(built.archive.clone())
        .arguments(["-Wl,--no-whole-archive", "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,nodelete"])
        .arguments([
            format!("-Wl,-soname,{soname}"),
            format!("-Wl,--version-script={}", version_script.display()),
        ])
        .depends_on([version_script])
        .arguments(["-lgcc_s", "-lc"])
        .run()?;
    let link = folder.join("libamdhip64.so");
    if fs::read_link(&link).ok().as_deref() != Some(Path::new(&soname)) {
        // A link with another target is left from an earlier build.
        let _ = fs::remove_file(&link);
        symlink(&soname, &link).with_context(|| format!("failed to create {}", link.display()))?;
    }
    Ok(())
}
