//! The browser that tests the viewer: chromium, driven from Python by Playwright. Some machines have neither.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Where Debian installs it, and where `tests/viewer/browser.py` looks for it.
const CHROMIUM: &str = "/usr/bin/chromium";

/// Names the missing part.
pub(crate) fn missing() -> Option<String> {
    let what = match python() {
        Some(python) if python.exists() && Path::new(CHROMIUM).exists() => return None,
        Some(python) if python.exists() => "chromium",
        _ => "Playwright",
    };
    Some(format!("no {what} (`cargo xtask setup` gets what is needed)"))
}

/// Playwright's interpreter, according to `cargo xtask test`.
fn python() -> Option<PathBuf> {
    env::var_os("XSCHED_BROWSER_PYTHON").map(PathBuf::from)
}

/// A command that runs a script of `tests/viewer`.
///
/// # Panics
///
/// Where there is no browser: tests need [`BROWSER`](crate::needs::BROWSER).
pub fn script(name: &str) -> Command {
    let mut command = Command::new(python().expect("the need was probed"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("viewer").join(name));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
