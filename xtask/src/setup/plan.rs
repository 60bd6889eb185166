//! Meets requirements: one pass over everything that is missing, which never stops at the first failure.
//!
//! 1. Ask every requirement. All met: done.
//! 2. Fetch the Debian packages of all that are missing in one call.
//! 3. Take the steps of those still missing, in the list's order.
//! 4. Ask again; what is still missing becomes a message with the command that gets it.

use std::fmt;

use super::{
    debian,
    machine::Machine,
    requirements::{Remedy, Requirement},
};

/// A requirement that setup could not meet.
pub(crate) struct Unmet {
    pub(crate) name: &'static str,
    why: &'static str,
    /// The cause, if it is known.
    cause: Option<String>,
    elsewhere: &'static str,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "missing: {}, needed {}", self.name, self.why)?;
        if let Some(cause) = &self.cause {
            write!(f, "\n  cause: {cause}")?;
        }
        write!(f, "\n  hint: {}", self.elsewhere)
    }
}

/// Meets what can be met and returns the rest.
pub(crate) fn fulfil(machine: &dyn Machine, requirements: &[Requirement]) -> Vec<Unmet> {
    let missing: Vec<_> = requirements.iter().filter(|r| !(r.is_met)(machine)).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let packages: Vec<_> = missing.iter().copied().flat_map(packages).copied().collect();
    let apt_failure = if packages.is_empty() {
        None
    } else {
        debian::obstacle(machine)
            .or_else(|| debian::install(machine, &packages).err().map(|e| format!("{e:#}")))
    };
    missing
        .into_iter()
        .filter_map(|requirement| settle(machine, requirement, apt_failure.as_deref()))
        .collect()
}

fn packages(requirement: &Requirement) -> &'static [&'static str] {
    match requirement.remedy {
        Remedy::Packages(packages) => packages,
        Remedy::Step(_) | Remedy::Nothing => &[],
    }
}

/// The last attempt at one requirement, after the packages.
fn settle(machine: &dyn Machine, requirement: &Requirement, apt_failure: Option<&str>) -> Option<Unmet> {
    let cause = match requirement.remedy {
        Remedy::Packages(_) => apt_failure.map(str::to_owned),
        Remedy::Step(step) => step(machine).err().map(|e| format!("{e:#}")),
        Remedy::Nothing => None,
    };
    // Checked again whatever the remedy returned: a package may lack the program that was needed.
    if (requirement.is_met)(machine) {
        return None;
    }
    let Requirement { name, why, elsewhere, .. } = *requirement;
    Some(Unmet { name, why, cause, elsewhere })
}

#[cfg(test)]
mod tests;
