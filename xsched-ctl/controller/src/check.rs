//! `serve --check`: whether the controller would start with these files, and which settings and rules would apply.

use std::fmt::Write as _;

use xsched_rules::Rules;
use xsched_terminal::{Advice as _, print, say};

use super::asked::Asked;
use super::files::Reading;
use crate::cgroup_version::Cgroups;
use crate::error::ServeError;

/// Reads what the controller would read; returns its exit code. Nothing is started.
pub(super) fn check(asked: &Asked) -> Result<u8, ServeError> {
    let Reading { config, users, rules, source: _ } = match Reading::read(asked) {
        Ok(reading) => reading,
        Err(errors) => {
            for error in &errors {
                say!("xsched-ctl: {error}");
                if let Some(hint) = error.remedy() {
                    say!("hint: {hint}");
                }
            }
            return Ok(errors.first().map_or(0, |error| error.exit_code().into()));
        }
    };
    let rules_file = rules.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let calls: String =
        listed(&rules.rules, &rules_file).lines().flat_map(|line| ["  ", line, "\n"]).collect();
    let shown = config.shown();
    print(&format!("{shown}\nThe first matching rule decides what happens to a call:\n{calls}"))?;
    let cgroups = Cgroups::here();
    for warning in config.warnings(&users, cgroups).into_iter().chain(rules.warnings(&users, cgroups)) {
        say!("warning: {warning}");
    }
    Ok(0)
}

/// A line for each rule: its position, name and content.
pub fn listed(rules: &Rules, file: &str) -> String {
    let mut text = String::new();
    for rule in rules.rules() {
        let name = rule.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
        writeln!(text, "{}{name}: {rule}", rule.location(file)).expect("writing to a string does not fail");
    }
    text.push_str("otherwise: schedule\n");
    text
}
