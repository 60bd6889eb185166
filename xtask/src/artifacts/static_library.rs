//! Packages that cargo builds as static libraries, to be linked by other linkers.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::command;

/// The part of cargo's output that linking needs.
pub(super) struct StaticLibrary {
    pub(super) archive: PathBuf,
    /// Output folder of the package's build script, if it has one.
    pub(super) out_dir: Option<PathBuf>,
}

/// Optimised, so that measurements are not dominated by this library.
pub(super) fn build(root: &Path, target_dir: &Path, package: &str) -> Result<StaticLibrary> {
    let mut cargo = command::cargo(root);
    cargo.args(["build", "--package", package, "--release"]);
    cargo.arg("--message-format=json-render-diagnostics").arg("--target-dir").arg(target_dir);
    // The first build takes a minute; cargo's messages show progress.
    built(&command::output(&mut cargo)?, package)
}

/// The JSON messages of cargo that are read.
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

fn built(messages: &str, package: &str) -> Result<StaticLibrary> {
    let (mut archive, mut out_dir) = (None, None);
    for line in messages.lines() {
        match serde_json::from_str(line).with_context(|| format!("failed to read cargo's message {line}"))? {
            Message::CompilerArtifact { package_id, filenames } if is_of(&package_id, package) => {
                let is_archive = |path: &PathBuf| path.extension().is_some_and(|e| e == "a");
                archive = filenames.into_iter().find(is_archive).or(archive);
            }
            Message::BuildScriptExecuted { package_id, out_dir: folder } if is_of(&package_id, package) => {
                out_dir = Some(folder);
            }
            _ => {}
        }
    }
    let archive = archive.with_context(|| format!("cargo named no static library of {package}"))?;
    Ok(StaticLibrary { archive, out_dir })
}

/// Whether an id such as `path+file:///src/tests/hip-sim#0.1.0` or `..#hip-sim@0.1.0` is the package's.
fn is_of(package_id: &str, package: &str) -> bool {
    let (source, fragment) = package_id.rsplit_once('#').unwrap_or((package_id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name == package,
        None => source.rsplit('/').next() == Some(package),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_messages_have_the_archive_and_the_output_folder() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","package_id":"registry+x#libc@0.2.1","filenames":["/t/liblibc.rlib"]}"#,
            "\n",
            r#"{"reason":"build-script-executed","package_id":"path+file:///w/tests/hip-sim#0.1.0","out_dir":"/t/out"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/tests/hip-sim#0.1.0","filenames":["/t/libhip_sim.a","/t/libhip_sim.rlib"]}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let library = built(messages, "hip-sim").unwrap();
        assert_eq!(library.archive, Path::new("/t/libhip_sim.a"));
        assert_eq!(library.out_dir.as_deref(), Some(Path::new("/t/out")));
        assert!(built(messages, "other").is_err());
    }

    #[test]
    fn both_forms_of_package_id_are_known() {
        assert!(is_of("path+file:///w/tests/hip-sim#0.1.0", "hip-sim"));
        assert!(is_of("path+file:///w/tests/simulator#hip-sim@0.1.0", "hip-sim"));
        assert!(!is_of("registry+https://example.org#hip-sim-else@0.1.0", "hip-sim"));
    }
}
