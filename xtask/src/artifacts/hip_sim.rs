//! The simulated runtime: cargo builds it as a static library, and `cc` links that once for each HIP major.
//!
//! Not a Rust `cdylib`: the compiler passes a version script of its own to the linker, and the symbols would lose
//! their versions.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::step::Step;
use crate::command;

const PACKAGE: &str = "hip-sim";
const MAJORS: [u32; 3] = [5, 6, 7];

/// What cargo says that the linking needs.
struct Built {
    /// `libhip_sim.a`
    archive: PathBuf,
    /// Output folder of the package's build script: version scripts, release constants.
    out_dir: PathBuf,
}

/// The three libraries.
pub(super) fn build(root: &Path, target_dir: &Path) -> Result<()> {
    let built = compile(root, target_dir)?;
    for major in MAJORS {
        link(&built, major, &target_dir.join("hip-sim").join(major.to_string()))?;
    }
    Ok(())
}

/// Optimised, so that calls into the simulator do not dominate what is measured around them.
fn compile(root: &Path, target_dir: &Path) -> Result<Built> {
    let output = command::cargo(root)
        .args(["build", "--quiet", "--package", PACKAGE, "--release"])
        .arg("--message-format=json-render-diagnostics")
        .arg("--target-dir")
        .arg(target_dir)
        .stderr(Stdio::inherit())
        .output()
        .context("failed to start cargo")?;
    ensure!(output.status.success(), "`cargo build --package {PACKAGE}` ended with {}", output.status);
    let messages = String::from_utf8(output.stdout).context("cargo's messages are not text")?;
    built(&messages)
}

/// The part of cargo's JSON messages that is read.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact {
        package_id: String,
        filenames: Vec<PathBuf>,
    },
    BuildScriptExecuted {
        package_id: String,
        out_dir: PathBuf,
    },
    #[serde(other)]
    Other,
}

fn built(messages: &str) -> Result<Built> {
    let (mut archive, mut out_dir) = (None, None);
    for line in messages.lines() {
        match serde_json::from_str(line).with_context(|| format!("failed to read cargo's message {line}"))? {
            Message::CompilerArtifact { package_id, filenames } if is_ours(&package_id) => {
                let is_archive = |path: &PathBuf| path.extension().is_some_and(|e| e == "a");
                archive = filenames.into_iter().find(is_archive).or(archive);
            }
            Message::BuildScriptExecuted { package_id, out_dir: folder } if is_ours(&package_id) => {
                out_dir = Some(folder);
            }
            _ => {}
        }
    }
    Ok(Built {
        archive: archive.context("cargo named no static library of hip-sim")?,
        out_dir: out_dir.context("cargo named no build script output of hip-sim")?,
    })
}

/// Whether an id such as `path+file:///src/tests/hip-sim#0.1.0` or `..#hip-sim@0.1.0` is the package's.
fn is_ours(package_id: &str) -> bool {
    let (source, fragment) = package_id.rsplit_once('#').unwrap_or((package_id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name == PACKAGE,
        None => source.rsplit('/').next() == Some(PACKAGE),
    }
}

/// Never unloaded: threads of the runtime may be running in it.
fn link(built: &Built, major: u32, folder: &Path) -> Result<()> {
    let soname = format!("libamdhip64.so.{major}");
    let version_script = built.out_dir.join(format!("{soname}.map"));
    Step::new("cc", folder.join(&soname))
        .arguments(["-shared"])
        .input(built.out_dir.join(format!("release.{major}.c")))
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
        // A link that points elsewhere is a leftover.
        let _ = fs::remove_file(&link);
        symlink(&soname, &link).with_context(|| format!("failed to create {}", link.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_tells_where_the_archive_and_the_scripts_are() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","package_id":"registry+x#libc@0.2.1","filenames":["/t/liblibc.rlib"]}"#,
            "\n",
            r#"{"reason":"build-script-executed","package_id":"path+file:///w/tests/hip-sim#0.1.0","out_dir":"/t/out"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/tests/hip-sim#0.1.0","filenames":["/t/libhip_sim.a","/t/libhip_sim.rlib"]}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let built = built(messages).unwrap();
        assert_eq!(built.archive, Path::new("/t/libhip_sim.a"));
        assert_eq!(built.out_dir, Path::new("/t/out"));
    }

    #[test]
    fn both_forms_of_package_id_are_known() {
        assert!(is_ours("path+file:///w/tests/hip-sim#0.1.0"));
        assert!(is_ours("path+file:///w/tests/simulator#hip-sim@0.1.0"));
        assert!(!is_ours("registry+https://example.org#hip-sim-else@0.1.0"));
    }
}
