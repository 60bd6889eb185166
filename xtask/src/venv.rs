//! Virtual environments with pinned packages from PyPI, each made from one list of requirements.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::command;

/// Makes the environment unless it is there, and returns its Python interpreter.
///
/// It is there if its copy of the list of packages equals the present list. The copy is made last, so that an interrupted setup is
/// repeated.
pub(crate) fn setup(environment: &Path, requirements: &Path) -> Result<PathBuf> {
    let wanted =
        fs::read(requirements).with_context(|| format!("failed to read {}", requirements.display()))?;
    let python = environment.join("bin/python");
    let made_from = environment.join("requirements.txt");
    if python.exists() && fs::read(&made_from).is_ok_and(|made_from| made_from == wanted) {
        return Ok(python);
    }
    command::run(command::command("python3").args(["-m", "venv", "--clear"]).arg(environment))
        .context("failed to make a virtual environment; try `apt-get install python3-venv`")?;
    let mut pip = command::command(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    command::run(pip.arg("--requirement").arg(requirements)).with_context(|| {
        format!("failed to install what {} lists; PyPI must be reachable", requirements.display())
    })?;
    fs::write(&made_from, wanted).with_context(|| format!("failed to write {}", made_from.display()))?;
    Ok(python)
}
