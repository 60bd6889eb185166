//! The browser in which the viewer is tried: chromium, driven from Python by Playwright. Not every machine has them.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Where Debian puts it, and where `tests/viewer/browser.py` looks.
const CHROMIUM: &str = "/usr/bin/chromium";

/// A command that runs a script of `tests/viewer`; `None`, and why on standard error, where there is no browser.
pub fn script(name: &str, purpose: &str) -> Option<Command> {
    let python = env::var_os("XSCHED_BROWSER_PYTHON").map(PathBuf::from).filter(|python| python.exists());
    let missing = match python {
        None => "no Playwright",
        Some(_) if !Path::new(CHROMIUM).exists() => "no chromium",
        Some(python) => {
            let mut command = Command::new(python);
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("viewer").join(name));
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            return Some(command);
        }
    };
    eprintln!("skipped: {purpose}: {missing} (`cargo xtask setup` gets what is needed)");
    None
}
