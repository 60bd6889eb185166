//! The virtual environment from which tests take Perfetto's own engine, `<target>/perfetto-venv`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{command, venv};

/// Oldest node that runs `tests/perfetto/sql.mjs`.
const NODE_MAJOR_MIN: u32 = 18;

/// Makes the environment unless it is there, and returns its Python interpreter, for `XSCHED_PERFETTO_PYTHON`.
pub(crate) fn setup(root: &Path, target_dir: &Path) -> Result<PathBuf> {
    require_node()?;
    venv::setup(&target_dir.join("perfetto-venv"), &root.join("tests/perfetto/requirements.txt"))
}

fn require_node() -> Result<()> {
    let hint = "try `apt-get install nodejs`, or see https://nodejs.org";
    let output = command::command("node").arg("--version").output();
    let version = output.with_context(|| format!("failed to start node; {hint}"))?.stdout;
    let version = String::from_utf8_lossy(&version);
    match major(&version) {
        Some(NODE_MAJOR_MIN..) => Ok(()),
        _ => bail!("node {NODE_MAJOR_MIN} or later is needed, here is {:?}; {hint}", version.trim()),
    }
}

/// `18` of `v18.20.8`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nodes_version_is_parsed() {
        assert_eq!(major("v18.20.8\n"), Some(18));
        assert_eq!(major("v9.0.0\n"), Some(9));
        assert_eq!(major(""), None);
        assert_eq!(major("18.1"), None);
    }

    #[test]
    fn a_complete_environment_is_kept_and_an_incomplete_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        fs::create_dir_all(root.path().join("tests/perfetto")).unwrap();
        fs::write(root.path().join("tests/perfetto/requirements.txt"), "# nothing\n").unwrap();

        // The stamp is missing, so the folder is emptied. Installing nothing needs no network.
        let left_over = target.join("perfetto-venv/left-over");
        fs::create_dir_all(&left_over).unwrap();
        let python = setup(root.path(), &target).unwrap();
        assert!(python.exists());
        assert!(!left_over.exists());

        fs::create_dir_all(&left_over).unwrap();
        assert_eq!(setup(root.path(), &target).unwrap(), python);
        assert!(left_over.exists());

        fs::write(root.path().join("tests/perfetto/requirements.txt"), "# nothing else\n").unwrap();
        setup(root.path(), &target).unwrap();
        assert!(!left_over.exists(), "another list, another environment");
    }
}
