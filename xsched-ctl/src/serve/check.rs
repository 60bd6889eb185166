//! `serve --check`: whether the controller would start with these files, and which settings and rules would apply.

use super::asked::Asked;
use super::files::Reading;
use crate::cgroup_version::Cgroups;
use crate::failure::Failure;
use crate::rules::listed;
use crate::say::{print, say};

/// Reads what the controller would read; returns its exit code. Nothing is started.
pub(super) fn check(asked: &Asked) -> Result<u8, Failure> {
    let Reading { config, users, rules, source: _ } = match Reading::read(asked) {
        Ok(reading) => reading,
        Err(errors) => {
            for error in &errors {
                say!("xsched-ctl: {error}\nhint: {}", error.remedy());
            }
            return Ok(errors.first().map_or(0, super::ServeError::exit_code));
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
