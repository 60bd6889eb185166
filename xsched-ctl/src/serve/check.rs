//! `serve --check`: whether the controller would start with these files, and what would hold.

use super::ServeError;
use super::asked::Asked;
use super::rules;
use super::users::Users;
use crate::failure::Failure;
use crate::rules::listed;
use crate::say::{print, say};

/// Reads what the controller would read; returns its exit code. Nothing is started.
pub(super) fn check(asked: &Asked) -> Result<u8, Failure> {
    let (config, error) = asked.examine();
    // The mistakes of both files at once: whoever mends one of them need not come back for the other.
    let mut errors: Vec<_> = error.map(ServeError::from).into_iter().collect();
    let rules = rules::read(config.rules.as_deref()).map_err(|error| errors.push(error.into())).ok();
    for error in &errors {
        say!("xsched-ctl: {error}\nhint: {}", error.hint());
    }
    if let Some(first) = errors.first() {
        return Ok(first.exit_code());
    }
    let rules_file = config.rules.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let calls = rules.map(|loaded| listed(&loaded.rules, &rules_file)).unwrap_or_default();
    let indented: String = calls.lines().flat_map(|line| ["  ", line, "\n"]).collect();
    let shown = config.shown();
    print(&format!("{shown}\nOf a call becomes what the first rule says that fits it:\n{indented}"))?;
    for warning in config.warnings(&Users::read()) {
        say!("warning: {warning}");
    }
    Ok(0)
}
