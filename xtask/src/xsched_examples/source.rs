//! A checkout of XSched at the release whose examples are run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};

use super::programs::EXAMPLES;
use crate::{command, workspace::Workspace};

const REPOSITORY: &str = "https://github.com/XpuOS/xsched";
const TAG: &str = "v1.2.0";
/// What its CMakeLists.txt says at that tag.
const VERSION: &str = "project(XSched VERSION 1.2.0)";

/// The folder with XSched's sources: the one that was named, or a clone.
pub(super) fn checkout(workspace: &Workspace, named: Option<&Path>) -> Result<PathBuf> {
    let folder = match named {
        Some(folder) => folder.to_owned(),
        None => cloned(workspace)?,
    };
    check(&folder)?;
    Ok(folder)
}

/// The clone in the folder that cargo builds in.
fn cloned(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target_dir.join("xsched-examples").join(format!("xsched-{TAG}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let instead = format!("`--source FOLDER` names a checkout of {REPOSITORY} at {TAG}");
    let git = command::command("git").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    ensure!(git.is_ok_and(|status| status.success()), "no `git`, which gets XSched's examples; {instead}");
    // A clone that is interrupted has another name.
    let part = folder.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| format!("failed to remove {}", part.display()))?;
    }
    let mut clone = command::command("git");
    clone.args(["clone", "--quiet", "--depth", "1", "-c", "advice.detachedHead=false", "--branch", TAG]);
    command::run(clone.arg(REPOSITORY).arg(&part))
        .with_context(|| format!("failed to get XSched's examples; {instead}"))?;
    fs::rename(&part, &folder).with_context(|| format!("failed to rename {}", part.display()))?;
    Ok(folder)
}

/// Refuses what is no checkout of this release.
fn check(folder: &Path) -> Result<()> {
    let list = folder.join("CMakeLists.txt");
    let text = fs::read_to_string(&list).with_context(|| {
        format!("{} is no checkout of XSched: failed to read {}", folder.display(), list.display())
    })?;
    ensure!(
        text.lines().any(|line| line.trim() == VERSION),
        "{} is no checkout of XSched at {TAG}: its CMakeLists.txt does not say `{VERSION}`",
        folder.display()
    );
    for example in &EXAMPLES {
        let source = folder.join(example.source);
        if !source.is_file() {
            bail!("{} lacks {}: name a checkout with all files of {TAG}", folder.display(), example.source);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_checkout_of_the_release_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let error = || format!("{:#}", check(folder.path()).unwrap_err());
        assert!(error().contains("is no checkout of XSched: failed to read"), "{}", error());
        let list = folder.path().join("CMakeLists.txt");
        fs::write(&list, "project(XSched VERSION 1.1.0)\n").unwrap();
        assert!(error().contains("does not say `project(XSched VERSION 1.2.0)`"), "{}", error());
        fs::write(&list, format!("{VERSION}\n")).unwrap();
        assert!(error().contains("lacks examples/Linux/1_transparent_sched/app.hip"), "{}", error());
        for example in &EXAMPLES {
            let source = folder.path().join(example.source);
            fs::create_dir_all(source.parent().unwrap()).unwrap();
            fs::write(source, "").unwrap();
        }
        check(folder.path()).unwrap();
    }
}
